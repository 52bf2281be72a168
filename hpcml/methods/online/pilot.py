"""Costs of the single-pass learners for `hpcml plan`: bytes from formulas, and the time for the first rows."""

from __future__ import annotations

import time
from pathlib import Path

from hpcml import mpi
from hpcml.methods.online.options import OnlineOptions, with_bias
from hpcml.methods.online.order import RowOrder
from hpcml.methods.online.source import DatasetSource, local_labels
from hpcml.methods.online.state import LearnerState
from hpcml.run.session import Session, open_shared_dataset

SECONDS = 5.0  # of training
GATHERED = 8  # labels whose weights are gathered as for a model


def bytes_needed(
    name: str, options: OnlineOptions, n_labels: int, n_features: int, n_used: int, n_ranks: int
) -> tuple[int, int, int]:
    """Return the bytes of the weights (on the rank with most labels), of the model and of a checkpoint."""
    n_local, n_live = local_labels(range(n_labels), 0, n_ranks).size, options.live_features
    state = LearnerState(options, name, max(1, n_local), 0)  # no features: gives the width of a row of weights
    n_vectors, n_saved = len(state.array_names), min(n_used, n_live or n_used)
    weights = state.weights.shape[1] * state.weights.itemsize * ((n_live or n_features) + 1)
    model = n_labels * (8 * (1 if options.final else 1 + n_vectors) * n_saved + 64) + 8 * n_features
    return weights, model, n_labels * 8 * n_vectors * n_saved


def time_first_rows(
    session: Session, name: str, data: Path, options: OnlineOptions, n_ranks: int
) -> tuple[float, float, float, int, int]:
    """Return CPU seconds (slowest rank) to load, to train on the first rows and to gather the weights, and both numbers of rows.

    Every rank trains as many labels as the first of `n_ranks` ranks. Collective over the session.
    """
    comm, began, n_done = session.comm, time.process_time(), 0
    options = with_bias(options, name)
    with open_shared_dataset(session, data) as dataset:
        source = DatasetSource(comm, dataset, options)
        local = local_labels(source.names, 0, n_ranks)
        with mpi.agreed(comm, "allocating the weights"):
            state = LearnerState(options, name, source.n_labels, source.n_features, source.labels[local])
        order, loaded = RowOrder(state.lane_of, state.n_lanes), began
        for shard, rows in source.pieces(0):
            if not n_done:  # compile the kernels
                state.learn(shard, rows[:0])
                order.add(shard, rows[:0])
                loaded = time.process_time()
            state.learn(shard, rows, lambda importance: mpi.allreduce_maxima(comm, importance))
            order.add(shard, rows)
            n_done += rows.size
            if mpi.agreed_any(comm, time.process_time() - loaded > SECONDS):
                break
        trained, lanes, features = time.process_time(), range(min(GATHERED, local.size)), state.model_features()[1]
        for lane in lanes:
            state.final_weights(lane, features)
            if not options.final:
                state.state_arrays(lane, features)
        gathered = (time.process_time() - trained) * local.size / max(1, len(lanes))
        load, learn, gather = (mpi.allreduce_max(comm, each) for each in (loaded - began, trained - loaded, gathered))
        return load, learn, gather, n_done, source.rows.size

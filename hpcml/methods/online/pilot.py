"""Costs of the single-pass learners for `hpcml plan`: bytes by formulas, and the time of some rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.methods.online.options import OnlineOptions, with_bias
from hpcml.methods.online.order import RowOrder
from hpcml.methods.online.source import DatasetSource, labels_of
from hpcml.methods.online.state import LearnerState
from hpcml.run.session import Session, opened_dataset

SECONDS = 5.0  # of learning from rows
GATHERED = 8  # labels whose weights are gathered as for a model


class LearnerBytes(NamedTuple):
    """Bytes of the weights of the rank with most labels, of the model and of a checkpoint."""

    weights: int
    model: int
    checkpoint: int


def bytes_needed(name: str, options: OnlineOptions, n_labels: int, n_features: int, n_used: int, n_ranks: int) -> LearnerBytes:
    """Return the bytes for `n_labels` labels and `n_features` features, `n_used` of which occur in a row."""
    n_mine, n_live = labels_of(range(n_labels), 0, n_ranks).size, options.live_features
    state = LearnerState(options, name, max(1, n_mine), 0)  # without room for features: how wide is a line of weights?
    n_vectors, n_kept = len(state.array_names), min(n_used, n_live or n_used)
    return LearnerBytes(
        weights=state.weights.shape[1] * state.weights.itemsize * ((n_live or n_features) + 1),
        model=n_labels * (8 * (1 if options.final else 1 + n_vectors) * n_kept + 64) + 8 * n_features,
        checkpoint=n_labels * 8 * n_vectors * n_kept,
    )


class Learnt(NamedTuple):
    """Seconds of the processor, on the slowest rank: until the first row, of the rows, of gathering all weights for the model."""

    load: float
    learn: float
    gather: float
    n_done: int
    n_rows: int


def learn_some_rows(session: Session, name: str, data: Path, options: OnlineOptions, n_ranks: int) -> Learnt:
    """Collective over the session. Learn from the first rows; every rank has as many labels as the first one of `n_ranks`."""
    comm, began, n_done = session.comm, time.process_time(), 0
    options = with_bias(options, name)
    with opened_dataset(session, data) as dataset:
        source = DatasetSource(comm, dataset, options)
        mine = labels_of(source.names, 0, n_ranks)
        with mpi.agreed(comm, "making room for the weights"):
            state = LearnerState(options, name, source.n_labels, source.n_features, source.labels[mine])
        order, loaded = RowOrder(state.lane_of, state.n_lanes), began
        for shard, rows in source.pieces(0):
            if not n_done:  # compile the kernels
                state.learn(shard, rows[:0])
                order.add(shard, rows[:0])
                loaded = time.process_time()
            state.learn(shard, rows, lambda mine: mpi.allreduce_maxima(comm, mine))
            order.add(shard, rows)
            n_done += rows.size
            if mpi.agreed_any(comm, time.process_time() - loaded > SECONDS):
                break
        learnt, lanes, features = time.process_time(), range(min(GATHERED, mine.size)), state.kept()[1]
        for lane in lanes:
            state.final(lane, features)
            if not options.final:
                state.arrays_of(lane, features)
        gathered = (time.process_time() - learnt) * mine.size / max(1, len(lanes))
        load, learn, gather = (mpi.allreduce_max(comm, each) for each in (loaded - began, learnt - loaded, gathered))
        return Learnt(load, learn, gather, n_done, source.rows.size)

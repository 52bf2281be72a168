"""The importance of a dataset's features, by one pass of Modified Balanced Winnow over it."""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.methods.online.options import MbwOptions
from hpcml.methods.online.source import DatasetSource, labels_of
from hpcml.methods.online.state import LearnerState


@mpi.collective
def importance_of(
    comm: mpi.Comm, dataset: DataFile, split: str, labels: np.ndarray, shuffle: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Collective over `comm`. (largest |u − v| over `labels`, whether a row has it) by feature.

    The labels are divided over the ranks. Raises ConfigError (unknown split), DataError.
    """
    options = MbwOptions(split=split, shuffle=shuffle, seed=seed, min_positives=0)
    source = DatasetSource(comm, dataset, options)
    mine = labels[labels_of(labels, comm.rank, comm.size)]
    with mpi.agreed(comm, "making room for the weights"):
        state = LearnerState(options, "mbw", source.n_labels, source.n_features, mine)
    for number, (shard, rows) in enumerate(source.pieces(0)):
        if number == 0:
            with mpi.node_first(comm):
                state.learn(shard, rows[:0])
        state.learn(shard, rows)
    return mpi.allreduce_maxima(comm, state.importance()), state.seen

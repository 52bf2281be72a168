"""Wrong labels for experiments, drawn by the global row: the same on any number of ranks."""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Labels, Part
from hpcml.errors import ConfigError
from hpcml.partition import offsets
from hpcml.rng import uniform


def noisy_rows(seed: int, share: float, rows: np.ndarray) -> np.ndarray:
    """Which of these global rows get another class: about this share of all rows."""
    return uniform(seed, "label noise", rows) < share


def other_label(seed: int, n_labels: int, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """For each of these global rows and its label another one, uniform among the others."""
    steps = 1 + (uniform(seed, "label noise class", rows) * (n_labels - 1)).astype(np.int64)
    return (labels + steps) % n_labels


def add_label_noise(comm: mpi.Comm, part: Part, options: ConvertOptions) -> int:
    """Collective over `comm`. Change the class of a share of the training rows; return how many.

    Training rows are those of the split train, or all without splits. A single label is given or
    taken away; of several labels, of which each row must have exactly one, it becomes another.
    Raises ConfigError if a row has none or several, or if there are splits but no train.
    """
    share, labels = options.label_noise, part.labels
    if part.splits.names and "train" not in part.splits.names:
        raise ConfigError(f"--label-noise {share}: of the splits ({', '.join(part.splits.names)}) none is train; leave it out")
    (first,), _ = mpi.exclusive_sum(comm, [part.rows.n_rows])
    rows = np.arange(first, first + part.rows.n_rows)
    indptr, indices = np.asarray(labels.indptr), np.asarray(labels.indices)
    lengths = np.diff(indptr)
    with mpi.agreed(comm, "adding label noise"):
        wrong = np.flatnonzero(lengths != 1)
        if len(labels.names) > 1 and wrong.size:
            raise ConfigError(
                f"--label-noise {share}: row {rows[wrong[0]]} (from 0) has {lengths[wrong[0]]} of {len(labels.names)} labels, but "
                "expected exactly one in each row; leave it out"
            )
    noisy = noisy_rows(options.seed, share, rows) & part.splits.training
    if len(labels.names) == 1:
        has = (lengths == 1) ^ noisy
        indptr, indices = offsets(has), np.zeros(np.count_nonzero(has), dtype=np.int64)
    else:
        indices = np.where(noisy, other_label(options.seed, len(labels.names), indices, rows), indices)
    part.labels = Labels(labels.names, indptr, indices, labels.unknown)
    _, (changed,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(noisy))])
    return int(changed)

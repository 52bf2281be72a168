"""Labels that the --like file did not have: kept beside Y, and counted where a model is judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import UNKNOWN, DataFile
from hpcml.data.shard import Shard, load_shard, matrix_slab


def all_label_names(dataset: DataFile) -> list[str]:
    """The names of the labels, and behind them those of the unknown ones. Raises DataError."""
    return dataset.label_names() + dataset.unknown_names()


def label_sets_of(comm: mpi.Comm, dataset: DataFile, shard: Shard) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Collective over `comm`. The label sets (indptr, indices) of a slab by their matrix."""
    found = {"Y": (shard.y_indptr, shard.y_indices)}
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if dataset.n_unknown:
            n_slab = shard.y_indptr.size - 1
            found[UNKNOWN] = matrix_slab(dataset, UNKNOWN, shard.first_row, shard.first_row + n_slab)[:2]
    return found


def load_with_unknown(comm: mpi.Comm, dataset: DataFile, split: str) -> Shard:
    """Collective over `comm`. `load_shard` with all labels; 8 bytes for each of a row."""
    shard = load_shard(comm, dataset, split)
    sets = label_sets_of(comm, dataset, shard)
    if UNKNOWN not in sets:
        return shard
    (indptr, indices), (more_indptr, more) = sets.values()
    joined = np.empty(indices.size + more.size, dtype=np.int64)
    joined[np.arange(indices.size) + np.repeat(more_indptr[:-1], np.diff(indptr))] = indices
    joined[np.arange(more.size) + np.repeat(indptr[1:], np.diff(more_indptr))] = shard.n_labels + more
    return replace(shard, y_indptr=indptr + more_indptr, y_indices=joined, n_labels=shard.n_labels + dataset.n_unknown)

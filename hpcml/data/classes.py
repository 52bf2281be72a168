"""The class of every row of a split, for methods that train one classifier of all classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.partition import offsets


class Classes(NamedTuple):
    """The classes of a split's rows, on every rank.

    `names` are the labels that a model of them gives: one for two classes (class 1 has it, class 0
    has not; of two labels the second), else one per class.
    """

    names: list[str]
    rows: np.ndarray  # (n,) row numbers of the file, ascending, int64
    of: np.ndarray  # (n,) the class of each, int32
    keys: np.ndarray  # (n,) the keys of the rows, uint64
    groups: np.ndarray | None = None  # (n,) those of their groups, uint64

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return max(2, len(self.names))


def read_classes(comm: mpi.Comm, dataset: DataFile, split: str, label: str | None) -> Classes:
    """Collective over `comm`. The classes of a split, the same on all ranks.

    With `label`, or if the data have one label, "has it not" and "has it"; else every row must have
    exactly one label. Raises ConfigError if not, or for an unknown label, DataError for one class.
    """
    shard = load_shard(comm, dataset, split)
    with mpi.agreed(comm, f"reading the labels of {dataset.path}"):
        names = dataset.label_names()
        if label is not None and label not in names:
            raise ConfigError(f"{dataset.path}: no label {label!r}; {nearest(label, names, 'hpcml info')}")
        if label is not None or len(names) == 1:
            names = [label or names[0]]
            running = offsets(shard.y_indices == dataset.label_names().index(names[0]))
            local = (running[shard.y_indptr[shard.rows + 1]] > running[shard.y_indptr[shard.rows]]).astype(np.int32)
        else:
            counts = np.diff(shard.y_indptr)[shard.rows]
            if (counts != 1).any():
                place = int(np.flatnonzero(counts != 1)[0])
                raise ConfigError(
                    f"{dataset.path}: row {shard.first_row + int(shard.rows[place])} has {int(counts[place])} labels, but one "
                    "classifier of all classes needs exactly one in each row; choose one label with --label"
                )
            local = np.asarray(shard.y_indices)[shard.y_indptr[shard.rows]].astype(np.int32)
            names = names[1:] if len(names) == 2 else names
    of = np.concatenate(mpi.allgather_arrays(comm, local))
    rows = np.concatenate(mpi.allgather_arrays(comm, shard.first_row + shard.rows))
    if np.count_nonzero(np.bincount(of)) < 2:
        raise DataError(f"{dataset.path}: all {of.size} rows of the split {split} are of one class; expected at least two classes")
    with mpi.agreed(comm, f"reading {dataset.path}"):
        keys = np.array(dataset.map("row_keys"))[rows]
        groups = np.array(dataset.map("row_groups"))[rows] if dataset.has_groups else None
    return Classes(names, rows, of, keys, groups)

"""Which rows a model was trained on, as hashes that its file carries.

A model stores the keys (`hpcml.data.row_keys`) of its training rows, so that any dataset can be
checked for them. Of more than LIMIT rows it stores the smallest LIMIT keys; an overlap is then an
estimate from the rows whose keys are as small.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.files.hdf5 import map_dataset

LIMIT = 10**6
NAME = "training_keys"
PIECE = 1 << 20  # rows that are read at a time


class TrainingKeys(NamedTuple):
    """The keys of training rows, ascending (uint64); those up to `bound` if they are not `complete`."""

    keys: np.ndarray
    bound: int
    complete: bool

    def count(self, wanted: np.ndarray) -> int:
        """Return how many of these rows, by their keys, are training rows; an estimate unless `complete`."""
        comparable = wanted if self.complete else wanted[wanted <= np.uint64(self.bound)]
        place = np.minimum(np.searchsorted(self.keys, comparable), max(0, self.keys.size - 1))
        n_known = int(np.count_nonzero(self.keys[place] == comparable)) if self.keys.size else 0
        return n_known if self.complete else round(n_known * wanted.size / max(1, comparable.size))


def _union(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distinct values, ascending; faster than `np.union1d`, which hashes them first."""
    keys = np.sort(np.concatenate([one, other]))
    return np.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])


def united(one: TrainingKeys | None, other: TrainingKeys | None) -> TrainingKeys | None:
    """Return the keys of the rows of two trainings, of which one continued the other."""
    if one is None or other is None:
        return other or one
    bounds = [each.bound for each in (one, other) if not each.complete]
    keys = _union(one.keys, other.keys)
    keys = keys[keys <= np.uint64(min(bounds))] if bounds else keys
    complete = not bounds and keys.size <= LIMIT
    keys = keys[:LIMIT]
    return TrainingKeys(keys, int(keys[-1]) if keys.size else 0, complete)


def training_keys(dataset: DataFile, split: str) -> TrainingKeys:
    """Return the keys of the rows of a split. Local; raises DataError, ConfigError."""
    rows, complete = dataset.labelled(dataset.split(split)), True
    keys = np.zeros(0, np.uint64)
    for begin in range(0, rows.size, PIECE):
        some = rows[begin : begin + PIECE]
        first = int(some[0])
        keys = _union(keys, dataset.map("row_keys", first, int(some[-1]) + 1)[some - first])
        complete, keys = complete and keys.size <= LIMIT, keys[:LIMIT]
    return TrainingKeys(keys, int(keys[-1]) if keys.size else 0, complete)


def write_training_keys(file: h5py.File, found: TrainingKeys | None) -> None:
    """Store the keys in a model's file; None: the rows have no keys (text that was streamed)."""
    if found is not None:
        file[NAME] = found.keys.astype("<u8")
        file[NAME].attrs["complete"] = found.complete


def read_training_keys(path: Path, file: h5py.File) -> TrainingKeys | None:
    """Return the keys in a model's file. Raises ValueError, and what h5py raises, for a damaged part."""
    if NAME not in file:
        return None
    stored = file[NAME]
    keys = map_dataset(path, stored)
    if stored.dtype.str != "<u8" or stored.ndim != 1 or (keys[1:] <= keys[:-1]).any():
        raise ValueError("wrong keys of training rows")
    return TrainingKeys(keys, int(keys[-1]) if keys.size else 0, bool(stored.attrs["complete"]))

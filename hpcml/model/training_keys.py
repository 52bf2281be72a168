"""Which rows a model was trained on, as hashes that its file carries.

A model stores the keys (`hpcml.data.row_keys`) of its training rows, so that any dataset can be checked for them. Of more than
LIMIT rows it stores the smallest LIMIT keys; an overlap is then an estimate from the rows whose keys are as small.
"""

from __future__ import annotations

from typing import NamedTuple

import h5py
import numpy as np

from hpcml.data.dataset import DataFile

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


def united(one: TrainingKeys | None, other: TrainingKeys | None) -> TrainingKeys | None:
    """Return the keys of the rows of two trainings, of which one continued the other."""
    if one is None or other is None:
        return other or one
    keys = np.sort(np.concatenate([one.keys, other.keys]))
    keys = np.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])  # far faster than `np.unique`, which hashes them
    bounds = [each.bound for each in (one, other) if not each.complete]
    keys = keys[keys <= np.uint64(min(bounds))] if bounds else keys
    complete = not bounds and keys.size <= LIMIT
    keys = keys[:LIMIT]
    return TrainingKeys(keys, int(keys[-1]) if keys.size else 0, complete)


def training_keys(dataset: DataFile, split: str) -> TrainingKeys:
    """Return the keys of the rows of a split. Local; raises DataError, ConfigError."""
    rows, found = dataset.labelled(dataset.split(split)), TrainingKeys(np.zeros(0, np.uint64), 0, True)
    for begin in range(0, rows.size, PIECE):
        some = rows[begin : begin + PIECE]
        first = int(some[0])
        found = united(found, TrainingKeys(dataset.map("row_keys", first, int(some[-1]) + 1)[some - first], 0, True)) or found
    return found


def write_training_keys(file: h5py.File, found: TrainingKeys | None) -> None:
    """Store the keys in a model's file; None: the rows have no keys (text that was streamed)."""
    if found is not None:
        file[NAME] = found.keys.astype("<u8")
        file[NAME].attrs["complete"] = found.complete

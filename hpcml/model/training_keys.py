"""Hashes of a model's training rows, so that a dataset can be checked for them.

A model file stores the keys (`hpcml.data.row_keys`) of its training rows. For more than LIMIT rows it stores the LIMIT smallest
keys; an overlap is then estimated from the rows with keys in that range.
"""

from typing import NamedTuple

import h5py
import numpy as np

from hpcml.data.dataset import DataFile

LIMIT = 10**6
NAME = "training_keys"
PIECE = 1 << 20  # rows read at a time


class TrainingKeys(NamedTuple):
    """Ascending keys (uint64) of training rows; only the smallest of them unless `complete`."""

    keys: np.ndarray
    complete: bool

    def count(self, keys: np.ndarray) -> int:
        """Return how many rows with these keys are training rows; an estimate unless `complete`."""
        comparable = keys if self.complete else keys[keys <= self.keys[-1]]
        indices = np.minimum(np.searchsorted(self.keys, comparable), max(0, self.keys.size - 1))
        n_known = int(np.count_nonzero(self.keys[indices] == comparable)) if self.keys.size else 0
        return n_known if self.complete else round(n_known * keys.size / max(1, comparable.size))


def merge_training_keys(one: TrainingKeys | None, other: TrainingKeys | None) -> TrainingKeys | None:
    if one is None or other is None:
        return other or one
    keys = np.sort(np.concatenate([one.keys, other.keys]))
    keys = np.concatenate([keys[:1], keys[1:][keys[1:] != keys[:-1]]])  # much faster than np.unique, which hashes
    bounds = [each.keys[-1] for each in (one, other) if not each.complete]
    keys = keys[keys <= min(bounds)] if bounds else keys
    return TrainingKeys(keys[:LIMIT], not bounds and keys.size <= LIMIT)


def training_keys(dataset: DataFile, split: str) -> TrainingKeys:
    rows, keys = dataset.labelled(dataset.split(split)), TrainingKeys(np.zeros(0, np.uint64), True)
    for begin in range(0, rows.size, PIECE):
        block = TrainingKeys(dataset.map("row_keys")[rows[begin : begin + PIECE]], True)
        keys = merge_training_keys(keys, block) or keys
    return keys


def write_training_keys(file: h5py.File, keys: TrainingKeys | None) -> None:
    if keys is not None:
        file[NAME] = keys.keys.astype("<u8")
        file[NAME].attrs["complete"] = keys.complete

"""The names of features and rows, of which there may be many millions: they are read in chunks."""

from __future__ import annotations

import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.files.hdf5 import NAME_CHUNK


def names_of(dataset: DataFile, numbers: np.ndarray, what: str = "feature_names") -> list[str] | None:
    """The names of some features (or of `what`); None if there are none. Raises DataError."""
    if what not in dataset.file:
        return None
    out = np.empty(numbers.size, dtype=object)
    for begin in range(0, dataset.file[what].shape[0], NAME_CHUNK):
        places = np.flatnonzero((numbers >= begin) & (numbers < begin + NAME_CHUNK))
        if places.size:
            chunk = np.array(dataset.strings(what, begin, begin + NAME_CHUNK), dtype=object)
            out[places] = chunk[numbers[places] - begin]
    return list(out)


def numbers_of(dataset: DataFile, names: list[str]) -> np.ndarray:
    """The numbers (int64) of the features of some names, −1: none. Raises DataError."""
    place = {name: number for number, name in enumerate(names)}
    out = np.full(len(names), -1, dtype=np.int64)
    for begin in range(0, dataset.n_features, NAME_CHUNK):
        for number, name in enumerate(dataset.strings("feature_names", begin, begin + NAME_CHUNK) or [], begin):
            if name in place:
                out[place[name]] = number
    return out

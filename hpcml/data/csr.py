"""Whether the columns in the rows of a CSR matrix ascend."""

from __future__ import annotations

import numpy as np

CHECKED = 1 << 22  # entries that are looked at together


def unordered(indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> int:
    """The place of the first entry that is not above the one before it in its row, or -1.

    `indices` are entries `first` to `first + indices.size` of the matrix, and none is negative.
    """
    for begin in range(0, indices.size, CHECKED):
        some = indices[begin : begin + CHECKED + 1]
        starts = np.flatnonzero(some[1:] <= some[:-1]) + first + begin + 1  # only a new row may begin there
        wrong = indptr[np.searchsorted(indptr, starts)] != starts
        if wrong.any():
            return int(starts[np.argmax(wrong)])
    return -1


def row_of(indptr: np.ndarray, place: int) -> int:
    """The row in which an entry is."""
    return int(np.searchsorted(indptr, place, side="right")) - 1

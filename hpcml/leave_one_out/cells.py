"""Cells of a score, in which leave-one-out scores are counted."""

from typing import NamedTuple

import numpy as np

EDGES = np.linspace(-1.2, 1.2, 241)
N_CELLS = 242  # cell of a score s: np.searchsorted(EDGES, s, "right")
COUNT_TYPES = {"cells": "<i2", "n_rows": "<i4", "n_positives": "<i4"}  # of a cell that is not empty
_COUNT = np.dtype(list(COUNT_TYPES.items()))
MOST_BYTES = N_CELLS * _COUNT.itemsize  # of the counts of a label


class ScoreCounts(NamedTuple):
    """Counts of leave-one-out scores, CSR by label: the cells that are not empty, ascending."""

    indptr: np.ndarray  # (n_labels + 1,) int64
    cells: np.ndarray
    n_rows: np.ndarray
    n_positives: np.ndarray  # positive rows among them

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        begin, end = self.indptr[label : label + 2].tolist()
        return self.cells[begin:end], self.n_rows[begin:end], self.n_positives[begin:end]

    def rows(self, first: int, end: int) -> "ScoreCounts":
        """Return the counts of the labels first, …, end − 1."""
        indptr = self.indptr[first : end + 1]
        return ScoreCounts(indptr - indptr[0], *(values[indptr[0] : indptr[-1]] for values in self[1:]))


def pack_counts(counts: np.ndarray) -> bytes:
    """Return the non-empty cells of counts (2, N_CELLS) of rows and of positive rows."""
    cells = np.flatnonzero(counts[0])
    return pack_cells(cells, *counts[:, cells])


def pack_cells(cells: np.ndarray, n_rows: np.ndarray, n_positives: np.ndarray) -> bytes:
    out = np.empty(cells.size, _COUNT)
    out["cells"], out["n_rows"], out["n_positives"] = cells, n_rows, n_positives
    return out.tobytes()


def unpack_counts(packed: bytes) -> np.ndarray:
    """Return the structured array (cells, n_rows, n_positives) of `pack_counts`, ascending in cells."""
    return np.frombuffer(packed, _COUNT)


def constant_counts(n_rows: int, positive: bool) -> bytes:
    """Return the counts of a label that all rows have, or none."""
    counts = np.zeros((2, N_CELLS), np.int64)
    counts[:, np.searchsorted(EDGES, 1.0, "right") if positive else 0] = n_rows, n_rows * positive
    return pack_counts(counts)

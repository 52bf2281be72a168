"""Division of rows and labels among ranks: pure functions, the same on every rank."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike


def offsets(counts: ArrayLike) -> np.ndarray:
    """Return the begins of consecutive parts with these counts, and the end (n + 1, int64)."""
    counts = np.asarray(counts)
    bounds = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, dtype=np.int64, out=bounds[1:])
    return bounds


def even_bounds(n: int, n_parts: int) -> np.ndarray:
    """Return bounds (n_parts + 1, int64) of ranges of 0..n whose sizes differ by at most one."""
    return np.array([part * n // n_parts for part in range(n_parts + 1)], dtype=np.int64)


def even_range(n: int, rank: int, n_ranks: int) -> tuple[int, int]:
    return rank * n // n_ranks, (rank + 1) * n // n_ranks


def bounds_by_weight(cumulative: np.ndarray, n_parts: int) -> np.ndarray:
    """Return bounds (n_parts + 1) of ranges of about equal weight, from running sums (n + 1), of which few pages are read."""
    n = len(cumulative) - 1
    first, last = int(cumulative[0]), int(cumulative[n])
    if n == 0 or last == first:
        return even_bounds(n, n_parts)
    targets = [first + part * (last - first) // n_parts for part in range(n_parts + 1)]
    bounds = np.searchsorted(cumulative, targets).astype(np.int64)
    bounds[0], bounds[-1] = 0, n
    return bounds


def row_pieces(indptr: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of consecutive rows of a CSR matrix with at most `most` rows and, unless it is one row, entries."""
    begin, last = 0, indptr.size - 1
    while begin < last:
        end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + most, side="right")) - 1)
        end = min(end, begin + most, last)
        yield begin, end
        begin = end


def bounds_in_items(sizes: Sequence[int], n_parts: int) -> list[list[int]]:
    """Return, for each of consecutive items of these sizes, its bounds (n_parts + 1) in an even division of all."""
    bounds, begins = even_bounds(sum(sizes), n_parts), offsets(sizes)[:-1]
    return np.clip(bounds - begins[:, None], 0, np.reshape(sizes, (-1, 1))).tolist()


def entries_of(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of entries of each of these rows of a CSR matrix, and the positions of all entries, row after row."""
    sizes = indptr[rows + 1] - indptr[rows]
    ends = offsets(sizes)
    return sizes, np.arange(ends[-1]) + np.repeat(indptr[rows] - ends[:-1], sizes)

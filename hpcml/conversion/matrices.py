"""Rows of a matrix in a file, piece by piece, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hpcml.conversion.number_rows import FINITE, NumberSlice, Wrong, find_unfit
from hpcml.errors import DataError

VALUES = 1 << 20  # that are looked at together
Take = Callable[[str, int, int], np.ndarray]  # (part of the matrix, begin, end) -> entries; each part is read in order


def dense_blocks(
    take: Callable[[int, int], np.ndarray], rows: tuple[int, int], n_columns: int, zero: bool, wrong: Wrong
) -> Iterator[NumberSlice]:
    """Rows begin..end of an array of which `take` gives some; as `NumberSlice.of_dense`."""
    step = max(1, VALUES // max(1, n_columns))
    for low in range(*rows, step):

        def of_row(row: int, column: int, value: float, low: int = low) -> str:
            return wrong(low + row, column, value)

        yield NumberSlice.of_dense(take(low, min(low + step, rows[1])).astype(np.float64), zero, of_row)


def row_pieces(indptr: np.ndarray, values: int = VALUES) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows with about so many values (at least one row)."""
    begin, last = 0, indptr.size - 1
    while begin < last:
        end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + values, side="right")) - 1)
        yield begin, min(end, last)
        begin = min(end, last)


def csr_blocks(take: Take, indptr: np.ndarray, first_row: int, n_columns: int, what: str, zero: bool) -> Iterator[NumberSlice]:
    """The rows of a matrix, the first of which is `first_row`; `indptr` is that of these rows.

    `zero`: what is not a number is 0. Raises DataError, which begins with `what` and names the row.
    """
    if (np.diff(indptr) < 0).any():
        raise DataError(f"{what}: row {first_row + int(np.argmax(np.diff(indptr) < 0)) + 1}: indptr goes down")
    for begin, end in row_pieces(indptr):
        ends = indptr[begin : end + 1].astype(np.int64)
        indices, data = take("indices", int(ends[0]), int(ends[-1])), take("data", int(ends[0]), int(ends[-1]))
        if indices.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DataError(f"{what}: its indices are no whole numbers, or its data no numbers")
        indices = indices.astype(np.int64)

        def row_of(place: int, ends: np.ndarray = ends, begin: int = begin) -> str:
            return f"{what}: row {first_row + begin + int(np.searchsorted(ends - ends[0], place, side='right'))}"

        bad = (indices < 0) | (indices >= n_columns)
        if bad.any():
            place = int(np.argmax(bad))
            raise DataError(f"{row_of(place)}: index {indices[place]}, but expected 0 to {n_columns - 1}")
        data = data.astype(np.float64)
        if zero:
            data[np.isnan(data)] = 0
        if (place := find_unfit(data)) >= 0:
            raise DataError(f"{row_of(place)}: value {data[place]:g}, {FINITE}")
        yield NumberSlice.of_csr(ends, indices, data)

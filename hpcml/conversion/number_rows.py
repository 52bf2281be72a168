"""Rows of numbers on their way to a dataset: they grow by blocks and wait outside of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import LabelColumns, LabelledRows, Part, WaitingRows, make_part
from hpcml.conversion.split import row_splits
from hpcml.data.in_memory import find_fall, find_outside
from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.hdf5 import Strings

LARGEST = float(np.finfo(np.float32).max)
VALUES = 1 << 20  # of a matrix that are looked at together
FINITE = "but expected a finite number that float32 can hold"
Wrong = Callable[[int, int, float], str]  # (row, column, value) -> what is wrong
Take = Callable[[str, int, int], np.ndarray]  # (part of a matrix, begin, end) -> entries; each part is read in order
ColumnOf = Callable[[np.ndarray], np.ndarray]  # the columns of features, -1 for none


class NumberSlice(NamedTuple):
    """Some rows of X: values per row, ascending features from 0, values (float32, none is 0)."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @classmethod
    def of_dense(cls, values: np.ndarray, zero: bool, wrong: Wrong) -> NumberSlice:
        """The rows of an array (float64); `zero`: NaN is 0. Raises DataError by `wrong`."""
        if zero:
            values[np.isnan(values)] = 0
        if (place := find_unfit(values.reshape(-1))) >= 0:
            row, column = divmod(place, values.shape[1])
            raise DataError(wrong(row, column, float(values[row, column])))
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        rows, columns = np.nonzero(values)
        return cls(np.bincount(rows, minlength=len(values)), columns, values[rows, columns])

    @classmethod
    def of_csr(cls, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> NumberSlice:
        """The rows of a CSR matrix, sorted; values of one feature added up, zeros left out."""
        lengths = np.diff(indptr)
        rows = np.repeat(np.arange(lengths.size), lengths)
        same = rows[1:] == rows[:-1]
        if (same & (indices[1:] <= indices[:-1])).any():
            order = np.lexsort((indices, rows))
            rows, indices, data = rows[order], indices[order], data[order]
            first = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]) | (indices[1:] != indices[:-1])])
            rows, indices, data = rows[first], indices[first], np.add.reduceat(data, first)
        with np.errstate(over="ignore"):
            data = data.astype(np.float32)
        keep = data != 0
        return cls(np.bincount(rows[keep], minlength=lengths.size), indices[keep], data[keep])


def find_unfit(values: np.ndarray) -> int:
    """The place of the first number that is no finite float32; -1 if there is none."""
    with np.errstate(invalid="ignore"):
        fit = np.abs(values) <= LARGEST
    return -1 if fit.all() else int(np.argmin(fit))


def dense_blocks(
    take: Callable[[int, int], np.ndarray], rows: tuple[int, int], n_columns: int, zero: bool, wrong: Wrong
) -> Iterator[NumberSlice]:
    """Rows begin..end of an array of which `take` gives some; as `NumberSlice.of_dense`."""
    step = max(1, VALUES // max(1, n_columns))
    for low in range(*rows, step):

        def of_row(row: int, column: int, value: float, low: int = low) -> str:
            return wrong(low + row, column, value)

        yield NumberSlice.of_dense(np.require(take(low, min(low + step, rows[1])), np.float64, "W"), zero, of_row)


def row_pieces(indptr: np.ndarray, values: int = VALUES) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows with about so many values (at least one row)."""
    begin, last = 0, indptr.size - 1
    while begin < last:
        end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + values, side="right")) - 1)
        yield begin, min(end, last)
        begin = min(end, last)


def csr_blocks(take: Take, indptr: np.ndarray, first_row: int, n_columns: int, what: str, zero: bool) -> Iterator[NumberSlice]:
    """Rows from `first_row` on; `zero`: NaN is 0. Raises DataError: `what`, the row, and why."""
    if (fall := find_fall(indptr)) >= 0:
        raise DataError(f"{what}: row {first_row + fall + 1}: indptr goes down")
    for begin, end in row_pieces(indptr):
        ends = indptr[begin : end + 1].astype(np.int64)
        indices, data = take("indices", int(ends[0]), int(ends[-1])), take("data", int(ends[0]), int(ends[-1]))
        if indices.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DataError(f"{what}: its indices are no whole numbers, or its data no numbers")
        indices = indices.astype(np.int64)

        def row_of(place: int, ends: np.ndarray = ends, begin: int = begin) -> str:
            return f"{what}: row {first_row + begin + int(np.searchsorted(ends - ends[0], place, side='right'))}"

        if (place := find_outside(indices, n_columns)) >= 0:
            raise DataError(f"{row_of(place)}: index {indices[place]}, but expected 0 to {n_columns - 1}")
        data = data.astype(np.float64)
        if zero:
            data[np.isnan(data)] = 0
        if (place := find_unfit(data)) >= 0:
            raise DataError(f"{row_of(place)}: value {data[place]:g}, {FINITE}")
        block = NumberSlice.of_csr(ends, indices, data)
        if block.data.size < data.size and not (fit := np.isfinite(block.data)).all():
            row = first_row + begin + int(np.searchsorted(np.cumsum(block.lengths), np.argmin(fit), side="right")) + 1
            raise DataError(f"{what}: row {row}: the values of one feature add up to more than float32 can hold")
        yield block


class NumberRows(LabelledRows):
    """This rank's rows: X and labels as CSR, and ids and splits if there are any. Local."""

    def __init__(
        self, task: Conversion, names: Sequence[str] | None, n_features: int, with_ids: bool = False, index: type = np.int64
    ) -> None:
        """`names` are those of the source's features, if they have any. Raises as `_columns`."""
        super().__init__(task.scratch, with_ids)
        self.column_of, self.n_features, self.feature_names = _columns(task, names, n_features)
        self.X, self.dropped = WaitingRows(task.scratch, index, with_data=True), 0

    def add(self, block: NumberSlice) -> None:
        """Append rows. Raises OSError."""
        lengths, indices, data = block
        if self.column_of is not None:
            rows, columns = np.repeat(np.arange(lengths.size), lengths), self.column_of(indices)
            keep = columns >= 0
            self.dropped += int(keep.size - np.count_nonzero(keep))
            rows, indices, data = rows[keep], columns[keep], data[keep]
            order = np.lexsort((indices, rows))
            lengths, indices, data = np.bincount(rows, minlength=lengths.size), indices[order], data[order]
        self.X.add(lengths, indices, data)


def _columns(task: Conversion, names: Sequence[str] | None, n_features: int) -> tuple[ColumnOf | None, int, Strings | None]:
    """The columns of a source's features (None: as they are), how many there are, their names.

    With --like they are matched by name if the source names them, else by number. Raises
    ConfigError where only the source has names, DataError where a name stands there twice.
    """
    like = task.like
    if like is None:
        return None, n_features, names
    width, known = like.n_features, like.feature_names
    if names is None:
        return lambda indices: np.where(indices < width, indices, -1), width, known
    if known is None:
        raise ConfigError(
            f"--like {like.path}: has no names of features, but {task.what} has; leave --like out, or give it a file with names"
        )
    if list(names) == known:
        return None, width, known
    for found, where in ((names, task.what), (known, like.path)):
        if (twice := repeated(found)) is not None:
            raise DataError(f"{where}: two features have the name {twice!r}, so --like cannot tell them apart; rename one")
    number = {name: column for column, name in enumerate(known)}
    columns = np.array([number.get(name, -1) for name in names], dtype=np.int64)
    return columns.__getitem__, width, known


def finish(
    task: Conversion, rows: NumberRows, label_names: Sequence[str] | None = None, columns: LabelColumns | None = None
) -> Part:
    """Return the rows as `make_part`. Collective. Raises ConfigError for two kinds of splits."""
    splits = row_splits(task, rows.X.n_rows, rows.splits or None)
    about = {"n_features": rows.n_features, "feature_names": rows.feature_names, "dropped": rows.dropped}
    return make_part(task, rows.X, rows, splits, label_names, columns, **about)

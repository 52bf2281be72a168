"""Rows of numbers on their way to a dataset: they grow by blocks and wait outside of memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import LabelledRows, Part, WaitingRows, make_part
from hpcml.conversion.split import row_splits
from hpcml.data.in_memory import find_fall, find_outside
from hpcml.data.row_keys import content_keys, feature_keys
from hpcml.errors import ConfigError, DataError, is_same_but_case, repeated
from hpcml.log import named, plural
from hpcml.partition import offsets

LARGEST = float(np.finfo(np.float32).max)
VALUES = 1 << 20  # of a matrix that are looked at together
ZERO_COLUMNS = "--missing-columns-as-zero"
FINITE = "but expected a finite number that float32 can hold"
Wrong = Callable[[int, int, float], str]  # (row, column, value) -> what is wrong
ColumnOf = Callable[[np.ndarray], np.ndarray]  # the columns of features, -1 for none


class NumberSlice(NamedTuple):
    """Some rows of X: values per row, ascending features from 0, values (float32, none is 0)."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray

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
    """Rows begin..end of an array of which `take` gives some; `zero`: NaN is 0. Raises DataError by `wrong`."""
    step = max(1, VALUES // max(1, n_columns))
    for low in range(*rows, step):
        values = np.require(take(low, min(low + step, rows[1])), np.float64, "W")
        if zero:
            values[np.isnan(values)] = 0
        if (place := find_unfit(values.reshape(-1))) >= 0:
            row, column = divmod(place, values.shape[1])
            raise DataError(wrong(low + row, column, float(values[row, column])))
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        of_rows, columns = np.nonzero(values)
        yield NumberSlice(np.bincount(of_rows, minlength=len(values)), columns, values[of_rows, columns])


def row_pieces(indptr: np.ndarray, values: int = VALUES) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows with about so many values (at least one row)."""
    begin, last = 0, indptr.size - 1
    while begin < last:
        end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + values, side="right")) - 1)
        yield begin, min(end, last)
        begin = min(end, last)


def csr_blocks(parts: Any, rows: tuple[int, int], n_columns: int, what: str, zero: bool) -> Iterator[NumberSlice]:
    """Yield rows begin..end of a CSR matrix; `parts` are its arrays by name, without data all values are 1; `zero`: NaN is 0.

    The entries of each array are read in order. Raises DataError: `what`, the row, and why.
    """
    first_row, last_row = rows
    indptr = parts["indptr"][first_row : last_row + 1].astype(np.int64)
    size = min(parts[name].shape[0] for name in ("indices", "data") if name in parts)
    if (fall := find_fall(indptr)) >= 0:
        raise DataError(f"{what}: row {first_row + fall + 1}: indptr goes down")
    if indptr[0] < 0 or indptr[-1] > size:
        between = f"indptr goes from {indptr[0]} to {indptr[-1]}, but there are {size} values"
        raise DataError(f"{what}: rows {first_row + 1} to {last_row}: {between}")
    for begin, end in row_pieces(indptr):
        ends = indptr[begin : end + 1]
        some = slice(int(ends[0]), int(ends[-1]))
        indices, data = parts["indices"][some], parts["data"][some] if "data" in parts else np.ones(some.stop - some.start)
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


def rows_as_csr(parts: Any, rows: tuple[int, int], shape: tuple[int, int], what: str) -> dict[str, np.ndarray]:
    """Return a CSC or COO matrix (arrays row, col) as the CSR arrays of a matrix in which only rows begin..end have entries.

    Entries keep their order in a row. The arrays are read by blocks. Raises DataError: `what`, the entry, and why.
    """
    is_coo, (n_rows, n_columns) = "row" in parts, shape
    entries = parts["row" if is_coo else "indices"]
    size, indptr = entries.shape[0], np.zeros(1, dtype=np.int64)
    if not is_coo:
        indptr = parts["indptr"][:].astype(np.int64)
        if find_fall(indptr) >= 0 or indptr[0] or indptr[-1] > size:
            raise DataError(f"{what}: indptr does not go up from 0 to at most {size}, the number of values")
        size = int(indptr[-1])
    found = []
    for low in range(0, size, VALUES):
        some = slice(low, min(low + VALUES, size))
        of_rows, data = entries[some], parts["data"][some] if "data" in parts else np.ones(some.stop - low)
        columns = parts["col"][some] if is_coo else np.searchsorted(indptr, np.arange(low, some.stop), side="right") - 1
        if of_rows.dtype.kind not in "iu" or columns.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DataError(f"{what}: its indices are no whole numbers, or its data no numbers")
        for name, numbers, n in (("row", of_rows, n_rows), ("column", columns, n_columns)):
            if (place := find_outside(numbers, n)) >= 0:
                raise DataError(f"{what}: entry {low + place + 1}: {name} {numbers[place]}, but expected 0 to {n - 1}")
        here = (of_rows >= rows[0]) & (of_rows < rows[1])
        found.append((of_rows[here], columns[here], data[here]))
    of_rows, columns, data = map(np.concatenate, zip(*found, strict=True)) if found else (np.zeros(0, dtype=np.int64),) * 3
    order = np.argsort(of_rows, kind="stable")
    indptr = offsets(np.bincount(of_rows.astype(np.int64), minlength=n_rows))
    return {"indptr": indptr, "indices": columns[order], "data": data[order]}


class NumberRows(LabelledRows):
    """This rank's rows: X and labels as CSR, and ids and splits if there are any. Local."""

    def __init__(
        self,
        task: Conversion,
        names: Sequence[str] | None,
        n_features: int,
        with_ids: bool = False,
        index: type = np.int64,
        others: Sequence[str] = (),
    ) -> None:
        """`names` are those of the source's features, if they have any; `others` of its other columns.

        With --like the features are matched by name if the source names them, else by number. Raises
        ConfigError where only the source has names, DataError where a name stands there twice or is missing.
        """
        super().__init__(task, with_ids)
        self.X, self.dropped = WaitingRows(task.scratch, index, with_data=True), 0
        self.column_of: ColumnOf | None = None  # the columns of the source's features; None: as they are
        self.n_features, self.feature_names = n_features, names
        like = task.like
        if like is None:
            return
        width, known = self.n_features, self.feature_names = like.n_features, like.feature_names
        what, advice = "", ""  # about missing columns
        if names is None:
            self.column_of = lambda indices: np.where(indices < width, indices, -1)
            if 0 < n_features < width:
                what = f"{task.what}: {plural(n_features, 'column')}, but --like {like.path} has {plural(width, 'feature')}"
                advice = "give all columns"
        elif known is None:
            raise ConfigError(
                f"--like {like.path}: has no names of features, but {task.what} has; remove --like, or give it a file with names"
            )
        elif list(names) != known:
            for each, where in ((names, task.what), (known, like.path)):
                if (twice := repeated(each)) is not None:
                    raise DataError(f"{where}: two features have the name {twice!r}, so --like cannot tell them apart; rename one")
            there = set(names)
            if missing := [name for name in known if name not in there]:
                count = "" if len(missing) == 1 else f" (and {len(missing) - 1} more of {plural(len(known), 'feature')})"
                what = f"{task.what}: column {named(missing[0])!r} is missing{count}, a feature of --like {like.path}"
                near = [each for each in [*names, *others] if is_same_but_case(each, missing[0])]
                advice = f"did you mean {named(near[0])!r}? Rename it" if near else "add it"
                advice = "do not name it with another option" if missing[0] in near else advice
            number = {name: column for column, name in enumerate(known)}
            self.column_of = np.array([number.get(name, -1) for name in names], dtype=np.int64).__getitem__
        if what and not task.options.missing_columns_as_zero:
            raise DataError(f"{what}; {advice}, or take missing columns for 0 ({ZERO_COLUMNS})")
        if what:
            task.log(f"warning: {what}; missing columns are 0 in all rows")

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

    def row_keys(self, comm: mpi.Comm) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the keys as `LabelledRows.row_keys`; the content of a row is its features. Collective over `comm`."""
        with mpi.agreed(comm, "reading the rows"):
            if self.id_keys.count(0) or not self.id_keys:
                features, indptr = feature_keys(None if self.feature_names is None else self.feature_names[:]), self.X.indptr[:]
                for begin, end in row_pieces(indptr):
                    entries = slice(int(indptr[begin]), int(indptr[end]))
                    lengths, values = np.diff(indptr[begin : end + 1]), self.X.data[entries]
                    self.content_keys.extend(content_keys(lengths, self.X.indices[entries], values, features))
            else:
                self.content_keys.extend(np.zeros(self.X.n_rows, np.uint64))
        return super().row_keys(comm)

    def leave_out(self, names: Collection[str]) -> None:
        """Remove features from the rows. Raises OSError."""
        known = [] if self.feature_names is None else list(self.feature_names[:])
        keep = np.array([name not in names for name in known], dtype=bool)
        self.feature_names, self.n_features = list(compress(known, keep)), int(keep.sum())
        before, self.X = self.X, WaitingRows(self.scratch, self.X.indices.dtype.type, with_data=True)
        place, indptr = np.cumsum(keep) - 1, before.indptr[:]
        for begin, end in row_pieces(indptr):
            entries = slice(int(indptr[begin]), int(indptr[end]))
            indices, rows = before.indices[entries], np.repeat(np.arange(end - begin), np.diff(indptr[begin : end + 1]))
            stays = keep[indices]
            lengths = np.bincount(rows[stays], minlength=end - begin)
            self.X.add(lengths, place[indices[stays]], before.data[entries][stays])


def finish(
    task: Conversion, rows: NumberRows, label_names: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Part:
    """Return the rows as `make_part`. Collective. Raises ConfigError for two kinds of splits."""
    keys, groups = rows.row_keys(task.comm)
    splits = row_splits(task, keys, groups, rows.splits or None)
    about = {"n_features": rows.n_features, "feature_names": rows.feature_names, "dropped": rows.dropped}
    return make_part(task, rows.X, rows, splits, label_names, columns, keys=keys, groups=groups, **about)

"""Rows of numbers before they are written, read in blocks and kept in temporary files."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import LabelledRows, Part, RowBuffer, make_part
from hpcml.conversion.split import row_splits
from hpcml.data.in_memory import find_decrease, find_out_of_range
from hpcml.data.row_keys import content_keys, feature_keys
from hpcml.errors import ConfigError, DataError, is_same_but_case, repeated
from hpcml.log import named, plural
from hpcml.partition import offsets, row_pieces

LARGEST = float(np.finfo(np.float32).max)
VALUES = 1 << 20  # matrix values per block
ZERO_COLUMNS = "--missing-columns-as-zero"
FINITE = "but expected a finite float32 number"
Describe = Callable[[int, int, float], str]  # (row, column, value) -> error message


class NumberSlice(NamedTuple):
    """Some rows of X: values per row, ascending features from 0, non-zero float32 values."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @classmethod
    def of_csr(cls, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> Self:
        """Return the rows of a CSR matrix in sorted order; values of a repeated feature are added, zeros are dropped."""
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


def find_non_finite(values: np.ndarray) -> int:
    """-1: all numbers are finite float32."""
    with np.errstate(invalid="ignore"):
        fit = np.abs(values) <= LARGEST
    return -1 if fit.all() else int(np.argmin(fit))


def dense_blocks(
    take: Callable[[int, int], np.ndarray], rows: tuple[int, int], n_columns: int, zero: bool, describe: Describe
) -> Iterator[NumberSlice]:
    """`zero`: NaN is 0. Raises DataError with `describe`."""
    step = max(1, VALUES // max(1, n_columns))
    for low in range(*rows, step):
        values = np.require(take(low, min(low + step, rows[1])), np.float64, "W")
        if zero:
            values[np.isnan(values)] = 0
        if (position := find_non_finite(values.reshape(-1))) >= 0:
            row, column = divmod(position, values.shape[1])
            raise DataError(describe(low + row, column, float(values[row, column])))
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        row_numbers, columns = np.nonzero(values)
        yield NumberSlice(np.bincount(row_numbers, minlength=len(values)), columns, values[row_numbers, columns])


def csr_blocks(parts: Any, rows: tuple[int, int], n_columns: int, what: str, zero: bool) -> Iterator[NumberSlice]:
    """No data: values 1. `zero`: NaN is 0."""
    first_row, last_row = rows
    indptr = parts["indptr"][first_row : last_row + 1].astype(np.int64)
    size = min(parts[name].shape[0] for name in ("indices", "data") if name in parts)
    if (fall := find_decrease(indptr)) >= 0:
        raise DataError(f"{what}: row {first_row + fall + 1}: indptr decreases")
    if indptr[0] < 0 or indptr[-1] > size:
        between = f"indptr goes from {indptr[0]} to {indptr[-1]}, but there are {size} values"
        raise DataError(f"{what}: rows {first_row + 1} to {last_row}: {between}")
    for begin, end in row_pieces(indptr, VALUES):
        ends = indptr[begin : end + 1]
        piece = slice(int(ends[0]), int(ends[-1]))
        indices, data = parts["indices"][piece], parts["data"][piece] if "data" in parts else np.ones(piece.stop - piece.start)
        if indices.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DataError(f"{what}: its indices must be whole numbers and its data numbers")
        indices = indices.astype(np.int64)

        def row_of(position: int, ends: np.ndarray = ends, begin: int = begin) -> str:
            return f"{what}: row {first_row + begin + int(np.searchsorted(ends - ends[0], position, side='right'))}"

        if (position := find_out_of_range(indices, n_columns)) >= 0:
            raise DataError(f"{row_of(position)}: index {indices[position]}, but expected 0 to {n_columns - 1}")
        data = data.astype(np.float64)
        if zero:
            data[np.isnan(data)] = 0
        if (position := find_non_finite(data)) >= 0:
            raise DataError(f"{row_of(position)}: value {data[position]:g}, {FINITE}")
        block = NumberSlice.of_csr(ends, indices, data)
        if block.data.size < data.size and not (fit := np.isfinite(block.data)).all():
            row = first_row + begin + int(np.searchsorted(np.cumsum(block.lengths), np.argmin(fit), side="right")) + 1
            raise DataError(f"{what}: row {row}: the sum of repeated values of a feature exceeds float32")
        yield block


def rows_as_csr(parts: Any, rows: tuple[int, int], shape: tuple[int, int], what: str) -> dict[str, np.ndarray]:
    """Convert rows begin..end of a CSC or COO matrix; entries keep their order within a row."""
    is_coo, (n_rows, n_columns) = "row" in parts, shape
    entries = parts["row" if is_coo else "indices"]
    size, indptr = entries.shape[0], np.zeros(1, dtype=np.int64)
    if not is_coo:
        indptr = parts["indptr"][:].astype(np.int64)
        if find_decrease(indptr) >= 0 or indptr[0] or indptr[-1] > size:
            raise DataError(f"{what}: indptr must ascend from 0 to at most {size}, the number of values")
        size = int(indptr[-1])
    row_entries = []
    for low in range(0, size, VALUES):
        piece = slice(low, min(low + VALUES, size))
        row_numbers, data = entries[piece], parts["data"][piece] if "data" in parts else np.ones(piece.stop - low)
        columns = parts["col"][piece] if is_coo else np.searchsorted(indptr, np.arange(low, piece.stop), side="right") - 1
        if row_numbers.dtype.kind not in "iu" or columns.dtype.kind not in "iu" or data.dtype.kind not in "biuf":
            raise DataError(f"{what}: its indices must be whole numbers and its data numbers")
        for name, numbers, n in (("row", row_numbers, n_rows), ("column", columns, n_columns)):
            if (position := find_out_of_range(numbers, n)) >= 0:
                raise DataError(f"{what}: entry {low + position + 1}: {name} {numbers[position]}, but expected 0 to {n - 1}")
        in_range = (row_numbers >= rows[0]) & (row_numbers < rows[1])
        row_entries.append((row_numbers[in_range], columns[in_range], data[in_range]))
    nothing = np.zeros(0, dtype=np.int64)
    row_numbers, columns, data = map(np.concatenate, zip(*row_entries or [(nothing,) * 3], strict=True))
    order = np.argsort(row_numbers, kind="stable")
    indptr = offsets(np.bincount(row_numbers.astype(np.int64), minlength=n_rows))
    return {"indptr": indptr, "indices": columns[order], "data": data[order]}


class NumberRows(LabelledRows):
    def __init__(
        self,
        task: Conversion,
        names: Sequence[str] | None,
        n_features: int,
        with_ids: bool = False,
        index: type = np.int64,
        others: Sequence[str] = (),
    ) -> None:
        """`others`: other columns of the source. --like matches features by name if there are `names`, else by number."""
        super().__init__(task, with_ids)
        self.X, self.dropped = RowBuffer(task.scratch, index, with_data=True), 0
        # The column of each feature of the source, -1 for none; None: unchanged.
        self.column_of: Callable[[np.ndarray], np.ndarray] | None = None
        self.n_features, self.feature_names = n_features, names
        like = task.like
        if like is None:
            return
        width, known = self.n_features, self.feature_names = like.n_features, like.feature_names
        what, advice = "", ""
        if names is None:
            self.column_of = lambda indices: np.where(indices < width, indices, -1)
            if 0 < n_features < width:
                what = f"{task.input_name}: {plural(n_features, 'column')}, but --like {like.path} has {plural(width, 'feature')}"
                advice = "give all columns"
        elif known is None:
            why = f"has no feature names, but {task.input_name} has; remove --like or give a file with names"
            raise ConfigError(f"--like {like.path}: {why}")
        elif list(names) != known:
            for each, where in ((names, task.input_name), (known, like.path)):
                if (twice := repeated(each)) is not None:
                    raise DataError(f"{where}: two features have the name {twice!r}, which is ambiguous with --like; rename one")
            given_names = set(names)
            if missing := [name for name in known if name not in given_names]:
                count = "" if len(missing) == 1 else f" (and {len(missing) - 1} more of {plural(len(known), 'feature')})"
                what = f"{task.input_name}: column {named(missing[0])!r} is missing{count}, a feature of --like {like.path}"
                near = [each for each in [*names, *others] if is_same_but_case(each, missing[0])]
                advice = f"did you mean {named(near[0])!r}? Rename it" if near else "add it"
                advice = "remove it from the other options" if missing[0] in near else advice
            number = {name: column for column, name in enumerate(known)}
            self.column_of = np.array([number.get(name, -1) for name in names], dtype=np.int64).__getitem__
        if what and not task.options.missing_columns_as_zero:
            raise DataError(f"{what}; {advice}, or use {ZERO_COLUMNS}")
        if what:
            task.log(f"warning: {what}; missing columns are 0 in all rows")

    def add(self, block: NumberSlice) -> None:
        lengths, indices, data = block
        if self.column_of is not None:
            rows, columns = np.repeat(np.arange(lengths.size), lengths), self.column_of(indices)
            keep = columns >= 0
            self.dropped += int(keep.size - np.count_nonzero(keep))
            rows, indices, data = rows[keep], columns[keep], data[keep]
            order = np.lexsort((indices, rows))
            lengths, indices, data = np.bincount(rows, minlength=lengths.size), indices[order], data[order]
        self.X.append(lengths, indices, data)

    def append_label_matrix(self, blocks: Iterable[NumberSlice], what: object, first_row: int = 0) -> None:
        for block in blocks:
            if (block.data != 1).any():
                position = int(np.argmax(block.data != 1))
                row = first_row + self.labels.n_rows + int(np.searchsorted(np.cumsum(block.lengths), position, side="right"))
                raise DataError(f"{what}: row {row + 1}: {block.data[position]:g} as a label, but expected 0 or 1")
            self.labels.append(block.lengths, block.indices)

    def row_keys(self, comm: mpi.Comm) -> tuple[np.ndarray, np.ndarray | None]:
        """The content of a row is its features. Collective over `comm`."""
        with mpi.agreed(comm, "reading the rows"):
            if self.id_keys.count(0) or not self.id_keys:
                features = feature_keys(None if self.feature_names is None else self.feature_names[:])
                for lengths, indices, values in self.X.blocks():
                    self.content_keys.extend(content_keys(lengths, indices, values, features))
            else:
                self.content_keys.extend(np.zeros(self.X.n_rows, np.uint64))
        return super().row_keys(comm)

    def leave_out(self, names: Collection[str]) -> None:
        known = [] if self.feature_names is None else list(self.feature_names[:])
        keep = np.array([name not in names for name in known], dtype=bool)
        self.feature_names, self.n_features = list(compress(known, keep)), int(keep.sum())
        before, self.X = self.X, RowBuffer(self.scratch, self.X.indices.dtype.type, with_data=True)
        self.column_of = np.where(keep, np.cumsum(keep) - 1, -1).__getitem__
        for block in before.blocks():
            self.add(NumberSlice(*block))
        self.dropped = 0


def finish(
    task: Conversion, rows: NumberRows, label_names: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Part:
    task.log.detail(f"{task.input_name}: read")
    keys, groups = rows.row_keys(task.comm)
    splits = row_splits(task, keys, groups, rows.splits or None)
    about = {"n_features": rows.n_features, "feature_names": rows.feature_names, "dropped": rows.dropped}
    return make_part(task, rows.X, rows, splits, label_names, columns, keys=keys, groups=groups, **about)

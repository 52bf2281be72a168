"""Rows of numbers on their way to a dataset: they grow by blocks and wait outside of memory."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.label_sets import LabelColumns, label_columns, waiting_label_sets
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.row_ids import RowIds
from hpcml.conversion.split import row_splits
from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import Spool, slices

LARGEST = float(np.finfo(np.float32).max)


class NumberSlice(NamedTuple):
    """Some rows of X: values per row, ascending features from 0, values (float32, none is 0)."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @classmethod
    def of_dense(cls, values: np.ndarray) -> NumberSlice:
        """The rows of an array (rows × features)."""
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


class LabelNumbers(dict[str, int]):
    """Numbers names in the order in which they are first looked up."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


class NumberRows:
    """This rank's rows: X and labels as CSR, and ids and splits if there are any. Local."""

    def __init__(self, scratch: Path, column_of: Callable[[np.ndarray], np.ndarray] | None, with_ids: bool = False) -> None:
        """`column_of`: the columns of features, -1 for none; None: as they are."""
        self.scratch, self.column_of, self.width, self.dropped, self.n_rows = scratch, column_of, 0, 0, 0
        self.indptr, self.indices, self.data = Spool(scratch, np.int64), Spool(scratch, np.int64), Spool(scratch, np.float32)
        self.label_indptr, self.labels = Spool(scratch, np.int64), Spool(scratch, np.int64)
        self.label_numbers = LabelNumbers()  # of labels that are given by name
        self.row_ids = RowIds(scratch) if with_ids else None
        self.splits: list[str] | None = None
        for ends in (self.indptr, self.label_indptr):
            ends.append(np.zeros(1, dtype=np.int64))

    def add(self, block: NumberSlice) -> None:
        """Append rows. Raises OSError."""
        lengths, indices, data = block
        self.width = max(self.width, int(indices.max(initial=-1)) + 1)
        if self.column_of is not None:
            rows, columns = np.repeat(np.arange(lengths.size), lengths), self.column_of(indices)
            keep = columns >= 0
            self.dropped += int(keep.size - np.count_nonzero(keep))
            rows, indices, data = rows[keep], columns[keep], data[keep]
            order = np.lexsort((indices, rows))
            lengths, indices, data = np.bincount(rows, minlength=lengths.size), indices[order], data[order]
        self.indptr.append(self.indices.size + np.cumsum(lengths))
        self.indices.append(indices)
        self.data.append(data)
        self.n_rows += lengths.size

    def add_labels(self, lengths: np.ndarray, numbers: np.ndarray) -> None:
        """Append the labels of rows: how many each has, and their numbers. Raises OSError."""
        self.label_indptr.append(self.labels.size + np.cumsum(lengths))
        self.labels.append(numbers)

    def add_named(self, labels: Sequence[Sequence[str]]) -> None:
        """Append the labels of rows, by name. Raises OSError."""
        numbers = array("q", (self.label_numbers[name] for names in labels for name in names))
        self.add_labels(np.fromiter(map(len, labels), np.int64, len(labels)), np.array(numbers, dtype=np.int64))

    def add_ids(self, ids: Sequence[str], first: int) -> None:
        """Append row names, the first of row `first` of this rank's; "" is its number from 1."""
        if self.row_ids is not None:
            self.row_ids.extend(ids, range(first, first + len(ids)))

    def add_splits(self, splits: Iterable[str]) -> None:
        """Append the splits of rows, "" for none: of all rows, or never."""
        self.splits = [] if self.splits is None else self.splits
        self.splits.extend(map(sys.intern, splits))


def columns_like(
    like: Like | None, names: Sequence[str] | None, n_features: int, what: str
) -> tuple[Callable[[np.ndarray], np.ndarray] | None, int, Strings | None]:
    """How the features of a source become columns, how many columns there are, and their names.

    Without `like` they are the same. With it, features are matched by name if the source names
    them, else by number. Raises ConfigError where only the source has names, DataError where a name
    stands there twice.
    """
    if like is None:
        return None, n_features, names
    width, known = like.n_features, like.feature_names
    if names is None:
        return lambda indices: np.where(indices < width, indices, -1), width, known
    if known is None:
        raise ConfigError(
            f"--like {like.path}: has no names of features, but {what} has; leave --like out, or give it a file with names"
        )
    if list(names) == known:
        return None, width, known
    for found, where in ((names, what), (known, str(like.path))):
        if (twice := repeated(found)) is not None:
            raise DataError(f"{where}: two features have the name {twice!r}, so --like cannot tell them apart; rename one")
    number = {name: column for column, name in enumerate(known)}
    columns = np.array([number.get(name, -1) for name in names], dtype=np.int64)
    return columns.__getitem__, width, known


@mpi.collective
def _in_use(comm: mpi.Comm, rows: NumberRows, names: list[str]) -> list[str]:
    """Collective over `comm`. Those of the labels that some row has."""
    used = np.zeros(len(names), dtype=np.int64)
    with mpi.agreed(comm, "dividing the rows by labels"):
        for some in slices(rows.labels.size):
            used[rows.labels[some]] = 1
    return [names[number] for number in np.flatnonzero(mpi.allreduce_sum(comm, used)).tolist()]


@mpi.collective
def finish(
    comm: mpi.Comm,
    rows: NumberRows,
    options: ConvertOptions,
    like: Like | None,
    n_features: int,
    feature_names: Strings | None,
    label_names: Sequence[str] | None,
) -> Part:
    """Collective over `comm`. The rows as a part of a dataset.

    `label_names` are those of labels that were given by number; None: labels were given by name,
    and get columns in code-point order. Raises ConfigError for --test-share beside splits of the
    rows.
    """
    found = list(rows.label_numbers) if label_names is None else list(label_names)
    if label_names is None:
        columns = label_columns(comm, found, like)
    else:
        columns = LabelColumns(found if like is None else _in_use(comm, rows, found), like)
    with mpi.agreed(comm, "dividing the rows by labels"):
        labels = waiting_label_sets(columns, rows.label_indptr, rows.labels, columns.of(found).__getitem__, rows.scratch)
    split_names, split = row_splits(comm, rows.n_rows, rows.splits, options)
    (first,), _ = mpi.exclusive_sum(comm, [rows.n_rows])
    if rows.row_ids is not None:
        rows.row_ids.lines_above = int(first)
    return Part(
        indptr=rows.indptr,
        indices=rows.indices,
        data=rows.data,
        labels=labels,
        n_features=n_features,
        split_names=split_names,
        split=split,
        row_ids=rows.row_ids,
        feature_names=feature_names,
        dropped=rows.dropped,
    )

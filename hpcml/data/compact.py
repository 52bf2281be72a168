"""A rank's training rows, copied without features that no training row has.

A column is a feature that has a weight. Features of two or more training rows have a column each, frequent ones first, so that the
weights used most are adjacent in memory. Features of a single row are folded into one column of that row, whose value is the norm
of their values: every (sub)gradient changes their weights in proportion to their values, so folding is a rotation of the feature
space, which changes neither the objective nor any step of a method that uses only inner products. Half of the words of a text
corpus occur in one document.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi, slices
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.kernels import rows as kernels
from hpcml.partition import entries_of, offsets
from hpcml.slices import StopCheck, no_stop_check

Allocate = Callable[[int], tuple[np.ndarray, np.ndarray]]  # (indices, data) for a number of values


@dataclass
class CompactRows:
    """A rank's rows in columns; `first` is the number of its first row in the split, whose rows `comm` shares."""

    comm: mpi.Comm
    first: int
    n_global: int
    n_labels: int
    n_features: int
    n_columns: int  # with the column of the constant feature, which is the last, if there is a bias
    bias: bool
    indptr: np.ndarray  # (n_local + 1) int64
    indices: np.ndarray  # (nnz) int32, columns
    data: np.ndarray  # (nnz) float32
    label_indptr: np.ndarray  # (n_labels + 1) int64
    label_rows: np.ndarray  # rows (0 .. n_local − 1) of the labels, one label after another
    counts: np.ndarray  # (n_columns) int32: values ≠ 0 of each column on all ranks
    largest: np.ndarray  # (n_columns) float32: largest magnitude
    smallest: float  # smallest magnitude of a value ≠ 0
    max_norm: float  # upper bound of max ‖x_i‖, with the constant feature
    scale: float  # X = (mean ‖x_i‖)², without the constant feature
    n_positive: np.ndarray  # (n_labels) int64, on all ranks
    mapped: bool = False  # indices and data are in files
    weights: np.ndarray | None = None  # (n_local) float64, positive; only if one rank has all rows; None: 1 each

    @property
    def n_local(self) -> int:
        return self.indptr.size - 1

    @property
    def total_weight(self) -> float:
        return self.n_global if self.weights is None else float(self.weights.sum())

    @property
    def largest_step(self) -> float:
        return self.max_norm * self.max_norm * (1.0 if self.weights is None else float(self.weights.max(initial=0.0)))

    def label_weight(self, label: int) -> float:
        return int(self.n_positive[label]) if self.weights is None else float(self.weights[self.rows_of(label)].sum())

    def rows_of(self, label: int) -> np.ndarray:
        return self.label_rows[self.label_indptr[label] : self.label_indptr[label + 1]]


@dataclass
class ColumnMap:
    """The column of each feature; needed until the column tables of the model file are written."""

    shard: Shard
    column_of: np.ndarray  # (n_features) int32: a column, FOLDED or ABSENT
    fold_column: np.ndarray  # (n_local) int32: column of a row's folded features, or −1
    fold_norm: np.ndarray  # (n_local) float32
    n_shared: int  # number of columns of single features, which come first
    n_folds: int  # number of columns of folded features on all ranks, which follow

    def of_rows(self, rows: slice, bias: int = -1) -> kernels.Columns:
        return kernels.Columns(self.column_of, self.fold_column[rows], self.fold_norm[rows], bias)

    def tables(self, comm: mpi.Comm, check_stop: StopCheck = no_stop_check) -> tuple[np.ndarray, np.ndarray]:
        shard = self.shard
        with mpi.agreed(comm, "making room for the model's columns"):
            columns, factors = np.zeros(shard.n_features, np.int32), np.zeros(shard.n_features, np.float32)
            for rows, *arrays in row_slices(shard, check_stop):
                kernels.fold_factors(*arrays, self.of_rows(rows), columns, factors)
        mpi.allreduce_sum(comm, columns)  # a folded feature is on one rank only
        mpi.allreduce_sum(comm, factors)
        shared = self.column_of >= 0
        columns[shared], factors[shared] = self.column_of[shared], 1.0
        if shard.factors is not None:  # the model's weights apply to unscaled values
            factors *= shard.factors
        return columns, factors


class FeatureValues(NamedTuple):
    largest: np.ndarray  # (n_features) float32: largest magnitude
    counts: np.ndarray  # (n_features) int32: values ≠ 0
    smallest: float  # smallest magnitude of a value ≠ 0 on this rank


def compact_rows(
    comm: mpi.Comm,
    shard: Shard,
    bias: bool,
    allocate: Allocate | None = None,
    check_stop: StopCheck = no_stop_check,
    fold: bool = True,
) -> tuple[CompactRows, ColumnMap]:
    """Copy a shard's rows, into arrays from `allocate` (collective) if given. Collective over `comm`."""
    if shard.n_global == 0:
        raise DataError("there are no rows to train on; choose another --split")
    warm_up(comm, shard)
    features = feature_values(comm, shard, check_stop)
    columns, sizes, squares = map_columns(comm, shard, features.counts, check_stop, fold)
    # Norms of the rows.
    norms, weights = np.sqrt(squares), shard.weights
    max_norm = mpi.allreduce_max(comm, float(norms.max(initial=0.0)))
    weighted, total = (norms, shard.n_global) if weights is None else (norms * weights, float(weights.sum()))
    bound = mpi.allreduce_max(comm, float(weighted.max(initial=0.0))) * shard.n_global
    mean = mpi.exact_sum(comm, weighted, bound, shard.n_global) / total
    if not (np.isfinite(mean * mean) and mean * mean > 0):
        raise DataError(f"the training rows have no usable features (their mean norm is {mean}); check the data")
    del norms, weighted, squares

    # The rows in columns.
    n_columns, has_fold = columns.n_shared + columns.n_folds + bias, columns.fold_column >= 0
    nnz = int(sizes.sum()) + int(has_fold.sum()) + sizes.size * bias
    arrays_of_caller = allocate(nnz) if allocate is not None else None
    with mpi.agreed(comm, "making room for the rows"):
        indices, data = arrays_of_caller or (np.empty(nnz, np.int32), np.empty(nnz, np.float32))
        indptr = np.zeros(sizes.size + 1, np.int64)
        for part, *arrays in row_slices(shard, check_stop):
            row_columns = columns.of_rows(part, n_columns - 1 if bias else -1)
            kernels.compact(*arrays, row_columns, indptr[part.start : part.stop + 1], indices, data)

    # Number of values ≠ 0 of each column on all ranks, and their largest magnitude.
    with mpi.agreed(comm, "making room for the rows"):
        counts, largest = np.ones(n_columns, np.int32), np.zeros(n_columns, np.float32)
        shared = np.flatnonzero(columns.column_of >= 0)
        shared_columns = columns.column_of[shared]
        counts[shared_columns], largest[shared_columns] = features.counts[shared], features.largest[shared]
        largest[columns.fold_column[has_fold]] = columns.fold_norm[has_fold]
    if bias:
        counts[-1], largest[-1] = shard.n_global, 1.0
    mpi.allreduce_maxima(comm, largest)
    smallest = min(features.smallest, float(columns.fold_norm[has_fold].min(initial=np.inf)), 1.0)

    # Rows of each label.
    n_positive = np.zeros(shard.n_labels, np.int64)
    kernels.count_labels(shard.y_indptr, shard.y_indices, shard.rows, n_positive)
    label_sizes, entries = entries_of(shard.y_indptr, shard.rows)
    row_numbers = np.repeat(np.arange(shard.n_local), label_sizes)
    label_rows = row_numbers[np.argsort(shard.y_indices[entries], kind="stable")]
    rows = CompactRows(
        *(comm, shard.first_local, shard.n_global, shard.n_labels, shard.n_features, n_columns, bias),
        *(indptr, indices, data, offsets(n_positive), label_rows, counts, largest),
        smallest=-mpi.allreduce_max(comm, -smallest),
        max_norm=float(np.sqrt(max_norm * max_norm + bias)) * (1 + 1e-6),  # because folded values are rounded to float32
        scale=mean * mean,
        n_positive=mpi.allreduce_sum(comm, n_positive),
        weights=weights,
    )
    return rows, columns


def feature_values(comm: mpi.Comm, shard: Shard, check_stop: StopCheck = no_stop_check) -> FeatureValues:
    with mpi.agreed(comm, "making room for the features"):
        largest, counts = np.zeros(shard.n_features, np.float32), np.zeros(shard.n_features, np.int32)
        smallest = np.full(1, np.inf, np.float32)
        for _, *arrays in row_slices(shard, check_stop):
            kernels.column_extremes(*arrays, largest, counts, smallest)
    return FeatureValues(mpi.allreduce_maxima(comm, largest), mpi.allreduce_sum(comm, counts), float(smallest[0]))


def map_columns(
    comm: mpi.Comm, shard: Shard, counts: np.ndarray, check_stop: StopCheck = no_stop_check, fold: bool = True
) -> tuple[ColumnMap, np.ndarray, np.ndarray]:
    shared = np.flatnonzero(counts > (1 if fold else 0))
    rarity = 32 - np.frexp(counts[shared].astype(np.float64))[1].astype(np.uint8)  # frequency class: powers of two
    shared = shared[np.argsort(rarity, kind="stable")]
    column_of = np.where(counts == 0, kernels.ABSENT, kernels.FOLDED).astype(np.int32)
    column_of[shared] = np.arange(shared.size, dtype=np.int32)
    n = shard.n_local
    with mpi.agreed(comm, "measuring the rows"):
        sizes, squares, folded = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        for part, *arrays in row_slices(shard, check_stop):
            kernels.row_sizes(*arrays, column_of, sizes[part], squares[part], folded[part])
    has_fold = folded > 0
    before, total = mpi.exclusive_sum(comm, [int(has_fold.sum())])
    fold_column = np.where(has_fold, shared.size + int(before[0]) + np.cumsum(has_fold) - 1, -1).astype(np.int32)
    fold_norm = np.sqrt(folded).astype(np.float32)
    return ColumnMap(shard, column_of, fold_column, fold_norm, shared.size, int(total[0])), sizes, squares


def row_slices(shard: Shard, check_stop: StopCheck) -> Iterator[tuple[Any, ...]]:
    for part in slices.row_slices(shard.n_local, shard.nnz):
        check_stop()
        yield part, shard.indptr, shard.indices, shard.data, shard.rows[part]


def warm_up(comm: mpi.Comm, shard: Shard) -> None:
    none, arrays = shard.rows[:0], (shard.indptr, shard.indices, shard.data, shard.rows[:0])
    numbers, values = np.zeros(0, np.int32), np.zeros(0, np.float32)
    with mpi.node_first(comm):
        kernels.column_extremes(*arrays, values, numbers, values)
        kernels.row_sizes(*arrays, numbers, none, np.zeros(0), np.zeros(0))
        columns = kernels.Columns(numbers, numbers, values, -1)
        kernels.compact(*arrays, columns, np.zeros(1, np.int64), numbers, values)
        kernels.fold_factors(*arrays, columns, numbers, values)
        kernels.count_labels(shard.y_indptr, shard.y_indices, none, none)

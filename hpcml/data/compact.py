"""The rows that a rank trains on, copied without the features that carry nothing.

A column is what a method has a weight for. Features that two or more training rows have get a column each, the frequent ones first,
so that the weights used most lie together. Features that no training row has get none. Features that only one row has are folded
into one column of that row, whose value is their norm there: every (sub)gradient moves their weights in proportion to their values,
so this is a rotation of the space, which changes neither the objective nor a step of any method that knows only inner products.
Half of the words of a text corpus occur in one document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi, slices
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.kernels import rows as kernels
from hpcml.partition import entries_of, offsets

Room = Callable[[int], tuple[np.ndarray, np.ndarray]]  # (indices, data) for so many values


@dataclass
class CompactRows:
    """The rows of this rank in columns, from row `first` of the split, which `comm` share."""

    comm: mpi.Comm
    first: int
    n_global: int
    n_labels: int
    n_features: int
    n_columns: int  # with the column of the constant feature, the last one, if there is a bias
    bias: bool
    indptr: np.ndarray  # (n_local + 1) int64
    indices: np.ndarray  # (nnz) int32, columns
    data: np.ndarray  # (nnz) float32
    label_indptr: np.ndarray  # (n_labels + 1) int64
    label_rows: np.ndarray  # rows (0 .. n_local − 1) of each label, label by label
    counts: np.ndarray  # (n_columns) int32: values ≠ 0 of each column on all ranks
    largest: np.ndarray  # (n_columns) float32: their largest size
    smallest: float  # the least size of any value ≠ 0
    max_norm: float  # at least max ‖x_i‖, the constant feature included
    scale: float  # X = (mean ‖x_i‖)², the constant feature not included
    n_positive: np.ndarray  # (n_labels) int64, on all ranks
    mapped: bool = False  # are indices and data in files?
    weights: np.ndarray | None = None  # (n_local) float64, above 0, if one rank has all rows; None: 1 each

    @property
    def n_local(self) -> int:
        """The number of rows on this rank."""
        return self.indptr.size - 1

    @property
    def total_weight(self) -> float:
        """Of all rows of the split."""
        return self.n_global if self.weights is None else float(self.weights.sum())

    @property
    def largest_step(self) -> float:
        """At least max s ‖x_i‖², with the weight s of a row."""
        return self.max_norm * self.max_norm * (1.0 if self.weights is None else float(self.weights.max(initial=0.0)))

    def weight_of(self, label: int) -> float:
        """Of all rows that have a label."""
        return int(self.n_positive[label]) if self.weights is None else float(self.weights[self.rows_of(label)].sum())

    def rows_of(self, label: int) -> np.ndarray:
        """The rows of this rank that have a label."""
        return self.label_rows[self.label_indptr[label] : self.label_indptr[label + 1]]


@dataclass
class ColumnMap:
    """Which column each feature went to; needed until the model's tables are written."""

    shard: Shard
    column_of: np.ndarray  # (n_features) int32: a column, FOLDED or ABSENT
    fold_column: np.ndarray  # (n_local) int32: the column of each row's folded features, or −1
    fold_norm: np.ndarray  # (n_local) float32
    n_shared: int  # columns of features
    n_folds: int  # of rows, on all ranks, behind those

    def of_rows(self, some: slice, bias: int = -1) -> kernels.Columns:
        """The columns for some of this rank's rows; `bias` is that of the constant feature."""
        return kernels.Columns(self.column_of, self.fold_column[some], self.fold_norm[some], bias)

    def tables(self, comm: mpi.Comm, look: slices.Look = slices.never_stop) -> tuple[np.ndarray, np.ndarray]:
        """Collective over `comm`. The model file's columns and factors. Raises as `look`."""
        shard = self.shard
        with mpi.agreed(comm, "making room for the model's columns"):
            columns, factors = np.zeros(shard.n_features, np.int32), np.zeros(shard.n_features, np.float32)
            for some, *arrays in row_slices(shard, look):
                kernels.fold_factors(*arrays, self.of_rows(some), columns, factors)
        mpi.allreduce_sum(comm, columns)  # a folded feature is on one rank only
        mpi.allreduce_sum(comm, factors)
        shared = self.column_of >= 0
        columns[shared], factors[shared] = self.column_of[shared], 1.0
        if shard.factors is not None:  # the weights of the model are those of unscaled values
            factors *= shard.factors
        return columns, factors


class FeatureValues(NamedTuple):
    """Statistics of the features of a split, over all ranks."""

    largest: np.ndarray  # (n_features) float32: the largest size of a value
    counts: np.ndarray  # (n_features) int32: values ≠ 0
    smallest: float  # the least size of any value ≠ 0 of this rank


def compact_rows(
    comm: mpi.Comm, shard: Shard, bias: bool, room: Room | None = None, look: slices.Look = slices.never_stop, fold: bool = True
) -> tuple[CompactRows, ColumnMap]:
    """Collective over `comm`. Copy a shard's rows to `room` (collective) or memory, in four passes.

    Without `fold` every feature that a row has gets a column of its own. Raises DataError if there
    is nothing to train on, and, on all ranks, what `look` raises between two slices on one.
    """
    if shard.n_global == 0:
        raise DataError("there are no rows to train on; choose another --split")
    warm_up(comm, shard)
    features = feature_values(comm, shard, look)
    columns, sizes, squares = _columns(comm, shard, features.counts, look, fold)
    # The norms of the rows.
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
    place = room(nnz) if room is not None else None
    with mpi.agreed(comm, "making room for the rows"):
        indices, data = place or (np.empty(nnz, np.int32), np.empty(nnz, np.float32))
        indptr = np.zeros(sizes.size + 1, np.int64)
        for some, *arrays in row_slices(shard, look):
            of_rows = columns.of_rows(some, n_columns - 1 if bias else -1)
            kernels.compact(*arrays, of_rows, indptr[some.start : some.stop + 1], indices, data)

    # Values ≠ 0 of each column on all ranks, and the largest size.
    with mpi.agreed(comm, "making room for the rows"):
        counts, largest = np.ones(n_columns, np.int32), np.zeros(n_columns, np.float32)
        shared = np.flatnonzero(columns.column_of >= 0)
        places = columns.column_of[shared]
        counts[places], largest[places] = features.counts[shared], features.largest[shared]
        largest[columns.fold_column[has_fold]] = columns.fold_norm[has_fold]
    if bias:
        counts[-1], largest[-1] = shard.n_global, 1.0
    mpi.allreduce_maxima(comm, largest)
    least = min(features.smallest, float(columns.fold_norm[has_fold].min(initial=np.inf)), 1.0)

    # The rows of each label.
    n_positive = np.zeros(shard.n_labels, np.int64)
    kernels.count_labels(shard.y_indptr, shard.y_indices, shard.rows, n_positive)
    label_sizes, entries = entries_of(shard.y_indptr, shard.rows)
    labelled = np.repeat(np.arange(shard.n_local), label_sizes)
    label_rows = labelled[np.argsort(shard.y_indices[entries], kind="stable")]
    rows = CompactRows(
        *(comm, shard.first_local, shard.n_global, shard.n_labels, shard.n_features, n_columns, bias),
        *(indptr, indices, data, offsets(n_positive), label_rows, counts, largest),
        smallest=-mpi.allreduce_max(comm, -least),
        max_norm=float(np.sqrt(max_norm * max_norm + bias)) * (1 + 1e-6),  # folded values are rounded to float32
        scale=mean * mean,
        n_positive=mpi.allreduce_sum(comm, n_positive),
        weights=weights,
    )
    return rows, columns


def feature_values(comm: mpi.Comm, shard: Shard, look: slices.Look) -> FeatureValues:
    """Collective over `comm`. What the features hold. Raises what `look` does, on all ranks."""
    with mpi.agreed(comm, "making room for the features"):
        largest, counts = np.zeros(shard.n_features, np.float32), np.zeros(shard.n_features, np.int32)
        smallest = np.full(1, np.inf, np.float32)
        for _, *arrays in row_slices(shard, look):
            kernels.column_extremes(*arrays, largest, counts, smallest)
    return FeatureValues(mpi.allreduce_maxima(comm, largest), mpi.allreduce_sum(comm, counts), float(smallest[0]))


def _columns(
    comm: mpi.Comm, shard: Shard, counts: np.ndarray, look: slices.Look, fold: bool
) -> tuple[ColumnMap, np.ndarray, np.ndarray]:
    """Collective over `comm`. The columns; of each row the values in shared ones, and Σ x²."""
    shared = np.flatnonzero(counts > (1 if fold else 0))
    rarity = 32 - np.frexp(counts[shared].astype(np.float64))[1].astype(np.uint8)  # classes of frequency
    shared = shared[np.argsort(rarity, kind="stable")]
    column_of = np.where(counts == 0, kernels.ABSENT, kernels.FOLDED).astype(np.int32)
    column_of[shared] = np.arange(shared.size, dtype=np.int32)
    n = shard.n_local
    with mpi.agreed(comm, "measuring the rows"):
        sizes, squares, folded = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        for some, *arrays in row_slices(shard, look):
            kernels.row_sizes(*arrays, column_of, sizes[some], squares[some], folded[some])
    has_fold = folded > 0
    before, total = mpi.exclusive_sum(comm, [int(has_fold.sum())])
    fold_column = np.where(has_fold, shared.size + int(before[0]) + np.cumsum(has_fold) - 1, -1).astype(np.int32)
    fold_norm = np.sqrt(folded).astype(np.float32)
    return ColumnMap(shard, column_of, fold_column, fold_norm, shared.size, int(total[0])), sizes, squares


def row_slices(shard: Shard, look: slices.Look) -> Iterator[tuple[Any, ...]]:
    """The rows slice by slice: which, the slab's CSR arrays, positions. Raises what `look` does."""
    for some in slices.row_slices(shard.n_local, shard.nnz):
        look()
        yield some, shard.indptr, shard.indices, shard.data, shard.rows[some]


def warm_up(comm: mpi.Comm, shard: Shard) -> None:
    """Collective over `comm`. Compile the kernels for the types of a shard's arrays."""
    none, arrays = shard.rows[:0], (shard.indptr, shard.indices, shard.data, shard.rows[:0])
    numbers, values = np.zeros(0, np.int32), np.zeros(0, np.float32)
    with mpi.node_first(comm):
        kernels.column_extremes(*arrays, values, numbers, values)
        kernels.row_sizes(*arrays, numbers, none, np.zeros(0), np.zeros(0))
        columns = kernels.Columns(numbers, numbers, values, -1)
        kernels.compact(*arrays, columns, np.zeros(1, np.int64), numbers, values)
        kernels.fold_factors(*arrays, columns, numbers, values)
        kernels.count_labels(shard.y_indptr, shard.y_indices, none, none)

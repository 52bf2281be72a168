"""A rank's share of a dataset: contiguous rows of a split, balanced by number of values, memory-mapped."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.in_memory import find_decrease, find_out_of_range, find_unsorted_entry, row_of
from hpcml.errors import DataError
from hpcml.partition import bounds_by_weight, entries_of, offsets

NO_ROWS = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)  # CSR arrays
Rows: TypeAlias = Any  # n × d, float32: a csr_matrix (SciPy has no type hints) or an array


@dataclass
class Shard:
    """CSR arrays of consecutive rows, read-only and possibly mapped, and positions (`rows`, int64) of the shard's rows in them."""

    first_row: int
    rows: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    y_indptr: np.ndarray
    y_indices: np.ndarray
    n_global: int  # rows of the split on all ranks
    first_local: int  # number of rows of the split on lower ranks
    n_features: int
    n_labels: int
    weights: np.ndarray | None = None  # (n_local) float64, positive; only if one rank has all rows; None: 1 each
    factors: np.ndarray | None = None  # (n_features) float32 by which features were multiplied; None: not scaled

    @classmethod
    def of_csr(
        cls,
        csr: tuple[np.ndarray, np.ndarray, np.ndarray],
        n_features: int,
        n_labels: int,
        labels: tuple[np.ndarray, np.ndarray] | None = None,
        first_row: int = 0,
        n_global: int | None = None,
        weights: np.ndarray | None = None,
    ) -> Self:
        indptr, indices, data = csr
        n, indices = indptr.size - 1, indices.astype(np.int32 if n_features < 2**31 else np.int64, copy=False)
        y = labels or (np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        n_global = n if n_global is None else n_global
        return cls(first_row, np.arange(n), indptr, indices, data, *y, n_global, first_row, n_features, n_labels, weights)

    @property
    def n_local(self) -> int:
        return self.rows.size

    @property
    def nnz(self) -> int:
        return int((self.indptr[self.rows + 1] - self.indptr[self.rows]).sum())

    @property
    def nbytes(self) -> int:
        arrays = (self.rows, self.indptr, self.indices, self.data, self.y_indptr, self.y_indices)
        return sum(array.nbytes if 0 not in array.strides else 0 for array in arrays)


def split_bounds(dataset: DataFile, rows: np.ndarray, n_parts: int) -> np.ndarray:
    if rows.size and not 0 <= int(rows[0]) <= int(rows[-1]) < dataset.n_rows:
        raise _damaged(dataset, "a split has rows that do not exist")
    indptr = dataset.map("X/indptr")
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:  # contiguous: search in the mapped indptr
        bounds = bounds_by_weight(indptr[rows[0] : rows[-1] + 2], n_parts)
    elif (rows[1:] > rows[:-1]).all():  # differences could overflow
        bounds = bounds_by_weight(offsets(indptr[rows + 1] - indptr[rows]), n_parts)
    else:
        raise _damaged(dataset, "the rows of a split are out of order")
    if find_decrease(bounds) >= 0:
        raise _damaged(dataset, "X/indptr decreases")
    return bounds


def _damaged(dataset: DataFile, message: str) -> DataError:
    return DataError(f"{dataset.path}: damaged dataset: {message}; run `hpcml info` for the location")


def matrix_slab(dataset: DataFile, name: str, first: int, last: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return rows first to last of a matrix: indptr from 0, indices, and the range of its values. Raises DataError."""
    indptr = np.array(dataset.map(f"{name}/indptr", first, last + 1))
    lo, hi = int(indptr[0]), int(indptr[-1])
    if find_decrease(indptr) >= 0:
        raise _damaged(dataset, f"{name}/indptr decreases")
    indices = dataset.map(f"{name}/indices", lo, hi)
    if find_out_of_range(indices, dataset.matrices[name]) >= 0:
        raise _damaged(dataset, f"{name}/indices out of range")
    indptr -= lo
    if (position := find_unsorted_entry(indptr, indices)) >= 0:
        entry = "a feature" if name == "X" else "a label"
        raise DataError(
            f"{dataset.path}: damaged dataset: row {first + row_of(indptr, position)} has {entry} twice or out of order "
            f"({name}/indices, number {indices[position]}); create the file again with `hpcml convert`"
        )
    return indptr, indices, lo, hi


def read_slab(dataset: DataFile, split_rows: np.ndarray, begin: int, end: int) -> Shard:
    rows = np.array(split_rows[begin:end], dtype=np.int64)
    if not (rows[1:] > rows[:-1]).all():
        raise _damaged(dataset, "the rows of a split are out of order")
    first, last = (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, 0)

    indptr, indices, lo, hi = matrix_slab(dataset, "X", first, last)
    y_indptr, y_indices, _, _ = matrix_slab(dataset, "Y", first, last)
    return Shard(
        first_row=first,
        rows=rows - first,
        indptr=indptr,
        indices=indices,
        data=dataset.map("X/data", lo, hi),
        y_indptr=y_indptr,
        y_indices=y_indices,
        n_global=split_rows.size,
        first_local=begin,
        n_features=dataset.n_features,
        n_labels=dataset.n_labels,
    )


def verify(dataset: DataFile, shard: Shard) -> None:
    first, last = shard.first_row, shard.first_row + shard.indptr.size - 1
    for name in ("X", "Y"):
        dataset.verify(f"{name}/indptr", first, last + 1)
        begin, end = (int(bound) for bound in dataset.map(f"{name}/indptr", first, last + 1)[[0, -1]])
        for part in ("indices", "data") if name == "X" else ("indices",):
            dataset.verify(f"{name}/{part}", begin, end)


def load_shard(comm: mpi.Comm, dataset: DataFile, split: str, unlabelled: bool = False) -> Shard:
    whole = split == "all" and (unlabelled or not dataset.n_unlabelled)
    bounds, parts = None, [np.empty(0, dtype=np.int64)] * comm.size
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if comm.rank == 0:  # read split and indptr once, not on every rank
            rows = dataset.split(split) if unlabelled else dataset.labelled_split(split)
            bounds = split_bounds(dataset, rows, comm.size)
            if not whole:
                parts = [np.array(rows[begin:end]) for begin, end in pairwise(bounds.tolist())]
    bounds = mpi.bcast_array(comm, bounds)
    begin, end = (int(bound) for bound in bounds[comm.rank : comm.rank + 2])
    own = np.arange(begin, end) if whole else mpi.exchange(comm, parts)[0]
    with mpi.agreed(comm, f"reading {dataset.path}"):
        shard = replace(read_slab(dataset, own, 0, own.size), n_global=int(bounds[-1]), first_local=begin)
        verify(dataset, shard)
        dataset.check_unchanged()
    return shard


def mask_empty_texts(dataset: DataFile, shard: Shard) -> np.ndarray:
    return mask_empty_rows(dataset, shard.indptr[shard.rows + 1] - shard.indptr[shard.rows])


def mask_empty_rows(dataset: DataFile, sizes: np.ndarray) -> np.ndarray:
    empty: np.ndarray = (sizes == 0) & ("text" in dataset.file)
    return empty


def rows_of(csr: tuple[np.ndarray, np.ndarray, np.ndarray], rows: np.ndarray, n_features: int, dense: bool) -> Rows:
    indptr, indices, data = csr
    sizes, entries = entries_of(indptr, rows)
    arrays = (data[entries].astype(np.float32, copy=False), indices[entries], offsets(sizes))
    matrix = sp.csr_matrix(arrays, (rows.size, n_features))
    return matrix.toarray() if dense else matrix


def read_rows(dataset: DataFile, rows: np.ndarray, dense: bool, check: bool = True) -> Rows:
    dataset.check_unchanged()
    slab = read_slab(dataset, rows, 0, rows.size)
    if check:
        verify(dataset, slab)
    matrix = rows_of((slab.indptr, slab.indices, slab.data), slab.rows, dataset.n_features, dense)
    dataset.check_unchanged()
    if not np.isfinite(matrix if dense else matrix.data).all():
        raise _damaged(dataset, "a value is not a number")
    return matrix

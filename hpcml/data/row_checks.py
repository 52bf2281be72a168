"""Whether a dataset is sound: its sizes, then every row, by all ranks and in blocks."""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import NAMES, Dataset
from hpcml.errors import DataError
from hpcml.files.hdf5 import NAME_CHUNK
from hpcml.partition import bounds_by_weight, even_bounds

BLOCK = 1 << 22  # entries looked at at a time


def share(comm: mpi.Comm, size: int) -> tuple[int, int]:
    """This rank's even share of 0..size. Local."""
    bounds = even_bounds(size, comm.size)
    return int(bounds[comm.rank]), int(bounds[comm.rank + 1])


def _bad(dataset: Dataset, what: str) -> DataError:
    """The error for damage found in a dataset."""
    return DataError(f"{dataset.path}: {what}; make the file again with `hpcml convert`")


@mpi.collective
def check_contents(comm: mpi.Comm, dataset: Dataset) -> None:
    """Collective over `comm`. Check the matrices, the names and the splits; each rank its share. Raises DataError."""
    for name, n_columns in dataset.matrices.items():
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            _check_indptr(dataset, name, *share(comm, dataset.n_rows))
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            indptr = dataset.map(f"{name}/indptr")
            bounds = bounds_by_weight(indptr, comm.size)
            begin, end = int(bounds[comm.rank]), int(bounds[comm.rank + 1])
            while begin < end:
                last = int(np.searchsorted(indptr[begin : end + 1], indptr[begin] + BLOCK, side="right")) - 1 + begin
                last = min(max(last, begin + 1), begin + BLOCK)
                _check_rows(dataset, name, n_columns, begin, last)
                begin = last
    for name in NAMES:
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            if name in dataset.file:
                begin, end = share(comm, dataset.file[name].size)
                for first in range(begin, end, NAME_CHUNK):
                    dataset.strings(name, first, min(first + NAME_CHUNK, end))
    with mpi.agreed(comm, f"checking the unknown labels of {dataset.path}"):
        dataset.unknown_names()
    for name in dataset.split_names():
        with mpi.agreed(comm, f"checking split {name} of {dataset.path}"):
            _check_split(dataset, name, *share(comm, dataset.split(name).size))


def _check_indptr(dataset: Dataset, name: str, begin: int, end: int) -> None:
    """The pointers of rows begin..end do not fall, and go from 0 to the number of entries. Raises DataError."""
    indptr, nnz = dataset.map(f"{name}/indptr"), dataset.file[f"{name}/indices"].shape[0]
    if begin == 0 and indptr[0] != 0:
        raise _bad(dataset, f"{name}/indptr: begins with {indptr[0]}, but expected 0")
    for first in range(begin, end, BLOCK):
        some = indptr[first : min(first + BLOCK, end) + 1]
        falls = np.flatnonzero(some[1:] < some[:-1])  # differences may be beyond int64
        if falls.size:
            row = first + int(falls[0])
            raise _bad(dataset, f"{name}/indptr: row {row}: falls from {indptr[row]} to {indptr[row + 1]}")
    if end == dataset.n_rows and indptr[end] != nnz:
        raise _bad(dataset, f"{name}/indptr: ends with {indptr[end]}, but there are {nnz} entries")


def _check_rows(dataset: Dataset, name: str, n_columns: int, begin: int, end: int) -> None:
    """Columns sorted, unique and in range, and values finite, in rows begin..end. Raises DataError."""
    indptr = np.array(dataset.map(f"{name}/indptr", begin, end + 1))
    first, last = int(indptr[0]), int(indptr[-1])
    indices, data = (dataset.map(f"{name}/{part}", first, last) for part in ("indices", "data"))
    starts = np.zeros(indices.size + 1, dtype=bool)
    starts[indptr - first] = True
    tests = (
        ((indices < 0) | (indices >= n_columns), "indices", f"is not one of the columns 0 to {n_columns - 1}"),
        (np.concatenate([[False], (np.diff(indices) <= 0) & ~starts[1:-1]]), "indices", "is not above the one before it"),
        (~np.isfinite(data), "data", "is not a finite number"),
    )
    for bad, part, what in tests:
        places = np.flatnonzero(bad[: indices.size])
        if places.size:
            place = int(places[0])
            row = begin + int(np.searchsorted(indptr, first + place, side="right")) - 1
            value = (indices if part == "indices" else data)[place]
            raise _bad(dataset, f"{name}/{part}: row {row}: {value} {what}")


def _check_split(dataset: Dataset, name: str, begin: int, end: int) -> None:
    """Entries begin..end of a split are rows, and each is above the one before. Raises DataError."""
    if begin == end:
        return
    some = dataset.split(name)[max(0, begin - 1) : end]
    before = -1 if begin == 0 else some[0] - 1
    for bad, what in (
        ((some < 0) | (some >= dataset.n_rows), f"is not one of the rows 0 to {dataset.n_rows - 1}"),
        (np.diff(some, prepend=before) <= 0, "is not above the one before it"),
    ):
        places = np.flatnonzero(bad)
        if places.size:
            raise _bad(dataset, f"splits/{name}: row {some[places[0]]} {what}")

"""Whether a dataset is sound: its sizes, then every row, by all ranks and in blocks."""

from __future__ import annotations

import hashlib

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import NAMES, UNLABELLED, DataFile
from hpcml.files.hdf5 import NAME_CHUNK
from hpcml.partition import bounds_by_weight, share_of

BLOCK = 1 << 22  # entries looked at at a time


def unordered(indptr: np.ndarray, indices: np.ndarray, first: int = 0) -> int:
    """The place of the first entry that is not above the one before it in its row, or -1.

    `indices` are entries `first` to `first + indices.size` of the matrix, and none is negative.
    """
    for begin in range(0, indices.size, BLOCK):
        some = indices[begin : begin + BLOCK + 1]
        starts = np.flatnonzero(some[1:] <= some[:-1]) + first + begin + 1  # only a new row may begin there
        wrong = indptr[np.searchsorted(indptr, starts)] != starts
        if wrong.any():
            return int(starts[np.argmax(wrong)])
    return -1


def row_of(indptr: np.ndarray, place: int) -> int:
    """The row in which an entry is."""
    return int(np.searchsorted(indptr, place, side="right")) - 1


def check_contents(comm: mpi.Comm, dataset: DataFile) -> None:
    """Collective over `comm`. Raise DataError unless matrices, names and splits are sound."""
    for name, n_columns in dataset.matrices.items():
        with mpi.agreed(comm, f"checking {name} of {dataset.path}"):
            _check_indptr(dataset, name, *share_of(dataset.n_rows, comm.rank, comm.size))
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
                begin, end = share_of(dataset.file[name].size, comm.rank, comm.size)
                for first in range(begin, end, NAME_CHUNK):
                    dataset.strings(name, first, min(first + NAME_CHUNK, end))
    with mpi.agreed(comm, f"checking the names of {dataset.path}"):
        if comm.rank == 0:
            dataset.label_names()
            dataset.unknown_names()
            _check_feature_names(dataset)
    for name in dataset.split_names():
        with mpi.agreed(comm, f"checking split {name} of {dataset.path}"):
            _check_split(dataset, f"splits/{name}", *share_of(dataset.split(name).size, comm.rank, comm.size))
    with mpi.agreed(comm, f"checking the unlabelled rows of {dataset.path}"):
        if dataset.n_unlabelled:
            _check_split(dataset, UNLABELLED, *share_of(dataset.n_unlabelled, comm.rank, comm.size))
            _check_unlabelled(dataset)


def _check_feature_names(dataset: DataFile) -> None:
    """No two features have one name: by 8 bytes of digest, for there may be many."""
    digests = np.empty(dataset.n_features if "feature_names" in dataset.file else 0, dtype=np.uint64)
    for first in range(0, digests.size, NAME_CHUNK):
        names = dataset.strings("feature_names", first, first + NAME_CHUNK) or []
        codes = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
        digests[first : first + len(names)] = np.frombuffer(codes, dtype=np.uint64)
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
    for number, other in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
        (name,), (another,) = (dataset.strings("feature_names", place, place + 1) or [""] for place in (number, other))
        if name == another:
            raise dataset.bad(f"feature_names: features {number} and {other} have the name {name!r}", "the file")


def _check_indptr(dataset: DataFile, name: str, begin: int, end: int) -> None:
    """The pointers of rows begin..end do not fall, and go from 0 to the number of entries."""
    indptr, nnz = dataset.map(f"{name}/indptr"), dataset.file[f"{name}/indices"].shape[0]
    if begin == 0 and indptr[0] != 0:
        raise dataset.bad(f"{name}/indptr: begins with {indptr[0]}, but expected 0", "the file")
    for first in range(begin, end, BLOCK):
        some = indptr[first : min(first + BLOCK, end) + 1]
        falls = np.flatnonzero(some[1:] < some[:-1])  # differences may be beyond int64
        if falls.size:
            row = first + int(falls[0])
            raise dataset.bad(f"{name}/indptr: row {row}: falls from {indptr[row]} to {indptr[row + 1]}", "the file")
    if end == dataset.n_rows and indptr[end] != nnz:
        raise dataset.bad(f"{name}/indptr: ends with {indptr[end]}, but there are {nnz} entries", "the file")


def _check_rows(dataset: DataFile, name: str, n_columns: int, begin: int, end: int) -> None:
    """Columns sorted, unique and in range, and values finite, in rows begin..end."""
    indptr = np.array(dataset.map(f"{name}/indptr", begin, end + 1))
    first, last = int(indptr[0]), int(indptr[-1])
    indices, data = (dataset.map(f"{name}/{part}", first, last) for part in ("indices", "data"))
    outside, endless = (indices < 0) | (indices >= n_columns), ~np.isfinite(data)
    tests = (
        (lambda: _first(outside), "indices", f"is not one of the columns 0 to {n_columns - 1}"),
        (lambda: unordered(indptr - first, indices), "indices", "is not above the one before it"),
        (lambda: _first(endless), "data", "is not a finite number"),
    )
    for find, part, what in tests:
        if (place := find()) >= 0:
            value = (indices if part == "indices" else data)[place]
            raise dataset.bad(f"{name}/{part}: row {begin + row_of(indptr, first + place)}: {value} {what}", "the file")


def _first(flags: np.ndarray) -> int:
    """The place of the first flag; -1 if there is none."""
    return int(np.argmax(flags)) if flags.any() else -1


def _check_split(dataset: DataFile, name: str, begin: int, end: int) -> None:
    """Raise DataError unless entries begin..end of a list of rows are rows, each above the one before."""
    if begin == end:
        return
    some = dataset.map(name)[max(0, begin - 1) : end]
    before = -1 if begin == 0 else some[0] - 1
    for bad, what in (
        ((some < 0) | (some >= dataset.n_rows), f"is not one of the rows 0 to {dataset.n_rows - 1}"),
        (np.diff(some, prepend=before) <= 0, "is not above the one before it"),
    ):
        places = np.flatnonzero(bad)
        if places.size:
            raise dataset.bad(f"{name}: row {some[places[0]]} {what}", "the file")


def _check_unlabelled(dataset: DataFile) -> None:
    """Raise DataError for an unlabelled row that has a label."""
    rows, indptr = dataset.map(UNLABELLED), dataset.map("Y/indptr")
    rows = rows[(rows >= 0) & (rows < dataset.n_rows)]
    if (with_labels := indptr[rows + 1] > indptr[rows]).any():
        raise dataset.bad(f"{UNLABELLED}: row {rows[np.argmax(with_labels)]} has a label", "the file")

"""A dataset with some of its features only, written streaming, the same bytes on any ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import NAMES_OF, UNKNOWN, UNLABELLED, DataFile, checked_slabs, names_of
from hpcml.data.labels import label_sets_of
from hpcml.data.shard import Shard, load_shard
from hpcml.files.hdf5 import NAME_CHUNK, create_strings, describe_matrix, matrix_slabs, readable, vocabulary_digest
from hpcml.files.hdf5 import write_strings as write_names
from hpcml.files.slabs import Slab, group_in, new_file
from hpcml.files.untrusted import attributes
from hpcml.partition import offsets

PIECE = 1 << 22  # values that are looked at together


@dataclass
class _KeptColumns:
    """Which columns are kept: `of` (d) is each feature's new number, −1 for those dropped."""

    of: np.ndarray
    features: np.ndarray
    ascending: bool  # so that a row's new numbers are in order as they come

    @classmethod
    def of_features(cls, features: np.ndarray, n_features: int) -> _KeptColumns:
        """`features` (k): the number that each new column had."""
        of = np.full(n_features, -1, dtype=np.int64)
        of[features] = np.arange(features.size)
        return cls(of, features, bool((np.diff(features) > 0).all()))

    def rows(self, shard: Shard) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """(first row, sizes of it and the following, new columns, values), piece by piece."""
        begin, indptr = 0, shard.indptr
        while begin < indptr.size - 1:
            end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + PIECE, "right")) - 1)
            values = slice(int(indptr[begin]), int(indptr[end]))
            columns = self.of[shard.indices[values]]
            kept = columns >= 0
            ends = offsets(kept)[indptr[begin : end + 1] - indptr[begin]]
            columns, data = columns[kept], shard.data[values][kept]
            if not self.ascending:
                order = np.lexsort((columns, np.repeat(np.arange(end - begin), np.diff(ends))))
                columns, data = columns[order], data[order]
            yield begin, np.diff(ends), columns, data
            begin = end


def reduce_dataset(comm: mpi.Comm, dataset: DataFile, features: np.ndarray, output: Path, force: bool) -> None:
    """Collective over `comm`. Write the dataset with these features (k) as its columns to `output`.

    Names, unknown labels, row ids, splits, other numbers of rows and settings of text (but see
    `remakes_text`) stay, and so do rows that have none of the features. Raises ConfigError for an
    output that exists (without `force`), DataError if a file cannot be read or written.
    """
    shard = load_shard(comm, dataset, "all", unlabelled=True)
    columns = _KeptColumns.of_features(features, dataset.n_features)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        sizes, all_ones = np.zeros(shard.indptr.size - 1, np.int64), True
        for first, some, _, data in columns.rows(shard):
            sizes[first : first + some.size] = some
            all_ones = all_ones and bool((data == 1).all())
        dataset.check_unchanged()
    ones = not mpi.agreed_any(comm, not all_ones)
    sets = label_sets_of(comm, dataset, shard)
    entries = [indices.size for _, indices in sets.values()]
    (first_value, *first_entries), (nnz, *n_entries) = mpi.exclusive_sum(comm, [sizes.sum(), *entries])
    with new_file(comm, output, force, [dataset.path]) as out:
        slabs = matrix_slabs("X", dataset.n_rows, int(nnz), features.size, None if ones else "<f4")
        n_of = {name: int(n) for name, n in zip(sets, n_entries, strict=True)}
        for name, n in n_of.items():
            slabs |= matrix_slabs(name, dataset.n_rows, n, dataset.matrices[name], None)
        slabs |= {f"splits/{name}": Slab(dataset.file[f"splits/{name}"].shape, "<i8") for name in dataset.split_names()}
        others = [*(f"rows/{name}" for name in dataset.row_numbers()), *([UNLABELLED] if dataset.n_unlabelled else [])]
        others += ["row_keys", *(["row_groups"] if dataset.has_groups else [])]
        slabs |= {name: Slab(dataset.file[name].shape, dataset.file[name].dtype.str) for name in others}
        out.layout(slabs, lambda file: _describe(file, dataset, features, int(nnz), n_of, ones), checked_slabs(slabs))
        with mpi.agreed(comm, f"writing {output}"):
            begin = min(comm.rank, 1)  # entry 0 of indptr is rank 0's
            for (name, (indptr, indices)), entry in zip(sets.items(), first_entries, strict=True):
                out.write(f"{name}/indptr", shard.first_row + begin, int(entry) + indptr[begin:])
                out.write(f"{name}/indices", int(entry), indices)
            place = int(first_value)
            out.write("X/indptr", shard.first_row + 1, place + np.cumsum(sizes))
            for _, _, indices, data in columns.rows(shard):
                out.write("X/indices", place, indices)
                if not ones:
                    out.write("X/data", place, data)
                place += indices.size
            if comm.rank == 0:
                out.write("X/indptr", 0, np.zeros(1))
                for name in dataset.split_names():
                    out.write(f"splits/{name}", 0, dataset.split(name))
                for name in others:
                    out.write(name, 0, dataset.map(name))
            dataset.check_unchanged()
        out.write_checksums()


def _describe(file: h5py.File, dataset: DataFile, features: np.ndarray, nnz: int, n_of: dict[str, int], ones: bool) -> None:
    """All in the file that is no slab; `n_of` are the entries of each matrix of label sets."""
    names = names_of(dataset, features)
    for name, value in attributes(dataset.file).items():
        file.attrs[name] = value
    # features without names are those of their numbers, so a model of others does not fit
    numbers = hashlib.sha256(dataset.vocabulary.encode() + features.astype("<i8").tobytes()).hexdigest()
    file.attrs["vocabulary"] = f"chosen:{numbers}" if names is None else vocabulary_digest(names, features.size)
    describe_matrix(file, "X", dataset.n_rows, features.size, nnz, ones)
    for name, n in n_of.items():
        describe_matrix(file, name, dataset.n_rows, dataset.matrices[name], n, ones=True)
    if names is not None:
        write_names(file, "feature_names", names)
    of_labels = dict.fromkeys(("label_names", "label_titles"), dataset.n_labels) | {NAMES_OF[UNKNOWN]: dataset.n_unknown}
    for name, size in (of_labels | {"row_ids": dataset.n_rows}).items():
        if name in dataset.file:
            target = create_strings(file, name, size)
            for begin in range(0, size, NAME_CHUNK):
                some = dataset.strings(name, begin, min(begin + NAME_CHUNK, size))
                target[begin : begin + len(some)] = np.array(some, dtype=object)
    if remakes_text(dataset):
        with readable(dataset.path, "hpcml convert", "dataset (text)"):
            group = group_in(file, "text")
            for name, value in attributes(dataset.file["text"]).items():
                group.attrs[name] = value
        write_names(file, "text/stop_words", dataset.strings("text/stop_words") or [])


def remakes_text(dataset: DataFile) -> bool:
    """Whether other text can get the same values: not if rows had unit length with all features."""
    return "text" in dataset.file and "idf" not in dataset.file["text"]

"""Write a dataset with some of its features, streaming; the bytes do not depend on the number of ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.number_rows import row_pieces
from hpcml.data.dataset import NAMES_OF, UNKNOWN, UNLABELLED, DataFile, checked_slabs, read_feature_names
from hpcml.data.labels import read_label_sets
from hpcml.data.shard import Shard, load_shard
from hpcml.files.hdf5 import NAME_CHUNK, create_strings, describe_matrix, matrix_slabs, readable, vocabulary_digest
from hpcml.files.hdf5 import write_strings as write_names
from hpcml.files.slabs import Slab, new_file, require_group
from hpcml.files.untrusted import attributes
from hpcml.partition import offsets

PIECE = 1 << 22  # values per block


def _reduced_rows(shard: Shard, features: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (first row, sizes of rows, new columns, values) by blocks."""
    new_column = np.full(shard.n_features, -1, dtype=np.int64)  # -1: removed
    new_column[features] = np.arange(features.size)
    is_ascending, indptr = bool((np.diff(features) > 0).all()), shard.indptr
    for begin, end in row_pieces(indptr, PIECE):
        values = slice(int(indptr[begin]), int(indptr[end]))
        columns = new_column[shard.indices[values]]
        is_kept = columns >= 0
        ends = offsets(is_kept)[indptr[begin : end + 1] - indptr[begin]]
        columns, data = columns[is_kept], shard.data[values][is_kept]
        if not is_ascending:
            order = np.lexsort((columns, np.repeat(np.arange(end - begin), np.diff(ends))))
            columns, data = columns[order], data[order]
        yield begin, np.diff(ends), columns, data


def reduce_dataset(comm: mpi.Comm, dataset: DataFile, features: np.ndarray, output: Path, force: bool) -> None:
    """Keep everything but the other features; for texts see `can_convert_text`. Collective over `comm`."""
    shard = load_shard(comm, dataset, "all", unlabelled=True)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        sizes, all_ones = np.zeros(shard.indptr.size - 1, np.int64), True
        for first, row_sizes, _, data in _reduced_rows(shard, features):
            sizes[first : first + row_sizes.size] = row_sizes
            all_ones = all_ones and bool((data == 1).all())
        dataset.check_unchanged()
    ones = not mpi.agreed_any(comm, not all_ones)
    sets = read_label_sets(comm, dataset, shard)
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
            position = int(first_value)
            out.write("X/indptr", shard.first_row + 1, position + np.cumsum(sizes))
            for _, _, indices, data in _reduced_rows(shard, features):
                out.write("X/indices", position, indices)
                if not ones:
                    out.write("X/data", position, data)
                position += indices.size
            if comm.rank == 0:
                out.write("X/indptr", 0, np.zeros(1))
                for name in dataset.split_names():
                    out.write(f"splits/{name}", 0, dataset.split(name))
                for name in others:
                    out.write(name, 0, dataset.map(name))
            dataset.check_unchanged()
        out.write_checksums()


def _describe(file: h5py.File, dataset: DataFile, features: np.ndarray, nnz: int, n_of: dict[str, int], ones: bool) -> None:
    names = read_feature_names(dataset, features)
    for name, value in attributes(dataset.file).items():
        file.attrs[name] = value
    # features without names are identified by their numbers, so a model of other features does not fit
    numbers = hashlib.sha256(dataset.vocabulary.encode() + features.astype("<i8").tobytes()).hexdigest()
    file.attrs["vocabulary"] = f"chosen:{numbers}" if names is None else vocabulary_digest(names, features.size)
    describe_matrix(file, "X", dataset.n_rows, features.size, nnz, ones)
    for name, n in n_of.items():
        describe_matrix(file, name, dataset.n_rows, dataset.matrices[name], n, ones=True)
    if names is not None:
        write_names(file, "feature_names", names)
    string_sizes = dict.fromkeys(("label_names", "label_titles"), dataset.n_labels) | {NAMES_OF[UNKNOWN]: dataset.n_unknown}
    for name, size in (string_sizes | {"row_ids": dataset.n_rows}).items():
        if name in dataset.file:
            target = create_strings(file, name, size)
            for begin in range(0, size, NAME_CHUNK):
                names_of_chunk = dataset.strings(name, begin, min(begin + NAME_CHUNK, size))
                target[begin : begin + len(names_of_chunk)] = np.array(names_of_chunk, dtype=object)
    if can_convert_text(dataset):
        with readable(dataset.path, "hpcml convert", "dataset (text)"):
            group = require_group(file, "text")
            for name, value in attributes(dataset.file["text"]).items():
                group.attrs[name] = value
        write_names(file, "text/stop_words", dataset.strings("text/stop_words") or [])


def can_convert_text(dataset: DataFile) -> bool:
    # weighted rows had unit length with all features
    return "text" in dataset.file and "idf" not in dataset.file["text"]

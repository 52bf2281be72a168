"""Write a dataset, or a Balanced Winnow model, with some of its features; the bytes do not depend on the number of ranks."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import NAMES_OF, UNKNOWN, UNLABELLED, DataFile, checked_slabs, read_feature_names
from hpcml.data.labels import read_label_sets
from hpcml.data.shard import Shard, load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.files import hdf5
from hpcml.files.atomic import temporary_path
from hpcml.files.slabs import Slab, new_file, open_for_update, require_group
from hpcml.files.untrusted import attributes, read_strings
from hpcml.model.linear import Model
from hpcml.model.open import model_file
from hpcml.partition import offsets, row_pieces

FEATURES, POSITIVE, NEGATIVE = "state/features", "state/u", "state/v"
PER_LABEL = ("state/lanes", "state/counters")  # never per feature, whatever their width
COPIED = 1 << 24  # numbers copied at a time
PIECE = 1 << 22  # values per block


@dataclass
class SeenFeatures:
    """The features that a model has seen (k, ascending), and their weights."""

    model: Model
    features: np.ndarray
    positive: np.ndarray  # u (n_labels × (k + 1)), the bias first, mapped
    negative: np.ndarray  # v

    @classmethod
    def read(cls, path: Path) -> Self:
        path = model_file(path)
        model = Model(path)
        with hdf5.open_stamped(path, "model", "hpcml train") as file, hdf5.readable(path, "hpcml train", "model"):
            if model.sparse or POSITIVE not in file or NEGATIVE not in file:
                raise ConfigError(
                    f"{path}: a model of the method {model.attrs.get('method', '?')} without the weights u and v of its state; "
                    "extremal selection needs a model of bw or mbw (trained without --final, and not pruned)"
                )
            features, u, v = (hdf5.map_dataset(path, file[name]) for name in (FEATURES, POSITIVE, NEGATIVE))
        shape, is_valid = (model.n_labels, features.size + 1), features.ndim == 1 and features.dtype.kind == "i"
        is_valid = is_valid and u.shape == v.shape == shape and u.dtype.kind == v.dtype.kind == "f"
        if is_valid and features.size:
            is_valid = bool((features[1:] > features[:-1]).all() and features[0] >= 0 and features[-1] < model.n_features)
        if not is_valid:
            raise DataError(f"{path}: damaged model: the sizes of its state differ; train it again")
        return cls(model, np.array(features), u, v)

    def importance(self, labels: np.ndarray, over: str) -> tuple[np.ndarray, np.ndarray]:
        """Return I_j = |u_j − v_j| (n_features), max or mean (by positive rows) over `labels`, and flags of seen features."""
        out, total = np.zeros(self.features.size), int(self.model.labels["n_positive"][labels].sum())
        for label in labels.tolist():
            differences = np.abs(self.positive[label, 1:] - self.negative[label, 1:])
            weight = self.model.labels["n_positive"][label] / max(1, total)
            out = np.maximum(out, differences) if over == "max" else out + weight * differences
        if not np.isfinite(out).all():
            raise DataError(f"{self.model.path}: damaged model: a weight of its state is not a number; train it again")
        importance, seen = np.zeros(self.model.n_features), np.zeros(self.model.n_features, dtype=bool)
        importance[self.features], seen[self.features] = out, True
        return importance, seen


def reduce_model(comm: mpi.Comm, weights: SeenFeatures, features: np.ndarray, output: Path, force: bool) -> None:
    """`features` are ascending and seen; other features count as unseen. Collective over `comm`."""
    with temporary_path(comm, output, force, [weights.model.path]) as temporary:
        mpi.run_on_root(comm, f"writing {output}", lambda: _write(weights, features, temporary, output))


def _write(weights: SeenFeatures, features: np.ndarray, temporary: Path, output: Path) -> None:
    model, path, width = weights.model, weights.model.path, weights.features.size + 1
    in_state = np.concatenate([[0], np.searchsorted(weights.features, features) + 1])  # keep the bias
    W_columns, new = np.unique(model.columns[features], return_inverse=True)
    columns, factors = np.zeros(model.n_features, np.int32), np.zeros(model.n_features, np.float32)
    columns[features], factors[features] = new, model.factors[features]
    tables = {"columns": columns, "factors": factors, FEATURES: features}
    parts: list[h5py.Group | h5py.Dataset] = []
    with hdf5.open_stamped(path, "model", "hpcml train") as source, open_for_update(temporary, new=True, target=output) as file:
        with hdf5.readable(path, "hpcml train", "model"):
            source.visititems(lambda _, part: parts.append(part))
        file.attrs.update(attributes(source))
        for part in parts:
            name = part.name.lstrip("/")
            if isinstance(part, h5py.Group):
                require_group(file, name)
            elif part.chunks is not None:  # compressed
                file.create_dataset(name, data=part[()], compression=part.compression, shuffle=part.shuffle)
            elif h5py.check_string_dtype(part.dtype) is not None:
                hdf5.write_strings(file, name, read_strings(part))
            elif name in tables or part.ndim == 0:
                file.create_dataset(name, data=tables[name].astype(part.dtype) if name in tables else part[()])
            else:
                is_state = name.startswith("state/") and name not in PER_LABEL and part.ndim == 2 and part.shape[1] == width
                kept = W_columns if name == "W" else in_state if is_state else None  # columns; None: all
                values = hdf5.map_dataset(path, part)
                data = file.create_dataset(name, values.shape if kept is None else (len(values), kept.size), values.dtype)
                step = max(1, COPIED // max(1, values[:1].size))
                for first in range(0, len(values), step):
                    rows = values[first : first + step]
                    data[first : first + step] = rows if kept is None else rows[:, kept]
            file[name].attrs.update(attributes(part))


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
        slabs = hdf5.matrix_slabs("X", dataset.n_rows, int(nnz), features.size, None if ones else "<f4")
        n_of = {name: int(n) for name, n in zip(sets, n_entries, strict=True)}
        for name, n in n_of.items():
            slabs |= hdf5.matrix_slabs(name, dataset.n_rows, n, dataset.matrices[name], None)
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
    file.attrs["vocabulary"] = f"chosen:{numbers}" if names is None else hdf5.vocabulary_digest(names, features.size)
    hdf5.describe_matrix(file, "X", dataset.n_rows, features.size, nnz, ones)
    for name, n in n_of.items():
        hdf5.describe_matrix(file, name, dataset.n_rows, dataset.matrices[name], n, ones=True)
    if names is not None:
        hdf5.write_strings(file, "feature_names", names)
    string_sizes = dict.fromkeys(("label_names", "label_titles"), dataset.n_labels) | {NAMES_OF[UNKNOWN]: dataset.n_unknown}
    for name, size in (string_sizes | {"row_ids": dataset.n_rows}).items():
        if name in dataset.file:
            target = hdf5.create_strings(file, name, size)
            for begin in range(0, size, hdf5.NAME_CHUNK):
                names_of_chunk = dataset.strings(name, begin, min(begin + hdf5.NAME_CHUNK, size))
                target[begin : begin + len(names_of_chunk)] = np.array(names_of_chunk, dtype=object)
    if can_convert_text(dataset):
        with hdf5.readable(dataset.path, "hpcml convert", "dataset (text)"):
            group = require_group(file, "text")
            for name, value in attributes(dataset.file["text"]).items():
                group.attrs[name] = value
        hdf5.write_strings(file, "text/stop_words", dataset.strings("text/stop_words") or [])


def can_convert_text(dataset: DataFile) -> bool:
    # weighted rows had unit length with all features
    return "text" in dataset.file and "idf" not in dataset.file["text"]

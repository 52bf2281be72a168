"""Labels of a dataset: labels to train, labels unknown to the --like dataset, digests, and classes of rows."""

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.dataset import UNKNOWN, DataFile
from hpcml.data.shard import Shard, load_shard, matrix_slab
from hpcml.errors import ConfigError, DataError, OptionError, nearest, repeated
from hpcml.kernels import rows as kernels
from hpcml.log import Log, plural
from hpcml.options import parse_part
from hpcml.partition import entries_of, offsets

N_WORDS = 2  # 64-bit words of a digest


def count_unused(dataset: DataFile) -> tuple[int, int]:
    """Return the numbers of rows in no split and in several splits; 0, 0 for a file without splits. Raises DataError."""
    used, n_shared = np.zeros(dataset.n_rows, dtype=np.bool_), 0
    for name in dataset.split_names():
        rows = dataset.split(name)
        if rows.size and not 0 <= rows.min() <= rows.max() < dataset.n_rows:
            raise DataError(f"{dataset.path}: damaged dataset: the split {name} has rows that do not exist")
        n_shared += int(np.count_nonzero(used[rows]))
        used[rows] = True
    return int(used.size - np.count_nonzero(used)) if dataset.split_names() else 0, n_shared


def log_unlabelled(comm: mpi.Comm, dataset: DataFile, split: str, log: Log) -> None:
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if dataset.n_unlabelled:
            rows = dataset.split(split)
            if left_out := rows.size - dataset.labelled(rows).size:
                log(f"note: {dataset.path}: {left_out:,} of {plural(rows.size, 'row')} (split {split}) are unlabelled and not used")


def warn_about_unused_rows(comm: mpi.Comm, dataset: DataFile, split: str, log: Log) -> None:
    log_unlabelled(comm, dataset, split, log)
    n_unused, n_shared = mpi.run_on_root(comm, f"reading the splits of {dataset.path}", lambda: count_unused(dataset))
    if n_shared:
        names = ", ".join(dataset.split_names())
        log(
            f"warning: {dataset.path}: {plural(n_shared, 'row')} {'is' if n_shared == 1 else 'are'} in more than one of the splits "
            f"{names}; evaluating on training rows gives results that are too optimistic"
        )
    if n_unused:
        use = "used because of --split all" if split == "all" else "not used (use --split all to include them)"
        log(f"note: {n_unused:,} of {plural(dataset.n_rows, 'row')} of {dataset.path} are in no split: {use}")


def count_positives(comm: mpi.Comm, shard: Shard) -> np.ndarray:
    counts = np.zeros(shard.n_labels, dtype=np.int64)
    kernels.count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts)
    return mpi.allreduce_sum(comm, counts)


def choose_labels(comm: mpi.Comm, dataset: DataFile, selection: Any, n_positive: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """`selection`: options with `label`, `min_positives` and perhaps `label_part`. Collective over `comm`."""

    def choose() -> tuple[np.ndarray, list[str]]:
        names = dataset.label_names()
        known = set(names)
        unknown = [name for name in selection.label if name not in known]
        if unknown:
            raise ConfigError(f"{dataset.path}: no label {unknown[0]!r}; {nearest(unknown[0], names, 'hpcml info')}")
        selected = set(selection.label or names)
        if selection.label and len(selected) < len(selection.label):
            raise OptionError("label", repeated(selection.label), "given twice; give each label once")
        chosen = [k for k, name in enumerate(names) if name in selected and n_positive[k] >= selection.min_positives]
        if not chosen:
            raise ConfigError(f"{dataset.path}: no label has {selection.min_positives} positive rows; lower --min-positives")
        if (label_part := getattr(selection, "label_part", None)) is not None:
            part, parts = parse_part(label_part)
            n_all, chosen = len(chosen), chosen[(part - 1) * len(chosen) // parts : part * len(chosen) // parts]
            if not chosen:
                raise OptionError("label_part", label_part, f"there are only {plural(n_all, 'label')} to train; make fewer parts")
        return np.array(chosen, dtype=np.int64), [names[k] for k in chosen]

    return mpi.run_on_root(comm, f"reading the labels of {dataset.path}", choose)


def fingerprint(comm: mpi.Comm, shard: Shard, more: str) -> str:
    rows = rng.bits(0, "row", shard.first_row + shard.rows)
    pairs = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
    is_local = np.isin(pairs, shard.rows)
    labels = rng.bits(1, "label", (shard.first_row + pairs[is_local]) * shard.n_labels + shard.y_indices[is_local])
    with np.errstate(over="ignore"):  # sums modulo 2^64 do not depend on the order
        sums = np.array([rows.sum(dtype=np.uint64), labels.sum(dtype=np.uint64)], dtype=np.uint64).view(np.int64)
    mpi.allreduce_sum(comm, sums)
    return hashlib.sha256(f"{sums.tolist()} {more}".encode()).hexdigest()


def digests(comm: mpi.Comm, shard: Shard) -> tuple[bytes, list[bytes]]:
    """Digest the rows of a split, and the positive rows of each label, as sums of hashes modulo 2^64. Collective over `comm`."""
    sums = np.zeros((1 + shard.n_labels, N_WORDS), np.uint64)
    with np.errstate(over="ignore"):
        for part in slices.row_slices(shard.n_local, shard.nnz):
            sizes, entries = entries_of(shard.indptr, shard.rows[part])
            of_row = np.repeat(shard.first_local + part.start + np.arange(sizes.size), sizes)
            stored = np.ascontiguousarray(shard.data[entries], dtype=np.float32).view(np.uint32)
            for word in range(N_WORDS):
                key = rng.bits(word, "row of a value", of_row) ^ rng.bits(word, "feature of a value", shard.indices[entries])
                sums[0, word] += rng.bits(word, "value", key ^ rng.bits(word, "bits of a value", stored)).sum(dtype=np.uint64)
        sizes, entries = entries_of(shard.y_indptr, shard.rows)
        of_row = np.repeat(shard.first_local + np.arange(sizes.size), sizes)
        for word in range(N_WORDS):
            np.add.at(sums[1:, word], shard.y_indices[entries], rng.bits(word, "row of a label", of_row))
        mpi.allreduce_sum(comm, sums.view(np.int64))
    return sums[0].tobytes() + str(shard.n_global).encode(), [each.tobytes() for each in sums[1:]]


def all_label_names(dataset: DataFile) -> list[str]:
    return dataset.label_names() + dataset.unknown_names()


def read_label_sets(comm: mpi.Comm, dataset: DataFile, shard: Shard) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    sets = {"Y": (shard.y_indptr, shard.y_indices)}
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if dataset.n_unknown:
            n_slab = shard.y_indptr.size - 1
            sets[UNKNOWN] = matrix_slab(dataset, UNKNOWN, shard.first_row, shard.first_row + n_slab)[:2]
    return sets


def load_shard_with_unknown(comm: mpi.Comm, dataset: DataFile, split: str) -> Shard:
    """Load a shard whose label sets include the unknown labels (8 bytes for each label of a row). Collective over `comm`."""
    shard = load_shard(comm, dataset, split)
    sets = read_label_sets(comm, dataset, shard)
    if UNKNOWN not in sets:
        return shard
    (indptr, indices), (more_indptr, more) = sets.values()
    joined = np.empty(indices.size + more.size, dtype=np.int64)
    joined[np.arange(indices.size) + np.repeat(more_indptr[:-1], np.diff(indptr))] = indices
    joined[np.arange(more.size) + np.repeat(indptr[1:], np.diff(more_indptr))] = shard.n_labels + more
    return replace(shard, y_indptr=indptr + more_indptr, y_indices=joined, n_labels=shard.n_labels + dataset.n_unknown)


class Classes(NamedTuple):
    """The classes of a split's rows; `names`: the label of class 1 if there are two classes, else one label per class."""

    names: list[str]
    rows: np.ndarray  # (n,) ascending row numbers of the file, int64
    of: np.ndarray  # (n,) class of each row, int32
    keys: np.ndarray  # (n,) keys of the rows, uint64
    groups: np.ndarray | None = None  # (n,) keys of the rows' groups, uint64

    @property
    def n_classes(self) -> int:
        return max(2, len(self.names))


def read_classes(comm: mpi.Comm, dataset: DataFile, split: str, label: str | None) -> Classes:
    """Read the classes of a split: `label` against the rest, else one label per row. Collective over `comm`."""
    shard = load_shard(comm, dataset, split)
    with mpi.agreed(comm, f"reading the labels of {dataset.path}"):
        names = dataset.label_names()
        if label is not None and label not in names:
            raise ConfigError(f"{dataset.path}: no label {label!r}; {nearest(label, names, 'hpcml info')}")
        if label is not None or len(names) == 1:
            names = [label or names[0]]
            running = offsets(shard.y_indices == dataset.label_names().index(names[0]))
            local = (running[shard.y_indptr[shard.rows + 1]] > running[shard.y_indptr[shard.rows]]).astype(np.int32)
        else:
            counts = np.diff(shard.y_indptr)[shard.rows]
            if (counts != 1).any():
                position = int(np.flatnonzero(counts != 1)[0])
                raise ConfigError(
                    f"{dataset.path}: row {shard.first_row + int(shard.rows[position])} has {int(counts[position])} labels, but a "
                    "classifier of all classes needs exactly one in each row; choose one label with --label"
                )
            local = np.asarray(shard.y_indices)[shard.y_indptr[shard.rows]].astype(np.int32)
            names = names[1:] if len(names) == 2 else names
    of = np.concatenate(mpi.allgather_arrays(comm, local))
    rows = np.concatenate(mpi.allgather_arrays(comm, shard.first_row + shard.rows))
    if np.count_nonzero(np.bincount(of)) < 2:
        raise DataError(f"{dataset.path}: all {of.size} rows of the split {split} are of one class; expected at least two classes")
    with mpi.agreed(comm, f"reading {dataset.path}"):
        keys = np.array(dataset.map("row_keys"))[rows]
        groups = np.array(dataset.map("row_groups"))[rows] if dataset.has_groups else None
    return Classes(names, rows, of, keys, groups)

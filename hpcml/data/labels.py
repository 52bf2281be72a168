"""The labels of a dataset: those that are trained, those that its --like file did not have, digests, and classes of rows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.dataset import UNKNOWN, DataFile
from hpcml.data.shard import Shard, load_shard, matrix_slab
from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.kernels import rows as kernels
from hpcml.log import Log, plural
from hpcml.options import parse_part
from hpcml.partition import entries_of, offsets

N_WORDS = 2  # of 64 bits in a digest


class Wanted(Protocol):
    """Options that say which labels to train; they may have a `label_part`, "K/N", too."""

    @property
    def label(self) -> tuple[str, ...]:
        """Only these labels; all if there are none."""

    @property
    def min_positives(self) -> int:
        """Only labels with at least this many positive rows."""


def count_unused(dataset: DataFile) -> tuple[int, int]:
    """Return the numbers of rows in no split and in several; of a file without splits 0, 0. Raises DataError."""
    used, n_shared = np.zeros(dataset.n_rows, dtype=np.bool_), 0
    for name in dataset.split_names():
        rows = dataset.split(name)
        if rows.size and not 0 <= rows.min() <= rows.max() < dataset.n_rows:
            raise DataError(f"{dataset.path}: damaged dataset: the split {name} has rows beyond the file's")
        n_shared += int(np.count_nonzero(used[rows]))
        used[rows] = True
    return int(used.size - np.count_nonzero(used)) if dataset.split_names() else 0, n_shared


def log_unlabelled(comm: mpi.Comm, dataset: DataFile, split: str, log: Log) -> None:
    """Log how many rows of a split are left out because nobody labelled them. Collective over `comm`. Raises ConfigError."""
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if dataset.n_unlabelled:
            rows = dataset.split(split)
            if left_out := rows.size - dataset.labelled(rows).size:
                log(f"note: {dataset.path}: {left_out:,} of {plural(rows.size, 'row')} (split {split}) are unlabelled: left out")


def tell_unused(comm: mpi.Comm, dataset: DataFile, split: str, log: Log) -> None:
    """Collective over `comm`. Say how many rows are in no split or unlabelled, and warn of those in several."""
    log_unlabelled(comm, dataset, split, log)
    n_unused, n_shared = mpi.run_on_root(comm, f"reading the splits of {dataset.path}", lambda: count_unused(dataset))
    if n_shared:
        names = ", ".join(dataset.split_names())
        log(
            f"warning: {dataset.path}: {plural(n_shared, 'row')} {'is' if n_shared == 1 else 'are'} in more than one of the splits "
            f"{names}; measures of rows that were trained on are too good"
        )
    if n_unused:
        taken = "taken here, too (--split all)" if split == "all" else "left out (--split all takes them, too)"
        log(f"note: {n_unused:,} of {plural(dataset.n_rows, 'row')} of {dataset.path} are in no split: {taken}")


def count_positives(comm: mpi.Comm, shard: Shard) -> np.ndarray:
    """Collective over `comm`. How many rows of the split have each label (n_labels, int64)."""
    counts = np.zeros(shard.n_labels, dtype=np.int64)
    kernels.count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts)
    return mpi.allreduce_sum(comm, counts)


def choose_labels(comm: mpi.Comm, dataset: DataFile, wanted: Wanted, n_positive: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Collective over `comm`. Numbers and names of labels to train. Raises ConfigError."""
    return mpi.run_on_root(comm, f"reading the labels of {dataset.path}", lambda: _choose_labels(dataset, wanted, n_positive))


def _choose_labels(dataset: DataFile, wanted: Wanted, n_positive: np.ndarray) -> tuple[np.ndarray, list[str]]:
    names = dataset.label_names()
    known = set(names)
    unknown = [name for name in wanted.label if name not in known]
    if unknown:
        raise ConfigError(f"{dataset.path}: no label {unknown[0]!r}; {nearest(unknown[0], names, 'hpcml info')}")
    named = set(wanted.label or names)
    if wanted.label and len(named) < len(wanted.label):
        twice = next(name for k, name in enumerate(wanted.label) if name in wanted.label[:k])
        raise OptionError("label", twice, "given twice; name each label once")
    chosen = [k for k, name in enumerate(names) if name in named and n_positive[k] >= wanted.min_positives]
    if not chosen:
        raise ConfigError(f"{dataset.path}: no label has {wanted.min_positives} positive rows; lower --min-positives")
    if (wanted_part := getattr(wanted, "label_part", None)) is not None:
        part, parts = parse_part(wanted_part)
        n_all, chosen = len(chosen), chosen[(part - 1) * len(chosen) // parts : part * len(chosen) // parts]
        if not chosen:
            raise OptionError("label_part", wanted_part, f"there are only {plural(n_all, 'label')} to train; make fewer parts")
    return np.array(chosen, dtype=np.int64), [names[k] for k in chosen]


def fingerprint(comm: mpi.Comm, shard: Shard, more: str) -> str:
    """Collective over `comm`. A digest of the split's rows and label sets, and of `more`."""
    rows = rng.bits(0, "row", shard.first_row + shard.rows)
    pairs = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
    mine = np.isin(pairs, shard.rows)
    labels = rng.bits(1, "label", (shard.first_row + pairs[mine]) * shard.n_labels + shard.y_indices[mine])
    with np.errstate(over="ignore"):  # sums modulo 2^64 do not know the order
        sums = np.array([rows.sum(dtype=np.uint64), labels.sum(dtype=np.uint64)], dtype=np.uint64).view(np.int64)
    mpi.allreduce_sum(comm, sums)
    return hashlib.sha256(f"{sums.tolist()} {more}".encode()).hexdigest()


def digests(comm: mpi.Comm, shard: Shard) -> tuple[bytes, list[bytes]]:
    """Collective over `comm`. Digests of the rows of a split, and of each label's positive rows.

    Sums modulo 2^64 of hashes of each value with its place, so the number of ranks does not matter.
    """
    found = np.zeros((1 + shard.n_labels, N_WORDS), np.uint64)
    with np.errstate(over="ignore"):
        for some in slices.row_slices(shard.n_local, shard.nnz):
            sizes, places = entries_of(shard.indptr, shard.rows[some])
            of_row = np.repeat(shard.first_local + some.start + np.arange(sizes.size), sizes)
            stored = np.ascontiguousarray(shard.data[places], dtype=np.float32).view(np.uint32)
            for word in range(N_WORDS):
                key = rng.bits(word, "row of a value", of_row) ^ rng.bits(word, "feature of a value", shard.indices[places])
                found[0, word] += rng.bits(word, "value", key ^ rng.bits(word, "bits of a value", stored)).sum(dtype=np.uint64)
        sizes, places = entries_of(shard.y_indptr, shard.rows)
        of_row = np.repeat(shard.first_local + np.arange(sizes.size), sizes)
        for word in range(N_WORDS):
            np.add.at(found[1:, word], shard.y_indices[places], rng.bits(word, "row of a label", of_row))
        mpi.allreduce_sum(comm, found.view(np.int64))
    return found[0].tobytes() + str(shard.n_global).encode(), [each.tobytes() for each in found[1:]]


def all_label_names(dataset: DataFile) -> list[str]:
    """The names of the labels, and behind them those of the unknown ones. Raises DataError."""
    return dataset.label_names() + dataset.unknown_names()


def label_sets_of(comm: mpi.Comm, dataset: DataFile, shard: Shard) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Collective over `comm`. The label sets (indptr, indices) of a slab by their matrix."""
    found = {"Y": (shard.y_indptr, shard.y_indices)}
    with mpi.agreed(comm, f"reading {dataset.path}"):
        if dataset.n_unknown:
            n_slab = shard.y_indptr.size - 1
            found[UNKNOWN] = matrix_slab(dataset, UNKNOWN, shard.first_row, shard.first_row + n_slab)[:2]
    return found


def load_with_unknown(comm: mpi.Comm, dataset: DataFile, split: str) -> Shard:
    """Collective over `comm`. `load_shard` with all labels; 8 bytes for each of a row."""
    shard = load_shard(comm, dataset, split)
    sets = label_sets_of(comm, dataset, shard)
    if UNKNOWN not in sets:
        return shard
    (indptr, indices), (more_indptr, more) = sets.values()
    joined = np.empty(indices.size + more.size, dtype=np.int64)
    joined[np.arange(indices.size) + np.repeat(more_indptr[:-1], np.diff(indptr))] = indices
    joined[np.arange(more.size) + np.repeat(indptr[1:], np.diff(more_indptr))] = shard.n_labels + more
    return replace(shard, y_indptr=indptr + more_indptr, y_indices=joined, n_labels=shard.n_labels + dataset.n_unknown)


class Classes(NamedTuple):
    """The classes of a split's rows, on every rank.

    `names` are the labels that a model of them gives: one for two classes (class 1 has it, class 0
    has not; of two labels the second), else one per class.
    """

    names: list[str]
    rows: np.ndarray  # (n,) row numbers of the file, ascending, int64
    of: np.ndarray  # (n,) the class of each, int32
    keys: np.ndarray  # (n,) the keys of the rows, uint64
    groups: np.ndarray | None = None  # (n,) those of their groups, uint64

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return max(2, len(self.names))


def read_classes(comm: mpi.Comm, dataset: DataFile, split: str, label: str | None) -> Classes:
    """Collective over `comm`. The classes of a split, the same on all ranks.

    With `label`, or if the data have one label, class 0 lacks it and class 1 has it; else every row must have
    exactly one label. Raises ConfigError if not, or for an unknown label, DataError for one class.
    """
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
                place = int(np.flatnonzero(counts != 1)[0])
                raise ConfigError(
                    f"{dataset.path}: row {shard.first_row + int(shard.rows[place])} has {int(counts[place])} labels, but one "
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

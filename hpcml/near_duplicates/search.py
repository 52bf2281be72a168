"""`hpcml duplicates`: near-duplicate rows of a dataset, and the consistency of its labels.

Label consistency: how far the labels of near-duplicate rows agree, which estimates how far two annotators agree.

C. Elkan, *Extreme multilabel learning* (2015), measures indexers by documents that were indexed twice by mistake.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hpcml import mpi
from hpcml.data.dataset import DataFile, read_feature_names
from hpcml.data.shard import Shard, load_shard
from hpcml.files.report import ReportedResult, cell, nan_to_none, plain, select_attributes
from hpcml.files.table import table, write_table
from hpcml.kernels.rows import count_labels
from hpcml.log import Log, plural
from hpcml.mpi.routing import Routing
from hpcml.near_duplicates.pairs import COMPARED, WINDOW, Bands, Pairs, SharedRows, choose_bands, find_pairs
from hpcml.partition import entries_of

Z = 1.959963984540054  # two-sided 95 % quantile of the normal distribution
STEPS = np.array([0.5, 0.8, 0.9, 0.95, 1.0])  # bins of the similarity histogram
PAIR_COLUMNS = ("row", "other_row", "id", "other_id", "similarity", "counted", "labels", "other_labels", "common_labels")
LABEL_COLUMNS = ("number", "label", "n_rows", "base_rate", "n_pairs", "n_both", "consistency", "low", "high")


@dataclass
class PairLabels:
    counted: np.ndarray
    of_first: np.ndarray
    of_other: np.ndarray
    common: np.ndarray


@dataclass
class Consistency:
    """Per label: rows with it, rows of pairs with it (once per pair), and pairs of two such rows."""

    n_rows: np.ndarray
    in_rows: np.ndarray  # rows of pairs with the label, summed over both rows
    both: np.ndarray

    @property
    def either(self) -> np.ndarray:
        return self.in_rows - self.both

    def values(self) -> np.ndarray:
        """Return 2 · both / (first + other) per label; NaN if no pair has the label."""
        return 2 * self.both / np.where(self.in_rows > 0, self.in_rows, np.nan)

    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return 95 % bounds: Wilson (1927) for p = both / either; the consistency is 2p / (1 + p)."""
        n = np.where(self.either > 0, self.either, np.nan)
        p = self.both / n
        middle, half = p + Z * Z / (2 * n), Z * np.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        low, high = ((middle + sign * half) / (1 + Z * Z / n) for sign in (-1, 1))
        low, high = np.where(self.both > 0, low, 0 * n), np.where(self.both < self.either, high, 1 + 0 * n)  # exactly
        return 2 * low / (1 + low), 2 * high / (1 + high)


def measure_consistency(comm: mpi.Comm, shard: Shard, pairs: Pairs, unlabelled: np.ndarray) -> tuple[Consistency, PairLabels]:
    """Per row, only the pair with the most similar earlier row (the last of equal ones) counts. Collective over `comm`."""
    rows, n_labels = SharedRows(comm, shard), shard.n_labels
    counted = _flag_best_pairs(rows, pairs, ~(np.isin(pairs.first, unlabelled) | np.isin(pairs.other, unlabelled)))
    with mpi.agreed(comm, "allocating label counts"):
        counts = np.zeros((3, n_labels), np.int64)
        count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts[0])
        label_counts = np.zeros((3, pairs.first.size), np.int64)
    for begin in range(0, int(mpi.allreduce_max(comm, pairs.first.size)), COMPARED):
        piece = slice(begin, begin + COMPARED)
        other_rows, positions = np.unique(pairs.other[piece], return_inverse=True)
        indptr, indices = rows.fetch(other_rows, shard.y_indptr, shard.y_indices)
        with mpi.agreed(comm, "comparing labels"):
            sizes, one = _entries(shard.y_indptr, shard.y_indices, rows.local_rows(pairs.first[piece]), n_labels)
            other_sizes, other = _entries(indptr, indices, positions, n_labels)
            both = np.intersect1d(one, other)
            for count, entries in ((counts[1], one), (counts[1], other), (counts[2], both)):
                positions, labels = np.divmod(entries, max(1, n_labels))
                count += np.bincount(labels[counted[piece][positions]], minlength=n_labels)
            label_counts[:, piece] = sizes, other_sizes, np.bincount(both // max(1, n_labels), minlength=sizes.size)
    return Consistency(*mpi.allreduce_sum(comm, counts)), PairLabels(counted, *label_counts)


def _flag_best_pairs(rows: SharedRows, pairs: Pairs, usable: np.ndarray) -> np.ndarray:
    """Flag the usable pairs that are the most similar pair of their second row. Collective."""
    routing = Routing(rows.comm, rows.owner_ranks(pairs.other))
    columns = (pairs.first, pairs.other, pairs.similarity, usable.astype(np.uint8))
    first, other, similarity, is_usable = (routing.send(values) for values in columns)
    with mpi.agreed(rows.comm, "selecting pairs"):
        order = np.lexsort((-first, -similarity, is_usable == 0, other))
        best = np.ones(other.size, np.uint8)
        best[order[1:]] = other[order[1:]] != other[order[:-1]]
    return routing.answer(best & is_usable).astype(bool)


def _entries(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of labels of each row, and position · n_labels + label of each label."""
    sizes, positions = entries_of(indptr, rows)
    return sizes, np.repeat(np.arange(rows.size), sizes) * n_labels + indices[positions]


@dataclass
class Duplicates(ReportedResult):
    """The result; `by_similarity` counts the pairs from each of `steps` up to the next."""

    data: Path
    split: str
    n_rows: int
    n_empty: int
    n_equal: int
    n_limited: int
    similarity: float
    bands: Bands
    n_pairs: int
    n_counted: int  # pairs that count for label consistency
    steps: list[float]
    by_similarity: list[int]
    label_names: list[str]
    labels: Consistency
    seconds: float
    n_unlabelled: int = 0

    def base_rates(self) -> np.ndarray:
        """Return the share of the labelled rows with each label."""
        return self.labels.n_rows / max(1, self.n_rows - self.n_unlabelled)

    def describe(self, top: int = 10) -> list[str]:
        """Return the numbers of pairs, and the consistency of the `top` most frequent labels."""
        d = self
        lines = [f"{d.data}, split {d.split}: {plural(d.n_rows, 'row')}, in {d.seconds:.1f} s"]
        if d.n_empty:
            lines.append(f"excluded: {plural(d.n_empty, 'row')} without features")
        if d.n_unlabelled:
            lines.append(f"excluded from label consistency: pairs with {plural(d.n_unlabelled, 'unlabelled row')}")
        counts = [
            f"{count:,} of {low:g}{'' if low == 1 else f' to {high:g}'}"
            for low, high, count in zip(d.steps, [*d.steps[1:], 1.0], d.by_similarity, strict=True)
            if count
        ]
        histogram = f" ({', '.join(counts)})" if len(d.steps) > 1 and counts else ""
        lines.append(f"pairs with similarity of at least {d.similarity:g}: {d.n_pairs:,}{histogram}")
        lines.append(f"rows with the features of an earlier row: {d.n_equal:,}, each paired with the last such row")
        if d.bands.number:
            lines.append(
                f"expected recall: {100 * d.bands.recall(d.similarity):.2f} % at similarity {d.similarity:g}, more above it "
                f"({d.bands.number} bands of {d.bands.size} hashes)"
            )
        if d.n_pairs:
            lines.append(
                "note: rows of a pair may be in different splits or folds, which makes results too optimistic; to keep them "
                "together, add the column group of --output to the input and use `hpcml convert --group`"
            )
        if not d.n_pairs or not top:
            return lines
        values, (lows, highs), rates = d.labels.values(), d.labels.intervals(), d.base_rates()
        if d.n_counted < d.n_pairs:
            lines.append(f"{d.n_counted:,} pairs count for label consistency: each row with the most similar earlier row")
        rows = [["most frequent labels", "pairs", "consistency %", "95 % from", "to", "base rate %"]]
        for label in np.argsort(-d.labels.n_rows, kind="stable")[:top].tolist():
            shares = (cell(100 * value, ".2f") for value in (values[label], lows[label], highs[label], rates[label]))
            rows.append([d.label_names[label], str(d.labels.either[label]), *shares])
        total, both = int(d.labels.in_rows.sum()), int(d.labels.both.sum())
        total_text = cell(100 * (2 * both / total) if total else math.nan, ".2f")
        lines += ["", *table(rows), f"all labels together: consistency {total_text} %"]
        return lines

    def _label_rows(self) -> list[Sequence[object]]:
        labels, (lows, highs) = self.labels, self.labels.intervals()
        columns = [labels.n_rows, self.base_rates(), labels.either, labels.both, labels.values(), lows, highs]
        values = zip(*(column.tolist() for column in columns), strict=True)
        return [
            (number, name, *(nan_to_none(value) if isinstance(value, float) else value for value in row))
            for number, (name, row) in enumerate(zip(self.label_names, values, strict=True))
        ]

    def write_csv(self, path: Path | str) -> None:
        """Write one line per label; an undefined value is an empty cell. Local; raises DataError."""
        write_table(path, [LABEL_COLUMNS, *self._label_rows()])

    def as_dict(self) -> dict[str, Any]:
        """Return everything except the pairs, for JSON; an undefined value is null."""
        content: dict[str, Any] = {
            **select_attributes(self, "data", "split", "n_rows", "n_unlabelled"),
            "n_without_features": self.n_empty,
            "n_equal_to_an_earlier_row": self.n_equal,
            **select_attributes(self, "n_limited", "similarity"),
            "bands": self.bands.number,
            "hashes_per_band": self.bands.size,
            "expected_recall": self.bands.recall(self.similarity),
            **select_attributes(self, "n_pairs", "n_counted"),
            "pairs_from_similarity": dict(zip(self.steps, self.by_similarity, strict=True)),
            "labels": [dict(zip(LABEL_COLUMNS, row, strict=True)) for row in self._label_rows()],
        }
        return dict(plain(content))


def find_duplicates(comm: mpi.Comm, dataset: DataFile, split: str, similarity: float, output: Path | None, log: Log) -> Duplicates:
    begin = time.monotonic()
    bands = choose_bands(similarity)
    shard = load_shard(comm, dataset, split, unlabelled=True)
    log(f"{dataset.path}: comparing {plural(shard.n_global, 'row')}")
    log.detail(f"{bands.number} bands of {bands.size} hashes")
    pairs = find_pairs(comm, dataset, shard, similarity, bands, log)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        rows = dataset.split(split) if dataset.n_unlabelled else np.zeros(0, np.int64)
        unlabelled = np.flatnonzero(np.isin(rows, dataset.labelled(rows), assume_unique=True, invert=True))
    labels, pair_labels = measure_consistency(comm, shard, pairs, unlabelled)
    steps = np.concatenate([[similarity], STEPS[similarity < STEPS]])
    counts = np.bincount(np.searchsorted(steps, pairs.similarity, "right") - 1, minlength=steps.size)
    sizes = [pairs.first.size, int(np.count_nonzero(pair_labels.counted)), *counts]
    _, (n_pairs, n_counted, *by_similarity) = mpi.exclusive_sum(comm, sizes)
    if pairs.n_limited:
        log(
            f"note: {pairs.n_limited:,} times, a bucket had more rows than each row is compared with ({WINDOW}), so pairs among "
            "very many similar rows may be missing"
        )
    if output is not None:
        _write_pairs(comm, dataset, split, pairs, pair_labels, output)
    return Duplicates(
        data=dataset.path,
        split=split,
        n_rows=shard.n_global,
        n_unlabelled=unlabelled.size,
        n_empty=pairs.n_empty,
        n_equal=pairs.n_equal,
        n_limited=pairs.n_limited,
        similarity=similarity,
        bands=bands,
        n_pairs=int(n_pairs),
        n_counted=int(n_counted),
        steps=steps.tolist(),
        by_similarity=[int(count) for count in by_similarity],
        label_names=dataset.label_names(),
        labels=labels,
        seconds=time.monotonic() - begin,
    )


def _write_pairs(comm: mpi.Comm, dataset: DataFile, split: str, pairs: Pairs, pair_labels: PairLabels, output: Path) -> None:
    lines: list[Sequence[object]] = []

    def take(columns: list[np.ndarray]) -> None:
        (first, other), rest = (rows[positions] for positions in columns[:2]), columns[2:]
        ids = [read_feature_names(dataset, each, "row_ids") or [""] * each.size for each in (first, other)]
        lines.extend(zip(first.tolist(), other.tolist(), *ids, *(column.tolist() for column in rest), strict=True))

    with mpi.agreed(comm, f"reading {dataset.path}"):
        rows = dataset.split(split) if comm.rank == 0 else np.zeros(0, np.int64)
    labels = (pair_labels.counted.astype(np.int64), pair_labels.of_first, pair_labels.of_other, pair_labels.common)
    columns = (pairs.first, pairs.other, pairs.similarity, *labels)
    begins = range(0, pairs.first.size, COMPARED)
    mpi.stream_to_root(comm, ([column[begin : begin + COMPARED] for column in columns] for begin in begins), take)
    with mpi.agreed(comm, f"writing {output}"):
        if comm.rank == 0:
            # Rows connected by pairs form a group, named by its first row.
            first, other = (np.array([line[column] for line in lines], dtype=np.int64) for column in (0, 1))
            numbers, row_numbers = np.unique(np.concatenate([first, other]), return_inverse=True)
            links = sp.coo_matrix((np.ones(first.size, np.int8), row_numbers.reshape(2, -1)), (numbers.size, numbers.size))
            _, component = connected_components(links, directed=False)
            smallest = np.full(numbers.size, np.iinfo(np.int64).max)
            np.minimum.at(smallest, component, numbers)
            groups = smallest[component[row_numbers[: first.size]]].tolist()
            write_table(output, [[*PAIR_COLUMNS, "group"], *([*line, group] for line, group in zip(lines, groups, strict=True))])

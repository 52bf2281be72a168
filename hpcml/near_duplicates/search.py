"""`hpcml duplicates`: near-duplicate rows of a dataset, and the consistency of its labels.

Pairs are compared exactly, and the result does not depend on the number of ranks. Label consistency is how far the labels of
near-duplicate rows agree, which estimates how far two annotators agree: C. Elkan, *Extreme multilabel learning* (2015), measures
indexers by documents that were indexed twice by mistake.

Rows with equal features form a group: each is paired with the next row of its group, and only the first row of a group is compared
further. Rows with equal minimum hashes in a band form a bucket, which is sent to one rank. In a large bucket, each row is compared
with the next WINDOW rows only, so the work is proportional to the number of rows for any data.

For Jaccard similarity s, two rows agree on one minimum hash with probability s, on a band of r hashes with s^r, and on at least one
of b bands with 1 − (1 − s^r)^b: A. Broder, *On the resemblance and containment of documents* (1997); J. Leskovec, A. Rajaraman, J.
Ullman, *Mining of Massive Datasets*, chapter 3.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hpcml import mpi
from hpcml.data.dataset import DataFile, read_feature_names
from hpcml.data.row_keys import content_keys, feature_keys
from hpcml.data.shard import Shard, load_shard, rows_of
from hpcml.errors import OptionError
from hpcml.files.report import ReportedResult, cell, nan_to_none, plain, select_attributes
from hpcml.files.table import table, write_table
from hpcml.kernels.elementary import log, log1p, power
from hpcml.kernels.rows import count_labels
from hpcml.log import Log, Progress, plural
from hpcml.near_duplicates import kernels
from hpcml.partition import entries_of, offsets
from hpcml.rng import bits
from hpcml.slices import row_slices

WINDOW = 64  # rows of a bucket that each row is compared with
BANDS_AT_ONCE = 8  # 8 bytes of keys per row and band
COMPARED = 1 << 16  # pairs per block
LEAST_SIMILARITY = 0.1
MISSED = 0.001  # maximum share of missed pairs at the requested similarity
MOST_HASHES = 192
LARGEST_BAND = 12
SLICE = 1 << 20  # features hashed at a time
Z = 1.959963984540054  # two-sided 95 % quantile of the normal distribution
STEPS = np.array([0.5, 0.8, 0.9, 0.95, 1.0])  # bins of the similarity histogram
PAIR_COLUMNS = ("row", "other_row", "id", "other_id", "similarity", "counted", "labels", "other_labels", "common_labels")
LABEL_COLUMNS = ("number", "label", "n_rows", "base_rate", "n_pairs", "n_both", "consistency", "low", "high")


class Bands(NamedTuple):
    number: int
    size: int

    def recall(self, similarity: float) -> float:
        return 1.0 if similarity >= 1 else 1 - power(1 - power(similarity, float(self.size)), float(self.number))


def choose_bands(similarity: float) -> Bands:
    """Return the largest bands (fewest comparisons) that miss at most MISSED of the pairs. Raises ConfigError."""
    if not LEAST_SIMILARITY <= similarity <= 1:
        raise OptionError("similarity", similarity, f"expected a number from {LEAST_SIMILARITY} to 1")
    if similarity == 1:
        return Bands(0, 1)  # equal rows are compared by their set keys
    for size in range(LARGEST_BAND, 0, -1):
        number = math.ceil(log(MISSED) / log1p(-power(similarity, float(size))))
        if size * number <= MOST_HASHES:
            break
    return Bands(number, size)


def feature_hashes(n_features: int) -> np.ndarray:
    out = np.empty(n_features, np.uint32)
    for begin in range(0, n_features, SLICE):
        end = min(begin + SLICE, n_features)
        out[begin:end] = bits(0, "duplicates: features", np.arange(begin, end)) >> np.uint64(32)
    return out


def hash_functions(bands: Bands) -> tuple[np.ndarray, np.ndarray]:
    """Return odd factors and addends (bands × size, uint32) that derive further hashes."""
    drawn = bits(0, "duplicates: functions", np.arange(2 * bands.number * bands.size)).reshape(2, bands.number, bands.size)
    factors, addends = (drawn >> np.uint64(32)).astype(np.uint32)
    return factors | np.uint32(1), addends


class Pairs:
    """This rank's pairs (first < other, positions in the split), ascending by code, first · n + other, and their similarities."""

    def __init__(self, comm: mpi.Comm, shard: Shard, similarity: float) -> None:
        self.comm, self.shard, self.least = comm, shard, similarity
        self.bounds = offsets(comm.allgather(shard.n_local))
        self.codes, self.similarity = np.zeros(0, np.int64), np.zeros(0)
        # On all ranks after `find_pairs`: rows without features, rows with the features of an earlier row, and times that a row was
        # in a bucket with more rows than it was compared with.
        self.n_empty, self.n_equal, self.n_limited = 0, 0, 0

    @property
    def first(self) -> np.ndarray:
        return self.codes // max(1, self.shard.n_global)

    @property
    def other(self) -> np.ndarray:
        return self.codes % max(1, self.shard.n_global)

    def owner_ranks(self, positions: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.bounds, positions, "right") - 1

    def local_rows(self, positions: np.ndarray) -> np.ndarray:
        return self.shard.rows[positions - self.shard.first_local]

    def fetch(self, positions: np.ndarray, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions are ascending. Collective."""
        routing = mpi.Routing(self.comm, self.owner_ranks(positions))
        requested = routing.send(positions)
        with mpi.agreed(self.comm, "reading rows to compare"):
            sizes, entries = entries_of(indptr, self.local_rows(requested))
            values = indices[entries]
        starts = offsets(sizes)[offsets(routing.received)].tolist()
        parts = mpi.exchange(self.comm, [values[begin:end] for begin, end in pairwise(starts)])  # owners ascend as rows do
        return offsets(routing.answer(sizes)), np.concatenate(parts)

    def compare_bucket(self, keys: np.ndarray, positions: np.ndarray, window: int) -> np.ndarray:
        """Return whether each row is the first of its bucket. Collective."""
        routing = mpi.Routing(self.comm, (keys % np.uint64(self.comm.size)).astype(np.int64))
        keys, positions = routing.send(keys), routing.send(positions)
        with mpi.agreed(self.comm, "sorting rows into buckets"):
            order = np.lexsort((positions, keys))
            keys, positions = keys[order], positions[order]
            is_first = np.ones(keys.size, np.uint8)
            is_first[order[1:]] = keys[1:] != keys[:-1]
            codes = [np.zeros(0, np.int64)]  # of the bucket's pairs at most `window` apart
            for distance in range(1, min(window, keys.size - 1) + 1):
                starts = np.flatnonzero(keys[distance:] == keys[:-distance])
                if not starts.size:
                    break
                codes.append(positions[starts] * self.shard.n_global + positions[starts + distance])
            if window > 1:
                self.n_limited += int(np.count_nonzero(keys[window + 1 :] == keys[: max(0, keys.size - window - 1)]))
        self.add_similar(np.concatenate(codes))
        return routing.answer(is_first).astype(bool)

    def add_similar(self, codes: np.ndarray) -> None:
        codes = mpi.Routing(self.comm, self.owner_ranks(codes // max(1, self.shard.n_global))).send(codes)
        with mpi.agreed(self.comm, "removing known pairs"):
            codes = np.setdiff1d(codes, self.codes)  # each once, ascending
        codes_found, similarities = [self.codes], [self.similarity]
        for begin in range(0, int(mpi.allreduce_max(self.comm, codes.size)), COMPARED):
            piece = codes[begin : begin + COMPARED]
            first, other = np.divmod(piece, max(1, self.shard.n_global))
            other_rows, row_numbers = np.unique(other, return_inverse=True)
            indptr, indices = self.fetch(other_rows, self.shard.indptr, self.shard.indices)
            with mpi.agreed(self.comm, "comparing rows"):
                rows, ends = self.local_rows(first), self.shard.indptr
                common = np.zeros(rows.size, np.int64)
                kernels.count_common((ends, self.shard.indices), rows, (indptr, indices), row_numbers, common)
                sizes = ends[rows + 1] - ends[rows] + indptr[row_numbers + 1] - indptr[row_numbers]
                similarity = common / np.maximum(1, sizes - common)  # the Jaccard index
                enough = similarity >= self.least
                codes_found.append(piece[enough])
                similarities.append(similarity[enough])
        with mpi.agreed(self.comm, "storing pairs"):
            all_codes = np.concatenate(codes_found)
            order = np.argsort(all_codes, kind="stable")
            self.codes, self.similarity = all_codes[order], np.concatenate(similarities)[order]


def find_pairs(comm: mpi.Comm, dataset: DataFile, shard: Shard, similarity: float, bands: Bands, log: Log) -> Pairs:
    """Return the pairs with a Jaccard index of at least `similarity`. Collective over `comm`."""
    features = shard.indptr, shard.indices
    with mpi.node_first(comm):  # compile
        none, numbers, no_keys = shard.rows[:0], np.zeros(0, np.uint32), np.zeros((1, 0), np.uint64)
        kernels.band_keys(features, none, numbers, (numbers, numbers), 1, numbers, 0, no_keys)
        kernels.count_common(features, none, (shard.indptr, shard.indices[:0].copy()), none, none)
    pairs = Pairs(comm, shard, similarity)

    # Rows with the same features.
    present = np.flatnonzero(shard.indptr[shard.rows + 1] > shard.indptr[shard.rows])
    keys = np.zeros(present.size, np.uint64)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        for piece in row_slices(present.size, shard.nnz):
            sizes, entries = entries_of(shard.indptr, shard.rows[present[piece]])
            keys[piece] = content_keys(sizes, shard.indices[entries], np.ones(entries.size), feature_keys(None))
        dataset.check_unchanged()
    is_first = pairs.compare_bucket(keys, shard.first_local + present, window=1)
    n_equal = present.size - int(np.count_nonzero(is_first))

    # First rows of groups that agree on a band.
    chosen = present[is_first]
    with mpi.agreed(comm, "allocating hashes"):
        hashes, (factors, addends) = feature_hashes(shard.n_features if bands.number else 0), hash_functions(bands)
        rows = shard.rows[chosen]
        n_values = int((shard.indptr[rows + 1] - shard.indptr[rows]).sum())
    progress = Progress(log, "comparing rows", bands.number)
    for begin in range(0, bands.number, BANDS_AT_ONCE):
        bands_of_pass = slice(begin, min(begin + BANDS_AT_ONCE, bands.number))
        functions = factors[bands_of_pass].reshape(-1), addends[bands_of_pass].reshape(-1)
        with mpi.agreed(comm, "hashing rows"):
            keys_of_bands = np.empty((bands_of_pass.stop - begin, rows.size), np.uint64)
            least = np.empty(functions[0].size, np.uint32)
            for piece in row_slices(rows.size, n_values * (1 + least.size // 8)):
                kernels.band_keys(features, rows[piece], hashes, functions, bands.size, least, piece.start, keys_of_bands)
        for band, keys in enumerate(keys_of_bands, begin):
            pairs.compare_bucket(keys, shard.first_local + chosen, WINDOW)
            progress.update(band + 1)
    progress.close()
    _, totals = mpi.exclusive_sum(comm, [shard.n_local - present.size, n_equal, pairs.n_limited])
    pairs.n_empty, pairs.n_equal, pairs.n_limited = totals.tolist()
    return pairs


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


def measure_consistency(
    comm: mpi.Comm, shard: Shard, pairs: Pairs, unlabelled: np.ndarray
) -> tuple[Consistency, np.ndarray, np.ndarray]:
    """Per row, only the pair with the most similar earlier row (the last of equal ones) counts. Collective over `comm`.

    Also return whether each pair of this rank counts, and the numbers of labels (3 × pairs) of its first row, other row, and both.
    """
    n_labels, first, other, routing = shard.n_labels, pairs.first, pairs.other, mpi.Routing(comm, pairs.owner_ranks(pairs.other))
    usable = ~(np.isin(first, unlabelled) | np.isin(other, unlabelled))
    sent = [routing.send(values) for values in (first, other, pairs.similarity, usable.astype(np.uint8))]
    with mpi.agreed(comm, "selecting pairs"):
        order = np.lexsort((-sent[0], -sent[2], sent[3] == 0, sent[1]))
        is_best = np.ones(order.size, np.uint8)
        is_best[order[1:]] = sent[1][order[1:]] != sent[1][order[:-1]]
    counted = routing.answer(is_best & sent[3]).astype(bool)
    with mpi.agreed(comm, "allocating label counts"):
        counts = np.zeros((3, n_labels), np.int64)
        count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts[0])
        label_counts = np.zeros((3, first.size), np.int64)
    for begin in range(0, int(mpi.allreduce_max(comm, first.size)), COMPARED):
        piece = slice(begin, begin + COMPARED)
        other_rows, positions = np.unique(other[piece], return_inverse=True)
        indptr, indices = pairs.fetch(other_rows, shard.y_indptr, shard.y_indices)
        with mpi.agreed(comm, "comparing labels"):
            one = _label_sets(shard.y_indptr, shard.y_indices, pairs.local_rows(first[piece]), n_labels)
            two = _label_sets(indptr, indices, positions, n_labels)
            both = one.multiply(two).tocsr()
            for count, sets in ((counts[1], one), (counts[1], two), (counts[2], both)):
                count += np.bincount(sets[counted[piece]].indices, minlength=n_labels)
            label_counts[:, piece] = [np.diff(sets.indptr) for sets in (one, two, both)]
    return Consistency(*mpi.allreduce_sum(comm, counts)), counted, label_counts


def _label_sets(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, n_labels: int) -> sp.csr_matrix:
    return rows_of((indptr, indices, np.broadcast_to(np.float32(1), indices.shape)), rows, n_labels, dense=False)


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
            recall = f"{100 * d.bands.recall(d.similarity):.2f} % at similarity {d.similarity:g}, more above it"
            lines.append(f"expected recall: {recall} ({d.bands.number} bands of {d.bands.size} hashes)")
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
    labels, counted, label_counts = measure_consistency(comm, shard, pairs, unlabelled)
    steps = np.concatenate([[similarity], STEPS[similarity < STEPS]])
    counts = np.bincount(np.searchsorted(steps, pairs.similarity, "right") - 1, minlength=steps.size)
    sizes = [pairs.first.size, int(np.count_nonzero(counted)), *counts]
    _, (n_pairs, n_counted, *by_similarity) = mpi.exclusive_sum(comm, sizes)
    if pairs.n_limited:
        log(
            f"note: {pairs.n_limited:,} times, a bucket had more rows than each row is compared with ({WINDOW}), so pairs among "
            "very many similar rows may be missing"
        )
    if output is not None:
        _write_pairs(comm, dataset, split, pairs, counted, label_counts, output)
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


def _write_pairs(
    comm: mpi.Comm, dataset: DataFile, split: str, pairs: Pairs, counted: np.ndarray, label_counts: np.ndarray, output: Path
) -> None:
    lines: list[Sequence[object]] = []

    def take(columns: list[np.ndarray]) -> None:
        (first, other), rest = (rows[positions] for positions in columns[:2]), columns[2:]
        ids = [read_feature_names(dataset, each, "row_ids") or [""] * each.size for each in (first, other)]
        lines.extend(zip(first.tolist(), other.tolist(), *ids, *(column.tolist() for column in rest), strict=True))

    with mpi.agreed(comm, f"reading {dataset.path}"):
        rows = dataset.split(split) if comm.rank == 0 else np.zeros(0, np.int64)
    columns = (pairs.first, pairs.other, pairs.similarity, counted.astype(np.int64), *label_counts)
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

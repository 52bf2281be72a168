"""Pairs of near-duplicate rows, compared exactly; the result does not depend on the number of ranks.

Rows with equal features form a group: each is paired with the next row of its group, and only the first row of a group is compared
further. Rows with equal minimum hashes in a band form a bucket, which is sent to one rank. In a large bucket, each row is compared
with the next WINDOW rows only, so the work is proportional to the number of rows for any data.

For Jaccard similarity s, two rows agree on one minimum hash with probability s, on a band of r hashes with s^r, and on at least one
of b bands with 1 − (1 − s^r)^b: A. Broder, *On the resemblance and containment of documents* (1997); J. Leskovec, A. Rajaraman, J.
Ullman, *Mining of Massive Datasets*, chapter 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard
from hpcml.errors import DataError, OptionError
from hpcml.kernels.elementary import log, log1p, power
from hpcml.log import Log, Progress
from hpcml.mpi.routing import Routing
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


class SharedRows:
    def __init__(self, comm: mpi.Comm, shard: Shard) -> None:
        self.comm, self.shard = comm, shard
        self.bounds = offsets(comm.allgather(shard.n_local))

    def owner_ranks(self, positions: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.bounds, positions, "right") - 1

    def local_rows(self, positions: np.ndarray) -> np.ndarray:
        return self.shard.rows[positions - self.shard.first_local]

    def fetch(self, positions: np.ndarray, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions are ascending. Collective."""
        routing = Routing(self.comm, self.owner_ranks(positions))
        requested = routing.send(positions)
        with mpi.agreed(self.comm, "reading rows to compare"):
            sizes, entries = entries_of(indptr, self.local_rows(requested))
            values = indices[entries]
        starts = offsets(sizes)[offsets(routing.received)].tolist()
        parts = mpi.exchange(self.comm, [values[begin:end] for begin, end in pairwise(starts)])  # owners ascend as rows do
        return offsets(routing.answer(sizes)), np.concatenate(parts)


@dataclass
class Pairs:
    """This rank's pairs (first < other, positions in the split), ascending, with similarities; and counts over all ranks."""

    first: np.ndarray
    other: np.ndarray
    similarity: np.ndarray
    n_empty: int = 0  # rows without features
    n_equal: int = 0  # rows with the features of an earlier row
    n_limited: int = 0  # times that a row was in a bucket with more rows than it was compared with


class PairSearch:
    """Pairs found so far: ascending codes, first · n + other, and similarities of this rank's pairs."""

    def __init__(self, comm: mpi.Comm, shard: Shard, similarity: float) -> None:
        self.comm, self.shard, self.similarity = comm, shard, similarity
        self.rows = SharedRows(comm, shard)
        self.codes, self.similarities = np.zeros(0, np.int64), np.zeros(0)
        self.n_limited = 0

    def compare_bucket(self, keys: np.ndarray, positions: np.ndarray, window: int) -> np.ndarray:
        """Return whether each row is the first of its bucket. Collective."""
        routing = Routing(self.comm, (keys % np.uint64(self.comm.size)).astype(np.int64))
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
        codes = Routing(self.comm, self.rows.owner_ranks(codes // max(1, self.shard.n_global))).send(codes)
        with mpi.agreed(self.comm, "removing known pairs"):
            codes = np.setdiff1d(codes, self.codes)  # each once, ascending
        codes_found, similarities = [self.codes], [self.similarities]
        for begin in range(0, int(mpi.allreduce_max(self.comm, codes.size)), COMPARED):
            piece = codes[begin : begin + COMPARED]
            first, other = np.divmod(piece, max(1, self.shard.n_global))
            other_rows, row_numbers = np.unique(other, return_inverse=True)
            indptr, indices = self.rows.fetch(other_rows, self.shard.indptr, self.shard.indices)
            with mpi.agreed(self.comm, "comparing rows"):
                rows, ends = self.rows.local_rows(first), self.shard.indptr
                common = np.zeros(rows.size, np.int64)
                kernels.count_common((ends, self.shard.indices), rows, (indptr, indices), row_numbers, common)
                sizes = ends[rows + 1] - ends[rows] + indptr[row_numbers + 1] - indptr[row_numbers]
                similarity = common / np.maximum(1, sizes - common)  # the Jaccard index
                enough = similarity >= self.similarity
                codes_found.append(piece[enough])
                similarities.append(similarity[enough])
        with mpi.agreed(self.comm, "storing pairs"):
            all_codes = np.concatenate(codes_found)
            order = np.argsort(all_codes, kind="stable")
            self.codes, self.similarities = all_codes[order], np.concatenate(similarities)[order]


def find_pairs(comm: mpi.Comm, dataset: DataFile, shard: Shard, similarity: float, bands: Bands, log: Log) -> Pairs:
    """Return the pairs with a Jaccard index of at least `similarity`. Collective over `comm`."""
    features = shard.indptr, shard.indices
    with mpi.node_first(comm):  # compile
        none, numbers, no_keys = shard.rows[:0], np.zeros(0, np.uint32), np.zeros((1, 0), np.uint64)
        kernels.set_keys(features, none, np.uint64(0), no_keys[0])
        kernels.band_keys(features, none, numbers, (numbers, numbers), 1, numbers, 0, no_keys)
        kernels.count_common(features, none, (shard.indptr, shard.indices[:0].copy()), none, none)
    search = PairSearch(comm, shard, similarity)

    # Rows with the same features.
    present = np.flatnonzero(shard.indptr[shard.rows + 1] > shard.indptr[shard.rows])
    rows, keys = shard.rows[present], np.zeros(present.size, np.uint64)
    with mpi.agreed(comm, f"reading {dataset.path}"):
        (key,) = bits(0, "duplicates: sets", np.zeros(1))
        bad = kernels.set_keys(features, rows, key, keys)
        if bad >= 0:
            row = shard.first_row + int(rows[bad])
            raise DataError(f"{dataset.path}: damaged dataset: the features of row {row} are out of order; `hpcml info` says more")
        dataset.check_unchanged()
    is_first = search.compare_bucket(keys, shard.first_local + present, window=1)
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
            search.compare_bucket(keys, shard.first_local + chosen, WINDOW)
            progress.update(band + 1)
    progress.close()
    _, totals = mpi.exclusive_sum(comm, [shard.n_local - present.size, n_equal, search.n_limited])
    first, other = np.divmod(search.codes, max(1, shard.n_global))
    return Pairs(first, other, search.similarities, *(int(total) for total in totals))

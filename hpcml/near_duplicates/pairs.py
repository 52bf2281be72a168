"""Pairs of nearly equal rows, found by all ranks, compared exactly; the same on any number.

Rows with the same features are a group: each is paired with the next one of its group, and only the first goes on. Rows that agree
on a band of least hashes lie in one bucket, which one rank gets from all others, and are compared. In a bucket of many rows each is
compared with the next WINDOW only, so the work is proportional to the number of rows, for any data.

Two rows of similarity s (the Jaccard index of their features) agree on one least hash with probability s, on all of a band of r
with s^r, and on at least one of b bands with 1 − (1 − s^r)^b: A. Broder, *On the resemblance and containment of documents* (1997);
J. Leskovec, A. Rajaraman, J. Ullman, *Mining of Massive Datasets*, chapter 3.
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

WINDOW = 64  # of a bucket's rows, how many next ones each is compared with
BANDS_AT_ONCE = 8  # whose keys are held: 8 bytes a row and band
COMPARED = 1 << 16  # pairs whose rows are in memory together
LEAST_SIMILARITY = 0.1
MISSED = 0.001  # of the pairs that are just similar enough, at most
MOST_HASHES = 192
LARGEST_BAND = 12
SLICE = 1 << 20  # features that are hashed together


class Bands(NamedTuple):
    """`number` bands of `size` least hashes each."""

    number: int
    size: int

    def recall(self, similarity: float) -> float:
        """The probability that two rows of that similarity are compared."""
        return 1.0 if similarity >= 1 else 1 - power(1 - power(similarity, float(self.size)), float(self.number))


def choose_bands(similarity: float) -> Bands:
    """The largest bands (fewest comparisons) that find all but MISSED. Raises ConfigError."""
    if not LEAST_SIMILARITY <= similarity <= 1:
        raise OptionError("similarity", similarity, f"expected a number from {LEAST_SIMILARITY} to 1")
    if similarity == 1:
        return Bands(0, 1)  # equal rows are found in another way
    for size in range(LARGEST_BAND, 0, -1):
        number = math.ceil(log(MISSED) / log1p(-power(similarity, float(size))))
        if size * number <= MOST_HASHES:
            break
    return Bands(number, size)


def feature_hashes(n_features: int) -> np.ndarray:
    """A hash (uint32) of each feature, by its number."""
    out = np.empty(n_features, np.uint32)
    for begin in range(0, n_features, SLICE):
        end = min(begin + SLICE, n_features)
        out[begin:end] = bits(0, "duplicates: features", np.arange(begin, end)) >> np.uint64(32)
    return out


def hash_functions(bands: Bands) -> tuple[np.ndarray, np.ndarray]:
    """Odd factors and addends (bands × size, uint32) that make other hashes of features'."""
    drawn = bits(0, "duplicates: functions", np.arange(2 * bands.number * bands.size)).reshape(2, bands.number, bands.size)
    factors, addends = (drawn >> np.uint64(32)).astype(np.uint32)
    return factors | np.uint32(1), addends


class SharedRows:
    """The rows of a split on all ranks, by their positions in it."""

    def __init__(self, comm: mpi.Comm, shard: Shard) -> None:
        """Collective over `comm`."""
        self.comm, self.shard = comm, shard
        self.bounds = offsets(comm.allgather(shard.n_local))

    def owners(self, positions: np.ndarray) -> np.ndarray:
        """The rank that has each row."""
        return np.searchsorted(self.bounds, positions, "right") - 1

    def local(self, positions: np.ndarray) -> np.ndarray:
        """Where rows of this rank are in its slab."""
        return self.shard.rows[positions - self.shard.first_local]

    def fetch(self, positions: np.ndarray, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collective over the ranks. Rows at ascending positions of the slabs' CSR arrays."""
        routing = Routing(self.comm, self.owners(positions))
        asked = routing.send(positions)
        with mpi.agreed(self.comm, "reading rows that are compared"):
            sizes, places = entries_of(indptr, self.local(asked))
            values = indices[places]
        starts = offsets(sizes)[offsets(routing.received)].tolist()
        parts = mpi.exchange(self.comm, [values[begin:end] for begin, end in pairwise(starts)])  # owners ascend as rows do
        return offsets(routing.answer(sizes)), np.concatenate(parts)


@dataclass
class Pairs:
    """This rank's pairs (first < other, positions in the split), ascending, and similarities.

    `n_empty` (rows without features), `n_equal` (rows that have the features of an earlier one) and `n_limited` (how often a row
    lay in a bucket with more than it was compared with) are those of all ranks.
    """

    first: np.ndarray
    other: np.ndarray
    similarity: np.ndarray
    n_empty: int = 0
    n_equal: int = 0
    n_limited: int = 0


class PairSearch:
    """The pairs known so far: `codes`, ascending, are first · n + other of this rank's."""

    def __init__(self, comm: mpi.Comm, shard: Shard, similarity: float) -> None:
        """Collective over `comm`."""
        self.comm, self.shard, self.similarity = comm, shard, similarity
        self.rows = SharedRows(comm, shard)
        self.codes, self.similarities = np.zeros(0, np.int64), np.zeros(0)
        self.n_limited = 0

    def bucket(self, keys: np.ndarray, positions: np.ndarray, window: int) -> np.ndarray:
        """Collective over the ranks. Compare rows of equal keys; is each its bucket's first?"""
        routing = Routing(self.comm, (keys % np.uint64(self.comm.size)).astype(np.int64))
        keys, positions = routing.send(keys), routing.send(positions)
        with mpi.agreed(self.comm, "putting rows into buckets"):
            order = np.lexsort((positions, keys))
            keys, positions = keys[order], positions[order]
            is_first = np.ones(keys.size, np.uint8)
            is_first[order[1:]] = keys[1:] != keys[:-1]
            codes = [np.zeros(0, np.int64)]  # of the bucket's pairs at most `window` apart
            for distance in range(1, min(window, keys.size - 1) + 1):
                places = np.flatnonzero(keys[distance:] == keys[:-distance])
                if not places.size:
                    break
                codes.append(positions[places] * self.shard.n_global + positions[places + distance])
            if window > 1:
                self.n_limited += int(np.count_nonzero(keys[window + 1 :] == keys[: max(0, keys.size - window - 1)]))
        self.compare(np.concatenate(codes))
        return routing.answer(is_first).astype(bool)

    def compare(self, codes: np.ndarray) -> None:
        """Collective over the ranks. Keep similar pairs, compared by their first rows' ranks."""
        codes = Routing(self.comm, self.rows.owners(codes // max(1, self.shard.n_global))).send(codes)
        with mpi.agreed(self.comm, "looking for pairs that are known"):
            codes = np.setdiff1d(codes, self.codes)  # each once, ascending
        kept, similarities = [self.codes], [self.similarities]
        for begin in range(0, int(mpi.allreduce_max(self.comm, codes.size)), COMPARED):
            some = codes[begin : begin + COMPARED]
            first, other = np.divmod(some, max(1, self.shard.n_global))
            wanted, places = np.unique(other, return_inverse=True)
            indptr, indices = self.rows.fetch(wanted, self.shard.indptr, self.shard.indices)
            with mpi.agreed(self.comm, "comparing rows"):
                rows, ends = self.rows.local(first), self.shard.indptr
                common = np.zeros(rows.size, np.int64)
                kernels.count_common((ends, self.shard.indices), rows, (indptr, indices), places, common)
                sizes = ends[rows + 1] - ends[rows] + indptr[places + 1] - indptr[places]
                similarity = common / np.maximum(1, sizes - common)  # the Jaccard index
                enough = similarity >= self.similarity
                kept.append(some[enough])
                similarities.append(similarity[enough])
        with mpi.agreed(self.comm, "keeping pairs"):
            found = np.concatenate(kept)
            order = np.argsort(found, kind="stable")
            self.codes, self.similarities = found[order], np.concatenate(similarities)[order]


def find_pairs(comm: mpi.Comm, dataset: DataFile, shard: Shard, similarity: float, bands: Bands, log: Log) -> Pairs:
    """Collective over `comm`. Pairs with a Jaccard index from `similarity` on. Raises DataError."""
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
    is_first = search.bucket(keys, shard.first_local + present, window=1)
    n_equal = present.size - int(np.count_nonzero(is_first))

    # Of the first rows of each group those that agree on a band.
    chosen = present[is_first]
    with mpi.agreed(comm, "making room for the hashes"):
        hashes, (factors, addends) = feature_hashes(shard.n_features if bands.number else 0), hash_functions(bands)
        rows = shard.rows[chosen]
        n_values = int((shard.indptr[rows + 1] - shard.indptr[rows]).sum())
    progress = Progress(log, "comparing rows", bands.number)
    for begin in range(0, bands.number, BANDS_AT_ONCE):
        some = slice(begin, min(begin + BANDS_AT_ONCE, bands.number))
        functions = factors[some].reshape(-1), addends[some].reshape(-1)
        with mpi.agreed(comm, "hashing rows"):
            keys_of_bands = np.empty((some.stop - begin, rows.size), np.uint64)
            least = np.empty(functions[0].size, np.uint32)
            for each in row_slices(rows.size, n_values * (1 + least.size // 8)):
                kernels.band_keys(features, rows[each], hashes, functions, bands.size, least, each.start, keys_of_bands)
        for band, keys in enumerate(keys_of_bands, begin):
            search.bucket(keys, shard.first_local + chosen, WINDOW)
            progress.update(band + 1)
    progress.close()
    _, totals = mpi.exclusive_sum(comm, [shard.n_local - present.size, n_equal, search.n_limited])
    first, other = np.divmod(search.codes, max(1, shard.n_global))
    return Pairs(first, other, search.similarities, *(int(total) for total in totals))

"""How far the labels of nearly equal rows agree: what a second person would have said.

C. Elkan, *Extreme multilabel learning* (2015): documents that were indexed twice by mistake show how consistent the indexers are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.kernels.rows import count_labels
from hpcml.mpi.routing import Routing
from hpcml.near_duplicates.pairs import COMPARED, Pairs, SharedRows
from hpcml.partition import entries_of

Z = 1.959963984540054  # of the normal distribution, two-sided 95 %


@dataclass
class PairLabels:
    """Of this rank's pairs: whether they count; labels of the first row, the other, and both."""

    counted: np.ndarray
    of_first: np.ndarray
    of_other: np.ndarray
    common: np.ndarray


@dataclass
class Consistency:
    """Of each label: rows with it, rows of pairs with it (once a pair), pairs of two such rows."""

    n_rows: np.ndarray
    of_rows: np.ndarray  # one + other
    both: np.ndarray

    @property
    def either(self) -> np.ndarray:
        """In how many pairs at least one row has the label."""
        return self.of_rows - self.both

    def values(self) -> np.ndarray:
        """2 · both / (one + other) of each label; NaN for those that no pair has."""
        return 2 * self.both / np.where(self.of_rows > 0, self.of_rows, np.nan)

    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of 95 % for `values`, as if pairs were drawn independently.

        Those of E. B. Wilson (1927) for p = both / either, of which the consistency 2p / (1 + p) is a rising function.
        """
        n = np.where(self.either > 0, self.either, np.nan)
        p = self.both / n
        middle, half = p + Z * Z / (2 * n), Z * np.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        low, high = ((middle + sign * half) / (1 + Z * Z / n) for sign in (-1, 1))
        low, high = np.where(self.both > 0, low, 0 * n), np.where(self.both < self.either, high, 1 + 0 * n)  # exactly
        return 2 * low / (1 + low), 2 * high / (1 + high)


def consistency_of(comm: mpi.Comm, shard: Shard, pairs: Pairs, unlabelled: np.ndarray) -> tuple[Consistency, PairLabels]:
    """Collective over `comm`. The labels' consistency over all pairs; labels of this rank's pairs.

    Of the pairs of a row with earlier ones, one counts: that with the row that it is most like, of equal ones the last. So a group
    of equal rows counts once for each of its rows. No pair of an `unlabelled` row (by its place in the split) counts.
    """
    rows, n_labels = SharedRows(comm, shard), shard.n_labels
    counted = _most_alike(rows, pairs, ~(np.isin(pairs.first, unlabelled) | np.isin(pairs.other, unlabelled)))
    with mpi.agreed(comm, "making room for the labels"):
        counts = np.zeros((3, n_labels), np.int64)
        count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts[0])
        found = np.zeros((3, pairs.first.size), np.int64)
    for begin in range(0, int(mpi.allreduce_max(comm, pairs.first.size)), COMPARED):
        some = slice(begin, begin + COMPARED)
        wanted, places = np.unique(pairs.other[some], return_inverse=True)
        indptr, indices = rows.fetch(wanted, shard.y_indptr, shard.y_indices)
        with mpi.agreed(comm, "comparing labels"):
            sizes, one = _entries(shard.y_indptr, shard.y_indices, rows.local(pairs.first[some]), n_labels)
            other_sizes, other = _entries(indptr, indices, places, n_labels)
            both = np.intersect1d(one, other)
            for count, entries in ((counts[1], one), (counts[1], other), (counts[2], both)):
                places, labels = np.divmod(entries, max(1, n_labels))
                count += np.bincount(labels[counted[some][places]], minlength=n_labels)
            found[:, some] = sizes, other_sizes, np.bincount(both // max(1, n_labels), minlength=sizes.size)
    return Consistency(*mpi.allreduce_sum(comm, counts)), PairLabels(counted, *found)


def _most_alike(rows: SharedRows, pairs: Pairs, usable: np.ndarray) -> np.ndarray:
    """Return flags of the pairs that are, of the usable ones, their second row's with the row most like. Collective."""
    routing = Routing(rows.comm, rows.owners(pairs.other))
    columns = (pairs.first, pairs.other, pairs.similarity, usable.astype(np.uint8))
    first, other, similarity, can = (routing.send(values) for values in columns)
    with mpi.agreed(rows.comm, "choosing pairs that count"):
        order = np.lexsort((-first, -similarity, can == 0, other))
        best = np.ones(other.size, np.uint8)
        best[order[1:]] = other[order[1:]] != other[order[:-1]]
    return routing.answer(best & can).astype(bool)


def _entries(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of labels of each row, and place · n_labels + label of each of them."""
    sizes, places = entries_of(indptr, rows)
    return sizes, np.repeat(np.arange(rows.size), sizes) * n_labels + indices[places]

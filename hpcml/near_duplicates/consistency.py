"""Label consistency: how far the labels of near-duplicate rows agree, which estimates how far two annotators agree.

C. Elkan, *Extreme multilabel learning* (2015), measures indexers by documents that were indexed twice by mistake.
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

Z = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


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
    """Return the consistency of labels over all pairs, and the labels of this rank's pairs. Collective over `comm`.

    Of the pairs of a row with earlier rows, only the most similar counts (the last of equal ones), so a group of equal rows counts
    once per row. Pairs with `unlabelled` rows (positions in the split) do not count.
    """
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

"""Counting scores above and at those of positives: all that rankings and thresholds ask about."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.evaluation.ranking import Ranking
from hpcml.kernels.scores import count_sorted
from hpcml.partition import offsets

_SEARCH_RATIO = 16  # with so many times more scores than places, look the places up among the scores
_NONE = np.zeros(0, dtype=np.int64)


class Counts:
    """How many scores lie above and at each distinct score of some positives."""

    def __init__(self, positives: np.ndarray, threshold: float = 0.0) -> None:
        """`positives`: the scores of all positives on all ranks; predicted above `threshold`."""
        self.threshold = threshold
        self.values, self.relevant = np.unique(positives, return_counts=True) if positives.size else (positives, _NONE)
        n = self.values.size
        # One buffer to reduce: scores above the value before and not above this one (n + 1), at it (n), and above the threshold.
        self.tally = np.zeros(2 * n + 2, dtype=np.int64)
        self._above, self._equal = self.tally[: n + 1], self.tally[n + 1 : -1]

    def add(self, scores: np.ndarray) -> None:
        """Count `scores` (1-d, ascending)."""
        self.tally[-1] += scores.size - scores.searchsorted(self.threshold, "right")
        if not self.values.size:
            return
        if scores.size < _SEARCH_RATIO * self.values.size:
            count_sorted(scores, self.values, self._above, self._equal)
            return
        right = np.searchsorted(scores, self.values, "right")
        self._equal += right - np.searchsorted(scores, self.values, "left")
        self._above += np.diff(right, prepend=0, append=scores.size)

    def ranking(self, n_items: int) -> Ranking:
        """The ranking of `n_items` scores, once all are counted and summed over the ranks."""
        greater = np.cumsum(self._above[:0:-1])
        hits = int(self.relevant[self.values > self.threshold].sum())
        return Ranking(greater, self._equal[::-1], self.relevant[::-1], n_items, int(self.tally[-1]), hits)


def positive_pairs(shard: Shard, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The shard's pairs by label: rows as slab positions, labels as `place` gives them."""
    begins = shard.y_indptr[shard.rows]
    counts = shard.y_indptr[shard.rows + 1] - begins
    shifts = np.repeat(begins - offsets(counts)[:-1], counts)
    labels = place[shard.y_indices[shifts + np.arange(shifts.size)]]
    rows = np.repeat(shard.rows, counts)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    return rows[order], labels[order]


def block_counts(comm: mpi.Comm, positives: np.ndarray, lanes: np.ndarray, thresholds: np.ndarray) -> list[Counts]:
    """Collective over `comm`. A block's counts to fill, by all ranks' positives and their lanes."""
    positives = np.concatenate(mpi.allgather_arrays(comm, positives))
    lanes = np.concatenate(mpi.allgather_arrays(comm, lanes))
    order = np.argsort(lanes, kind="stable")
    bounds = np.searchsorted(lanes[order], np.arange(thresholds.size + 1))
    of_lanes = [positives[order[begin:end]] for begin, end in pairwise(bounds.tolist())]
    return [Counts(own, threshold) for own, threshold in zip(of_lanes, thresholds.tolist(), strict=True)]


def sum_tallies(comm: mpi.Comm, counts: list[Counts]) -> None:
    """Collective over `comm`. Sum tallies over the ranks, in one message."""
    total = mpi.allreduce_sum(comm, np.concatenate([count.tally for count in counts]))
    begin = 0
    for count in counts:
        count.tally[:] = total[begin : begin + count.tally.size]
        begin += count.tally.size

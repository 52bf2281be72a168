"""The threshold for all labels that maximises mean F1 per row (`rows`), exactly and with little memory.

Problem: maximise the mean over rows of 2 hits / (predicted + true) over one threshold for all labels.
Method: F1 of a row rises only where the threshold passes the score of a true label, so these scores are the candidates. They are
tried from the largest down, in pieces: a pass over the scores loads those of a piece, which change the counts of their rows. Below
the last piece, a row has at least its predicted labels and at most all its true ones. This bounds the mean; the search ends when
the bound does not exceed the best mean.

F1 of a row is rounded to a multiple of 2^−k, with k = 52 for up to 1,023 rows and one less for each doubling. Sums are therefore
whole numbers, the same on any number of ranks, and means are compared exactly.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from hpcml import mpi
from hpcml.evaluation.scored_rows import UNSCORED, ScoredRows
from hpcml.measures import f1

PAIRS, PAIRS_PER_ROW = 1 << 22, 4  # scores that a rank loads at a time: the larger number


class Mean(NamedTuple):
    """An exact mean of F1 over rows: the sum in units of 2^−k, and the number of rows where it is defined."""

    total: int
    n: int

    def exceeds(self, other: Self) -> bool:
        """Return whether this mean is larger; x/0 is larger than any other mean, 0/0 than none."""
        return self.total * other.n > other.total * self.n if self.n else self.total > 0


class InstanceSearch:
    """The search on held-out rows. Construction and methods are collective."""

    def __init__(self, held_out: ScoredRows) -> None:
        self.held_out, self.comm = held_out, held_out.comm
        scored = held_out.positives > UNSCORED
        self.cuts = np.unique(np.concatenate(mpi.allgather_arrays(self.comm, held_out.positives[scored])))  # ascending
        self.n_rows = held_out.shard.n_local
        self.most_hits = np.bincount(held_out.rows[scored], minlength=self.n_rows)
        self.n_true = np.bincount(held_out.rows, minlength=self.n_rows) + held_out.missed.by_row
        self.bits = min(52, 62 - int(held_out.n_rows).bit_length())

    def best(self) -> tuple[float, float]:
        """Return the smallest predicted score with the largest F1, and that F1."""
        n, best, best_cut = self.cuts.size, Mean(0, 1), self.cuts.size - 1
        sizes = np.zeros(n + 1, dtype=np.int64)  # scores from each candidate to the next, and first those below all

        def count(_: int, scores: np.ndarray) -> None:
            sizes[:] += np.bincount(np.searchsorted(self.cuts, scores.ravel(), "right"), minlength=n + 1)

        self._scan(count)
        below = np.append(0, np.cumsum(mpi.allreduce_maxima(self.comm, sizes)[1:]))  # scores between candidates, on any rank
        room = max(PAIRS, PAIRS_PER_ROW * int(mpi.allreduce_max(self.comm, self.n_rows)))
        n_predicted, hits = np.zeros((2, self.n_rows), dtype=np.int64)
        mean, end = self._mean(hits, self.n_true), n
        while end:
            most = self._mean(self.most_hits, self.most_hits - hits + n_predicted + self.n_true)
            if not Mean(most.total, mean.n).exceeds(best):
                break
            begin = min(end - 1, int(np.searchsorted(below, below[end] - room)))
            changes = self._load(begin, end, n_predicted, hits)
            totals = np.array(mean) + np.cumsum(changes, axis=0)
            for number, (total, defined) in enumerate(totals.tolist()):
                if (mean := Mean(total, defined)).exceeds(best):
                    best, best_cut = mean, end - 1 - number
            end = begin
        return float(self.cuts[best_cut]), self._value(best)

    def f1_at(self, cut: float) -> float:
        n_predicted = np.zeros(self.n_rows, dtype=np.int64)

        def count(first: int, scores: np.ndarray) -> None:
            n_predicted[first : first + scores.shape[0]] += np.count_nonzero(scores >= cut, axis=1)

        self._scan(count)
        hits = np.bincount(self.held_out.rows[self.held_out.positives >= cut], minlength=self.n_rows)
        return self._value(self._mean(hits, n_predicted + self.n_true))

    def _scan(self, take: Callable[[int, np.ndarray], None]) -> None:
        for block in self.held_out.scorer.blocks:
            with mpi.agreed(self.comm, "scoring rows"):
                for first, scores in self.held_out.scores(*block):
                    take(first, scores)

    def _value(self, mean: Mean) -> float:
        return mean.total / mean.n / 2.0**self.bits if mean.n else 0.0

    def _rounded(self, hits: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return F1 in units of 2^−k (int64); `others` is the sum of predicted and true labels; 0/0 is 0."""
        return np.rint(np.ldexp(np.nan_to_num(f1(hits, others, 0)), self.bits)).astype(np.int64)

    def _mean(self, hits: np.ndarray, others: np.ndarray) -> Mean:
        sums = np.array([self._rounded(hits, others).sum(), np.count_nonzero(others)], dtype=np.int64)
        return Mean(*mpi.allreduce_sum(self.comm, sums).tolist())

    def _load(self, begin: int, end: int, n_predicted: np.ndarray, hits: np.ndarray) -> np.ndarray:
        """Predict the scores of the candidates end − 1 down to `begin`; return what each adds to sum and rows (n × 2)."""
        rising, positives, n = self.cuts[begin:end], self.held_out.positives, end - begin
        low, high = rising[0], self.cuts[end] if end < self.cuts.size else np.inf
        loaded = [(np.zeros(0, dtype=np.int64), np.zeros(0))]

        def load(first: int, scores: np.ndarray) -> None:
            rows, columns = np.nonzero((scores >= low) & ((scores < high) | (high == np.inf)))
            loaded.append((first + rows, scores[rows, columns]))

        self._scan(load)
        new_rows, new_scores = (np.concatenate(column) for column in zip(*loaded, strict=True))
        inside = (positives >= low) & (positives <= rising[-1])
        pairs = ((new_rows, new_scores), (self.held_out.rows[inside], positives[inside]))
        keys = [rows * n + (n - np.searchsorted(rising, scores, "right")) for rows, scores in pairs]
        events, of_scores = np.unique(keys[0], return_inverse=True)  # for every row the candidates that change it, in order
        n_new = np.bincount(of_scores, minlength=events.size)
        n_hits = np.bincount(np.searchsorted(events, keys[1]), minlength=events.size)
        rows, candidates = np.divmod(events, n)
        before = np.cumsum([n_new, n_hits], axis=1) - [n_new, n_hits]  # of this row and all rows before it
        first = np.searchsorted(rows, rows)
        before -= before[:, first] if events.size else 0
        hits_before, others = hits[rows] + before[1], self.n_true[rows] + n_predicted[rows] + before[0]
        gained = self._rounded(hits_before + n_hits, others + n_new) - self._rounded(hits_before, others)
        changes = np.zeros((n, 2), dtype=np.int64)
        np.add.at(changes[:, 0], candidates, gained)
        np.add.at(changes[:, 1], candidates, others == 0)
        n_predicted += np.bincount(new_rows, minlength=self.n_rows)
        hits += np.bincount(self.held_out.rows[inside], minlength=self.n_rows)
        return mpi.allreduce_sum(self.comm, changes)

"""The threshold for all labels that maximises mean F1 per row (`rows`), exactly and with little memory.

Problem: maximise the mean over rows of 2 hits / (predicted + true) over one threshold for all labels.
Method: F1 of a row rises only where the threshold passes the score of a true label, so these scores are the candidates, and branch
and bound finds the best. A pass over the scores counts the predicted labels of each row at EDGES candidates. Between two candidates
a row has at most the hits of the lower and at least the false labels of the upper one, which bounds the mean. If a bound exceeds
the best mean so far, the next pass loads the scores in between if they are few, else it counts at EDGES candidates in between.

F1 of a row is rounded to a multiple of 2^−k, with k = 52 for up to 1,023 rows and one less for each doubling. Sums are therefore
whole numbers, the same on any number of ranks, and means are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.evaluation.scored_rows import UNSCORED, ScoredRows
from hpcml.measures import f1

EDGES = 32  # candidates counted in one pass: 20 bytes per candidate and row
PAIRS = 1 << 22  # scores that a rank loads at a time


class Mean(NamedTuple):
    """An exact mean of F1 over rows: the sum in units of 2^−k, and the number of rows where it is defined."""

    total: int
    n: int

    def exceeds(self, other: Mean) -> bool:
        """Return whether this mean is larger; x/0 is larger than any other mean, 0/0 than none."""
        return self.total * other.n > other.total * self.n if self.n else self.total > 0


@dataclass
class PredictedCounts:
    n_predicted: np.ndarray
    hits: np.ndarray


class Gap(NamedTuple):
    """The candidates between two counted ones, with an upper bound of their means."""

    above: int  # number of a candidate; −1: nothing is predicted
    below: int
    bound: Mean
    n_scores: int  # between them, on the rank with most


class InstanceSearch:
    """The search on held-out rows. Construction and methods are collective."""

    def __init__(self, held_out: ScoredRows) -> None:
        self.held_out, self.comm = held_out, held_out.comm
        scored = held_out.positives[held_out.positives > UNSCORED]
        self.cuts = np.unique(np.concatenate(mpi.allgather_arrays(self.comm, scored)))[::-1]  # descending
        self.n_rows = held_out.shard.n_local
        self.n_true = np.bincount(held_out.rows, minlength=self.n_rows) + held_out.missed.by_row
        self.bits = min(52, 62 - int(held_out.n_rows).bit_length())
        self._best, self._best_cut = Mean(0, 1), 0

    def best(self) -> tuple[float, float]:
        """Return the smallest predicted score with the largest F1, and that F1."""
        waiting = [Gap(-1, self.cuts.size, Mean(1, 0), 0)]
        while waiting:
            gap = waiting.pop()
            if gap.below - gap.above > 1 and gap.bound.exceeds(self._best):
                waiting += self._narrow(gap)
        return float(self.cuts[self._best_cut]), self._value(self._best)

    def f1_at(self, cut: float) -> float:
        (state,) = self._count(np.array([cut]))
        return self._value(Mean(*self._sums([self._f1(state)])[0].tolist()))

    def _value(self, mean: Mean) -> float:
        return mean.total / mean.n / 2.0**self.bits if mean.n else 0.0

    def _narrow(self, gap: Gap) -> list[Gap]:
        spread = np.linspace(gap.above, gap.below, EDGES + 2)[1:-1].round().astype(np.int64)
        if gap.below == self.cuts.size:  # where all true labels are predicted
            spread = np.append(spread, gap.below - 1)
        inside = np.unique(np.clip(spread, gap.above + 1, gap.below - 1))
        ends = [end for end in (gap.above, gap.below) if 0 <= end < self.cuts.size]
        counted = np.unique([*ends, *inside.tolist()])
        states = dict(zip(counted.tolist(), self._count(self.cuts[counted]), strict=True))
        states[-1] = PredictedCounts(np.zeros(self.n_rows, dtype=np.int64), np.zeros(self.n_rows, dtype=np.int64))
        numbers = [gap.above, *inside.tolist(), *([gap.below] if gap.below < self.cuts.size else [])]
        columns = [self._f1(states[number]) for number in numbers]
        columns += [self._bound(states[a], states[b]) for a, b in pairwise(numbers)]
        sums = [Mean(*pair) for pair in self._sums(columns).tolist()]
        for number, mean in zip(numbers, sums, strict=False):
            if number in inside:
                self._try(number, mean)
        sizes = [int((states[b].n_predicted - states[a].n_predicted).sum()) for a, b in pairwise(numbers)]
        most = mpi.allreduce_maxima(self.comm, np.array(sizes, dtype=np.int64)).tolist()
        gaps = []
        for k, (a, b) in enumerate(pairwise(numbers)):
            bound = Mean(sums[len(numbers) + k].total, sums[k].n)
            if b - a > 1 and bound.exceeds(self._best):
                gaps.append(Gap(a, b, bound, most[k]))
        if gaps and sum(part.n_scores for part in gaps) <= PAIRS:
            self._sweep(gaps, states)
            return []
        return sorted(gaps, key=lambda part: part.bound.total / max(1, part.bound.n))

    def _count(self, cuts: np.ndarray) -> list[PredictedCounts]:
        held_out, rising, width = self.held_out, cuts[::-1], cuts.size + 1
        counts = np.zeros((self.n_rows, width), dtype=np.int32)
        for begin, end in held_out.scorer.blocks:
            with mpi.agreed(self.comm, "scoring rows"):
                for first, scores in held_out.scores(begin, end):
                    own = np.arange(scores.shape[0])[:, None] * width + np.searchsorted(rising, scores, "right")
                    counted = np.bincount(own.ravel(), minlength=scores.shape[0] * width)
                    counts[first : first + scores.shape[0]] += counted.reshape(-1, width).astype(np.int32)
        own = held_out.rows * width + np.searchsorted(rising, held_out.positives, "right")
        hits = np.bincount(own, minlength=self.n_rows * width).reshape(-1, width)
        above = [np.cumsum(table[:, ::-1], axis=1, dtype=np.int32) for table in (counts, hits)]
        return [PredictedCounts(*(table[:, k] for table in above)) for k in range(cuts.size)]

    def _rounded(self, hits: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return F1 in units of 2^−k (int64); `others` is the sum of predicted and true labels; 0/0 is 0."""
        return np.rint(np.ldexp(np.nan_to_num(f1(hits, others, 0)), self.bits)).astype(np.int64)

    def _f1(self, state: PredictedCounts) -> tuple[int, int]:
        together = state.n_predicted + self.n_true
        return int(self._rounded(state.hits, together).sum()), int(np.count_nonzero(together))

    def _bound(self, above: PredictedCounts, below: PredictedCounts) -> tuple[int, int]:
        together = above.n_predicted + (below.hits - above.hits) + self.n_true
        return int(self._rounded(below.hits, together).sum()), 0

    def _sums(self, columns: list[tuple[int, int]]) -> np.ndarray:
        return mpi.allreduce_sum(self.comm, np.array(columns, dtype=np.int64).reshape(-1, 2))

    def _try(self, number: int, mean: Mean) -> None:
        if mean.exceeds(self._best) or (not self._best.exceeds(mean) and number < self._best_cut):
            self._best, self._best_cut = mean, number

    def _sweep(self, gaps: list[Gap], states: dict[int, PredictedCounts]) -> None:
        # the rows of the scores between the candidates of each gap, and these scores
        none = np.zeros(0, dtype=np.int64), np.zeros(0)
        parts: list[list[tuple[np.ndarray, np.ndarray]]] = [[none] for _ in gaps]
        limits = [(self.cuts[gap.below - 1], np.inf if gap.above < 0 else self.cuts[gap.above]) for gap in gaps]
        for begin, end in self.held_out.scorer.blocks:
            with mpi.agreed(self.comm, "scoring rows"):
                for row, scores in self.held_out.scores(begin, end):
                    for of_gap, (low, high) in zip(parts, limits, strict=True):
                        rows, columns = np.nonzero((scores >= low) & ((scores < high) | (high == np.inf)))
                        of_gap.append((row + rows, scores[rows, columns]))
        positives = self.held_out.positives
        for gap, of_gap in zip(gaps, parts, strict=True):
            predicted_rows, predicted = (np.concatenate(column) for column in zip(*of_gap, strict=True))
            start, rising = states[gap.above], self.cuts[gap.above + 1 : gap.below][::-1]
            inside, n = (positives >= rising[0]) & (positives <= rising[-1]), rising.size
            # the changes at each candidate, from the rows and scores below `start`
            pairs = ((predicted_rows, predicted), (self.held_out.rows[inside], positives[inside]))
            keys = [rows * n + (n - np.searchsorted(rising, scores, "right")) for rows, scores in pairs]
            events, of_scores = np.unique(keys[0], return_inverse=True)  # for every row the candidates that change it, in order
            n_new = np.bincount(of_scores, minlength=events.size)
            n_hits = np.bincount(np.searchsorted(events, keys[1]), minlength=events.size)
            rows, candidates = np.divmod(events, n)
            before = np.cumsum([n_new, n_hits], axis=1) - [n_new, n_hits]  # of this row and all rows before it
            first = np.searchsorted(rows, rows)
            before -= before[:, first] if events.size else 0
            n_before, hits_before = start.n_predicted[rows] + before[0], start.hits[rows] + before[1]
            others = self.n_true[rows] + n_before
            gained = self._rounded(hits_before + n_hits, others + n_new) - self._rounded(hits_before, others)
            changes = np.zeros((n, 2), dtype=np.int64)
            np.add.at(changes[:, 0], candidates, gained)
            np.add.at(changes[:, 1], candidates, others == 0)
            mpi.allreduce_sum(self.comm, changes)
            sums = self._sums([self._f1(start)]) + np.cumsum(changes, axis=0)
            for number, (total, defined) in enumerate(sums.tolist(), gap.above + 1):
                self._try(number, Mean(total, defined))

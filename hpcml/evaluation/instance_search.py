"""The one threshold for all labels that maximises F1 per row (`rows`), exactly, in little memory.

As the threshold falls, F1 of a row changes with every score that it passes, but it rises only at those of true labels. So these are
the candidates, and branch and bound finds the best. A pass over the scores counts, for each row, the labels that are given at EDGES
of the candidates. Between two of these a row has at most the hits of the lower one, and at least the other labels of the upper one,
which bounds the mean there. Where it could still be larger than the best mean so far, another pass takes the scores in between into
memory if they are few; if not, it counts at EDGES candidates there.

F1 of a row is rounded to a multiple of 2^−k, with k = 52 for up to 1,023 rows and one less for each doubling, so that sums are
whole numbers: the same on any number of ranks. Means are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.evaluation.judged import UNSCORED, JudgedRows
from hpcml.measures import f1

EDGES = 32  # candidates that one pass counts: 20 bytes for each and for each row
PAIRS = 1 << 22  # scores that a rank takes into memory at once


class Mean(NamedTuple):
    """A mean of F1 over rows, exactly: the sum in units of 2^−k, the rows where it is defined."""

    total: int
    n: int

    def exceeds(self, other: Mean) -> bool:
        """Whether it is larger than another; x/0 is larger than all, 0/0 than none."""
        return self.total * other.n > other.total * self.n if self.n else self.total > 0


@dataclass
class GivenLabels:
    """Labels that one threshold gives each row of the rank, and true ones among them (n_rows)."""

    given: np.ndarray
    hits: np.ndarray


class Gap(NamedTuple):
    """The candidates between two that were counted, with a bound of their means."""

    above: int  # number of a candidate; −1: nothing is predicted
    below: int
    bound: Mean
    n_scores: int  # between them, of the rank that has most


class InstanceSearch:
    """The search on some held-out rows."""

    def __init__(self, held_out: JudgedRows) -> None:
        """Collective over the communicator of the rows."""
        self.held_out, self.comm = held_out, held_out.comm
        scored = held_out.positives[held_out.positives > UNSCORED]
        self.cuts = np.unique(np.concatenate(mpi.allgather_arrays(self.comm, scored)))[::-1]  # best first
        self.n_rows = held_out.shard.n_local
        self.n_true = np.bincount(held_out.rows, minlength=self.n_rows) + held_out.missed.by_row
        self.bits = min(52, 62 - int(held_out.n_rows).bit_length())
        self._best, self._place = Mean(0, 1), 0

    def best(self) -> tuple[float, float]:
        """Collective. The least score that is predicted where F1 is largest, and that F1."""
        waiting = [Gap(-1, self.cuts.size, Mean(1, 0), 0)]
        while waiting:
            gap = waiting.pop()
            if gap.below - gap.above > 1 and gap.bound.exceeds(self._best):
                waiting += self._narrow(gap)
        return float(self.cuts[self._place]), self._value(self._best)

    def f1_at(self, cut: float) -> float:
        """Collective. F1 per row where scores of at least `cut` are predicted."""
        (state,) = self._count(np.array([cut]))
        return self._value(Mean(*self._sums([self._f1(state)])[0].tolist()))

    def _value(self, mean: Mean) -> float:
        return mean.total / mean.n / 2.0**self.bits if mean.n else 0.0

    def _narrow(self, gap: Gap) -> list[Gap]:
        """Collective. Evaluate candidates of a gap. Return the gaps that remain, the most promising last."""
        spread = np.linspace(gap.above, gap.below, EDGES + 2)[1:-1].round().astype(np.int64)
        if gap.below == self.cuts.size:  # where all true labels are given
            spread = np.append(spread, gap.below - 1)
        inside = np.unique(np.clip(spread, gap.above + 1, gap.below - 1))
        ends = [end for end in (gap.above, gap.below) if 0 <= end < self.cuts.size]
        counted = np.unique([*ends, *inside.tolist()])
        states = dict(zip(counted.tolist(), self._count(self.cuts[counted]), strict=True))
        states[-1] = GivenLabels(np.zeros(self.n_rows, dtype=np.int64), np.zeros(self.n_rows, dtype=np.int64))
        numbers = [gap.above, *inside.tolist(), *([gap.below] if gap.below < self.cuts.size else [])]
        columns = [self._f1(states[number]) for number in numbers]
        columns += [self._bound(states[a], states[b]) for a, b in pairwise(numbers)]
        sums = [Mean(*pair) for pair in self._sums(columns).tolist()]
        for number, mean in zip(numbers, sums, strict=False):
            if number in inside:
                self._try(number, mean)
        sizes = [int((states[b].given - states[a].given).sum()) for a, b in pairwise(numbers)]
        most = mpi.allreduce_maxima(self.comm, np.array(sizes, dtype=np.int64)).tolist()
        left = []
        for k, (a, b) in enumerate(pairwise(numbers)):
            bound = Mean(sums[len(numbers) + k].total, sums[k].n)
            if b - a > 1 and bound.exceeds(self._best):
                left.append(Gap(a, b, bound, most[k]))
        if left and sum(part.n_scores for part in left) <= PAIRS:
            self._sweep(left, states)
            return []
        return sorted(left, key=lambda part: part.bound.total / max(1, part.bound.n))

    def _count(self, cuts: np.ndarray) -> list[GivenLabels]:
        """Collective. What each of these least scores (falling) gives the rows."""
        held_out, rising, width = self.held_out, cuts[::-1], cuts.size + 1
        given = np.zeros((self.n_rows, width), dtype=np.int32)
        for begin, end in held_out.scorer.blocks:
            with mpi.agreed(self.comm, "scoring rows"):
                for first, scores in held_out.scores(begin, end):
                    own = np.arange(scores.shape[0])[:, None] * width + np.searchsorted(rising, scores, "right")
                    counted = np.bincount(own.ravel(), minlength=scores.shape[0] * width)
                    given[first : first + scores.shape[0]] += counted.reshape(-1, width).astype(np.int32)
        own = held_out.rows * width + np.searchsorted(rising, held_out.positives, "right")
        hits = np.bincount(own, minlength=self.n_rows * width).reshape(-1, width)
        above = [np.cumsum(table[:, ::-1], axis=1, dtype=np.int32) for table in (given, hits)]
        return [GivenLabels(*(table[:, k] for table in above)) for k in range(cuts.size)]

    def _rounded(self, hits: np.ndarray, others: np.ndarray) -> np.ndarray:
        """F1 in units of 2^−k (int64), `others` being given and true ones together; 0 where it is 0/0."""
        return np.rint(np.ldexp(np.nan_to_num(f1(hits, others, 0)), self.bits)).astype(np.int64)

    def _f1(self, state: GivenLabels) -> tuple[int, int]:
        """This rank's sum of F1, and the rows where it is defined."""
        together = state.given + self.n_true
        return int(self._rounded(state.hits, together).sum()), int(np.count_nonzero(together))

    def _bound(self, above: GivenLabels, below: GivenLabels) -> tuple[int, int]:
        """This rank's sum of the largest F1 that thresholds between two can have."""
        together = above.given + (below.hits - above.hits) + self.n_true
        return int(self._rounded(below.hits, together).sum()), 0

    def _sums(self, columns: list[tuple[int, int]]) -> np.ndarray:
        """Collective. Pairs of whole numbers, summed over the ranks."""
        return mpi.allreduce_sum(self.comm, np.array(columns, dtype=np.int64).reshape(-1, 2))

    def _try(self, number: int, mean: Mean) -> None:
        """Keep a candidate if it is better, or as good and higher."""
        if mean.exceeds(self._best) or (not self._best.exceeds(mean) and number < self._place):
            self._best, self._place = mean, number

    def _sweep(self, gaps: list[Gap], states: dict[int, GivenLabels]) -> None:
        """Collective. Judge every candidate in the gaps, from the scores in them."""
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
            given_rows, given = (np.concatenate(column) for column in zip(*of_gap, strict=True))
            start, rising = states[gap.above], self.cuts[gap.above + 1 : gap.below][::-1]
            mine, n = (positives >= rising[0]) & (positives <= rising[-1]), rising.size
            # what each candidate changes, by the rows and scores that come in after `start`
            pairs = ((given_rows, given), (self.held_out.rows[mine], positives[mine]))
            keys = [rows * n + (n - np.searchsorted(rising, scores, "right")) for rows, scores in pairs]
            events, place = np.unique(keys[0], return_inverse=True)  # of every row the candidates that change it, in order
            n_given = np.bincount(place, minlength=events.size)
            n_hits = np.bincount(np.searchsorted(events, keys[1]), minlength=events.size)
            rows, candidates = np.divmod(events, n)
            before = np.cumsum([n_given, n_hits], axis=1) - [n_given, n_hits]  # of this row and all rows before it
            first = np.searchsorted(rows, rows)
            before -= before[:, first] if events.size else 0
            given_before, hits_before = start.given[rows] + before[0], start.hits[rows] + before[1]
            others = self.n_true[rows] + given_before
            gained = self._rounded(hits_before + n_hits, others + n_given) - self._rounded(hits_before, others)
            changes = np.zeros((n, 2), dtype=np.int64)
            np.add.at(changes[:, 0], candidates, gained)
            np.add.at(changes[:, 1], candidates, others == 0)
            mpi.allreduce_sum(self.comm, changes)
            sums = self._sums([self._f1(start)]) + np.cumsum(changes, axis=0)
            for number, (total, defined) in enumerate(sums.tolist(), gap.above + 1):
                self._try(number, Mean(total, defined))

"""Measures of one ranking, from counts; of ties the expectation over a uniformly random order.

Closed forms: McSherry & Najork, "Computing Information Retrieval Performance Measures Efficiently
in the Presence of Tied Scores", 2008. A measure that is undefined (no positives, no negatives,
nothing predicted) is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.kernels import elementwise

_DIRECT = 16  # so many terms of a sum over a tie are added one by one, the rest by the Euler-Maclaurin formula
_HARMONIC = -1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132  # Σ 1/k = ln x + 1/2x + c₁/x² + c₂/x⁴ + ...


@dataclass(frozen=True)
class Ranking:
    """The counts of one ranking of `n_items` scores from which its measures follow.

    The first three (n_ties, int64) are of the distinct scores of positives, highest first: how many
    items score more, how many the same, with the positives, and how many of those are positive.
    """

    greater: np.ndarray
    equal: np.ndarray
    relevant: np.ndarray
    n_items: int
    n_predicted: int  # items with a score above the threshold, by default 0
    n_hits: int  # positives among them
    n_missed: int = 0  # positives without a score, which are never retrieved (`judged.Missed`); none of the items

    @property
    def n_positive(self) -> int:
        """The number of positives, with those that are not among the items."""
        return int(self.relevant.sum()) + self.n_missed

    @property
    def relevant_before(self) -> np.ndarray:
        """Positives that score more than each tie (n_ties, int64)."""
        return np.cumsum(self.relevant) - self.relevant


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan


def _tie_sums(greater: np.ndarray, equal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each tie of n items after t others: Σ 1/(t+i) and Σ (i−1)/(t+i) over i = 1..n."""
    t, n = greater.astype(np.float64), equal.astype(np.float64)
    reciprocals, weighted = 1.0 / (t + 1.0), np.zeros(t.size)
    if equal.max(initial=1) <= 1:
        return reciprocals, weighted
    for i in range(2, _DIRECT + 1):
        more = np.flatnonzero(equal >= i)
        reciprocals[more] += 1.0 / (t[more] + i)
        weighted[more] += (i - 1.0) / (t[more] + i)
    more = np.flatnonzero(equal > _DIRECT)
    if more.size:
        t, n = t[more], n[more]
        low, high, rest = t + _DIRECT, t + n, n - _DIRECT
        tail = elementwise.log1p(rest / low) - rest / (2.0 * low * high)
        of_high, of_low = np.ones(low.size), np.ones(low.size)
        for coefficient in _HARMONIC:
            of_high, of_low = of_high / (high * high), of_low / (low * low)
            tail += coefficient * (of_high - of_low)
        reciprocals[more] += tail
        weighted[more] += rest - (t + 1.0) * tail
    return reciprocals, weighted


def average_precision(ranking: Ranking) -> float:
    """The mean over positives of the expected precision at their rank (PRC area, by steps)."""
    n, r = ranking.equal, ranking.relevant
    reciprocals, weighted = _tie_sums(ranking.greater, n)
    growth = (r - 1) / np.maximum(n - 1, 1)  # expected positives per earlier item of the tie, given that one is positive
    terms = r / n * ((ranking.relevant_before + 1) * reciprocals + growth * weighted)
    return _ratio(float(terms.sum()), ranking.n_positive)


def break_even(ranking: Ranking) -> float:
    """R-precision: the expected share of positives among the first R items, R = all positives."""
    total = ranking.n_positive
    inside = np.clip(total - ranking.greater, 0, ranking.equal)  # items of the tie that are among the first R
    return _ratio(float((ranking.relevant * (inside / ranking.equal)).sum()), total)


def auc(ranking: Ranking) -> float:
    """ROC area: the share of (positive, negative) pairs in the right order, ties counting half."""
    n_negative = ranking.n_items - int(ranking.relevant.sum())
    if not n_negative:
        return math.nan
    above = ranking.greater - ranking.relevant_before  # negatives that score more
    lost = above + 0.5 * (ranking.equal - ranking.relevant)
    return _ratio(float((ranking.relevant * (1.0 - lost / n_negative)).sum()), ranking.n_positive)


def precision(ranking: Ranking) -> float:
    """The share of positives among the predicted items."""
    return _ratio(ranking.n_hits, ranking.n_predicted)


def recall(ranking: Ranking) -> float:
    """The share of predicted items among the positives."""
    return _ratio(ranking.n_hits, ranking.n_positive)


def f1_of(hits: Any, given: Any, true: Any) -> Any:
    """F1 from counts, or arrays of them: the harmonic mean of precision and recall; 0/0 is NaN."""
    with np.errstate(invalid="ignore"):
        return np.divide(2.0 * hits, given + true)


def f1(ranking: Ranking) -> float:
    """The harmonic mean of precision and recall."""
    return float(f1_of(ranking.n_hits, ranking.n_predicted, ranking.n_positive))


def misclassified(ranking: Ranking) -> float:
    """How many items are predicted wrongly: positives that are not, and others that are."""
    return float(ranking.n_predicted + ranking.n_positive - 2 * ranking.n_hits)


MEASURES: dict[str, Callable[[Ranking], float]] = {
    "average_precision": average_precision,
    "break_even": break_even,
    "auc": auc,
    "f1": f1,
    "precision": precision,
    "recall": recall,
    "misclassified": misclassified,
}
COUNTS = frozenset({"misclassified"})  # measures that are numbers of items, not shares

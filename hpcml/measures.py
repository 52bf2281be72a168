"""The definition of every measure, once: functions of counts, used by evaluate, tune, threshold, report and cv.

A measure of one ranking is the expectation over a uniformly random order of the ties. Closed forms: McSherry & Najork, "Computing
Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores", 2008. A measure that is undefined (no
positives, no negatives, nothing given) is NaN, and in no mean. A macro measure is the mean over labels (MAP: that of the average
precision); a micro measure is that of the counts of all rows and labels together.

F1 of a row is 2 hits / (given + true). Of a row without true and without given labels it is 0/0
(scikit-learn's `zero_division=nan`). As 0 it would hide what false labels cost on such rows, as 1 a
model that gives nothing would look good wherever few rows have one of the labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.kernels import elementary, elementwise

PRECISION_AT = (1, 3, 5)
PROPENSITY_A, PROPENSITY_B = 0.55, 1.5  # Jain, Prabhu & Varma 2016
_DIRECT = 16  # so many terms of a sum over a tie are added one by one, the rest by the Euler-Maclaurin formula
_HARMONIC = -1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132  # Σ 1/k = ln x + 1/2x + c₁/x² + c₂/x⁴ + ...

# Of counts, or arrays of them: hits, given and true items.
FRACTIONS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "f1": lambda hits, given, true: (2.0 * hits, given + true),
    "precision": lambda hits, given, _: (hits, given),
    "recall": lambda hits, _, true: (hits, true),
}


def ratio(above: Any, below: Any) -> Any:
    """Return the quotient of counts, or arrays of them; 0/0 is NaN."""
    with np.errstate(invalid="ignore"):
        return np.divide(above, below)


def f1(hits: Any, given: Any, true: Any) -> Any:
    """Return the harmonic mean of precision and recall."""
    return ratio(*FRACTIONS["f1"](hits, given, true))


def precision(hits: Any, given: Any) -> Any:
    """Return the share of positives among the given items."""
    return ratio(*FRACTIONS["precision"](hits, given, 0))


def recall(hits: Any, true: Any) -> Any:
    """Return the share of given items among the positives."""
    return ratio(*FRACTIONS["recall"](hits, 0, true))


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
    n_missed: int = 0  # positives without a score, which are never retrieved; none of the items

    @property
    def n_positive(self) -> int:
        """The number of positives, with those that are not among the items."""
        return int(self.relevant.sum()) + self.n_missed

    @property
    def relevant_before(self) -> np.ndarray:
        """Positives that score more than each tie (n_ties, int64)."""
        return np.cumsum(self.relevant) - self.relevant


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
    return float(ratio(terms.sum(), ranking.n_positive))


def break_even(ranking: Ranking) -> float:
    """R-precision: the expected share of positives among the first R items, R = all positives."""
    total = ranking.n_positive
    inside = np.clip(total - ranking.greater, 0, ranking.equal)  # items of the tie that are among the first R
    return float(ratio((ranking.relevant * (inside / ranking.equal)).sum(), total))


def auc(ranking: Ranking) -> float:
    """ROC area: the share of (positive, negative) pairs in the right order, ties counting half."""
    n_negative = ranking.n_items - int(ranking.relevant.sum())
    if not n_negative:
        return math.nan
    above = ranking.greater - ranking.relevant_before  # negatives that score more
    lost = above + 0.5 * (ranking.equal - ranking.relevant)
    return float(ratio((ranking.relevant * (1.0 - lost / n_negative)).sum(), ranking.n_positive))


def best_f1(ranking: Ranking) -> tuple[int, float]:
    """Return the first tie with the largest F1 if its items and those above are given, and that F1; (-1, 0) without a tie."""
    if not ranking.greater.size:
        return -1, 0.0
    values = f1(np.cumsum(ranking.relevant), ranking.greater + ranking.equal, ranking.n_positive)
    place = int(np.argmax(values))
    return place, float(values[place])


MEASURES: dict[str, Callable[[Ranking], float]] = {
    "average_precision": average_precision,
    "break_even": break_even,
    "auc": auc,
    "f1": lambda ranking: float(f1(ranking.n_hits, ranking.n_predicted, ranking.n_positive)),
    "precision": lambda ranking: float(precision(ranking.n_hits, ranking.n_predicted)),
    "recall": lambda ranking: float(recall(ranking.n_hits, ranking.n_positive)),
    "misclassified": lambda ranking: float(ranking.n_predicted + ranking.n_positive - 2 * ranking.n_hits),
}
COUNTS = frozenset({"misclassified"})  # measures that are numbers of items, not shares


class LabelMeasures:
    """Measures of labels, and their means over the labels."""

    values: dict[str, np.ndarray]  # measure -> one value per label
    n_positive: np.ndarray  # per label, rows that have it

    def in_macro(self, measure: str) -> np.ndarray:
        """Which labels are in the macro mean: those with a positive row and a defined value."""
        return (self.n_positive > 0) & ~np.isnan(self.values[measure])

    def macro(self, measure: str, among: np.ndarray | bool = True) -> float:
        """The mean of a measure over its labels (`in_macro`), or those `among` (bool) them; NaN if there are none."""
        chosen = self.values[measure][self.in_macro(measure) & among]
        return float(chosen.mean()) if chosen.size else math.nan


def precision_at(hits: np.ndarray, n_rows: int) -> dict[int, float]:
    """For each k of PRECISION_AT the share of true ones among the k best labels of the rows; `hits`: true ones at each place."""
    totals = np.cumsum(hits)
    sizes = {k: min(k, hits.size) for k in PRECISION_AT}
    return {k: int(totals[n - 1]) / (n * n_rows) if n_rows and n else math.nan for k, n in sizes.items()}


def ndcg_at(true: np.ndarray, n_true: np.ndarray) -> dict[int, np.ndarray]:
    """For each k of PRECISION_AT the nDCG@k of the rows with a true label (`n_true` (n) of each).

    `true` (n × k) says which of a row's best labels are true. DCG@k = Σ true / log₂(place + 1); the ideal has the true ones first.
    """
    discounts = 1.0 / elementwise.log2(np.arange(2, max(PRECISION_AT) + 2))
    gained, ideal = np.cumsum(true * discounts[: true.shape[1]], axis=1), np.cumsum(discounts)
    some = n_true > 0
    return {k: gained[some, min(k, true.shape[1]) - 1] / ideal[np.minimum(n_true[some], k) - 1] for k in PRECISION_AT}


def propensities(n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """The share of a label's true rows that are known to have it (Jain, Prabhu & Varma 2016).

    p = 1 / (1 + C e^{−A ln(n_positive + B)}), C = (ln n − 1)(B + 1)^A, of n training rows; 1 for
    fewer than 3, where C is negative.
    """
    C = max(0.0, elementary.log(float(max(n_rows, 1))) - 1.0) * elementary.power(PROPENSITY_B + 1.0, PROPENSITY_A)
    return 1.0 / (1.0 + C * elementwise.power(n_positive + PROPENSITY_B, -PROPENSITY_A))


def brier(squares: Any, n_items: int) -> Any:
    """Return the mean of (p − y)², from its sum over the items (Brier 1950)."""
    return squares / max(1, n_items)


def calibration_error(differences: np.ndarray, n_items: int) -> Any:
    """Return the expected calibration error, from Σ (p − y) over the items of each bin (... × bins), bins being equally wide.

    Naeini, Cooper & Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.
    """
    return np.abs(differences).sum(axis=-1) / max(1, n_items)


def chi_square(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return χ² = N (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)) of features and labels; 0 if undefined (Yang & Pedersen 1997).

    A, B: rows with the feature, and with the label or not; C, D: rows without it. `both` is A, `present` A + B,
    `positive` A + C, of fitting shapes. AD − CB = A N − (A + B)(A + C).
    """
    with_feature, with_label = present.astype(np.float64), positive.astype(np.float64)
    difference = both.astype(np.float64) * n_rows - with_feature * with_label
    expected = with_feature * with_label * (n_rows - with_feature) * (n_rows - with_label)
    return np.divide(n_rows * np.square(difference), expected, out=np.zeros(both.shape), where=expected > 0)

"""The definition of every measure, used by evaluate, tune, threshold, report and cv: functions of counts.

A measure of one ranking is the expectation over a uniformly random order of ties. Closed forms: McSherry & Najork, "Computing
Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores", 2008. An undefined measure (no positives, no
negatives, no predictions) is NaN and excluded from means. A macro measure is the mean over labels (MAP: of the average precision);
a micro measure is computed from the counts of all rows and labels together.

F1 of a row is 2 hits / (predicted + true). Without true and predicted labels it is 0/0 (scikit-learn's `zero_division=nan`). A
value of 0 would hide the cost of false labels on such rows; a value of 1 would favour a model that predicts nothing if few rows
have labels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.kernels import elementary, elementwise

PRECISION_AT = (1, 3, 5)
PROPENSITY_A, PROPENSITY_B = 0.55, 1.5  # Jain, Prabhu & Varma 2016
_DIRECT = 16  # terms of a sum over a tie that are added directly; the rest by the Euler-Maclaurin formula
_HARMONIC = -1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132  # Σ 1/k = ln x + 1/2x + c₁/x² + c₂/x⁴ + ...

# Numerator and denominator from counts (or arrays) of hits, predicted and true items.
FRACTIONS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "f1": lambda hits, predicted, true: (2.0 * hits, predicted + true),
    "precision": lambda hits, predicted, _: (hits, predicted),
    "recall": lambda hits, _, true: (hits, true),
}


def ratio(above: Any, below: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.divide(above, below)


def f1(hits: Any, predicted: Any, true: Any) -> Any:
    return ratio(*FRACTIONS["f1"](hits, predicted, true))


def precision(hits: Any, predicted: Any) -> Any:
    return ratio(*FRACTIONS["precision"](hits, predicted, 0))


def recall(hits: Any, true: Any) -> Any:
    return ratio(*FRACTIONS["recall"](hits, 0, true))


@dataclass(frozen=True)
class Ranking:
    """Counts of one ranking of `n_items` scores, or of several with equally many ties; its measures follow from them.

    The first three (..., n_ties, int64) describe the distinct scores of positives, highest first: number of items with a higher
    score, number with the same score (positives included), and number of positives among the latter. The others are numbers, or
    arrays (...), as are the measures.
    """

    greater: np.ndarray
    equal: np.ndarray
    relevant: np.ndarray
    n_items: Any
    n_predicted: Any  # items with a score above the threshold
    n_hits: Any  # positives among them
    n_missed: Any = 0  # positives without a score, which are not among the items and never retrieved

    @property
    def n_positive(self) -> Any:
        return self.relevant.sum(axis=-1) + self.n_missed

    @property
    def relevant_before(self) -> np.ndarray:
        """Number of positives with a higher score than each tie (..., n_ties, int64)."""
        return np.cumsum(self.relevant, axis=-1) - self.relevant


def _tie_sums(greater: np.ndarray, equal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ 1/(t+i) and Σ (i−1)/(t+i) over i = 1..n, for each tie of n items after t others."""
    shape, equal = equal.shape, equal.ravel()
    t, n = greater.ravel().astype(np.float64), equal.astype(np.float64)
    reciprocals, weighted = 1.0 / (t + 1.0), np.zeros(t.size)
    for i in range(2, _DIRECT + 1):
        more = np.flatnonzero(equal >= i)
        if not more.size:
            break
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
    return reciprocals.reshape(shape), weighted.reshape(shape)


def average_precision(ranking: Ranking) -> Any:
    """Return the mean over positives of the expected precision at their rank (area under the PR curve, by steps)."""
    n, r = ranking.equal, ranking.relevant
    reciprocals, weighted = _tie_sums(ranking.greater, n)
    growth = (r - 1) / np.maximum(n - 1, 1)  # expected positives per earlier item of the tie, given that one is positive
    terms = r / n * ((ranking.relevant_before + 1) * reciprocals + growth * weighted)
    return ratio(terms.sum(axis=-1), ranking.n_positive)


def break_even(ranking: Ranking) -> Any:
    """Return the R-precision: the expected share of positives among the first R items, R = number of positives."""
    total = ranking.n_positive
    inside = np.clip(total[..., None] - ranking.greater, 0, ranking.equal)  # items of the tie that are among the first R
    return ratio((ranking.relevant * (inside / ranking.equal)).sum(axis=-1), total)


def auc(ranking: Ranking) -> Any:
    """Return the ROC AUC: the share of (positive, negative) pairs in the right order, ties counting half."""
    n_negative = ranking.n_items - ranking.relevant.sum(axis=-1)
    above = ranking.greater - ranking.relevant_before  # negatives that score more
    lost = above + 0.5 * (ranking.equal - ranking.relevant)
    shares = ratio((ranking.relevant * (1.0 - lost / np.maximum(n_negative, 1)[..., None])).sum(axis=-1), ranking.n_positive)
    return np.where(n_negative > 0, shares, np.nan)


def best_f1(ranking: Ranking) -> tuple[int, float]:
    """Return the first tie with the largest F1 if it and all higher scores are predicted, and that F1; (-1, 0) without ties."""
    if not ranking.greater.size:
        return -1, 0.0
    values = f1(np.cumsum(ranking.relevant), ranking.greater + ranking.equal, ranking.n_positive)
    tie = int(np.argmax(values))
    return tie, float(values[tie])


MEASURES: dict[str, Callable[[Ranking], Any]] = {
    "average_precision": average_precision,
    "break_even": break_even,
    "auc": auc,
    "f1": lambda ranking: f1(ranking.n_hits, ranking.n_predicted, ranking.n_positive),
    "precision": lambda ranking: precision(ranking.n_hits, ranking.n_predicted),
    "recall": lambda ranking: recall(ranking.n_hits, ranking.n_positive),
    "misclassified": lambda ranking: ranking.n_predicted + ranking.n_positive - 2 * ranking.n_hits,
}
COUNTS = frozenset({"misclassified"})  # measures that are counts, not shares


class LabelMeasures:
    values: dict[str, np.ndarray]  # measure -> value per label
    n_positive: np.ndarray  # rows with each label

    def in_macro(self, measure: str) -> np.ndarray:
        """Return a mask of the labels in the macro mean: those with a positive row and a defined value."""
        return (self.n_positive > 0) & ~np.isnan(self.values[measure])

    def macro(self, measure: str, among: np.ndarray | bool = True) -> float:
        """Return the mean of a measure over the labels `in_macro` and `among` (mask); NaN if there are none."""
        chosen = self.values[measure][self.in_macro(measure) & among]
        return float(chosen.mean()) if chosen.size else math.nan


def precision_at(hits: np.ndarray, n_rows: int) -> dict[int, float]:
    """Return P@k for each k of PRECISION_AT; `hits` counts true labels at each position of the rows' rankings."""
    totals = np.cumsum(hits)
    sizes = {k: min(k, hits.size) for k in PRECISION_AT}
    return {k: int(totals[n - 1]) / (n * n_rows) if n_rows and n else math.nan for k, n in sizes.items()}


def ndcg_at(true: np.ndarray, n_true: np.ndarray) -> dict[int, np.ndarray]:
    """Return, for each k of PRECISION_AT, nDCG@k of the rows with a true label (`n_true` (n) of each).

    `true` (n × k) marks the true labels among a row's best. DCG@k = Σ true / log₂(position + 1); the ideal ranks true labels first.
    """
    discounts = 1.0 / elementwise.log2(np.arange(2, max(PRECISION_AT) + 2))
    gained, ideal = np.cumsum(true * discounts[: true.shape[1]], axis=1), np.cumsum(discounts)
    has_true = n_true > 0
    return {k: gained[has_true, min(k, true.shape[1]) - 1] / ideal[np.minimum(n_true[has_true], k) - 1] for k in PRECISION_AT}


def propensities(n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the share of a label's true rows that are known to have it (Jain, Prabhu & Varma 2016).

    p = 1 / (1 + C e^{−A ln(n_positive + B)}), C = (ln n − 1)(B + 1)^A, for n training rows; 1 for n < 3, where C is negative.
    """
    C = max(0.0, elementary.log(float(max(n_rows, 1))) - 1.0) * elementary.power(PROPENSITY_B + 1.0, PROPENSITY_A)
    return 1.0 / (1.0 + C * elementwise.power(n_positive + PROPENSITY_B, -PROPENSITY_A))


def brier(squares: Any, n_items: int) -> Any:
    """Return the mean of (p − y)², from its sum over the items (Brier 1950)."""
    return squares / max(1, n_items)


def calibration_error(differences: np.ndarray, n_items: int) -> Any:
    """Return the expected calibration error, from Σ (p − y) over the items of each of equally wide bins (... × bins).

    Naeini, Cooper & Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015.
    """
    return np.abs(differences).sum(axis=-1) / max(1, n_items)


def chi_square(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return χ² = N (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)) of features and labels; 0 if undefined (Yang & Pedersen 1997).

    A, B: rows with the feature, with and without the label; C, D: rows without the feature. `both` is A, `present` A + B,
    `positive` A + C, of compatible shapes. AD − CB = A N − (A + B)(A + C).
    """
    with_feature, with_label = present.astype(np.float64), positive.astype(np.float64)
    difference = both.astype(np.float64) * n_rows - with_feature * with_label
    expected = with_feature * with_label * (n_rows - with_feature) * (n_rows - with_label)
    return np.divide(n_rows * np.square(difference), expected, out=np.zeros(both.shape), where=expected > 0)

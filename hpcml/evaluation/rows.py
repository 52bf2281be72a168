"""Means over rows: F1 of label sets, nDCG@k and propensity-scored precision@k of the best labels.

F1 of a row is 2 hits / (predicted + true). Of a row without true and without predicted labels it is
0/0: undefined, and as every undefined measure in no mean (scikit-learn's `zero_division=nan`). As 0
it would hide what false labels cost on such rows, as 1 a model that predicts nothing would look
good wherever few rows have one of the labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation.judged import JudgedRows, ScoreObserver
from hpcml.evaluation.ranking import f1_of
from hpcml.evaluation.top import PRECISION_AT, Best, are_true, precision_at
from hpcml.kernels import elementary, elementwise
from hpcml.partition import offsets

PERCENT = (100, 30, 10, 3, 1)  # of the labels, the most frequent ones
PROPENSITY_A, PROPENSITY_B = 0.55, 1.5  # Jain, Prabhu & Varma 2016


@dataclass(frozen=True)
class FrequentLabels:
    """F1 over so many percent of the labels, the most frequent ones, and nothing but them."""

    percent: int
    n_labels: int
    instance_f1: float
    micro_f1: float
    macro_f1: float


def sizes_of(n_labels: int) -> list[int]:
    """How many labels each of PERCENT is, rounded up."""
    return [-(-percent * n_labels // 100) for percent in PERCENT]


def by_frequency(counts: np.ndarray) -> np.ndarray:
    """The place of each label (n), the most frequent first; of equal ones the lower numbers."""
    places = np.empty(counts.size, dtype=np.int64)
    places[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return places


def propensities(n_positive: np.ndarray, n_rows: int) -> np.ndarray:
    """The share of a label's true rows that are known to have it (Jain, Prabhu & Varma 2016).

    p = 1 / (1 + C e^{−A ln(n_positive + B)}), C = (ln n − 1)(B + 1)^A, of n training rows; 1 for
    fewer than 3, where C is negative.
    """
    C = max(0.0, elementary.log(float(max(n_rows, 1))) - 1.0) * elementary.power(PROPENSITY_B + 1.0, PROPENSITY_A)
    return 1.0 / (1.0 + C * elementwise.power(n_positive + PROPENSITY_B, -PROPENSITY_A))


class RowCounts(ScoreObserver):
    """The best labels of each row, and how many it is given, among those of each of PERCENT."""

    def __init__(self, judged: JudgedRows, frequencies: np.ndarray, thresholds: np.ndarray) -> None:
        """`frequencies` (n_labels): how many rows have each label, which say which are frequent."""
        n_rows, n_labels, self.thresholds = judged.shard.n_local, judged.n_labels, thresholds
        self.places, self.sizes = by_frequency(frequencies), sizes_of(n_labels)
        self._inside = (self.places[:, None] < np.array(self.sizes)).astype(np.float32)  # n_labels × 5
        self.predicted = np.zeros((n_rows, len(self.sizes)), dtype=np.int32)
        self.best = Best(n_rows, min(max(PRECISION_AT), n_labels), judged.comparable)

    def add(self, row: int, scores: np.ndarray, begin: int, ascending: np.ndarray) -> None:
        """Count scores above their thresholds, and keep the best."""
        self.best.add(row, scores, begin)
        some = slice(begin, begin + scores.shape[1])
        given = (scores > self.thresholds[some]).astype(np.float32)  # whose products are whole numbers below 2^24
        self.predicted[row : row + scores.shape[0]] += (given @ self._inside[some]).astype(np.int32)

    def instance_f1(self, judged: JudgedRows) -> list[float]:
        """Collective. Mean F1 per row for each of PERCENT; unknown labels count in all labels."""
        values, n_rows = [], self.predicted.shape[0]
        hits = judged.positives > self.thresholds[judged.labels]
        for column, size in enumerate(self.sizes):
            inside = self.places[judged.labels] < size
            true = np.bincount(judged.rows[inside], minlength=n_rows)
            true += judged.missed.by_row if size == self.places.size else 0
            f1 = f1_of(np.bincount(judged.rows[inside & hits], minlength=n_rows), self.predicted[:, column], true)
            f1 = f1[~np.isnan(f1)]
            total = mpi.exact_sum(judged.comm, f1, float(judged.n_rows), judged.n_rows)
            _, (n_defined,) = mpi.exclusive_sum(judged.comm, [f1.size])
            values.append(total / int(n_defined) if n_defined else math.nan)
        return values


def row_measures(judged: JudgedRows, best: Best, weights: np.ndarray | None) -> tuple[dict[int, float], ...]:
    """Collective. By k: precision, nDCG, and propensity-scored precision; none of this if `weights`
    is None. `weights` (n_labels + 1) are inverse propensities, the last that of unknown labels.
    """
    comm, n_global, missed = judged.comm, judged.n_rows, judged.missed.by_row
    true = are_true(best, judged.rows, judged.labels, judged.n_labels)
    rows = np.concatenate([judged.rows, np.repeat(np.arange(missed.size), missed)])
    labels = np.concatenate([judged.labels, np.full(rows.size - judged.rows.size, judged.n_labels)])
    return (
        precision_at(mpi.allreduce_sum(comm, true.sum(axis=0, dtype=np.int64)), n_global),
        ndcg_at(comm, true, np.bincount(rows, minlength=true.shape[0]), n_global),
        {} if weights is None else propensity_scored_at(comm, best, true, (rows, labels), weights, n_global),
    )


def ndcg_at(comm: mpi.Comm, true: np.ndarray, n_true: np.ndarray, n_global: int) -> dict[int, float]:
    """Collective over `comm`. nDCG@k, mean over the rows with a true label (`n_true` (n) of each).

    `true` (n × k) says which of a row's best labels are true. DCG@k = Σ true / log₂(place + 1); the
    ideal has the true ones first.
    """
    discounts = 1.0 / elementwise.log2(np.arange(2, max(PRECISION_AT) + 2))
    gained, ideal = np.cumsum(true * discounts[: true.shape[1]], axis=1), np.cumsum(discounts)
    some, found = n_true > 0, {}
    _, (n_rows,) = mpi.exclusive_sum(comm, [int(some.sum())])
    for k in PRECISION_AT:
        ratios = gained[some, min(k, true.shape[1]) - 1] / ideal[np.minimum(n_true[some], k) - 1]
        total = mpi.exact_sum(comm, ratios, float(n_global), n_global)
        found[k] = total / int(n_rows) if n_rows else math.nan
    return found


def propensity_scored_at(
    comm: mpi.Comm, best: Best, true: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], weights: np.ndarray, n_global: int
) -> dict[int, float]:
    """Collective over `comm`. The weights of the true ones among the k best, of those possible.

    The precision@k of Jain, Prabhu & Varma (2016) divided by the largest that any ranking has, as
    the Extreme Classification Repository reports it; `weights` (n_labels) are inverse propensities,
    `pairs` the true rows and labels.
    """
    (rows, labels), width = pairs, max(PRECISION_AT)
    gained = np.cumsum(np.where(true, weights[np.minimum(best.labels, weights.size - 1)], 0.0), axis=1)
    order = np.lexsort((-weights[labels], rows))
    counts = np.bincount(rows, minlength=true.shape[0])
    places = np.arange(rows.size) - np.repeat(offsets(counts)[:-1], counts)
    ideal, first = np.zeros((true.shape[0], width)), places < width
    ideal[rows[order][first], places[first]] = weights[labels[order[first]]]
    ideal, found = np.cumsum(ideal, axis=1), {}
    for k in PRECISION_AT:
        bound = max(1, n_global) * k * float(weights.max(initial=1.0))
        of_k = (gained[:, min(k, true.shape[1]) - 1], ideal[:, k - 1])
        reached, possible = (mpi.exact_sum(comm, sums, bound, max(1, n_global)) for sums in of_k)
        found[k] = reached / possible if possible else math.nan
    return found

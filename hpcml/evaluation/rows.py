"""Means over rows: F1 of label sets; precision, nDCG and propensity-scored precision of the best labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation.judged import JudgedRows, ScoreObserver
from hpcml.evaluation.top import Best, are_true
from hpcml.measures import PRECISION_AT, f1, ndcg_at, precision_at
from hpcml.partition import offsets

PERCENT = (100, 30, 10, 3, 1)  # of the labels, the most frequent ones


@dataclass(frozen=True)
class FrequentLabels:
    """F1 over so many percent of the labels, the most frequent ones, and nothing but them."""

    percent: int
    n_labels: int
    instance_f1: float
    micro_f1: float
    macro_f1: float


def mean_over_rows(comm: mpi.Comm, values: np.ndarray, n_most: int) -> float:
    """Return the mean of the ranks' values, each from 0 to 1 and at most `n_most`; NaN of none. Collective over `comm`."""
    n_most = max(1, n_most)
    total = mpi.exact_sum(comm, np.ascontiguousarray(values), float(n_most), n_most)
    _, (n,) = mpi.exclusive_sum(comm, [values.size])
    return total / int(n) if n else math.nan


class RowCounts(ScoreObserver):
    """The best labels of each row, and how many it is given, among those of each of PERCENT."""

    def __init__(self, judged: JudgedRows, frequencies: np.ndarray, thresholds: np.ndarray) -> None:
        """`frequencies` (n_labels): how many rows have each label, which say which are frequent."""
        n_rows, n_labels, self.thresholds = judged.shard.n_local, judged.n_labels, thresholds
        self.sizes = [-(-percent * n_labels // 100) for percent in PERCENT]  # labels, rounded up
        self.places = np.empty(n_labels, dtype=np.int64)  # of each label: the most frequent first, ties: lowest number first
        self.places[np.argsort(-frequencies, kind="stable")] = np.arange(n_labels)
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
        means, n_rows = [], self.predicted.shape[0]
        hits = judged.positives > self.thresholds[judged.labels]
        for column, size in enumerate(self.sizes):
            inside = self.places[judged.labels] < size
            true = np.bincount(judged.rows[inside], minlength=n_rows)
            true += judged.missed.by_row if size == self.places.size else 0
            values = f1(np.bincount(judged.rows[inside & hits], minlength=n_rows), self.predicted[:, column], true)
            means.append(mean_over_rows(judged.comm, values[~np.isnan(values)], judged.n_rows))
        return means


def row_measures(judged: JudgedRows, best: Best, weights: np.ndarray | None) -> tuple[dict[int, float], ...]:
    """Collective. By k: precision, nDCG, and propensity-scored precision; none of this if `weights`
    is None. `weights` (n_labels + 1) are inverse propensities, the last that of unknown labels.
    """
    comm, n_global, missed = judged.comm, judged.n_rows, judged.missed.by_row
    true = are_true(best, judged.rows, judged.labels, judged.n_labels)
    rows = np.concatenate([judged.rows, np.repeat(np.arange(missed.size), missed)])
    labels = np.concatenate([judged.labels, np.full(rows.size - judged.rows.size, judged.n_labels)])
    of_rows = ndcg_at(true, np.bincount(rows, minlength=true.shape[0]))
    return (
        precision_at(mpi.allreduce_sum(comm, true.sum(axis=0, dtype=np.int64)), n_global),
        {k: mean_over_rows(comm, values, n_global) for k, values in of_rows.items()},
        {} if weights is None else propensity_scored_at(comm, best, true, (rows, labels), weights, n_global),
    )


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

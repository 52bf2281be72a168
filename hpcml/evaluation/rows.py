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
    """F1 over the `percent` % of the labels that are most frequent, without all others."""

    percent: int
    n_labels: int
    instance_f1: float
    micro_f1: float
    macro_f1: float


def mean_over_rows(comm: mpi.Comm, values: np.ndarray, n_most: int) -> float:
    """Return the mean of the ranks' values (0 to 1; at most `n_most`, which is above 0); NaN of none. Collective over `comm`."""
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

    def finish(self, judged: JudgedRows, weights: np.ndarray | None) -> None:
        """Set the means over all rows. Collective.

        `weights` (n_labels + 1) are inverse propensities, the last that of unknown labels; None: they are not known.
        """
        comm, missed, n_local = judged.comm, judged.missed.by_row, self.predicted.shape[0]
        n_most, self.instance_f1 = max(1, judged.n_rows), []
        # F1 for each of PERCENT; unknown labels count in all labels
        hits = judged.positives > self.thresholds[judged.labels]
        for column, size in enumerate(self.sizes):
            inside = self.places[judged.labels] < size
            n_true = np.bincount(judged.rows[inside], minlength=n_local) + (missed if size == self.places.size else 0)
            values = f1(np.bincount(judged.rows[inside & hits], minlength=n_local), self.predicted[:, column], n_true)
            self.instance_f1.append(mean_over_rows(comm, values[~np.isnan(values)], n_most))
        # precision and nDCG of the best labels; a pair of an unknown label is true, too, and has the number n_labels
        best = self.best.sort()
        true = are_true(best, judged.rows, judged.labels, judged.n_labels)
        rows = np.concatenate([judged.rows, np.repeat(np.arange(missed.size), missed)])
        labels = np.concatenate([judged.labels, np.full(rows.size - judged.rows.size, judged.n_labels)])
        counts = np.bincount(rows, minlength=n_local)
        self.precision_at = precision_at(mpi.allreduce_sum(comm, true.sum(axis=0, dtype=np.int64)), judged.n_rows)
        self.ndcg_at = {k: mean_over_rows(comm, values, n_most) for k, values in ndcg_at(true, counts).items()}
        self.propensity_scored_at: dict[int, float] = {}
        if weights is None:
            return
        # The precision@k of Jain, Prabhu & Varma (2016) divided by the largest that any ranking has, as the Extreme
        # Classification Repository reports it: the weights of the true ones among the k best, of those possible.
        gained = np.cumsum(np.where(true, weights[np.minimum(best.labels, weights.size - 1)], 0.0), axis=1)
        order = np.lexsort((-weights[labels], rows))
        places = np.arange(rows.size) - np.repeat(offsets(counts)[:-1], counts)
        ideal, first = np.zeros((n_local, max(PRECISION_AT))), places < max(PRECISION_AT)
        ideal[rows[order][first], places[first]] = weights[labels[order[first]]]
        ideal = np.cumsum(ideal, axis=1)
        for k in PRECISION_AT:
            bound = n_most * k * float(weights.max(initial=1.0))
            of_k = (gained[:, min(k, true.shape[1]) - 1], ideal[:, k - 1])
            reached, possible = (mpi.exact_sum(comm, sums, bound, n_most) for sums in of_k)
            self.propensity_scored_at[k] = reached / possible if possible else math.nan

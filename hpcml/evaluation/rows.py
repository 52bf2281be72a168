"""Means over rows: F1 of a row's labels; precision, nDCG and propensity-scored precision of its best labels."""

import math
from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.evaluation.intervals import Blocks, assign_row_blocks, sum_blocks
from hpcml.evaluation.scored_rows import ScoredRows, ScoreObserver
from hpcml.evaluation.top import Best, find_true_labels
from hpcml.measures import FRACTIONS, PRECISION_AT, f1, ndcg_at, precision_at
from hpcml.partition import offsets

PERCENT = (100, 30, 10, 3, 1)  # of the labels, the most frequent ones


@dataclass(frozen=True)
class FrequentLabels:
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
    """The best labels of each row, and the number of its predicted labels among the labels of each of PERCENT."""

    def __init__(self, scored: ScoredRows, frequencies: np.ndarray, thresholds: np.ndarray) -> None:
        n_rows, n_labels, self.thresholds = scored.shard.n_local, scored.n_labels, thresholds
        self.sizes = [-(-percent * n_labels // 100) for percent in PERCENT]  # labels, rounded up
        self.frequency_ranks = np.empty(n_labels, dtype=np.int64)  # the most frequent label first, ties: lowest number first
        self.frequency_ranks[np.argsort(-frequencies, kind="stable")] = np.arange(n_labels)
        # for each label, the column of the smallest of PERCENT with it
        self._last = (self.frequency_ranks[:, None] < np.array(self.sizes)).sum(axis=1) - 1
        self.n_predicted = np.zeros((n_rows, len(self.sizes)), dtype=np.int32)
        self.best = Best(n_rows, min(max(PRECISION_AT), n_labels), scored.comparable)
        self.precision_at: dict[int, float] = {}
        self.ndcg_at: dict[int, float] = {}
        self.propensity_scored_at: dict[int, float] = {}
        self.instance_f1: list[float] = []
        self.block_sums: dict[tuple[str, int | str], np.ndarray] = {}  # by kind of measure and k or name, for intervals

    def add(self, row: int, scores: np.ndarray, begin: int) -> None:
        self.best.add(row, scores, begin)
        predicted = np.flatnonzero(scores > self.thresholds[begin : begin + scores.shape[1]])
        if predicted.size:
            (rows, lanes), n, width = np.divmod(predicted, scores.shape[1]), scores.shape[0], len(self.sizes)
            counts = np.bincount(rows * width + self._last[begin + lanes], minlength=n * width).reshape(n, width)
            self.n_predicted[row : row + n] += np.cumsum(counts[:, ::-1], axis=1)[:, ::-1].astype(np.int32)

    def finish(self, scored: ScoredRows, weights: np.ndarray | None) -> None:
        """Set the means over all rows; `weights` (n_labels + 1): inverse propensities, the last of unknown labels. Collective."""
        comm, missed, n_local = scored.comm, scored.missed.by_row, self.n_predicted.shape[0]
        n_most, blocks = max(1, scored.n_rows), assign_row_blocks(comm, scored.dataset, scored.shard)
        # F1 for each of PERCENT; unknown labels count in all labels
        is_hit = scored.positives > self.thresholds[scored.labels]
        for column, size in enumerate(self.sizes):
            inside = self.frequency_ranks[scored.labels] < size
            is_all = size == self.frequency_ranks.size
            n_true = np.bincount(scored.rows[inside], minlength=n_local) + (missed if is_all else 0)
            counts = np.bincount(scored.rows[inside & is_hit], minlength=n_local), self.n_predicted[:, column], n_true
            values = f1(*counts)
            self.instance_f1.append(mean_over_rows(comm, values[~np.isnan(values)], n_most))
            if column == 0:
                self.block_sums["instance", "f1"] = sum_blocks(blocks, np.nan_to_num(values), 1.0 - np.isnan(values))
                for name, fraction in FRACTIONS.items():
                    numerator, denominator = (np.asarray(each).astype(np.int64) for each in fraction(*counts))
                    self.block_sums["micro", name] = sum_blocks(blocks, numerator, denominator)
        if scored.n_labels > 1:
            self._rank_labels(scored, weights, n_most, blocks)
        for sums in self.block_sums.values():
            sums[:] = mpi.allreduce_sum(comm, sums.reshape(-1)).reshape(sums.shape)

    def _rank_labels(self, scored: ScoredRows, weights: np.ndarray | None, n_most: int, blocks: Blocks) -> None:
        """Set the measures of the best labels; an unknown label is true and has the number n_labels. Collective."""
        comm, missed, n_local = scored.comm, scored.missed.by_row, self.n_predicted.shape[0]
        best = self.best.sort()
        is_true = find_true_labels(best, scored.rows, scored.labels, scored.n_labels)
        rows = np.concatenate([scored.rows, np.repeat(np.arange(missed.size), missed)])
        labels = np.concatenate([scored.labels, np.full(rows.size - scored.rows.size, scored.n_labels)])
        counts = np.bincount(rows, minlength=n_local)
        self.precision_at = precision_at(mpi.allreduce_sum(comm, is_true.sum(axis=0, dtype=np.int64)), scored.n_rows)
        has_label, hits = (counts > 0).astype(np.float64), np.cumsum(is_true, axis=1, dtype=np.int64)
        for k, values in ndcg_at(is_true, counts).items():
            size = min(k, is_true.shape[1])
            self.block_sums["precision_at", k] = sum_blocks(blocks, hits[:, size - 1], np.full(n_local, size))
            self.ndcg_at[k] = mean_over_rows(comm, values, n_most)
            of_rows = np.zeros(n_local)
            of_rows[counts > 0] = values
            self.block_sums["ndcg_at", k] = sum_blocks(blocks, of_rows, has_label)
        if weights is None:
            return
        # The precision@k of Jain, Prabhu & Varma (2016) divided by the largest value of any ranking, as the Extreme
        # Classification Repository reports it: the weights of the true labels among the k best, divided by the largest possible.
        gained = np.cumsum(np.where(is_true, weights[np.minimum(best.labels, weights.size - 1)], 0.0), axis=1)
        order = np.lexsort((-weights[labels], rows))
        ranks = np.arange(rows.size) - np.repeat(offsets(counts)[:-1], counts)
        ideal, first = np.zeros((n_local, max(PRECISION_AT))), ranks < max(PRECISION_AT)
        ideal[rows[order][first], ranks[first]] = weights[labels[order[first]]]
        ideal = np.cumsum(ideal, axis=1)
        for k in PRECISION_AT:
            bound = n_most * k * float(weights.max(initial=1.0))
            pair = gained[:, min(k, is_true.shape[1]) - 1], ideal[:, k - 1]
            reached, possible = (mpi.exact_sum(comm, sums, bound, n_most) for sums in pair)
            self.propensity_scored_at[k] = reached / possible if possible else math.nan
            self.block_sums["propensity_scored_at", k] = sum_blocks(blocks, *pair)

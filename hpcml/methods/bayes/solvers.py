"""Naive Bayes, boosted naive Bayes and naive Bayes in stages (Wilbur 2000): the solvers for the labels of one rank.

Weights: w_j = log[p_j (1 − q_j) / (q_j (1 − p_j))], where p_j and q_j are the smoothed shares of the positive and of the negative
rows that have feature j. A label's result depends only on the label and the rows.

Choices that the paper leaves open for boosting:
- Probabilities are those of the weighted rows. Weights are scaled to a mean of 1 over the rows of a round before smoothing is
  added.
- A round with an error of at least ½, or whose rows are all positive or all negative, is discarded and ends the training; a round
  without errors is kept and ends it.

A later stage is trained on the label's positive rows and the hard negative rows. As in the paper, the score of a stage is the sum
of the weights of a row's features; absent features do not contribute. The second stage may be a linear support vector machine,
trained by sequential minimal optimisation (libsvm in scikit-learn).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from hpcml import slices
from hpcml.data.compact import CompactRows
from hpcml.errors import ConfigError
from hpcml.kernels import elementary, elementwise
from hpcml.measures import chi_square
from hpcml.methods.bayes import kernels
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import CONVERGED, Finished, History, Solver, SparseWeightsOf, Turns
from hpcml.model.combination import BOOSTED, STAGED, Combination, Voter, encode_votes
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

MAX_COLUMNS = 2**31 - 1  # of a sparse model
HISTORY = ("round", "rows", "positives", "error", "weights", "seconds")  # rows of the round; number of non-zero weights
MIN_ERROR = 1e-12  # a boosting round with a smaller error counts as free of errors
MIN_WEIGHT = 1e-290  # of a row in boosting: no weight may become 0
Line = tuple[float, ...]


class BayesRisk(Risk):
    shares_columns = False  # every feature is counted separately

    def __init__(self, rows: CompactRows, options: BernoulliNBOptions, profile: Profile) -> None:
        super().__init__(rows, options, profile)
        self.smoothing, self.min_weight = options.smoothing, options.min_weight
        self.about = {"binary": True, "smoothing": options.smoothing, "min_weight": options.min_weight}
        self.combination: Combination | None = None  # of the parts of a label; None for bernoulli-nb
        if isinstance(options, BoostedBayesOptions):
            self.combination = Combination(BOOSTED, options.rounds, rows.n_columns)
        elif isinstance(options, StagedBayesOptions | StagedSvmOptions):
            factors = (1.0, *[options.factor] * (options.stages - 1))
            self.combination = Combination(STAGED, options.stages, rows.n_columns, options.cut, factors)
        if self.combination is not None:
            self.n_parts = self.combination.n_parts
            self.row_width(rows.n_columns)  # raises before the training, not after it
            self.about |= self.combination.about

    def is_hidden(self, number: int, columns: np.ndarray) -> np.ndarray:
        """Return a mask of the columns that label `number` must not use: its own heading, and excluded headings."""
        return np.zeros(columns.size, np.bool_) if self.headings is None else self.headings.hides(number, columns)

    def row_width(self, n_columns: int) -> int:
        """Return the width of a label's row in the model: weights of all parts, and the numbers of the rule. Raises ConfigError."""
        if self.combination is None:
            return n_columns
        parts = self.combination.n_parts
        numbers = 2 + 2 * self.rows.n_global if self.combination.kind == BOOSTED else 1
        width = parts * (n_columns + numbers)
        if width > MAX_COLUMNS:
            raise ConfigError(
                f"{parts} times {n_columns:,} features are too many for a model; use fewer rounds, stages or features"
            )
        return width


NO_WEIGHTS = SparseWeightsOf(np.zeros(0, np.int64), np.zeros(0), 0.0)


class BayesSolver(Solver):
    """Base of the solvers. Labels are trained one by one, so nothing of an unfinished label goes into a checkpoint."""

    one_by_one = True

    def __init__(self, risk: BayesRisk, labels: np.ndarray, n_lanes: int, options: Any) -> None:
        self.risk, self.rows, self.labels, self.options = risk, risk.rows, labels, options
        self.stop: Stop = NEVER
        self._mean_values = risk.rows.data.size / max(1, risk.rows.n_local)
        n_columns = risk.rows.n_columns
        self._counts, self._columns = np.zeros(n_columns, np.int64), np.empty(n_columns, np.int64)
        self._sums = np.zeros(n_columns)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Train labels; a turn is a number of complete labels. Collective over the group, which is one rank."""
        self.stop = stop
        finished: list[Finished] = []
        cost, seconds = 0.0, stop.seconds
        for index in labels:
            if cost >= slices.SLICE_VALUES:  # a single label may need more
                yield finished
                finished, cost, seconds = [], 0.0, stop.seconds
            label = int(self.labels[index])
            positives = self.rows.rows_of(label)
            cost += self.cost(positives)
            with self.risk.profile("compute"):
                w, visited, history = self.train_label(label, positives, seconds)
            share = visited / self.rows.n_global
            finished.append(Finished(index, w, math.nan, CONVERGED, len(history), share, history))
        yield finished

    def cost(self, positives: np.ndarray) -> float:
        return (positives.size + 1) * (self._mean_values + slices.ROW_VALUES)

    def train_label(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """Return a label's weights, the mean number of rows of a round, and the history. Raises Stopped."""
        raise NotImplementedError

    def count(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = kernels.count(self.rows.indptr, self.rows.indices, rows, self._counts, self._columns)
        columns = np.sort(self._columns[:n])
        counts = self._counts[columns]
        self._counts[columns] = 0
        return columns, counts

    def sum_weights(self, columns: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        try:
            for part in self._slices(rows):
                kernels.add_weights(self.rows.indptr, self.rows.indices, rows[part], weights[part], self._sums)
            return self._sums[columns]
        finally:
            self._sums[:] = 0.0

    def score_rows(self, weights: SparseWeightsOf, rows: np.ndarray) -> np.ndarray:
        """Return the sum of the weights of each row, with the bits of `hpcml predict`. Raises Stopped."""
        out = np.empty(rows.size)
        self._sums[weights.columns] = weights.values
        try:
            for part in self._slices(rows):
                kernels.score(self.rows.indptr, self.rows.indices, rows[part], self._sums, out[part])
        finally:
            self._sums[weights.columns] = 0.0
        return out

    def _slices(self, rows: np.ndarray) -> Iterator[slice]:
        n_values = rows.size * self.rows.data.size // max(1, self.rows.n_local)
        yield from self.stop.slices(slices.row_slices(rows.size, n_values))

    def weights(
        self, number: int, columns: np.ndarray, positive: np.ndarray, negative: np.ndarray, n_positive: float, n_negative: float
    ) -> SparseWeightsOf:
        """Return a label's weights; `positive` and `negative` are the numbers, or weights, of the rows with each column."""
        w, absent = np.empty((2, columns.size))
        counts = positive.astype(np.float64), negative.astype(np.float64)
        kernels.log_odds(*counts, float(n_positive), float(n_negative), self.risk.smoothing, w, absent)
        used = (np.abs(w) >= self.risk.min_weight) & (w != 0) & ~self.risk.is_hidden(number, columns)
        return SparseWeightsOf(columns[used], w[used], float(np.add.accumulate(np.append(0.0, absent[used]))[-1]))

    def weights_from_counts(self, number: int, columns: np.ndarray, counts: np.ndarray, n_positive: int) -> SparseWeightsOf:
        """Return a label's weights from all rows; `counts` are the numbers of positive rows with each column."""
        others = self.rows.counts[columns] - counts
        return self.weights(number, columns, counts, others, n_positive, self.rows.n_global - n_positive)

    def join_parts(self, parts: Sequence[SparseWeightsOf], numbers: Iterable[float]) -> SparseWeightsOf:
        """Return a label's row of the model: the parts one after the other, then the numbers of the rule."""
        combination = self.risk.combination
        width = combination.width
        rule = np.array(list(numbers), dtype=np.float64)
        columns = [part.columns + number * width for number, part in enumerate(parts)]
        columns.append(combination.n_parts * width + np.arange(rule.size))
        return SparseWeightsOf(np.concatenate(columns), np.concatenate([*(part.values for part in parts), rule]), 0.0)


class BernoulliNBSolver(BayesSolver):
    def train_label(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        n = self.rows.n_global
        weights = self.weights_from_counts(number, *self.count(positives), positives.size)
        bias = elementary.log(positives.size / (n - positives.size)) + weights.intercept
        line = (1, n, positives.size, math.nan, weights.values.size, seconds)
        return SparseWeightsOf(weights.columns, weights.values, bias), positives.size, [line]


def fit_isotonic(scores: np.ndarray, has: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the non-decreasing maximum-likelihood probability of `has`: the last score of each step, and its value."""
    distinct, index = np.unique(scores, return_inverse=True)
    weights = np.bincount(index, p)
    shares, ends = np.minimum(1.0, np.bincount(index, p * has) / weights), np.empty(weights.size, np.int64)
    n_blocks = kernels.pool(shares, weights, ends)
    values, bounds = shares[:n_blocks], distinct[ends[:n_blocks] - 1]
    last = np.append(values[1:] != values[:-1], True)
    return bounds[last], values[last]


class BoostedSolver(BayesSolver):
    def cost(self, positives: np.ndarray) -> float:
        return 2.0 * self.options.rounds * self.rows.data.size  # every round counts and scores all rows

    def train_label(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        n = self.rows.n_global
        has, every = np.zeros(n, np.bool_), np.arange(n)
        has[positives] = True
        p, untrimmed = np.full(n, 1.0 / n), np.ones(n, np.bool_)
        parts: list[SparseWeightsOf] = []
        rounds: list[Voter] = []
        history: list[Line] = []
        while len(rounds) < self.options.rounds:
            used = every[untrimmed]
            n_used = int(np.count_nonzero(has[used]))
            if n_used in (0, used.size):
                break
            own, others = used[has[used]], used[~has[used]]
            columns, counts = self.count(own)
            if rounds:
                scale = used.size / p[used].sum()
                positive, negative = scale * p[own], scale * p[others]
                sums = self.sum_weights(columns, own, positive), self.sum_weights(columns, others, negative)
                part = self.weights(number, columns, *sums, positive.sum(), negative.sum())
            else:
                part = self.weights_from_counts(number, columns, counts, own.size)
            scores = self.score_rows(part, every)
            voter = Voter(0.0, *fit_isotonic(scores, has, p))
            errors = np.abs(voter.share(scores) - has)
            error = float((p * errors).sum())  # ε
            if error >= 0.5 and rounds:
                break
            beta = max(error, MIN_ERROR) / (1.0 - max(error, MIN_ERROR))
            parts.append(part)
            rounds.append(voter._replace(vote=max(elementary.log(1.0 / beta), MIN_ERROR)))
            history.append((len(rounds), used.size, n_used, error, part.values.size, seconds))
            if error <= MIN_ERROR:
                break
            p = np.maximum(p * elementwise.power(beta, 1.0 - errors), MIN_WEIGHT)
            p /= p.sum()
            order = np.argsort(errors, kind="stable")
            untrimmed[:] = True
            untrimmed[order[: np.searchsorted(np.cumsum(p[order]), self.options.trim, "right")]] = False
        return self.join_parts(parts, encode_votes(rounds)), n, history


class StagedSolver(BayesSolver):
    """Naive Bayes in stages; a later stage is empty if no negative row is hard."""

    def cost(self, positives: np.ndarray) -> float:
        return super().cost(positives) + self.rows.data.size  # the first stage scores all rows

    def train_label(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        n = self.rows.n_global
        columns, counts = self.count(positives)
        part = self.weights_from_counts(number, columns, counts, positives.size)._replace(intercept=0.0)
        parts = [part]
        hard = np.setdiff1d(np.arange(n), positives, assume_unique=True)
        history: list[Line] = [(1, n, positives.size, math.nan, part.values.size, seconds)]
        for stage in range(2, self.options.stages + 1):
            if hard.size:
                hard = hard[self.score_rows(part, hard) + part.intercept >= self.options.cut]
            part = self.train_stage(number, positives, columns, counts, hard) if hard.size else NO_WEIGHTS
            parts.append(part)
            history.append((stage, positives.size + hard.size, positives.size, math.nan, part.values.size, seconds))
        return self.join_parts(parts, [part.intercept for part in parts]), n, history

    def train_stage(
        self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray
    ) -> SparseWeightsOf:
        """Return the weights from the positive rows, `counts` of which have each column, and the hard negative rows."""
        hard_columns, hard_counts = self.count(hard)
        self._counts[hard_columns] = hard_counts
        others = self._counts[columns]
        self._counts[hard_columns] = 0
        return self.weights(number, columns, counts, others, positives.size, hard.size)._replace(intercept=0.0)


class StagedSvmSolver(StagedSolver):
    def __init__(self, risk: BayesRisk, labels: np.ndarray, n_lanes: int, options: Any) -> None:
        super().__init__(risk, labels, n_lanes, options)
        rows = risk.rows
        shape = (rows.indptr.size - 1, rows.n_columns)
        self._present = sp.csr_matrix((np.ones(rows.indices.size, np.int8), rows.indices, rows.indptr), shape)

    def train_stage(
        self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray
    ) -> SparseWeightsOf:
        from sklearn.svm import SVC

        rows = np.concatenate([positives, hard])
        row_columns, row_counts = self.count(rows)
        positive_counts = np.zeros(row_columns.size, np.int64)
        positive_counts[np.searchsorted(row_columns, columns)] = counts
        statistics = chi_square(positive_counts, row_counts, np.array(positives.size), rows.size)
        chosen = row_columns[statistics > self.options.chi_square]
        chosen = chosen[~self.risk.is_hidden(number, chosen)]
        if not chosen.size:
            return NO_WEIGHTS
        X = self._present[rows][:, chosen].astype(np.float64)
        X.sort_indices()
        svm = SVC(kernel="linear", C=self.options.svm_c, tol=self.options.svm_tol)
        svm.fit(X, np.arange(rows.size) < positives.size)
        w = svm.coef_.toarray()[0]
        return SparseWeightsOf(chosen[w != 0], w[w != 0], float(svm.intercept_[0]))


def bytes_per_rank_bayes(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    return 9 * n_values + 120 * n_rows + 56 * n_columns


BERNOULLI_NB = LinearMethod(
    solver=BernoulliNBSolver,
    sharding=Sharding.NONE,
    memory=bytes_per_rank_bayes,
    risk=BayesRisk,
    history=History(HISTORY, lambda step: "{:.0f},{:.0f},{:.0f},{:.17g},{:.0f},{:.3f}".format(*step)),
)
BOOSTED_BAYES, STAGED_BAYES, STAGED_SVM = (
    replace(BERNOULLI_NB, solver=solver) for solver in (BoostedSolver, StagedSolver, StagedSvmSolver)
)

"""Naive Bayes, boosted and in stages (Wilbur 2000): the solvers of the labels of one rank.

A label depends on nothing but the label and the rows. What the paper leaves open of boosting: probabilities are those of the
weighted rows; weights are scaled so that they are 1 on average among the rows that a round is trained on, which is what smoothing
is added to; a round that errs on half of the weight, or has no rows with or without the label, ends the training before it, and one
without errors after it.

A later stage is trained on the label's rows and hard others. The score of a stage is the sum of the weights of a row's features, as
in the paper; absent features have no share in it. The second stage may be a linear support vector machine, by sequential minimal
optimisation (libsvm's, in scikit-learn).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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
from hpcml.model.combination import BOOSTED, STAGED, Combination, Voter, as_numbers
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

WIDEST = 2**31 - 1  # columns of a sparse model
HISTORY = ("round", "rows", "positives", "error", "weights", "seconds")  # rows that it was trained on; weights that are not 0
LEAST_ERROR = 1e-12  # a round of boosting with less is without errors
LEAST_WEIGHT = 1e-290  # of a row, so that it never is 0
Line = tuple[float, ...]


class BayesRisk(Risk):
    """The rows (a feature is present where it is not 0), the smoothing, the least weight."""

    shares_columns = False  # every feature is counted for itself
    has_linear_scores = False  # features are present or absent; parts may be combined, headings hidden

    def __init__(self, rows: CompactRows, options: BernoulliNBOptions, profile: Profile) -> None:
        """Raises ConfigError if the parts are too wide for a model."""
        super().__init__(rows, options, profile)
        self.smoothing, self.min_weight = options.smoothing, options.min_weight
        self.about = {"binary": True, "smoothing": options.smoothing, "min_weight": options.min_weight}
        self.combination: Combination | None = None  # of the parts of a label; None of a method with one part
        if isinstance(options, BoostedBayesOptions):
            self.combination = Combination(BOOSTED, options.rounds, rows.n_columns)
        elif isinstance(options, StagedBayesOptions | StagedSvmOptions):
            factors = (1.0, *[options.factor] * (options.stages - 1))
            self.combination = Combination(STAGED, options.stages, rows.n_columns, options.cut, factors)
        if self.combination is not None:
            self.n_parts = self.combination.n_parts
            self.row_width(rows.n_columns)  # an error now, not after hours
            self.about |= self.combination.about

    def is_left_out(self, number: int, columns: np.ndarray) -> np.ndarray:
        """Which columns are hidden from label `number`: its own heading, and for all."""
        return np.zeros(columns.size, np.bool_) if self.headings is None else self.headings.hides(number, columns)

    def row_width(self, n_columns: int) -> int:
        """A weight of each column and part, and the rule's numbers. Raises ConfigError."""
        if self.combination is None:
            return n_columns
        parts = self.combination.n_parts
        numbers = 2 + 2 * self.rows.n_global if self.combination.kind == BOOSTED else 1
        width = parts * (n_columns + numbers)
        if width > WIDEST:
            raise ConfigError(
                f"{parts} times {n_columns:,} features are too many for a model; choose fewer rounds, stages or features"
            )
        return width


class Weights(NamedTuple):
    """Weights of columns (ascending), and a bias: the score of a row that has none of them."""

    columns: np.ndarray
    values: np.ndarray
    bias: float = 0.0


NONE = Weights(np.zeros(0, np.int64), np.zeros(0))


class BayesSolver(Solver):
    """The labels of one rank, and counts of features: nothing for a checkpoint. A subclass trains a label."""

    one_by_one = True

    def __init__(self, risk: BayesRisk, labels: np.ndarray, n_lanes: int, options: Any) -> None:
        """See `Solver`; `n_lanes` has no effect, labels are trained one by one. Raises MemoryError."""
        self.risk, self.rows, self.labels, self.options = risk, risk.rows, labels, options
        self.stop: Stop = NEVER  # of the labels that are being trained
        self._mean_values = risk.rows.data.size / max(1, risk.rows.n_local)
        n_columns = risk.rows.n_columns
        self._counts, self._met = np.zeros(n_columns, np.int64), np.empty(n_columns, np.int64)
        self._sums, self._place = np.zeros(n_columns), np.full(n_columns, -1, np.int64)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group, which is one rank. A turn is some labels, whole."""
        self.stop = stop
        finished: list[Finished] = []
        cost, seconds = 0.0, stop.seconds
        for place in labels:
            if cost >= slices.SLICE_VALUES:  # unless one label alone needs more
                yield finished
                finished, cost, seconds = [], 0.0, stop.seconds
            label = int(self.labels[place])
            positives = self.rows.rows_of(label)
            cost += self.cost(positives)
            with self.risk.profile("compute"):
                w, visited, history = self.trained(label, positives, seconds)
            share = visited / self.rows.n_global
            finished.append(Finished(place, w, math.nan, CONVERGED, len(history), share, history))
        yield finished

    def cost(self, positives: np.ndarray) -> float:
        """Return the approximate number of values that training a label reads."""
        return (positives.size + 1) * (self._mean_values + slices.ROW_VALUES)

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """Weights of a label by its rows, mean rows of a round, history. Raises Stopped."""
        raise NotImplementedError

    def count(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns (ascending) that some rows have, and how many of the rows have each."""
        indptr, indices = self.rows.indptr, self.rows.indices
        columns = np.sort(self._met[: kernels.count(indptr, indices, rows, self._counts, self._met, 0)])
        counts = self._counts[columns]
        self._counts[columns] = 0
        return columns, counts

    def summed(self, columns: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The sum, for each column, of the weights of `rows` that have it. Raises Stopped."""
        try:
            for some in self._slices(rows):
                kernels.add_weights(self.rows.indptr, self.rows.indices, rows[some], weights[some], self._sums)
            return self._sums[columns]
        finally:
            self._sums[:] = 0.0

    def scores(self, found: Weights, rows: np.ndarray) -> np.ndarray:
        """The sums of the weights that rows have: the bits of `hpcml predict`. Raises Stopped."""
        out = np.empty(rows.size)
        self._sums[found.columns] = found.values
        try:
            for some in self._slices(rows):
                kernels.score(self.rows.indptr, self.rows.indices, rows[some], self._sums, out[some])
        finally:
            self._sums[found.columns] = 0.0
        return out

    def matrix(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """indptr and indices (places in `columns`) of the columns that some rows have."""
        arrays, indptr = (self.rows.indptr, self.rows.indices, rows, self._place), np.zeros(rows.size + 1, np.int64)
        self._place[columns] = np.arange(columns.size)
        kernels.select(*arrays, indptr, np.zeros(0, np.int32))
        indices = np.empty(int(indptr[-1]), np.int32)
        kernels.select(*arrays, indptr, indices)
        self._place[columns] = -1
        return indptr, indices

    def _slices(self, rows: np.ndarray) -> Iterator[slice]:
        """Slices of `rows`, between which the rank looks whether it is to stop."""
        n_values = rows.size * self.rows.data.size // max(1, self.rows.n_local)
        yield from self.stop.slices(slices.row_slices(rows.size, n_values))

    def weights(
        self, number: int, columns: np.ndarray, positive: np.ndarray, negative: np.ndarray, n_positive: float, n_negative: float
    ) -> Weights:
        """The weights of columns, without small ones and what is left out for label `number`.

        `positive` of the `n_positive` rows with the label have a column, `negative` of the `n_negative` others; or so much weight.
        """
        w, absent = np.empty((2, columns.size))
        counts = positive.astype(np.float64), negative.astype(np.float64)
        kernels.log_odds(*counts, float(n_positive), float(n_negative), self.risk.smoothing, w, absent)
        kept = (np.abs(w) >= self.risk.min_weight) & (w != 0) & ~self.risk.is_left_out(number, columns)
        return Weights(columns[kept], w[kept], float(np.add.accumulate(np.append(0.0, absent[kept]))[-1]))

    def of_all_rows(self, number: int, columns: np.ndarray, counts: np.ndarray, n_positive: int) -> Weights:
        """A label's weights by all rows; `counts` of its rows have the columns."""
        others = self.rows.counts[columns] - counts
        return self.weights(number, columns, counts, others, n_positive, self.rows.n_global - n_positive)

    def side_by_side(self, parts: Sequence[Weights], numbers: Iterable[float]) -> SparseWeightsOf:
        """A label's row of the model: the parts one after the other, then the rule's numbers."""
        combination = self.risk.combination
        assert combination is not None
        width = combination.width
        behind = np.array(list(numbers), dtype=np.float64)
        columns = [part.columns + number * width for number, part in enumerate(parts)]
        columns.append(combination.n_parts * width + np.arange(behind.size))
        return SparseWeightsOf(np.concatenate(columns), np.concatenate([*(part.values for part in parts), behind]), 0.0)


class BernoulliNBSolver(BayesSolver):
    """Naive Bayes: of each label one count of the rows that have it."""

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        n = self.rows.n_global
        found = self.of_all_rows(number, *self.count(positives), positives.size)
        bias = elementary.log(positives.size / (n - positives.size)) + found.bias
        line = (1, n, positives.size, math.nan, found.values.size, seconds)
        return SparseWeightsOf(found.columns, found.values, bias), positives.size, [line]


def probabilities(scores: np.ndarray, has: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The non-decreasing probability of maximal likelihood: each value's last score, the values."""
    distinct, places = np.unique(scores, return_inverse=True)
    weights = np.bincount(places, p)
    shares, ends = np.minimum(1.0, np.bincount(places, p * has) / weights), np.empty(weights.size, np.int64)
    n_blocks = kernels.pool(shares, weights, ends)
    values, bounds = shares[:n_blocks], distinct[ends[:n_blocks] - 1]
    last = np.append(values[1:] != values[:-1], True)
    return bounds[last], values[last]


class BoostedSolver(BayesSolver):
    """Labels in rounds."""

    options: BoostedBayesOptions

    def cost(self, positives: np.ndarray) -> float:
        """See `BayesSolver.cost`: every round counts and scores all rows."""
        return 2.0 * self.options.rounds * self.rows.data.size

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        n = self.rows.n_global
        has, every = np.zeros(n, np.bool_), np.arange(n)
        has[positives] = True
        p, kept = np.full(n, 1.0 / n), np.ones(n, np.bool_)
        parts: list[Weights] = []
        rounds: list[Voter] = []
        history: list[Line] = []
        while len(rounds) < self.options.rounds:
            used = every[kept]
            n_kept = int(np.count_nonzero(has[used]))
            if n_kept in (0, used.size):
                break
            own, others = used[has[used]], used[~has[used]]
            columns, counts = self.count(own)
            if rounds:
                scale = used.size / p[used].sum()
                positive, negative = scale * p[own], scale * p[others]
                sums = self.summed(columns, own, positive), self.summed(columns, others, negative)
                part = self.weights(number, columns, *sums, positive.sum(), negative.sum())
            else:
                part = self.of_all_rows(number, columns, counts, own.size)
            scores = self.scores(part, every)
            voter = Voter(0.0, *probabilities(scores, has, p))
            errors = np.abs(voter.share(scores) - has)
            error = float((p * errors).sum())  # ε
            if error >= 0.5 and rounds:
                break
            beta = max(error, LEAST_ERROR) / (1.0 - max(error, LEAST_ERROR))
            parts.append(part)
            rounds.append(voter._replace(vote=max(elementary.log(1.0 / beta), LEAST_ERROR)))
            history.append((len(rounds), used.size, n_kept, error, part.values.size, seconds))
            if error <= LEAST_ERROR:
                break
            p = np.maximum(p * elementwise.power(beta, 1.0 - errors), LEAST_WEIGHT)
            p /= p.sum()
            order = np.argsort(errors, kind="stable")
            kept[:] = True
            kept[order[: np.searchsorted(np.cumsum(p[order]), self.options.trim, "right")]] = False
        return self.side_by_side(parts, as_numbers(rounds)), n, history


class StagedSolver(BayesSolver):
    """Labels in stages; a later one is empty where no row without the label is hard."""

    options: StagedBayesOptions | StagedSvmOptions

    def cost(self, positives: np.ndarray) -> float:
        """See `BayesSolver.cost`: all rows are scored by the first stage."""
        return super().cost(positives) + self.rows.data.size

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        n = self.rows.n_global
        columns, counts = self.count(positives)
        part = self.of_all_rows(number, columns, counts, positives.size)._replace(bias=0.0)
        parts = [part]
        hard = np.setdiff1d(np.arange(n), positives, assume_unique=True)
        history: list[Line] = [(1, n, positives.size, math.nan, part.values.size, seconds)]
        for stage in range(2, self.options.stages + 1):
            if hard.size:
                hard = hard[self.scores(part, hard) + part.bias >= self.options.cut]
            part = self.stage(number, positives, columns, counts, hard) if hard.size else NONE
            parts.append(part)
            history.append((stage, positives.size + hard.size, positives.size, math.nan, part.values.size, seconds))
        return self.side_by_side(parts, [part.bias for part in parts]), n, history

    def stage(self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray) -> Weights:
        """The weights by a label's rows, of which `counts` have each of the `columns`, and the hard ones of the others.

        Raises Stopped.
        """
        found, counts_of_hard = self.count(hard)
        self._counts[found] = counts_of_hard
        others = self._counts[columns]
        self._counts[found] = 0
        return self.weights(number, columns, counts, others, positives.size, hard.size)._replace(bias=0.0)


class StagedSvmSolver(StagedSolver):
    """Labels whose second stage is a support vector machine."""

    options: StagedSvmOptions

    def compile_rest(self, risk: Risk) -> None:
        """Compile the choice of features, for which few rows have none of a large chi-square. Local."""
        self.matrix(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def stage(self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray) -> Weights:
        """See `StagedSolver.stage`; of the features with a large chi-square."""
        from sklearn.svm import SVC

        rows = np.concatenate([positives, hard])
        of_rows, together = self.count(rows)
        of_label = np.zeros(of_rows.size, np.int64)
        of_label[np.searchsorted(of_rows, columns)] = counts
        chosen = of_rows[chi_square(of_label, together, np.array(positives.size), rows.size) > self.options.chi_square]
        chosen = chosen[~self.risk.is_left_out(number, chosen)]
        if not chosen.size:
            return NONE
        indptr, indices = self.matrix(rows, chosen)
        X = sp.csr_matrix((np.ones(indices.size), indices, indptr.astype(np.int32)), (rows.size, chosen.size))
        X.sort_indices()
        svm = SVC(kernel="linear", C=self.options.svm_c, tol=self.options.svm_tol)
        svm.fit(X, np.arange(rows.size) < positives.size)
        w = svm.coef_.toarray()[0]
        return Weights(chosen[w != 0], w[w != 0], float(svm.intercept_[0]))


def history_line(step: Line) -> str:
    """The numbers of a round (`HISTORY`) as text."""
    number, rows, positives, error, weights, seconds = step
    return f"{number:.0f},{rows:.0f},{positives:.0f},{error:.17g},{weights:.0f},{seconds:.3f}"


def bytes_per_rank_bayes(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: the rows; of a row weights and scores; of a column counts and weights."""
    return 8 * n_values + 120 * n_rows + 56 * n_columns


BERNOULLI_NB = LinearMethod(
    solver=BernoulliNBSolver,
    sharding=Sharding.NONE,
    memory=bytes_per_rank_bayes,
    risk=BayesRisk,
    history=History(HISTORY, history_line),
)
BOOSTED_BAYES, STAGED_BAYES, STAGED_SVM = (
    replace(BERNOULLI_NB, solver=solver) for solver in (BoostedSolver, StagedSolver, StagedSvmSolver)
)

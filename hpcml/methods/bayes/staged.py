"""Naive Bayes in stages: a later one is trained on the label's rows and hard others (Wilbur 2000).

The score of a stage is the sum of the weights of a row's features, as in the paper; absent features
have no share in it.

Its second stage may be a linear support vector machine, by sequential minimal optimisation
(libsvm's, in scikit-learn).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from hpcml.methods.bayes.block import BayesSolver, Line, side_by_side
from hpcml.methods.bayes.options import StagedBayesOptions, StagedSvmOptions
from hpcml.methods.bayes.risk import NONE, Weights
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import SparseWeightsOf


class StagedSolver(BayesSolver):
    """Labels in stages; a later one is empty where no row without the label is hard."""

    options: StagedBayesOptions | StagedSvmOptions

    def cost(self, positives: np.ndarray) -> float:
        """See `BayesSolver.cost`: all rows are scored by the first stage."""
        return super().cost(positives) + self.risk.rows.data.size

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        counter, n = self.counter, self.risk.rows.n_global
        columns, counts = counter.count(positives)
        part = counter.of_all_rows(number, columns, counts, positives.size)._replace(bias=0.0)
        parts = [part]
        hard = np.setdiff1d(np.arange(n), positives, assume_unique=True)
        history: list[Line] = [(1, n, positives.size, math.nan, part.values.size, seconds)]
        for stage in range(2, self.options.stages + 1):
            if hard.size:
                hard = hard[counter.scores(part, hard) + part.bias >= self.options.cut]
            part = self.stage(number, positives, columns, counts, hard) if hard.size else NONE
            parts.append(part)
            history.append((stage, positives.size + hard.size, positives.size, math.nan, part.values.size, seconds))
        return side_by_side(self.risk, parts, [part.bias for part in parts]), n, history

    def stage(self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray) -> Weights:
        """The weights by a label's rows, of which `counts` have each of the `columns`, and the hard ones of the others.

        Raises Stopped.
        """
        others = self.counter.counts_of(hard, columns)
        return self.counter.weights(number, columns, counts, others, positives.size, hard.size)._replace(bias=0.0)


class StagedSvmSolver(StagedSolver):
    """Labels whose second stage is a support vector machine."""

    options: StagedSvmOptions

    def compile_rest(self, risk: Risk) -> None:
        """Compile the choice of features, for which few rows have none of a large chi-square. Local."""
        self.counter.matrix(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def stage(self, number: int, positives: np.ndarray, columns: np.ndarray, counts: np.ndarray, hard: np.ndarray) -> Weights:
        """See `StagedSolver.stage`; of the features with a large chi-square."""
        from sklearn.svm import SVC

        rows = np.concatenate([positives, hard])
        of_rows, together = self.counter.count(rows)
        of_label = np.zeros(of_rows.size, np.int64)
        of_label[np.searchsorted(of_rows, columns)] = counts
        chosen = of_rows[chi_square(of_label, together - of_label, positives.size, hard.size) > self.options.chi_square]
        chosen = chosen[~self.risk.is_left_out(number, chosen)]
        if not chosen.size:
            return NONE
        indptr, indices = self.counter.matrix(rows, chosen)
        X = sp.csr_matrix((np.ones(indices.size), indices, indptr.astype(np.int32)), (rows.size, chosen.size))
        X.sort_indices()
        svm = SVC(kernel="linear", C=self.options.svm_c, tol=self.options.svm_tol)
        svm.fit(X, np.arange(rows.size) < positives.size)
        w = svm.coef_.toarray()[0]
        return Weights(chosen[w != 0], w[w != 0], float(svm.intercept_[0]))


def chi_square(positive: np.ndarray, negative: np.ndarray, n_positive: int, n_negative: int) -> np.ndarray:
    """n (ad − bc)² over the margins' product, of features (k) in so many rows of each kind."""
    a, b = positive.astype(np.float64), negative.astype(np.float64)
    c, d, n = n_positive - a, n_negative - b, float(n_positive + n_negative)
    margins = (a + b) * (c + d) * n_positive * n_negative
    return np.divide(n * np.square(a * d - b * c), margins, out=np.zeros_like(a), where=margins > 0)

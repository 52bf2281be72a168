"""AdaBoost with naive Bayes, whose scores isotonic regression makes probabilities (Wilbur 2000).

What the paper leaves open: probabilities are those of the weighted rows; weights are scaled so that
they are 1 on average among the rows that a round is trained on, which is what smoothing is added
to; a round that errs on half of the weight, or has no rows with or without the label, ends the
training before it, and one without errors after it.
"""

from __future__ import annotations

import numpy as np

from hpcml.kernels import elementary, elementwise
from hpcml.methods.bayes import kernels
from hpcml.methods.bayes.block import BayesSolver, Line, side_by_side
from hpcml.methods.bayes.options import BoostedBayesOptions
from hpcml.methods.bayes.risk import Weights
from hpcml.methods.linear.solver import SparseWeightsOf
from hpcml.model.combination import Voter, as_numbers

LEAST_ERROR = 1e-12  # a round with less is without errors
LEAST_WEIGHT = 1e-290  # of a row, so that it never is 0


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
        return 2.0 * self.options.rounds * self.risk.rows.data.size

    def trained(self, number: int, positives: np.ndarray, seconds: float) -> tuple[SparseWeightsOf, float, list[Line]]:
        """See `BayesSolver.trained`."""
        n = self.risk.rows.n_global
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
            part = self._weights(number, used, has, None if not rounds else p)
            scores = self.counter.scores(part, every)
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
        return side_by_side(self.risk, parts, as_numbers(rounds)), n, history

    def _weights(self, number: int, used: np.ndarray, has: np.ndarray, p: np.ndarray | None) -> Weights:
        """Naive Bayes of the rows used, by weights p; None: all alike. Raises Stopped."""
        counter, own = self.counter, used[has[used]]
        columns, counts = counter.count(own)
        if p is None:
            return counter.of_all_rows(number, columns, counts, own.size)
        others = used[~has[used]]
        scale = used.size / p[used].sum()
        positive, negative = (scale * p[rows] for rows in (own, others))
        sums = counter.summed(columns, own, positive), counter.summed(columns, others, negative)
        return counter.weights(number, columns, *sums, positive.sum(), negative.sum())

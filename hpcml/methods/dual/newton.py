"""Newton's method on the primal problem of the squared hinge, for labels that coordinate descent has
not solved within its steps.

Dual coordinate descent is slow where few columns have many rows and λ is small: on covtype (581,012
rows, 55 columns) with λ = 1e-9 the gap is 0.98 after 300 passes. There the matrix of second
derivatives is small. With C_i = c_i / (λ m), for rows of weight s_i,

    f(w) / λ = ½ ‖w‖² + Σ s_i C_i max(0, 1 − y_i w · x_i)²
    gradient = w − v,    v = 2 Σ s_i C_i ξ_i y_i x_i,    ξ_i = max(0, 1 − y_i w · x_i)
    H        = I + 2 Σ_{ξ_i > 0} s_i C_i x_i x_iᵀ

and α_i = 2 C_i ξ_i is feasible for the dual problem, so every iteration certifies its own gap. Its
objective is largest at the multiple t α with t = Σ s α / (‖v‖² + 2 Σ s C ξ²).

Mangasarian, *A finite Newton method for classification*, 2002. LIBLINEAR turns to it likewise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcml import mpi, slices
from hpcml.kernels import njit
from hpcml.methods.dual.label import CLOSE, Training
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.objective import Risk
from hpcml.run.stop import Stop

MOST_COLUMNS = 1024  # 8 MB of second derivatives
PASSES_PER_ITERATION = 20  # of --max-steps, for each Newton iteration
SMALL = 1e-11  # of the objective: a decrease that ends the iterations
PIVOT = 1e-14  # the least pivot of a matrix whose diagonal is 1


class Solution(NamedTuple):
    """Weights (d) in the type of the model, their objective, a bound below its minimum (both divided by λ), iterations."""

    w: np.ndarray
    primal: float
    bound: float
    n_iterations: int


@njit
def add_rows(indptr, indices, data, z, costs, gradient, second):
    """Add −v and the lower half of H − I of rows with scores z to `gradient` (d) and `second` (d, d); return Σ s α and Σ s C ξ².

    `costs`: s C of positive rows, −s C of negative ones.
    """
    alphas, losses = 0.0, 0.0
    for i in range(z.size):
        sign = 1.0 if costs[i] > 0 else -1.0
        short = 1.0 - sign * z[i]
        if short > 0:
            cost = 2.0 * abs(costs[i])
            alphas += cost * short
            losses += 0.5 * cost * short * short
            for k in range(indptr[i], indptr[i + 1]):
                x = np.float64(data[k])
                gradient[indices[k]] -= sign * cost * short * x
                for other in range(indptr[i], indptr[i + 1]):
                    if indices[other] <= indices[k]:
                        second[indices[k], indices[other]] += cost * x * np.float64(data[other])
    return alphas, losses


@njit
def scores(indptr, indices, data, w, z):
    """z[i] = x_i · w in float64."""
    for i in range(z.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * w[indices[k]]
        z[i] = total


@njit
def losses_at(z, along, step, costs):
    """Return Σ s C ξ² at the scores z + step · along."""
    total = 0.0
    for i in range(z.size):
        short = 1.0 - (1.0 if costs[i] > 0 else -1.0) * (z[i] + step * along[i])
        if short > 0:
            total += abs(costs[i]) * short * short
    return total


@njit
def solve(second, x, least):
    """Replace x (d) by the solution of `second` · solution = x, by Cholesky's method on the lower half of `second`, which is
    overwritten; pivots, beside a diagonal of 1, are `least` or more.
    """
    d = x.size
    scale = np.empty(d)
    for j in range(d):
        scale[j] = 1.0 / math.sqrt(second[j, j])
    for j in range(d):
        for k in range(j + 1):
            second[j, k] *= scale[j] * scale[k]
    for j in range(d):
        for k in range(j + 1):
            total = second[j, k]
            for place in range(k):
                total -= second[j, place] * second[k, place]
            second[j, k] = math.sqrt(max(total, least)) if k == j else total / second[k, k]
    for j in range(d):
        total = x[j] * scale[j]
        for k in range(j):
            total -= second[j, k] * x[k]
        x[j] = total / second[j, j]
    for j in range(d - 1, -1, -1):
        total = x[j]
        for k in range(j + 1, d):
            total -= second[k, j] * x[k]
        x[j] = total / second[j, j]
    for j in range(d):
        x[j] *= scale[j]


class Newton:
    """One label: its rows, their costs, and room for scores."""

    def __init__(self, risk: Risk, number: int, costs: np.ndarray, weights: np.ndarray, stop: Stop) -> None:
        """`costs`: C of positive and of negative rows (2); `weights` (n_local): those of rows. Raises MemoryError."""
        self.risk, self.stop = risk, stop
        self.costs = -float(costs[1]) * weights.astype(np.float64)
        positives = risk.rows.rows_of(number)
        self.costs[positives] = float(costs[0]) * weights[positives]
        self.z, self.along = np.empty((2, risk.rows.n_local))

    def _sum(self, values: np.ndarray) -> np.ndarray:
        mpi.allreduce_sum(self.risk.comm, values)
        return values

    def _slices(self):
        rows = self.risk.rows
        for part in self.stop.slices(slices.row_slices(rows.n_local, rows.data.size)):
            yield part, (rows.indptr[part.start : part.stop + 1], rows.indices, rows.data)

    def _write_scores(self, w: np.ndarray, z: np.ndarray) -> None:
        for part, csr in self._slices():
            scores(*csr, w, z[part])

    def _objective(self, w: np.ndarray, step: float = 0.0) -> float:
        """f / λ at weights w, whose scores are z + step · along. Collective."""
        losses = sum(losses_at(self.z[part], self.along[part], step, self.costs[part]) for part, _ in self._slices())
        return 0.5 * float((w * w).sum()) + float(self._sum(np.array([float(losses)]))[0])

    def run(self, start: np.ndarray, most: int) -> Solution:
        """Minimise from `start` (d) with at most so many iterations. Collective; raises Stopped."""
        w, d, bound, n_done = start.astype(np.float64), start.size, 0.0, 0
        self.along[:] = 0.0
        self._write_scores(w, self.z)
        f = self._objective(w)
        while n_done < most:
            n_done += 1
            gradient, second, totals = np.zeros(d), np.zeros((d, d)), np.zeros(2)
            for part, csr in self._slices():
                totals += add_rows(*csr, self.z[part], self.costs[part], gradient, second)
            for sums in (gradient, second, totals):
                self._sum(sums)
            alphas, losses = totals.tolist()
            bound = max(bound, alphas * alphas / (2.0 * max(float((gradient * gradient).sum()) + 2.0 * losses, 1e-300)))
            gradient += w
            second[np.arange(d), np.arange(d)] += 1.0
            direction = -gradient
            solve(second, direction, PIVOT)
            slope = float((gradient * direction).sum())
            if -slope <= SMALL * f:
                break
            self._write_scores(direction, self.along)
            step = 1.0
            while (found := self._objective(w + step * direction, step)) > f + 1e-4 * step * slope and step > 1e-6:
                step /= 2
            if not found < f:
                break
            w, f = w + step * direction, found
            self.z += step * self.along
        rounded = start.astype(self.risk.weight_type)
        rounded[:] = w
        self.along[:] = 0.0
        self._write_scores(rounded.astype(np.float64), self.z)
        return Solution(rounded, self._objective(rounded.astype(np.float64)), bound, n_done)


def improve(risk: Risk, label: Training, costs: np.ndarray, weights: np.ndarray, options: DualOptions, stop: Stop) -> bool:
    """Go on from the best weights (d) of a label that coordinate descent has given up, if the matrix of second derivatives is
    small enough; return whether its gap is then one of a label that is done. Collective; raises Stopped, MemoryError.
    """
    most = options.step_limit // PASSES_PER_ITERATION
    if options.loss != "squared-hinge" or risk.rows.n_columns > MOST_COLUMNS or not most:
        return False
    found = Newton(risk, label.number, costs, weights, stop).run(label.best_weights, most)
    for _ in range(found.n_iterations):
        label.record(math.nan, risk.rows.n_global, 0, stop.seconds)
    label.keep_best(found.primal, found.bound, lambda: found.w)
    max_gap = math.inf if options.max_gap is None else options.max_gap
    return label.best_gap <= min(CLOSE * options.dual_tol, max_gap)

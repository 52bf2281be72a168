"""Newton's method on the primal problem, for labels that coordinate descent has not solved within its steps.

Dual coordinate descent is slow where many rows have few columns and λ is small: on covtype (581,012 rows, 55 columns) with λ = 1e-9
the gap is 0.98 after 300 passes. The matrix of second derivatives is small in such data. With C_i = c_i / (λ m), for rows of weight
s_i,

    f(w) / λ = ½ ‖w‖² + Σ s_i C_i ℓ(y_i w · x_i)
    gradient = w − v,    v = Σ s_i α_i y_i x_i,    α_i = −C_i ℓ′
    H        = I + Σ s_i C_i ℓ″ x_i x_iᵀ

These α are feasible for the dual problem, so each iteration certifies a gap. The dual objective of the hinges is largest at a
multiple t α, with t = Σ s α / (‖v‖² + Σ s α² / (2 C)) for the squared hinge.

The hinge has no second derivative. It is replaced by a parabola for margins between 1 − δ and 1. The widths δ of WIDTHS are tried
in turn until the gap of the hinge itself is small enough; the replacement changes the objective by at most m C δ / 2.

Reference: Mangasarian, *A finite Newton method for classification*, 2002. LIBLINEAR also offers Newton's method for such data.
Rejected: conjugate gradients instead of H admit more columns, but take hundreds of passes where H is ill-conditioned.
"""

import math

import numpy as np

from hpcml import mpi
from hpcml.methods.dual import newton_kernels as kernels
from hpcml.methods.dual.panel import ACCEPTED_GAP, DualPanel, Training

# 8 MB of second derivatives.
MOST_COLUMNS = 1024
# Cost of a Newton iteration, counted against --max-steps.
PASSES_PER_ITERATION = 5
WIDTHS = (16.0, 4.0, 1.0, 0.25, 0.0625, 2.0**-6, 2.0**-8, 2.0**-10, 2.0**-12, 2.0**-14, 2.0**-16)
# Relative decrease of the objective that rounding can hide.
SMALL = 1e-11
# Iterations after a small decrease, without a line search: the bound converges after the objective.
MOST_SMALL = 4
# Smallest pivot of a matrix with unit diagonal.
PIVOT = 1e-14
# Relative rounding error of the sums in a bound.
ROUNDING = 1e-12
LOSSES = {"squared-hinge": kernels.SQUARED, "hinge": kernels.HINGE, "logistic": kernels.LOGISTIC}


class Newton:
    def __init__(self, panel: DualPanel, label: int, costs: np.ndarray) -> None:
        rows, weights = panel.risk.rows, panel.norms[:, 1].astype(np.float64)
        self.panel, self.loss, positives = panel, LOSSES[panel.options.loss], rows.rows_of(label)
        self.costs = -float(costs[1]) * weights
        self.costs[positives] = float(costs[0]) * weights[positives]
        self.z, self.along = np.zeros((2, rows.n_local))
        self.bound, self.n_iterations = 0.0, 0

    def _write_scores(self, w: np.ndarray, z: np.ndarray) -> None:
        for part, csr in self.panel.stop.slices(self.panel.rows.slices()):
            kernels.scores(csr, w, z[part])

    def _objective(self, w: np.ndarray, step: float, width: float) -> float:
        total = np.zeros(1)
        for part in self.panel.stop.slices(self.panel.rows.parts):
            total += kernels.losses(self.z[part], self.along[part], step, self.costs[part], self.loss, width)
        mpi.allreduce_sum(self.panel.risk.comm, total)
        return 0.5 * float((w * w).sum()) + float(total[0])

    def minimise(self, w: np.ndarray, width: float, most: int) -> np.ndarray:
        """Run iterations from w until convergence or `most` iterations in total. Collective; raises Stopped."""
        self.along[:] = 0.0
        self._write_scores(w, self.z)
        f, d, n_small = self._objective(w, 0.0, width), w.size, 0
        while self.n_iterations < most:
            self.n_iterations += 1
            gradient, second, totals = np.zeros(d), np.zeros((d, d)), np.zeros(2)
            for part, csr in self.panel.stop.slices(self.panel.rows.slices()):
                totals += kernels.add_rows(csr, self.z[part], self.costs[part], self.loss, width, gradient, second)
            for sums in (gradient, second, totals):
                mpi.allreduce_sum(self.panel.risk.comm, sums)
            linear, quadratic, square = float(totals[0]), float(totals[1]), float((gradient * gradient).sum())  # of the duals; ‖v‖²
            bound = linear - 0.5 * square
            if self.loss != kernels.LOGISTIC:
                t = linear / max(square + 2.0 * quadratic, 1e-300)
                t = min(t, 1.0) if self.loss == kernels.HINGE else t
                bound = t * linear - 0.5 * t * t * (square + 2.0 * quadratic)
            self.bound = max(self.bound, bound * (1.0 - ROUNDING))
            gradient += w
            second[np.arange(d), np.arange(d)] += 1.0
            direction = -gradient
            kernels.solve(second, direction, PIVOT)
            slope, step = float((gradient * direction).sum()), 1.0
            small = -slope <= SMALL * f
            n_small += small
            if small and (n_small > MOST_SMALL or f - self.bound <= SMALL * f):
                break
            self._write_scores(direction, self.along)
            lower = self._objective(w + direction, step, width)
            while not small and lower > f + 1e-4 * step * slope and step > 1e-6:
                step /= 2
                lower = self._objective(w + step * direction, step, width)
            if not (small or lower < f):
                break
            w, f = w + step * direction, lower
            self.z += step * self.along
        return w

    def primal(self, w: np.ndarray) -> float:
        self.along[:] = 0.0
        self._write_scores(w, self.z)
        return self._objective(w, 0.0, 0.0)


def reached_step_limit(panel: DualPanel, label: Training) -> bool:
    rows, most = panel.risk.rows, panel.options.step_limit
    if rows.n_columns <= MOST_COLUMNS:
        return label.steps >= most  # all passes count: Newton's method is faster than further passes
    return label.spent >= most * rows.n_global


def run_newton(panel: DualPanel, label: Training, costs: np.ndarray) -> bool:
    """Continue from the best weights (d); return whether the gap is then small enough. Collective; raises Stopped, MemoryError."""
    options, most = panel.options, panel.options.step_limit // PASSES_PER_ITERATION
    if panel.risk.rows.n_columns > MOST_COLUMNS or not most:
        return False
    newton = Newton(panel, label.number, costs)
    max_gap = math.inf if options.max_gap is None else options.max_gap
    w, enough = label.best_weights.astype(np.float64), min(ACCEPTED_GAP * options.dual_tol, max_gap)
    for width in WIDTHS if options.loss == "hinge" else (0.0,):
        w = newton.minimise(w, width, most)
        rounded = w.astype(panel.risk.weight_type)
        label.keep_best(newton.primal(rounded.astype(np.float64)), newton.bound, rounded.copy)
        if label.best_gap <= enough:
            break
    return label.best_gap <= enough

"""Logistic regression by dual coordinate descent (Yu, Huang & Lin 2011), for many labels at once,
certified by the duality gap.

Minimises ½‖w‖² + Σ C_i log(1 + exp(−y_i w · x_i)), which is f(w) / λ, in the passes, panels and
rounds of `dual`. Two things are different. No dual is ever at a bound, so no row is set aside. And
a pass brings the gradients down by so much that the one at its end is told from those of the last
two passes.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from hpcml import mpi
from hpcml.kernels.lanes import certify, combine, duals, epoch
from hpcml.methods.dual.dual import INNER, SWEEPS, DualSolver
from hpcml.methods.dual.label import State, Training
from hpcml.methods.dual.newton import is_over

U_OF_ZERO = -45.0  # u of a dual that is as good as 0
QUIET = 8.0  # units in the last place of 1 + |u|: a smaller gradient is an error of rounding
PRECISE = 4.0  # times the root of a unit in the last place: a gradient that rounding errors may hold up
VIOLATION = 5  # of a step's numbers in the history


class LogisticSolver(DualSolver):
    """The labels of a rank group. `alpha` holds u = log(α / (C − α))."""

    visit_kernel: ClassVar[Any] = staticmethod(epoch.logistic_epoch)
    combine_kernel: ClassVar[Any] = staticmethod(combine.logistic_combine)
    certify_kernel: ClassVar[Any] = staticmethod(certify.logistic_certify)

    def begin(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        """Collective for labels that begin. See `DualPanel`."""
        super().begin(lanes, costs, start, number)
        self.sweep = 0
        self.active[:] = self.all_lanes
        if number == 0 and start is None:
            self.alpha[:] = U_OF_ZERO

    def set_costs(self, costs: list[np.ndarray]) -> None:
        """Minimise with these C of positive and negative rows (2), lane by lane. Local."""
        self.costs = np.ones((2, self.width))
        self.costs[:, : len(costs)] = np.transpose(costs)
        rules = self.rules.reshape(epoch.N_RULES, self.width)
        rules[epoch.COST_POSITIVE : epoch.COST_NEGATIVE + 1] = self.costs
        rules[epoch.QUIET] = QUIET * np.finfo(self.rules.dtype).eps
        rules[epoch.SIGMA] = self.risk.comm.size

    def raise_costs(self, costs: list[np.ndarray], ratio: float) -> None:
        """Go on with the same α and w at C that are `ratio` ≥ 1 times as high in every lane.
        Local.
        """
        if ratio > 1.0:
            duals.divide(self.alpha, ratio)
        self.set_costs(costs)

    def look_at_support(self, lanes: np.uint16) -> None:
        """Look at the rows whose duals are not 0: all. Local."""
        self.active[:] = lanes

    def _support(self, own: slice) -> np.ndarray:
        """Of which of these rows (bool) any dual is not 0: all."""
        return np.ones(own.stop - own.start, np.bool_)

    def _start_from(self, start: State) -> None:
        """Collective. Begin with the solution of the label that no row has, the duals of its
        positive rows put back to 0.
        """
        u, rows = start.alpha, self.risk.rows
        alpha = np.empty_like(u)
        duals.duals(u, start.cost, alpha)
        super()._start_from(State(start.w, alpha))
        lanes = self.alpha.reshape(-1, self.width)
        lanes[:] = u[:, None]
        for lane, label in enumerate(self.lanes):
            lanes[rows.rows_of(label.number), lane] = U_OF_ZERO

    @property
    def goes_on(self) -> bool:
        """Whether the round does: not when all lanes are ready, nor for ever, so that those that
        remain can share a panel.
        """
        return self.sweep < SWEEPS << self.round and not all(label.ready for label in self.lanes)

    def epoch(self) -> None:
        """Collective. One pass over all rows; decides which lanes are ready."""
        seconds = self.stop.seconds
        self.sweep += 1
        violations, active, moved = (numbers.tolist() for numbers in self.visit(self.sweep - 1))
        for lane, label in enumerate(self.lanes):
            if label.ready:
                continue
            label.record(violations[lane], active[lane], moved[lane], seconds)
            if _expected(label.history) <= INNER * label.tolerance or is_over(self.risk, label, self.options):
                label.ready = True
                self.active &= np.uint16(~(1 << lane) & 0xFFFF)

    def at_precision(self, label: Training, violation: float, gap: float) -> bool:
        """Whether what is left, at the end of a round, is beyond the precision of the numbers.
        Local.
        """
        seen = min(violation, label.history[-1][VIOLATION])  # the weights of a pass have rounding errors that add up
        small = seen <= PRECISE * math.sqrt(np.finfo(self.w.dtype).eps)
        return (label.ready and not label.moved) or (small and gap > label.gap / 2)

    def tightened(self, label: Training, gap: float) -> float:
        """The tolerance for a label whose gap is too large: gaps go with the squares of the
        gradients. Local.
        """
        return label.tolerance * min(0.5, 0.7 * math.sqrt(self.max_gap / gap))

    def judge(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Collective. As in `dual`; the violations are the largest |gradients|, and every row is
        near.
        """
        risk = self.risk
        with risk.profile("finish"):
            dual_squares, squares = self._combine()
            sums, near = self._certify_rows(self._scores(), still := np.zeros(self.width), 0.0)
            worst = sums[certify.WORST].copy()
            if risk.comm.size > 1:
                worst = mpi.allreduce_maxima(risk.comm, worst)
                mpi.allreduce_sum(risk.comm, sums)
        return 0.5 * squares + sums[certify.LOSSES], sums[certify.ENTROPY] - 0.5 * dual_squares, worst, near, still


def _expected(history: list[tuple[float, ...]]) -> float:
    """The size of the gradients to expect at the end of the last pass of a history, if they fall
    as in the pass before.
    """
    violation = history[-1][VIOLATION]
    before = history[-2][VIOLATION] if len(history) > 1 else math.inf
    return violation * min(1.0, violation / before) if before > 0 else violation

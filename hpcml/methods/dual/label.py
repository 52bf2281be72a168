"""A label in training, its state between rounds, and C of its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import certify, epoch
from hpcml.losses import load_loss
from hpcml.methods.dual.options import BALANCED, DualOptions, parse_weight
from hpcml.methods.linear.objective import Risk

LIMITS = {"single": 1e36, "double": 1e150}  # of C, 1/C and ‖x‖²: so that neither overflows, nor in float64 their squares
NO_POSITIVES = -1  # the label that no row has
# CLOSE = 0: 19 passes instead of 14 on generated rows, squared hinge; 0.1: 14 instead of 25 with the hinge, whose mean gap is then
# 0.64 % instead of 0.12 %.
CLOSE = 0.01  # of the tolerance: a gap, as a share of the objective, that is small enough whatever the gradients are
QUIET = 8.0  # logistic: units in the last place of 1 + |u|; a smaller gradient is an error of rounding

# Choosing the rows of a pass reads a flag of every row: at 300,000 rows of 12 values, up to a third of the time of a full pass.
LEAST_ROWS = 1 / 16  # of all rows: what a pass over few rows, or a look at all rows for 16 labels, counts as at least


@dataclass(frozen=True)
class State:
    """Weights (d) and duals (n) of a label, and which rows (n) it looks at."""

    w: np.ndarray
    alpha: np.ndarray
    active: np.ndarray | None = None  # None: all
    cost: float = math.nan  # C of the negative rows, of the label that no row has


@dataclass
class Training:
    """A label in training; `label` is its place among the labels of the run, `number` its number
    in the data.
    """

    label: int
    number: int
    tolerance: float
    steps: int = 0
    visited: float = 0.0  # rows, over all steps
    spent: float = 0.0  # rows that count against --max-steps
    ready: bool = False  # no further pass in this round: all rows are to be judged
    resting: bool = False  # its support vectors have converged; it waits for a pass over all rows
    moved: bool = False  # in this round
    exact: bool = False  # no gradient is too small for a step
    gap: float = math.inf  # at the end of the round before
    state: State | None = None  # between two rounds
    best_primal: float = math.inf  # the least objective so far, divided by λ
    best_weights: Any = None  # its weights
    best_bound: float = 0.0  # the largest dual objective so far
    history: list[tuple[float, ...]] = field(default_factory=list)

    def keep_best(self, primal: float, bound: float, copy_weights: Callable[[], Any]) -> None:
        """Keep the weights if their objective is the least so far, and the bound if it is the largest."""
        self.best_bound = max(self.best_bound, bound)
        if primal < self.best_primal:
            self.best_primal, self.best_weights = primal, copy_weights()

    @property
    def best_gap(self) -> float:
        """The gap of the best weights by the best bound, divided by their objective."""
        return max(0.0, self.best_primal - self.best_bound) / max(self.best_primal, 1e-300)

    def record(self, violation: float, active: float, moved: float, seconds: float, least: float = 0.0, passes: int = 1) -> float:
        """Count passes: the range of the last one's gradients, which is returned, and how many rows
        they looked at and moved. Each counts as `least` rows or more. Local.
        """
        self.steps += passes
        self.visited += float(active)
        self.spent += max(float(active), least)
        self.moved |= bool(moved)
        self.history.append((self.steps, math.nan, math.nan, 0, math.nan, float(violation), active, moved, seconds))
        return float(violation)


class Costs:
    """The loss, and C of a label's positive and negative rows, of weight 1, in float64."""

    def __init__(self, risk: Risk, options: DualOptions) -> None:
        self.risk = risk
        self.precision, self.limit = options.precision, LIMITS[options.precision]
        self.loss, self.weight, self.rows = load_loss(options.loss), options.positive_weight, risk.rows
        self.is_logistic = options.loss == "logistic"
        self.is_squared = not self.is_logistic and self.loss.DUAL_CURVATURE > 0
        self.positive_weights = risk.positive_weights
        self.largest = max(1.0, risk.comm.size * risk.rows.largest_step) if self.is_logistic else 1.0

    def base(self, lam: float | None = None) -> float:
        """C of negative rows, at another λ than that of the run, if it is given."""
        return float(self.risk.negative_weight / ((self.risk.lam if lam is None else lam) * self.rows.total_weight))

    def __call__(self, label: int) -> np.ndarray:
        """C of positive and negative rows (2) of a label's number in the data. Raises
        NonFiniteError if they are beyond LIMITS.
        """
        weight = 1.0
        if label != NO_POSITIVES:
            positive = self.rows.weight_of(label)
            weight = (self.rows.total_weight - positive) / positive if self.weight == BALANCED else parse_weight(self.weight)
            weight *= 1.0 if self.positive_weights is None else float(self.positive_weights[label])
        return self.at(weight)

    def at(self, weight: float, lam: float | None = None) -> np.ndarray:
        """C of positive rows of this weight, and of negative rows (2). Raises NonFiniteError if
        they are beyond LIMITS.
        """
        base = self.base(lam)
        costs = np.array([base * weight, base])
        if not (1 / self.limit <= costs.min() and costs.max() * self.largest <= self.limit):
            raise NonFiniteError(
                f"the cost of a row, its weight / (λ m), is {costs.min():.3g} or {costs.max():.3g}, beyond {self.precision} "
                "precision; scale the data, or choose another --lambda or --positive-weight"
            )
        return costs

    def rules(self, costs: np.ndarray, ignored: Sequence[float]) -> np.ndarray:
        """Return the rules (N_RULES, lanes) of the kernels, by C of positive and of negative rows (2, lanes) and the projected
        gradients that cause no step; no row is set aside.
        """
        dtype = self.risk.weight_type
        rules = np.zeros((epoch.N_RULES, costs.shape[1]), dtype)
        rules[epoch.SIGMA] = self.risk.comm.size
        if self.is_logistic:
            rules[epoch.COST_POSITIVE : epoch.COST_NEGATIVE + 1] = costs
            rules[epoch.QUIET] = QUIET * np.finfo(dtype).eps
            return rules
        top = self.loss.DUAL_TOP * costs
        rounded = top.astype(dtype)
        rules[epoch.TOP_POSITIVE : epoch.TOP_NEGATIVE + 1] = np.where(rounded > top, np.nextafter(rounded, dtype.type(0)), rounded)
        rules[epoch.DIAGONAL_POSITIVE : epoch.DIAGONAL_NEGATIVE + 1] = self.loss.DUAL_CURVATURE / costs
        rules[epoch.IGNORED, : len(ignored)] = ignored
        rules[epoch.HIGHEST], rules[epoch.LOWEST] = math.inf, -math.inf
        return rules

    def losses(self, costs: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Σ C ℓ of a hinge (lanes), the same with moved intercepts, and what the loss takes off the dual objective, by the
        `sums` of `hinge_certify`.
        """
        first = certify.SHORT_SQUARED if self.is_squared else certify.SHORT
        moved = first + certify.MOVED_SHORT - certify.SHORT
        penalty = self.loss.DUAL_CURVATURE / costs * sums[certify.ALPHA_SQUARED : certify.ALPHA_SQUARED + 2]
        before, after = ((costs * sums[row : row + 2]).sum(axis=0) for row in (first, moved))
        return before, after, 0.5 * penalty.sum(axis=0)


def crossing(moves: np.ndarray, slopes: np.ndarray) -> float:
    """The move at which slopes, which do not fall, are 0 if they are linear between moves; beyond
    them, the first or last.

    Not by np.interp, which fuses product and sum on some processors.
    """
    place = int(np.searchsorted(slopes, 0.0, "right"))
    if place in (0, moves.size):
        return float(moves[min(place, moves.size - 1)])
    below, above = moves[place - 1], moves[place]
    return float((above - below) / (slopes[place] - slopes[place - 1]) * (0.0 - slopes[place - 1]) + below)

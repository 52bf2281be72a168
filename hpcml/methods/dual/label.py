"""A label in training, its state between rounds, and C of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import epoch
from hpcml.methods.dual.options import BALANCED, DualOptions, parse_weight
from hpcml.methods.linear.losses import DUAL_LOSSES, DualLoss
from hpcml.methods.linear.objective import Risk

LIMITS = {"single": 1e36, "double": 1e150}  # of C, 1/C and ‖x‖²: so that neither overflows, nor in float64 their squares
NO_POSITIVES = -1  # the label that no row has
# CLOSE = 0: 19 passes instead of 14 on generated rows, squared hinge; 0.1: 14 instead of 25 with the hinge, whose mean gap is then
# 0.64 % instead of 0.12 %.
CLOSE = 0.01  # of the tolerance: a gap, as a share of the objective, that is small enough whatever the gradients are


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
    ready: bool = False  # no further pass in this round: all rows are to be judged
    resting: bool = False  # its support vectors have converged; it waits for a pass over all rows
    moved: bool = False  # in this round
    exact: bool = False  # no gradient is too small for a step
    gap: float = math.inf  # at the end of the round before
    state: State | None = None  # between two rounds
    history: list[tuple[float, ...]] = field(default_factory=list)

    def record(self, violation: float, active: float, moved: float, seconds: float) -> float:
        """Count a pass: the range of its gradients, which is returned, and how many rows it
        looked at and moved. Local.
        """
        self.steps += 1
        self.visited += float(active)
        self.moved |= bool(moved)
        self.history.append((self.steps, math.nan, math.nan, 0, math.nan, float(violation), active, moved, seconds))
        return float(violation)


class Costs:
    """C and the diagonal of the dual (2 rows: positive, negative), per label, in float64, for
    rows of weight 1.
    """

    def __init__(self, risk: Risk, options: DualOptions) -> None:
        self.risk = risk
        self.precision, self.limit = options.precision, LIMITS[options.precision]
        self.loss, self.weight, self.rows = DUAL_LOSSES[options.loss], options.positive_weight, risk.rows
        self.positive_weights = risk.positive_weights
        self.largest = max(1.0, risk.comm.size * risk.rows.largest_step) if self.loss.entropic else 1.0

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


def rules_of(loss: DualLoss, costs: np.ndarray, ignored: Sequence[float], n_ranks: int, dtype: np.dtype) -> np.ndarray:
    """The rules (N_RULES, lanes) of the hinges' kernels, by C of positive and of negative rows
    (2, lanes) and the projected gradients that cause no step; no row is set aside.
    """
    rules = np.zeros((epoch.N_RULES, costs.shape[1]), dtype)
    rules[epoch.TOP_POSITIVE : epoch.TOP_NEGATIVE + 1] = loss.top(costs, dtype)
    rules[epoch.DIAGONAL_POSITIVE : epoch.DIAGONAL_NEGATIVE + 1] = loss.diagonal(costs)
    rules[epoch.SIGMA] = n_ranks
    rules[epoch.IGNORED, : len(ignored)] = ignored
    rules[epoch.HIGHEST], rules[epoch.LOWEST] = math.inf, -math.inf
    return rules


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

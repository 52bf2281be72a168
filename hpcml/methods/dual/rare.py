"""A label that is trained alone: its working set, the rows that it is judged by, how it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hpcml.kernels.lanes import certify
from hpcml.methods.dual.label import Training
from hpcml.methods.linear.losses import DualLoss
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, SparseWeightsOf


@dataclass
class RareLabel(Training):
    """A label in training: the rows (ascending) of its working set and their duals, and the
    columns and values of the weights that these make.
    """

    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    alpha: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


class RowsSeen(NamedTuple):
    """Rows that a label is judged by, ascending: their duals, and which have the label; scores in
    float64 and lines of `norms` if these are known.
    """

    rows: np.ndarray
    alpha: np.ndarray
    positive: np.ndarray
    z: np.ndarray
    norms: np.ndarray

    @classmethod
    def room(cls, n: int) -> RowsSeen:
        """Room for all n rows."""
        rows, alpha, positive = np.empty(n, np.int32), np.empty(n, np.float32), np.empty(n, np.uint16)
        return cls(rows, alpha, positive, np.empty(n), np.empty((n, 2), np.float32))


class Verdict(NamedTuple):
    """The primal and dual objective divided by λ, the gap as a share of the former, the range of the projected gradients,
    and which of the rows (bool) the label lacks.
    """

    primal: float
    bound: float
    gap: float
    violation: float
    lacks: np.ndarray


def judge(seen: RowsSeen, squares: np.ndarray, loss: DualLoss, rules: np.ndarray, costs: np.ndarray, within: float) -> Verdict:
    """What the rows that were seen say of a label, if no other has a loss or a dual.

    `squares` are Σ w² before and after rounding, `rules` and `costs` those of a panel of one lane.
    A row is lacked if its dual is 0 and the gradient lies more than −`within` beyond 0.
    """
    sums, near = np.zeros((certify.N_SUMS, 1)), np.zeros(seen.rows.size, np.uint16)
    tables, state = (rules, costs.reshape(-1), np.zeros(1)), (seen.z, seen.alpha)
    certify.hinge_certify(state, seen.positive, seen.norms, tables, near, sums.reshape(-1), 1, within)
    short, short_squared = sums[certify.SHORT : certify.SHORT + 2], sums[certify.SHORT_SQUARED : certify.SHORT_SQUARED + 2]
    primal = 0.5 * squares[1] + float(loss.losses(costs, short, short_squared)[0])
    penalty = loss.penalty(costs, sums[certify.ALPHA_SQUARED : certify.ALPHA_SQUARED + 2])
    bound = float((sums[certify.ALPHA] - 0.5 * squares[0] - penalty)[0])
    gap = max(0.0, primal - bound) / max(primal, 1e-300)
    return Verdict(primal, bound, gap, float((sums[certify.MOST] - sums[certify.LEAST])[0]), (near != 0) & (seen.alpha == 0))


def finished(label: RareLabel, f: float, gap: float, violation: float, converged: bool, n_rows: int, constant: int) -> Finished:
    """The label as it leaves; `constant` is the column of the intercept, or none that there is."""
    order = np.argsort(label.columns)
    columns, weights, intercept = label.columns[order], label.weights[order], 0.0
    if columns.size and columns[-1] == constant:
        columns, weights, intercept = columns[:-1], weights[:-1], float(weights[-1])
    last = label.history[-1]
    label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
    share, w = label.visited / (label.steps * n_rows), SparseWeightsOf(columns, weights, intercept)
    return Finished(label.label, w, f, CONVERGED if converged else STEP_LIMIT, label.steps, share, label.history, gap)


def at_least_highest(values: np.ndarray, n: int) -> np.ndarray:
    """Which values (bool) are the `n` highest; more where some are equal, all if they are fewer."""
    if values.size <= n:
        return np.ones(values.size, np.bool_)
    return values >= np.partition(values, values.size - n)[values.size - n]

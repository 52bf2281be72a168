"""The rounds of dual coordinate descent: which labels share one, which passes it has, and when a label is done.

Logistic regression (Yu, Huang & Lin 2011) differs from the hinges in two ways. No dual is ever at a bound, so every pass is over
all rows. And a pass brings the gradients down by so much that the one at its end is told from those of the last two passes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hpcml.methods.dual.label import CLOSE, LEAST_ROWS, Training
from hpcml.methods.dual.lanes import DualPanel
from hpcml.methods.dual.newton import improve, is_over
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished

# The constants of a round, measured by `python -m launch.lab bench panels` with the hinge and tolerance 0.1: the largest gap of
# the 150th to 165th labels of MeSH, and the passes of the 16 most frequent labels of 100,000 generated rows
# (`convert synthetic text`).
# A pass has the gradients at each visit; the certificate has those at the last weights, which may be larger: so less is asked.
# INNER = 0.3: gap 0.5 % instead of 0.8 % on MeSH, 26 passes instead of 25 on generated rows; 1: 2.5 %, and 20 passes.
INNER = 0.6  # of the tolerance: what a pass over all rows, or those that are still looked at, must come to
# REST = 0.25: the same gaps and passes; 1: gap 1.2 % on MeSH, 20 passes on generated rows.
REST = 0.5  # of the tolerance: what the support vectors must come to before all rows are looked at
# FULL_PASSES = 2 has gaps of 2.1 % on MeSH; 3 takes 1.2 times as long for 1,104 labels of 500 words: more need a second round.
# The passes between are few at first, when a label lacks rows, and more as it nears its end. Hinge: 2 each time take 1.3 times as
# long for 7 labels of 20 Newsgroups, with gaps up to 1.0 % instead of 0.4 %; (1, 2, 3, 4, 5) has a mean gap of 0.49 % instead of
# 0.36 % for labels of generated rows. Squared hinge: 2 each time take 1.1 times as long for 20 Newsgroups.
FULL_PASSES = 4  # of the first round, over all rows
SUPPORT_PASSES = (2, 2, 3, 4, 6)  # before each of these, and after the last one, over the support vectors
SUPPORT_PASSES_SQUARED = (1, 1, 2, 2, 3)  # the same for the squared hinge
# SWEEPS = 3: 21 passes instead of 25 on generated rows, but a mean gap of 0.19 % instead of 0.12 %; 30: the same as 10.
SWEEPS = 10  # half as many as in the second round; every further one has twice as many as the one before
PRECISE = 4.0  # logistic: times the root of a unit in the last place; a gradient that rounding errors may hold up
VIOLATION = 5  # of a step's numbers in the history

Label = TypeVar("Label", bound=Training)


def in_rounds(
    labels: Sequence[int], make: Callable[[int], Label], n_lanes: int, most_between: float
) -> Iterator[tuple[int, list[Label], list[Label]]]:
    """Yield the number of a round, the labels that go through it together, and a list to put those into that need another round.

    They are labels of one round, if they fill the lanes or if `most_between` wait between two rounds; else new ones, made from
    their places `labels`; else as many as there are.
    """
    waiting, between = deque(labels), dict[int, list[Label]]()
    while waiting or between:
        number = max(between, key=lambda number: len(between[number]), default=0)
        full = number and len(between[number]) >= n_lanes
        if waiting and not full and sum(map(len, between.values())) < most_between:
            number, lanes = 0, [make(waiting.popleft()) for _ in range(min(n_lanes, len(waiting)))]
        else:
            found = between.pop(number)
            lanes = found[:n_lanes]
            if found[n_lanes:]:
                between[number] = found[n_lanes:]
        unfinished = list[Label]()
        yield number, lanes, unfinished
        if unfinished:
            between.setdefault(number + 1, []).extend(unfinished)


class Verdict(NamedTuple):
    """Of weights, by all rows: the primal and the dual objective, divided by λ, and the range of the projected gradients."""

    primal: float
    bound: float
    violation: float

    @property
    def gap(self) -> float:
        """The duality gap, divided by the objective."""
        return max(self.primal - self.bound, 0.0) / max(self.primal, 1e-300)


class Rounds:
    """What depends on the loss in a round of a panel's labels."""

    def __init__(self, panel: DualPanel) -> None:
        self.panel, self.least_rows = panel, LEAST_ROWS * panel.risk.rows.n_global
        self.max_gap = math.inf if panel.options.max_gap is None else panel.options.max_gap

    def begin(self, is_start: bool) -> None:
        """Begin a round of the panel; `is_start`: that of the label that no row has. Local."""
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        """Whether the round does: not when all lanes are ready, nor for ever, so that those that
        remain can share a panel.
        """
        raise NotImplementedError

    def run_pass(self) -> None:
        """Collective. Make a pass, and decide which lanes are ready."""
        raise NotImplementedError

    def is_at_precision(self, label: Training, verdict: Verdict) -> bool:
        """Return whether what is left, at the end of a round, is beyond the precision of the numbers. Local."""
        return label.exact and not label.moved

    def tightened(self, label: Training, gap: float) -> float:
        """The tolerance for a label that has converged, but whose gap is too large. Local."""
        return label.tolerance / 2

    def conclude(
        self, label: Training, costs: np.ndarray, verdict: Verdict, is_at_precision: bool, max_gap: float, weights: Callable
    ) -> Finished | None:
        """Collective. Return the label if it is done, or given up at its best weights; None if it needs another round.

        `costs` (2) are C of positive and negative rows; weights(copy) are the weights that were judged. Raises NonFiniteError.
        """
        risk, rows = self.panel.risk, self.panel.risk.rows
        f, gap, violation = risk.lam * verdict.primal, verdict.gap, verdict.violation
        risk.check_finite(np.array([f]), "objective", np.array([label.number]))
        converged = violation <= label.tolerance or gap <= CLOSE * label.tolerance
        done, over = converged and gap <= max_gap, is_over(self.panel, label)
        if not done:
            positive = rows.weight_of(label.number)
            none = float(costs[0] * positive + costs[1] * (rows.total_weight - positive))
            label.keep_best(self.panel.cost_of.loss.VALUE_AT_ZERO * none, 0.0, lambda: (np.zeros(0, np.int32), np.zeros(0)))
            label.keep_best(verdict.primal, verdict.bound, lambda: weights(True))
        if not (done or over or is_at_precision):
            if converged:
                label.tolerance = self.tightened(label, gap)
            label.exact, label.gap = not label.moved, gap
            label.ready = label.resting = label.moved = False
            return None
        if done:
            w = weights(False)
        else:
            label.best_weights = as_dense(label.best_weights, rows.n_columns, risk.weight_type)
            if over and improve(self.panel, label, costs):
                done, violation = True, math.nan
            w, f, gap = label.best_weights, risk.lam * label.best_primal, label.best_gap
        last, share = label.history[-1], label.visited / (label.steps * rows.n_global)
        label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
        return Finished(label.label, w, f, CONVERGED if done else STEP_LIMIT, label.steps, share, label.history, gap)


def as_dense(weights: Any, n_columns: int, dtype: np.dtype) -> np.ndarray:
    """Return weights, given as (columns, values) or as an array (n_columns), as an array."""
    if isinstance(weights, tuple):
        (columns, values), weights = weights, np.zeros(n_columns, dtype)
        weights[columns] = values
    return weights


class HingeRounds(Rounds):
    """Passes over all rows, and over support vectors between them."""

    full = 0  # passes over all rows in this round
    support = 0  # passes over the support vectors since then

    def begin(self, is_start: bool) -> None:
        """See `Rounds`."""
        self.passes = SUPPORT_PASSES_SQUARED if self.panel.cost_of.is_squared else SUPPORT_PASSES
        self.full, self.support = 0, self.passes[0] if is_start else 0

    @property
    def goes_on(self) -> bool:
        """See `Rounds`."""
        if all(label.ready for label in self.panel.lanes):
            return False
        if self.panel.round > 0:
            return self.support < SWEEPS << self.panel.round
        return self.full < FULL_PASSES or self.support < self.passes[self.full]

    def run_pass(self) -> None:
        """Collective. A pass over all rows or over the rows that matter to each lane."""
        panel, seconds = self.panel, self.panel.stop.seconds
        if full := panel.round == 0 and self.support == self.passes[self.full]:
            self.full, self.support = self.full + 1, 0
            panel.active[:] = np.uint16(sum(1 << lane for lane, label in enumerate(panel.lanes) if not label.ready))
            panel.set_aside(False)
            number = self.full
        else:
            self.support += 1
            number = self.support << 8 | self.full  # no other pass of the round has this one
        violations, active, moved = (numbers.tolist() for numbers in panel.visit(number, full))
        for lane, label in enumerate(panel.lanes):
            if label.ready or (label.resting and not full):
                continue
            violation = label.record(violations[lane], active[lane], moved[lane], seconds, self.least_rows)
            label.ready = is_over(panel, label)
            label.ready |= (full or panel.round > 0) and violation <= INNER * label.tolerance
            label.resting = not full and violation <= REST * label.tolerance
        goes_on = sum(1 << lane for lane, label in enumerate(panel.lanes) if not (label.ready or label.resting))
        if full:
            panel.look_at_support(panel.all_lanes)
        else:
            panel.set_aside()
        panel.active &= np.uint16(goes_on)
        if panel.round == 0 and not goes_on:
            self.support = self.passes[self.full]


class LogisticRounds(Rounds):
    """Passes over all rows."""

    def begin(self, is_start: bool) -> None:
        """See `Rounds`."""
        self.n_passes = 0

    @property
    def goes_on(self) -> bool:
        """See `Rounds`."""
        return self.n_passes < SWEEPS << self.panel.round and not all(label.ready for label in self.panel.lanes)

    def run_pass(self) -> None:
        """Collective. A pass over all rows. The gradients at its end are expected to fall as in the pass before."""
        panel, seconds = self.panel, self.panel.stop.seconds
        violations, active, moved = (numbers.tolist() for numbers in panel.visit(self.n_passes))
        self.n_passes += 1
        for lane, label in enumerate(panel.lanes):
            if label.ready:
                continue
            violation = label.record(violations[lane], active[lane], moved[lane], seconds)
            before = label.history[-2][VIOLATION] if len(label.history) > 1 else math.inf
            expected = violation * min(1.0, violation / before) if before > 0 else violation
            if expected <= INNER * label.tolerance or is_over(panel, label):
                label.ready = True
                panel.active &= np.uint16(~(1 << lane) & 0xFFFF)

    def is_at_precision(self, label: Training, verdict: Verdict) -> bool:
        """See `Rounds`."""
        seen = min(verdict.violation, label.history[-1][VIOLATION])  # the weights of a pass have rounding errors that add up
        small = seen <= PRECISE * math.sqrt(np.finfo(self.panel.w.dtype).eps)
        return (label.ready and not label.moved) or (small and verdict.gap > label.gap / 2)

    def tightened(self, label: Training, gap: float) -> float:
        """See `Rounds`: gaps go with the squares of the gradients."""
        return label.tolerance * min(0.5, 0.7 * math.sqrt(self.max_gap / gap))

"""Dual coordinate descent for many labels at once: hinge and squared hinge, certified by the
duality gap.

LIBLINEAR's algorithm (Hsieh et al. 2008, Algorithm 1 with shrinking, and its stopping rule)
minimises ½‖w‖² + Σ C_i ℓ, which with C_i = c_i / (λ m) is f(w) / λ for rows of weight c_i. Here it
runs for the labels of a panel at once (`lanes`), all of which begin together. Four things differ:
- A label begins with the solution of the label that no row has, which it differs from by its
  positive rows.
- Most passes visit a label's support vectors only: its working set (Blitz, Johnson & Guestrin 2015,
  choose one by bounds). A few passes over all rows bring what it lacks. Gradients that are small
  beside the tolerance cause no step.
- All rows are looked at in one pass at the end, in float64 and with the weights as they are saved:
  the gradients tell whether the label is done, and the same pass gives the objective and the gap. A
  label that is not done goes on with what this pass has found. The intercept of a label that is
  done is then moved to where the objective is least: a margin of 1 is where most rows lie.
- Labels go through rounds of a bounded number of passes. Those that are not done after one share
  the next with others of its kind.
- On several ranks that share the rows, each takes the steps of its own rows, and their sum is
  applied after every pass (CoCoA+, Ma et al. 2015, with its safe σ′ = number of ranks and γ = 1).

A label's path depends on the label, the rows and the seed, not on which labels share its panel.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Sequence
from functools import partial

import numpy as np

from hpcml.kernels.lanes.duals import support
from hpcml.methods.dual.alone import VALUES_PER_POSITIVE, Alone
from hpcml.methods.dual.label import CLOSE, LEAST_ROWS, NO_POSITIVES, State, Training, no_weights
from hpcml.methods.dual.lanes import DualPanel
from hpcml.methods.dual.newton import improve, is_over
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.losses import DUAL_LOSSES
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, Finished, Solver, Turns
from hpcml.run.stop import NEVER, Stop

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


def most_alone(risk: Risk, options: DualOptions) -> int:
    """The rows that a label may have which is trained alone; 0: none is. Local."""
    if risk.comm.size > 1 or DUAL_LOSSES[options.loss].entropic or options.precision != "single":
        return 0
    return risk.rows.data.size // VALUES_PER_POSITIVE


class DualSolver(DualPanel, Solver):
    """The labels of a rank group, panel by panel; a panel that is not done begins anew when a
    run is resumed.
    """

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError,
        NonFiniteError.
        """
        super().__init__(risk, labels, n_lanes, options)
        self.least_rows = LEAST_ROWS * risk.rows.n_global
        self.max_gap = math.inf if options.max_gap is None else options.max_gap
        self.support_passes = SUPPORT_PASSES_SQUARED if self.cost_of.loss.squared else SUPPORT_PASSES
        self.most_alone = most_alone(risk, options)
        self.start: State | None = None  # the solution of the label that no row has
        self.alone: Alone | None = None  # made when it is needed
        self.full = 0  # passes over all rows in this round
        self.support = 0  # passes over the support vectors since then

    def compile_rest(self, risk: Risk) -> None:
        """Train a label as a rare one, if `risk` may have such. Local."""
        self.most_alone = min(1, most_alone(risk, self.options))
        if self.most_alone:
            for _ in self.solve([1], NEVER):
                pass

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group. A turn is one pass over the active rows of a panel, or one
        look at all rows for labels that are trained alone.
        """
        rare = self.risk.rows.n_positive[self.labels[np.asarray(labels, np.int64)]] <= self.most_alone
        yield from self._panels([label for label, alone in zip(labels, rare, strict=True) if not alone], stop)
        if rare.any():
            self.alone = self.alone or Alone(self)
            yield []
            some = [label for label, alone in zip(labels, rare, strict=True) if alone]
            yield from self.alone.solve(some, self.labels, self.n_lanes, stop)

    def _panels(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group. Labels that share panels."""
        self.stop = stop
        waiting, between = deque(labels), dict[int, list[Training]]()  # labels that need another round, by its number
        if waiting and self.start is None:
            yield from self._passes([Training(NO_POSITIVES, NO_POSITIVES, self.options.dual_tol)])
            self.start = State(self.w, self.alpha, cost=self.cost_of.base())
            yield []
        while waiting or between:
            number, lanes = self._next(waiting, between)
            yield from self._passes(lanes, number)
            finished, others = self.certify()
            if others:
                between.setdefault(number + 1, []).extend(others)
            yield finished

    def _next(self, waiting: deque[int], between: dict[int, list[Training]]) -> tuple[int, list[Training]]:
        """Labels of one round, if they fill a panel or become many, else new ones, else as many
        as there are.
        """
        number = max(between, key=lambda number: len(between[number]), default=0)
        full = number and len(between[number]) >= self.n_lanes
        if waiting and not full and sum(map(len, between.values())) < self.n_lanes:
            places = [waiting.popleft() for _ in range(min(self.n_lanes, len(waiting)))]
            return 0, [Training(place, int(self.labels[place]), self.options.dual_tol) for place in places]
        labels = between.pop(number)
        if labels[self.n_lanes :]:
            between[number] = labels[self.n_lanes :]
        return number, labels[: self.n_lanes]

    def _passes(self, lanes: list[Training], number: int = 0) -> Generator[list[Finished], None, None]:
        """Collective. The passes of labels that go through round `number` together, with a
        turn's end between two of them.
        """
        with self.risk.profile("compute"):
            self.begin(lanes, [self.cost_of(label.number) for label in lanes], self.start, number)
        self.epoch()
        while self.goes_on:
            yield []
            self.epoch()

    def begin(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        """Collective for labels that begin. See `DualPanel`."""
        super().begin(lanes, costs, start, number)
        self.full, self.support = 0, self.support_passes[0] if number == 0 and start is None else 0

    @property
    def goes_on(self) -> bool:
        """Whether the round does: not when all lanes are ready, nor for ever, so that those that
        remain can share a panel.
        """
        if all(label.ready for label in self.lanes):
            return False
        if self.round > 0:
            return self.support < SWEEPS << self.round
        return self.full < FULL_PASSES or self.support < self.support_passes[self.full]

    @property
    def full_next(self) -> bool:
        """Whether the next pass is over all rows, whichever are active now."""
        return self.round == 0 and self.support == self.support_passes[self.full]

    def epoch(self) -> None:
        """Collective. One pass, over all rows or over the rows that matter to each lane; decides
        which lanes are ready.
        """
        seconds = self.stop.seconds
        full = self.full_next
        if full:
            self.full, self.support = self.full + 1, 0
            self.active[:] = np.uint16(sum(1 << lane for lane, label in enumerate(self.lanes) if not label.ready))
            self.keep_all()
            number = self.full
        else:
            self.support += 1
            number = self.support << 8 | self.full  # no other pass of the round has this one
        violations, active, moved = (numbers.tolist() for numbers in self.visit(number, full))
        for lane, label in enumerate(self.lanes):
            if label.ready or (label.resting and not full):
                continue
            violation = label.record(violations[lane], active[lane], moved[lane], seconds, self.least_rows)
            label.ready = is_over(self.risk, label, self.options)
            label.ready |= (full or self.round > 0) and violation <= INNER * label.tolerance
            label.resting = not full and violation <= REST * label.tolerance
        if full:
            support(self.alpha, self.width, len(self.lanes), self.active)
        else:
            self.set_aside()
        goes_on = sum(1 << lane for lane, label in enumerate(self.lanes) if not (label.ready or label.resting))
        self.active &= np.uint16(goes_on)
        if self.round == 0 and not goes_on:
            self.support = self.support_passes[self.full]

    def certify(self) -> tuple[list[Finished], list[Training]]:
        """Collective. The end of the round: judge the weights. The labels that are done, and
        those that are not.
        """
        rows, risk, width = self.risk.rows, self.risk, self.width
        finished, others = [], []
        primal, bound, violations, near, shifts = self.judge()
        gaps = np.maximum(0.0, primal - bound) / np.maximum(primal, 1e-300)
        weights = self.w.reshape(-1, width).T
        for lane, label in enumerate(self.lanes):
            f, gap, violation = risk.lam * float(primal[lane]), float(gaps[lane]), float(violations[lane])
            risk.check_finite(np.array([f]), "objective", np.array([label.number]))
            converged = violation <= label.tolerance or gap <= CLOSE * label.tolerance
            still = self.at_precision(label, violation, gap)
            done = converged and gap <= self.max_gap
            if not done:
                none = no_weights(rows, label.number, self.costs[:, lane], self.cost_of.loss)
                label.keep_best(none, 0.0, lambda: np.zeros(rows.n_columns, self.w.dtype))
                label.keep_best(float(primal[lane]), float(bound[lane]), partial(self.weights_of, lane, shifts[lane]))
            over = is_over(risk, label, self.options)
            if done or over or still:
                status = CONVERGED if done else STEP_LIMIT
                if done:
                    w = self.w.reshape(-1, width)[:, lane]
                    if shifts[lane]:
                        w[-1] += shifts[lane]
                else:
                    if over and improve(risk, label, self.costs[:, lane], self.norms[:, 1], self.options, self.stop):
                        status = CONVERGED
                    w, f, gap = label.best_weights, risk.lam * label.best_primal, label.best_gap
                    violation = math.nan if status == CONVERGED else violation
                last, share = label.history[-1], label.visited / (label.steps * rows.n_global)
                label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
                finished.append(Finished(label.label, w, f, status, label.steps, share, label.history, gap))
                continue
            if converged:
                label.tolerance = self.tightened(label, gap)
            label.exact, label.gap = not label.moved, gap
            label.ready = label.resting = label.moved = False
            alpha = self.alpha.reshape(-1, width)[:, lane].copy()
            label.state = State(weights[lane].copy(), alpha, ((self.active | near) & np.uint16(1 << lane)) != 0)
            others.append(label)
        return finished, others

    def at_precision(self, label: Training, violation: float, gap: float) -> bool:
        """Whether what is left, at the end of a round, is beyond the precision of the numbers.
        Local.
        """
        return label.exact and not label.moved

    def tightened(self, label: Training, gap: float) -> float:
        """The tolerance for a label that has converged, but whose gap is too large. Local."""
        return label.tolerance / 2

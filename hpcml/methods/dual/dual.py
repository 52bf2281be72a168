"""Dual coordinate descent for many labels at once, certified by the duality gap.

LIBLINEAR's algorithm (Hsieh et al. 2008, Algorithm 1 with shrinking, and its stopping rule)
minimises ½‖w‖² + Σ C_i ℓ, which with C_i = c_i / (λ m) is f(w) / λ for rows of weight c_i. Here it
runs for the labels of a panel at once (`lanes`), all of which begin together. Five things differ:
- A label begins with the solution of the label that no row has, which it differs from by its
  positive rows.
- Most passes visit a label's support vectors only: its working set (Blitz, Johnson & Guestrin 2015,
  choose one by bounds). A few passes over all rows bring what it lacks. Gradients that are small
  beside the tolerance cause no step.
- All rows are looked at in one pass at the end, in float64 and with the weights as they are saved:
  the gradients tell whether the label is done, and the same pass gives the objective and the gap. A
  label that is not done goes on with what this pass has found. The intercept of a label that is
  done is then moved to where the objective is least: a margin of 1 is where most rows lie.
- Labels go through rounds of a bounded number of passes (`rounds`). Those that are not done after one share
  the next with others of its kind.
- On several ranks that share the rows, each takes the steps of its own rows, and their sum is
  applied after every pass (CoCoA+, Ma et al. 2015, with its safe σ′ = number of ranks and γ = 1).

A label's path depends on the label, the rows and the seed, not on which labels share its panel.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import numpy as np

from hpcml.methods.dual.alone import VALUES_PER_POSITIVE, Alone
from hpcml.methods.dual.label import NO_POSITIVES, State, Training
from hpcml.methods.dual.lanes import DualPanel
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.rounds import HingeRounds, LogisticRounds, Verdict, in_rounds
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import Finished, Solver, Turns
from hpcml.run.stop import NEVER, Stop


def most_alone(risk: Risk, options: DualOptions) -> int:
    """The rows that a label may have which is trained alone; 0: none is. Local."""
    if risk.comm.size > 1 or options.loss == "logistic" or options.precision != "single":
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
        self.rounds = (LogisticRounds if self.is_logistic else HingeRounds)(self)
        self.most_alone = most_alone(risk, options)
        self.start: State | None = None  # the solution of the label that no row has
        self.alone: Alone | None = None  # made when it is needed

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
        self.stop = stop
        rare = [self.risk.rows.n_positive[self.labels[label]] <= self.most_alone for label in labels]
        in_panels = [label for label, alone in zip(labels, rare, strict=True) if not alone]
        if in_panels and self.start is None:
            yield from self._passes([Training(NO_POSITIVES, NO_POSITIVES, self.options.dual_tol)])
            self.start = State(self.w, self.alpha, cost=self.cost_of.base())
            yield []
        tolerance = self.options.dual_tol
        for number, lanes, unfinished in in_rounds(
            in_panels, lambda place: Training(place, int(self.labels[place]), tolerance), self.n_lanes, self.n_lanes
        ):
            yield from self._passes(lanes, number)
            done, others = self.certify()
            unfinished += others
            yield done
        if any(rare):
            self.alone = self.alone or Alone(self, self.rounds)
            yield []
            alone = [label for label, alone in zip(labels, rare, strict=True) if alone]
            yield from self.alone.solve(alone, self.labels, self.n_lanes, stop)

    def _passes(self, lanes: list[Training], number: int = 0) -> Generator[list[Finished], None, None]:
        """Collective. The passes of labels that go through round `number` together, with a
        turn's end between two of them.
        """
        with self.risk.profile("compute"):
            self.begin(lanes, [self.cost_of(label.number) for label in lanes], self.start, number)
        self.rounds.begin(number == 0 and self.start is None)
        self.rounds.run_pass()
        while self.rounds.goes_on:
            yield []
            self.rounds.run_pass()

    def certify(self) -> tuple[list[Finished], list[Training]]:
        """Collective. The end of the round: judge the weights. The labels that are done, and
        those that are not.
        """
        finished, others, width = list[Finished](), list[Training](), self.width
        *sums, near, shifts = self.judge()
        for lane, (label, *numbers) in enumerate(zip(self.lanes, *(array.tolist() for array in sums), strict=False)):
            verdict, weights = Verdict(*numbers), partial(self.weights_of, lane, shifts[lane])
            is_at_precision = self.rounds.is_at_precision(label, verdict)
            one = self.rounds.conclude(label, self.costs[:, lane], verdict, is_at_precision, self.rounds.max_gap, weights)
            if one is not None:
                finished.append(one)
                continue
            w, alpha = (array.reshape(-1, width)[:, lane].copy() for array in (self.w, self.alpha))
            label.state = State(w, alpha, ((self.active | near) & np.uint16(1 << lane)) != 0)
            others.append(label)
        return finished, others

"""Many labels at many λ and weights of positive rows, on the same rows: weights to choose by, not solutions.

A panel of labels goes from the largest λ to the smallest and keeps its duals, which stay feasible as C grows. The first λ begins
with the common start (`dual`) and sweeps over all rows until they have nearly converged. Each further one sweeps twice over its
support vectors, then once over all rows; and again, where there are few rows, for a sweep over few rows does little.
docs/tuning.md says how far the average precision of such weights is from that of solutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hpcml.kernels.lanes.duals import support
from hpcml.methods.dual.blocks import block_of
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import NO_POSITIVES, DualPanel, State, Training
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.settings import Fitted, Setting

FIRST_SWEEPS = 10  # of the largest λ at most, over all rows
FIRST_TOLERANCE = 0.5  # of the projected gradients, that ends them
SWEEPS = 3  # of each further λ, the last over all rows
TOLERANCE = 0.1  # that ends these, where they are repeated
VISITS = 3000  # of rows that they come to, at least
START_SWEEPS = 10  # of the label that no row has


class DualPath:
    """The settings of one set of rows. `panels` may be called for any labels, one call after the other. Local."""

    def __init__(self, method: object, risk: Risk, settings: Sequence[Setting], options: DualOptions, n_lanes: int) -> None:
        """`settings` have "lam" and "positive_weight" as numbers. Raises MemoryError, NonFiniteError."""
        self.risk, self.settings = risk, list(settings)
        self.lambdas = sorted({each["lam"] for each in settings}, reverse=True)
        self.weights = sorted({each["positive_weight"] for each in settings})
        self.place = {(each["lam"], each["positive_weight"]): number for number, each in enumerate(settings)}
        self.block = block_of(options)(risk, np.zeros(0, np.int64), n_lanes, replace(options, positive_weight="1"), 2**31 - 1)
        self.block.tolerance = 0.0  # as many sweeps as were said
        for lam in self.lambdas:
            self._costs(lam, [(NO_POSITIVES, weight) for weight in self.weights])  # an error now, not after hours
        self.start: State | None = None

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.block.warm_up()
        support(np.zeros(0, self.risk.weight_type), 1, 1, np.zeros(0, np.uint16))

    def _costs(self, lam: float, lanes: Sequence[tuple[int, float]]) -> list[np.ndarray]:
        """C of the positive and the negative rows of some lanes (label, weight)."""
        self.block.costs.base = 1.0 / (lam * self.risk.rows.n_global)
        base = self.block.costs.of(NO_POSITIVES)
        return [self.block.costs.checked(base * [weight, 1.0]) for _, weight in lanes]

    def _common_start(self) -> State:
        """The solution of the label that no row has, at the largest λ."""
        self._costs(self.lambdas[0], [])
        panel = self.block.new_panel([Training(NO_POSITIVES, NO_POSITIVES, 0.0)])
        panel.active[:] = 1
        for sweep in range(START_SWEEPS):
            panel.visit(sweep)
            panel.set_aside()
        return State(panel.w, panel.alpha)

    def panels(self, labels: np.ndarray) -> Iterator[Fitted]:
        """The weights of the labels (their numbers in the data) at all settings. Raises Stopped."""
        if self.start is None:
            self.start = self._common_start()
        self.block.start = self.start
        lanes = [(place, weight) for place in range(labels.size) for weight in self.weights]
        for first in range(0, len(lanes), self.block.n_lanes):
            yield from self._panel(labels, lanes[first : first + self.block.n_lanes])

    def _panel(self, labels: np.ndarray, lanes: list[tuple[int, float]]) -> Iterator[Fitted]:
        """The lanes (place among the labels, weight) of one panel at all λ."""
        self._costs(self.lambdas[0], [])
        panel = self.block.new_panel([Training(place, int(labels[place]), 0.0) for place, _ in lanes])
        places, rounds = np.array([place for place, _ in lanes]), -(-VISITS // max(1, self.risk.rows.n_local))
        for number, lam in enumerate(self.lambdas):
            costs, going = self._costs(lam, lanes), np.uint16((1 << len(lanes)) - 1)
            panel.raise_costs(costs, self.lambdas[max(0, number - 1)] / lam)
            if number == 0:
                self._sweep(panel, going, FIRST_SWEEPS * rounds, FIRST_TOLERANCE if rounds == 1 else TOLERANCE)
            for _ in range(rounds if number else 0):
                panel.look_at_support()
                panel.active &= going
                for sweep in range(SWEEPS - 1):
                    panel.visit(sweep)  # the same orders for all λ
                    panel.set_aside()
                panel.look_at_all()
                going = self._sweep(panel, going, 1, TOLERANCE)
                if not going:
                    break
            settings = np.array([self.place.get((lam, weight), -1) for _, weight in lanes])
            yield Fitted(places, settings, panel.w, panel.width, np.zeros(len(lanes)))

    def _sweep(self, panel: DualPanel, going: np.uint16, n: int, tolerance: float) -> np.uint16:
        """At most n sweeps over all rows for the lanes `going` (bits); those whose projected gradients are beyond the tolerance.

        Each lane ends by itself, whatever is beside it.
        """
        for sweep in range(n):
            panel.active[:] = going
            violations, _, _ = panel.visit(SWEEPS - 1 + sweep % FIRST_SWEEPS)
            panel.set_aside()
            for lane in np.flatnonzero(violations[: len(panel.lanes)] <= tolerance).tolist():
                going &= np.uint16(~(1 << lane) & 0xFFFF)
            if not going:
                break
        return going

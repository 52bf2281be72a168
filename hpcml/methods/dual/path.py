"""Many labels at many λ and weights of positive rows, on the same rows: weights to choose by, not solutions.

A panel of labels goes from the default λ to the smallest and keeps its duals, which stay feasible as C grows; before that it goes
likewise from the largest λ to the last above the default. So the default is solved alike, to the last bit, whatever it is compared
with. The first λ begins with the common start (`dual`) and sweeps over all rows. Then each λ sweeps over its support vectors and
once over all rows, again and again, until the projected gradients are within the tolerance of training: settings that are less
solved than others would be marked down. Where that takes long (dense rows, a small λ), it ends after ROUNDS all the same.
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
from hpcml.methods.linear.objective import Risk, parse_lambda
from hpcml.methods.linear.settings import Fitted, Setting

# More sweeps cost time in proportion, and fewer mark a setting down beside those that are better solved. ROUNDS ends what would go
# on for long, as dense rows do. With three sweeps for each λ, as in version 0.11, the default had an AP of 0.7621 on covtype
# instead of 0.7943 (docs/tuning.md). Few rows go on for VISITS, which cost next to nothing there.
FIRST_SWEEPS = 10  # of the largest λ, over all rows
TOLERANCE = 0.1  # of the projected gradients, that ends a λ: the tolerance of training
ROUNDS = 20  # of a λ, at most, each with one sweep over all rows
VISITS = 3000  # of rows that these come to, at least
SWEEPS, LONGER, MOST_SWEEPS = 2, 3, 8  # over the support vectors in a round: at first; rounds until twice as many; at most
START_SWEEPS = 10  # of the label that no row has: once for all labels, so that their number hardly matters


class DualPath:
    """The settings of one set of rows. `panels` may be called for any labels, one call after the other. Local."""

    def __init__(self, method: object, risk: Risk, settings: Sequence[Setting], options: DualOptions, n_lanes: int) -> None:
        """`settings` have "lam" and "positive_weight" as numbers. Raises MemoryError, NonFiniteError."""
        self.risk, self.settings = risk, list(settings)
        lambdas, default = (
            sorted({each["lam"] for each in settings}, reverse=True),
            parse_lambda(options.lam, risk.rows.scale, risk.rows.n_global),
        )
        parts = [[lam for lam in lambdas if lam > default], [lam for lam in lambdas if lam <= default]]
        self.chains = [part for part in parts if part]
        self.weights = sorted({each["positive_weight"] for each in settings})
        self.place = {(each["lam"], each["positive_weight"]): number for number, each in enumerate(settings)}
        self.block = block_of(options)(risk, np.zeros(0, np.int64), n_lanes, replace(options, positive_weight="1"), 2**31 - 1)
        self.block.tolerance = 0.0  # as many sweeps as were said
        for lam in lambdas:
            self._costs(lam, [(NO_POSITIVES, weight) for weight in self.weights])  # an error now, not after hours
        self.starts: list[State] = []  # of the chains

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        self.block.warm_up()
        support(np.zeros(0, self.risk.weight_type), 1, 1, np.zeros(0, np.uint16))

    def _costs(self, lam: float, lanes: Sequence[tuple[int, float]]) -> list[np.ndarray]:
        """C of the positive and the negative rows of some lanes (label, weight)."""
        self.block.costs.base = 1.0 / (lam * self.risk.rows.n_global)
        base = self.block.costs.of(NO_POSITIVES)
        return [self.block.costs.checked(base * [weight, 1.0]) for _, weight in lanes]

    def _common_start(self, lam: float) -> State:
        """The solution of the label that no row has."""
        self._costs(lam, [])
        panel = self.block.new_panel([Training(NO_POSITIVES, NO_POSITIVES, 0.0)])
        panel.active[:] = 1
        for sweep in range(START_SWEEPS):
            panel.visit(sweep)
            panel.set_aside()
        return State(panel.w, panel.alpha)

    def panels(self, labels: np.ndarray) -> Iterator[Fitted]:
        """The weights of the labels (their numbers in the data) at all settings. Raises Stopped."""
        if not self.starts:
            self.starts = [self._common_start(chain[0]) for chain in self.chains]
        lanes = [(place, weight) for place in range(labels.size) for weight in self.weights]
        for first in range(0, len(lanes), self.block.n_lanes):
            for start, chain in zip(self.starts, self.chains, strict=True):
                self.block.start = start
                yield from self._panel(labels, lanes[first : first + self.block.n_lanes], chain)

    def _panel(self, labels: np.ndarray, lanes: list[tuple[int, float]], lambdas: list[float]) -> Iterator[Fitted]:
        """The lanes (place among the labels, weight) of one panel at falling λ."""
        self._costs(lambdas[0], [])
        panel = self.block.new_panel([Training(place, int(labels[place]), 0.0) for place, _ in lanes])
        places, rounds = np.array([place for place, _ in lanes]), max(ROUNDS, -(-VISITS // max(1, self.risk.rows.n_local)))
        for number, lam in enumerate(lambdas):
            costs, going = self._costs(lam, lanes), np.uint16((1 << len(lanes)) - 1)
            panel.raise_costs(costs, lambdas[max(0, number - 1)] / lam)
            if number == 0:
                going = self._sweep(panel, going, FIRST_SWEEPS)
            for round_ in range(rounds):
                if not going:
                    break
                panel.look_at_support()
                panel.active &= going
                for sweep in range(min(SWEEPS << round_ // LONGER, MOST_SWEEPS)):
                    panel.visit(sweep)  # the same orders for all λ
                    panel.set_aside()
                panel.look_at_all()
                going = self._sweep(panel, going, 1)
            settings = np.array([self.place.get((lam, weight), -1) for _, weight in lanes])
            yield Fitted(places, settings, panel.w, panel.width, np.zeros(len(lanes)))

    def _sweep(self, panel: DualPanel, going: np.uint16, n: int) -> np.uint16:
        """At most n sweeps over all rows for the lanes `going` (bits); those whose projected gradients are beyond TOLERANCE.

        Each lane ends by itself, whatever is beside it.
        """
        for sweep in range(n):
            panel.active[:] = going
            violations, _, _ = panel.visit(MOST_SWEEPS + sweep)
            panel.set_aside()
            for lane in np.flatnonzero(violations[: len(panel.lanes)] <= TOLERANCE).tolist():
                going &= np.uint16(~(1 << lane) & 0xFFFF)
            if not going:
                break
        return going

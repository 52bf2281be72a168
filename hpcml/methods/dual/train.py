"""`hpcml train dual` and `hpcml tune`: the method, its memory, and its path over many λ.

`DualFitter` trains many labels at many λ and weights of positive rows, on the same rows: weights to choose by, not solutions.
A panel of labels goes from the default λ to the smallest and keeps its duals, which stay feasible as C grows; before that it goes
likewise from the largest λ to the last above the default. So the default has the same bits whatever it is compared with. The first
λ begins with the common start (`dual`) and sweeps over all rows. Then each λ sweeps over its support vectors and once over all
rows, repeatedly, until the projected gradients are within the tolerance of training: settings that are solved less exactly than
others would look worse. Where that takes long (dense rows, a small λ), it ends after ROUNDS. docs/notebook.md compares the average
precision of such weights with that of solutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from hpcml.kernels.lanes import duals
from hpcml.methods.dual.chunks import CHUNK_VALUES
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.newton import MOST_COLUMNS
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import HALF, NO_POSITIVES, State, Training
from hpcml.methods.dual.rare import VALUES_PER_POSITIVE
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk, parse_lambda
from hpcml.methods.linear.settings import LAMBDA, Axis, Fitted, Setting
from hpcml.methods.linear.solver import small_problem
from hpcml.run.stop import NEVER, Stop

# More sweeps cost time in proportion, and fewer mark a setting down beside those that are better solved. ROUNDS ends what would go
# on for long, as dense rows do. With three sweeps for each λ, as in version 0.11, the default had an AP of 0.7621 on covtype
# instead of 0.7943 (docs/notebook.md). Few rows go on for VISITS, which cost next to nothing there.
FIRST_SWEEPS = 10  # of the largest λ, over all rows
TOLERANCE = 0.1  # of the projected gradients, that ends a λ: the tolerance of training
ROUNDS = 20  # of a λ, at most, each with one sweep over all rows
VISITS = 3000  # of rows that these come to, at least
SWEEPS, LONGER, MOST_SWEEPS = 2, 3, 8  # over the support vectors in a round: at first; rounds until twice as many; at most
START_SWEEPS = 10  # of a label without positive rows: once for all labels, so that their number hardly matters


def bytes_per_rank_dual(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Return the bytes that a rank needs for dual coordinate descent, if `shards` ranks divide the rows.

    Per row: place, norm, weight, order, flags, scores in float64, and duals of a panel, of its start, and of up to two panels
    between rounds. Per column: weights likewise, those of a label that is being written, up to 8 float64, and if other ranks share
    the rows, the panel's weights before a pass. If none do, rare labels take 42 bytes a row, 16 a column, and an index of the
    values in rare columns, counted as half of all. Newton's method takes 24 bytes a row and 8 for each pair of columns, if few.
    """
    newton = 24 * n_rows // shards + 8 * n_columns * n_columns if n_columns <= MOST_COLUMNS else 0
    copies = (2 if shards > 1 else 1) * n_lanes + 2
    row, column = 32 + (n_lanes + 2) * weight_bytes + 8 * n_lanes, 8 * min(n_lanes, HALF) + copies * weight_bytes
    if shards == 1:
        row, column, n_values = row + 42, column + 16, n_values + n_values // 2 * (n_values >= VALUES_PER_POSITIVE)
    between = 2 * n_lanes * ((weight_bytes + 1) * n_rows // shards + weight_bytes * n_columns)  # rounds: weights, duals, flags
    return (8 * n_values + row * n_rows) // shards + column * n_columns + between + newton


class DualFitter:
    """The settings of one set of rows. `fit` may be called for any labels, one call after the other. Local."""

    def __init__(self, method: object, risk: Risk, settings: Sequence[Setting], options: DualOptions, n_lanes: int) -> None:
        """`settings` have "lam" and "positive_weight" as numbers. Raises MemoryError, NonFiniteError."""
        self.risk, self.settings = risk, list(settings)
        lambdas, default = (
            sorted({each["lam"] for each in settings}, reverse=True),
            parse_lambda(options.lam, risk.rows.scale, risk.rows.total_weight),
        )
        parts = [[lam for lam in lambdas if lam > default], [lam for lam in lambdas if lam <= default]]
        self.chains = [part for part in parts if part]
        self.weights = sorted({each["positive_weight"] for each in settings})
        self.place = {(each["lam"], each["positive_weight"]): number for number, each in enumerate(settings)}
        unbounded = replace(options, positive_weight="1", max_steps=2**31 - 1)
        self.solver = DualSolver(risk, np.zeros(0, np.int64), n_lanes, unbounded)
        for lam in lambdas:
            for weight in self.weights:
                self.solver.costs_of(NO_POSITIVES, weight, lam)  # an error now, not after hours
        self.starts: list[State] = []  # of the chains

    def warm_up(self) -> None:
        """Compile the kernels. Local."""
        risk, options = small_problem(self.risk, self.solver.options)
        settings = [{"lam": lam, "positive_weight": 1.0} for lam in (1.0, 0.5)]
        for _ in DualFitter(None, risk, settings, options, 2).fit(np.arange(2), NEVER):
            pass

    def fit(self, labels: np.ndarray, stop: Stop) -> Iterator[Fitted]:
        """The weights of the labels (their numbers in the data) at all settings. Raises Stopped."""
        solver, self.solver.stop = self.solver, stop
        for chain in self.chains[len(self.starts) :]:  # the solution for a label without positive rows
            costs_of_start = solver.costs_of(NO_POSITIVES, 1.0, chain[0])
            solver.begin([Training(NO_POSITIVES, NO_POSITIVES, 0.0)], [costs_of_start])
            for sweep in range(START_SWEEPS):
                solver.visit(sweep)
                solver.set_aside()
            self.starts.append(State(solver.w, solver.alpha, cost=float(costs_of_start[1])))
        # Panels of lanes (place among the labels, weight), at falling λ from the common start of the first one.
        pairs = [(place, weight) for place in range(labels.size) for weight in self.weights]
        panels = [pairs[first : first + solver.n_lanes] for first in range(0, len(pairs), solver.n_lanes)]
        for lanes, (start, lambdas) in product(panels, list(zip(self.starts, self.chains, strict=True))):
            training = [Training(place, int(labels[place]), 0.0) for place, _ in lanes]
            costs = [[solver.costs_of(NO_POSITIVES, weight, lam) for _, weight in lanes] for lam in lambdas]
            solver.begin(training, costs[0], start)
            places, rounds = np.array([place for place, _ in lanes]), max(ROUNDS, -(-VISITS // max(1, self.risk.rows.n_local)))
            for number, lam in enumerate(lambdas):
                going = solver.all_lanes
                if solver.is_logistic and number > 0:
                    duals.divide(solver.alpha, lambdas[number - 1] / lam)  # the same α at the higher C
                solver.set_costs(costs[number])
                if number == 0:
                    going = self._sweep(going, FIRST_SWEEPS)
                for round_ in range(rounds):
                    if not going:
                        break
                    solver.support(slice(0, solver.active.size), solver.active)
                    solver.active &= going
                    for sweep in range(min(SWEEPS << round_ // LONGER, MOST_SWEEPS)):
                        solver.visit(sweep)  # the same orders for all λ
                        solver.set_aside()
                    solver.set_aside(False)
                    going = self._sweep(going, 1)
                settings = np.array([self.place.get((lam, weight), -1) for _, weight in lanes])
                yield Fitted(places, settings, solver.w, solver.width, np.zeros(len(lanes)))

    def _sweep(self, going: np.uint16, n: int) -> np.uint16:
        """Make at most n sweeps over all rows for the lanes `going` (bits), each of which ends by itself, whatever is beside it.

        Return those whose projected gradients are beyond TOLERANCE.
        """
        for sweep in range(n):
            self.solver.active[:] = going
            violations, _, _ = self.solver.visit(MOST_SWEEPS + sweep)
            self.solver.set_aside()
            for lane in np.flatnonzero(violations[: len(self.solver.lanes)] <= TOLERANCE).tolist():
                going &= np.uint16(~(1 << lane) & 0xFFFF)
            if not going:
                break
        return going


WEIGHT = Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0)
METHOD = LinearMethod(
    solver=DualSolver,
    sharding=Sharding.INEXACT,
    memory=bytes_per_rank_dual,
    risk=Risk,
    certified=True,
    axes=(LAMBDA, WEIGHT),
    fitter=DualFitter,
    chunk=CHUNK_VALUES,
)

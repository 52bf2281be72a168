"""`hpcml train dual` and `hpcml tune`: registration of the method, its memory, and its path over λ.

`DualFitter` trains many labels at many λ and weights of positive rows on the same rows, to compare settings. A panel goes from the
default λ down to the smallest and keeps its duals, which stay feasible as C grows. A second chain goes from the largest λ to the
last one above the default, so the default has the same bits for any set of settings. The first λ of a chain starts from the
common start (`dual`) and sweeps over all rows. Each λ then sweeps over its support vectors and once over all rows, repeatedly,
until the projected gradients are within the tolerance of training. Slow settings (dense rows, small λ) stop after ROUNDS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from hpcml.kernels.lanes import combine
from hpcml.methods.dual.chunks import CHUNK_VALUES
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.newton import MOST_COLUMNS
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.dual.panel import EMPTY_LABEL, HALF, State, Training
from hpcml.methods.dual.rare import VALUES_PER_POSITIVE
from hpcml.methods.linear.layout import LANES, Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk, parse_lambda
from hpcml.methods.linear.settings import LAMBDA, Axis, Fitted, Setting
from hpcml.methods.linear.solver import small_problem
from hpcml.run.stop import NEVER, Stop

# More sweeps cost time in proportion; fewer underrate a setting that is solved less exactly than others. With three sweeps per λ,
# as in version 0.11, the default had an AP of 0.7621 on covtype instead of 0.7943.
FIRST_SWEEPS = 10  # over all rows, at the first λ of a chain
TOLERANCE = 0.1  # of the projected gradients, as in training
ROUNDS = 20  # per λ at most, each with one sweep over all rows
VISITS = 3000  # minimum row visits over the rounds, for small data
SWEEPS, LONGER, MOST_SWEEPS = 2, 3, 8  # over support vectors in a round: initial number, rounds until it doubles, maximum
START_SWEEPS = 10  # for the common start


def bytes_per_rank_dual(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Return the bytes that a rank needs for dual coordinate descent when `shards` ranks share the rows.

    Per row: indptr, norm, weight, order, flags, float64 scores, and duals of a panel, of its start, and of up to two panels between
    rounds. Per column: weights likewise, those of a label being written, up to 8 float64, and with several ranks the weights before
    a pass. On one rank, rare labels take 42 bytes per row, 16 per column, and an index of the values in rare columns, counted as
    half of all. Newton's method takes 24 bytes per row and 8 per pair of columns. Leave-one-out scores take 25 bytes per row,
    and per column 16 and the float32 weights of a panel.
    """
    newton = 24 * n_rows // shards + 8 * n_columns * n_columns if n_columns <= MOST_COLUMNS else 0
    copies = (2 if shards > 1 else 1) * n_lanes + 2
    row, column = 57 + (n_lanes + 2) * weight_bytes + 8 * n_lanes, 16 + 4 * LANES + 8 * min(n_lanes, HALF) + copies * weight_bytes
    if shards == 1:
        row, column, n_values = row + 42, column + 16, n_values + n_values // 2 * (n_values >= VALUES_PER_POSITIVE)
    between = 2 * n_lanes * ((weight_bytes + 1) * n_rows // shards + weight_bytes * n_columns)  # rounds: weights, duals, flags
    return (8 * n_values + row * n_rows) // shards + column * n_columns + between + newton


class DualFitter:
    def __init__(self, method: object, risk: Risk, settings: Sequence[Setting], options: DualOptions, n_lanes: int) -> None:
        self.risk, self.settings = risk, list(settings)
        lambdas, default = (
            sorted({each["lam"] for each in settings}, reverse=True),
            parse_lambda(options.lam, risk.rows.scale, risk.rows.total_weight),
        )
        parts = [[lam for lam in lambdas if lam > default], [lam for lam in lambdas if lam <= default]]
        self.chains = [part for part in parts if part]
        self.weights = sorted({each["positive_weight"] for each in settings})
        self.setting_of = {(each["lam"], each["positive_weight"]): number for number, each in enumerate(settings)}
        unbounded = replace(options, positive_weight="1", max_steps=2**31 - 1)
        self.solver = DualSolver(risk, np.zeros(0, np.int64), n_lanes, unbounded)
        for lam in lambdas:
            for weight in self.weights:
                self.solver.costs_of(EMPTY_LABEL, weight, lam)  # raises an error now instead of after hours
        self.starts: list[State] = []  # one per chain

    def warm_up(self) -> None:
        risk, options = small_problem(self.risk, self.solver.options)
        settings = [{"lam": lam, "positive_weight": 1.0} for lam in (1.0, 0.5)]
        for _ in DualFitter(None, risk, settings, options, 2).fit(np.arange(2), NEVER):
            pass

    def fit(self, labels: np.ndarray, stop: Stop) -> Iterator[Fitted]:
        """Yield the weights of labels (numbers in the data) at all settings. Raises Stopped."""
        solver, self.solver.stop = self.solver, stop
        for chain in self.chains[len(self.starts) :]:  # the solution for a label without positive rows
            costs_of_start = solver.costs_of(EMPTY_LABEL, 1.0, chain[0])
            solver.load_labels([Training(EMPTY_LABEL, EMPTY_LABEL, 0.0)], [costs_of_start])
            for sweep in range(START_SWEEPS):
                solver.run_pass(sweep)
                solver.update_shrinking()
            self.starts.append(State(solver.w, solver.alpha, cost=float(costs_of_start[1])))
        # Each lane is a pair (label index, weight); λ decreases along a chain.
        pairs = [(k, weight) for k in range(labels.size) for weight in self.weights]
        panels = [pairs[first : first + solver.n_lanes] for first in range(0, len(pairs), solver.n_lanes)]
        for lanes, (start, lambdas) in product(panels, list(zip(self.starts, self.chains, strict=True))):
            training = [Training(k, int(labels[k]), 0.0) for k, _ in lanes]
            costs = [[solver.costs_of(EMPTY_LABEL, weight, lam) for _, weight in lanes] for lam in lambdas]
            solver.load_labels(training, costs[0], start)
            labels_of_lanes, rounds = np.array([k for k, _ in lanes]), max(ROUNDS, -(-VISITS // max(1, self.risk.rows.n_local)))
            for number, lam in enumerate(lambdas):
                unfinished = solver.all_lanes
                if solver.is_logistic and number > 0:
                    combine.divide(solver.alpha, lambdas[number - 1] / lam)  # the same α at the higher C
                solver.set_costs(costs[number])
                if number == 0:
                    unfinished = self._sweep(unfinished, FIRST_SWEEPS)
                for round_ in range(rounds):
                    if not unfinished:
                        break
                    solver.support(slice(0, solver.active.size), solver.active)
                    solver.active &= unfinished
                    for sweep in range(min(SWEEPS << round_ // LONGER, MOST_SWEEPS)):
                        solver.run_pass(sweep)  # the same orders for all λ
                        solver.update_shrinking()
                    solver.update_shrinking(False)
                    unfinished = self._sweep(unfinished, 1)
                settings = np.array([self.setting_of.get((lam, weight), -1) for _, weight in lanes])
                yield Fitted(labels_of_lanes, settings, solver.w, solver.width, np.zeros(len(lanes)))

    def _sweep(self, unfinished: np.uint16, n: int) -> np.uint16:
        """Make at most n sweeps over all rows. Return the lanes (bits) whose projected gradients exceed TOLERANCE."""
        for sweep in range(n):
            self.solver.active[:] = unfinished
            violations, _, _ = self.solver.run_pass(MOST_SWEEPS + sweep)
            self.solver.update_shrinking()
            for lane in np.flatnonzero(violations[: len(self.solver.lanes)] <= TOLERANCE).tolist():
                unfinished &= np.uint16(~(1 << lane) & 0xFFFF)
            if not unfinished:
                break
        return unfinished


WEIGHT = Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0)
METHOD = LinearMethod(
    solver=DualSolver,
    sharding=Sharding.INEXACT,
    memory=bytes_per_rank_dual,
    risk=Risk,
    certified=True,
    axes=(LAMBDA, WEIGHT),
    fitter=DualFitter,
    copies=True,
    leaves_out=lambda options: not options.no_scores and options.loss == "squared-hinge",
    chunk=CHUNK_VALUES,
)

"""Stochastic gradient descent that regularises a feature when it is met (Lipton & Elkan 2015).

The labels of a panel share every row. A row brings the weights of its own features current, in closed form, takes a step, and
leaves all other weights as they are; so a step costs what the row holds and not what there are of features. w is dense for a panel
only. All weights are brought current at the end of a pass.

Rows come in an order keyed by the seed and the pass. A lane depends on nothing in the other lanes,
so a label's path depends on the label, the rows and the seed only. What the last pass leaves is
judged as the exact solver's weights are: objective and certified gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hpcml import rng, slices
from hpcml.kernels import elementary, elementwise
from hpcml.methods.elastic_net import delayed_kernels as kernels
from hpcml.methods.elastic_net.delayed_kernels import LANES, DelayedLanes, OwnRates, SharedRates, Shrinkage
from hpcml.methods.elastic_net.judge import ElasticRisk, Judge
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.objective import aligned
from hpcml.methods.linear.solver import Finished, Solver, Turns
from hpcml.run.stop import Stop

LEAST_LOG = -200.0  # of Φ, before the tables begin anew


def table_bounds(etas: np.ndarray, l2: float, truncated: bool) -> list[tuple[int, int]]:
    """Ranges of steps that share the tables Φ and B: Φ must not underflow, nor B overflow."""
    logs = np.cumsum(elementwise.log1p(-etas * l2) if truncated else -elementwise.log1p(etas * l2))
    bounds, begin = [], 0
    while begin < etas.size:
        least = LEAST_LOG + (logs[begin - 1] if begin else 0.0)
        end = max(begin + 1, int(np.searchsorted(-logs, -least)))
        bounds.append((begin, end))
        begin = end
    return bounds


class DelayedPanel:
    """Labels that are trained together; `labels` are their places among those of the run."""

    def __init__(
        self, risk: ElasticRisk, labels: Sequence[int], numbers: np.ndarray, options: ElasticNetOptions, stop: Stop
    ) -> None:
        """`numbers` are the labels' numbers in the data. Raises MemoryError."""
        rows, self.stop = risk.rows, stop
        self.risk, self.labels, self.numbers, self.options = risk, labels, numbers, options
        self.w = aligned(LANES * rows.n_columns, risk.weight_type)
        self.lanes = DelayedLanes(np.zeros(rows.n_local, np.uint16), self.w, np.zeros(LANES), options.loss == "squared")
        self.shrinkage = Shrinkage(risk.l1, risk.lam, options.solver == "sgd")
        if options.rate == "adagrad":
            rates, steps = aligned(self.w.size, risk.weight_type), np.zeros(rows.n_columns, np.int64)
            rates[:] = risk.eta
            self.own_rates = OwnRates(risk.eta, rates, np.ones(LANES), steps)
        else:
            self.seen = np.tile([1.0, 0.0], (rows.n_columns, 1))
        self.n_passes = 0
        self.history: list[list[tuple[float, ...]]] = [[] for _ in labels]
        for lane, number in enumerate(numbers.tolist()):
            self.lanes.positive[rows.rows_of(number)] |= np.uint16(1 << lane)
            share = rows.n_positive[number] / rows.n_global
            self.lanes.b[lane] = 2 * share - 1 if self.lanes.squared else elementary.log(share / (1 - share))

    def rates(self) -> np.ndarray:
        """η of the steps of this pass, where it is the same for all columns."""
        steps, eta = np.arange(self.risk.rows.n_local, dtype=np.float64), self.risk.eta
        if self.options.rate == "constant":
            return np.full(steps.size, eta)
        return eta * np.square(1.0 - (self.n_passes + steps / steps.size) / self.options.passes)

    def go(self) -> None:
        """A pass over the rows. Raises Stopped."""
        rows, options, seconds = self.risk.rows, self.options, self.stop.seconds
        keys = rng.bits(options.seed, f"order of rows, pass {self.n_passes}", np.arange(rows.n_local))
        order = np.argsort(keys, kind="stable")
        step, (l1, l2, truncated) = slices.rows_in_slice(rows.n_local, rows.data.size), self.shrinkage

        def sliced(begin: int, end: int) -> Iterator[slice]:
            """Slices of steps, between which the rank looks whether it is to stop."""
            return self.stop.slices(slice(first, min(first + step, end)) for first in range(begin, end, step))

        if options.rate == "adagrad":  # a rate of every column and lane
            for some in sliced(0, order.size):
                kernels.sweep_adagrad(order[some], self.risk.matrix, self.lanes, self.own_rates, some.start, self.shrinkage)
            kernels.flush_adagrad(self.w, self.own_rates, order.size, self.shrinkage)
        else:
            etas = self.rates()
            for begin, end in table_bounds(etas, l2, truncated):
                rates = SharedRates(etas[begin:end], *np.empty((2, end - begin + 1)))
                kernels.tables(rates, l2, truncated)
                for some in sliced(begin, end):
                    kernels.sweep_tables(order[some], self.risk.matrix, self.lanes, self.seen, rates, some.start - begin, l1)
                kernels.flush_tables(self.w, self.seen, rates.phi[-1], rates.beta[-1], l1)
        self.n_passes += 1
        weights = np.count_nonzero(self.w.reshape(-1, LANES), axis=0)
        for lane, history in enumerate(self.history):
            history.append((self.n_passes, math.nan, math.nan, rows.n_local, math.nan, weights[lane], seconds))


class DelayedSolver(Solver):
    """The labels of one rank, panel after panel; one that is not done begins anew at a resume."""

    def __init__(self, risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError."""
        self.risk, self.labels, self.options = risk, labels, options
        self.n_lanes, self.judge = min(n_lanes, LANES), Judge(risk, options)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        """Collective over the group, which is one rank. A turn is one pass for a panel."""
        self.judge.stop = stop
        for first in range(0, len(labels), self.n_lanes):
            places = list(labels[first : first + self.n_lanes])
            panel, finished = DelayedPanel(self.risk, places, self.labels[places], self.options, stop), list[Finished]()
            while panel.n_passes < self.options.passes:
                with self.risk.profile("compute"):
                    panel.go()
                if panel.n_passes == self.options.passes:
                    with self.risk.profile("finish"):
                        for lane, (place, number) in enumerate(zip(places, panel.numbers.tolist(), strict=True)):
                            w, label = panel.w[lane::LANES], self.judge.start(number)
                            columns = np.flatnonzero(w)
                            local = self.judge.gather(label, columns)  # for the best intercept with these weights
                            self.judge.take_weights(label, local, columns, w[columns], float(panel.lanes.b[lane]))
                            view, n = self.judge.look(label), panel.n_passes
                            facts = (view, n, n * self.judge.n_rows, panel.history[lane])
                            finished.append(self.judge.finished(place, number, label, *facts))
                yield finished

"""Stochastic gradient descent with delayed regularisation (Lipton & Elkan 2015).

The labels of a panel share every row. A step brings the weights of the row's features up to date in closed form, takes the gradient
step, and leaves all other weights alone, so its cost depends on the values of the row and not on the number of features. Weights
are dense within a panel. At the end of a pass all weights are brought up to date.

The order of rows is keyed by the seed and the pass, and lanes are independent, so a label's result depends on the label, the rows
and the seed. The final weights are certified like those of the exact solver.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hpcml import rng, slices
from hpcml.kernels import elementary, elementwise
from hpcml.methods.elastic_net import delayed_kernels as kernels
from hpcml.methods.elastic_net.certifier import Certifier, ElasticRisk
from hpcml.methods.elastic_net.delayed_kernels import LANES, DelayedLanes, OwnRates, SharedRates, Shrinkage
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.objective import aligned
from hpcml.methods.linear.solver import Finished, Solver, Turns
from hpcml.run.stop import Stop

# Smallest log Φ before the tables restart.
LEAST_LOG = -200.0


def table_bounds(etas: np.ndarray, l2: float, truncated: bool) -> list[tuple[int, int]]:
    """Return ranges of steps that share tables Φ and B, so that Φ does not underflow and B does not overflow."""
    logs = np.cumsum(elementwise.log1p(-etas * l2) if truncated else -elementwise.log1p(etas * l2))
    bounds, begin = [], 0
    while begin < etas.size:
        least = LEAST_LOG + (logs[begin - 1] if begin else 0.0)
        end = max(begin + 1, int(np.searchsorted(-logs, -least)))
        bounds.append((begin, end))
        begin = end
    return bounds


class DelayedPanel:
    """Labels that are trained together: `labels` are indices in the run, `numbers` are numbers in the data."""

    def __init__(
        self, risk: ElasticRisk, labels: Sequence[int], numbers: np.ndarray, options: ElasticNetOptions, stop: Stop
    ) -> None:
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
        steps, eta = np.arange(self.risk.rows.n_local, dtype=np.float64), self.risk.eta
        if self.options.rate == "constant":
            return np.full(steps.size, eta)
        return eta * np.square(1.0 - (self.n_passes + steps / steps.size) / self.options.passes)

    def run_pass(self) -> None:
        rows, options, seconds = self.risk.rows, self.options, self.stop.seconds
        keys = rng.bits(options.seed, f"order of rows, pass {self.n_passes}", np.arange(rows.n_local))
        order = np.argsort(keys, kind="stable")
        step, (l1, l2, truncated) = slices.rows_in_slice(rows.n_local, rows.data.size), self.shrinkage

        def sliced(begin: int, end: int) -> Iterator[slice]:
            return self.stop.slices(slice(first, min(first + step, end)) for first in range(begin, end, step))

        if options.rate == "adagrad":  # one rate per column and lane
            for part in sliced(0, order.size):
                kernels.sweep_adagrad(order[part], self.risk.matrix, self.lanes, self.own_rates, part.start, self.shrinkage)
            kernels.flush_adagrad(self.w, self.own_rates, order.size, self.shrinkage)
        else:
            etas = self.rates()
            for begin, end in table_bounds(etas, l2, truncated):
                rates = SharedRates(etas[begin:end], *np.empty((2, end - begin + 1)))
                kernels.tables(rates, l2, truncated)
                for part in sliced(begin, end):
                    kernels.sweep_tables(order[part], self.risk.matrix, self.lanes, self.seen, rates, part.start - begin, l1)
                kernels.flush_tables(self.w, self.seen, rates.phi[-1], rates.beta[-1], l1)
        self.n_passes += 1
        weights = np.count_nonzero(self.w.reshape(-1, LANES), axis=0)
        for lane, history in enumerate(self.history):
            history.append((self.n_passes, math.nan, math.nan, rows.n_local, math.nan, weights[lane], seconds))


class DelayedSolver(Solver):
    """Trains the labels of one rank, panel by panel. A resumed run restarts unfinished panels."""

    def __init__(self, risk: ElasticRisk, labels: np.ndarray, n_lanes: int, options: ElasticNetOptions) -> None:
        self.risk, self.labels, self.options = risk, labels, options
        self.n_lanes, self.certifier = min(n_lanes, LANES), Certifier(risk, options)

    def solve(self, labels: Sequence[int], stop: Stop) -> Turns:
        self.certifier.stop = stop
        for first in range(0, len(labels), self.n_lanes):
            indices = list(labels[first : first + self.n_lanes])
            panel, finished = DelayedPanel(self.risk, indices, self.labels[indices], self.options, stop), list[Finished]()
            while panel.n_passes < self.options.passes:
                with self.risk.profile("compute"):
                    panel.run_pass()
                if panel.n_passes == self.options.passes:
                    with self.risk.profile("finish"):
                        for lane, (index, number) in enumerate(zip(indices, panel.numbers.tolist(), strict=True)):
                            w, label = panel.w[lane::LANES], self.certifier.start(number)
                            columns = np.flatnonzero(w)
                            rows = self.certifier.gather(label, columns)  # for the best intercept with these weights
                            self.certifier.set_weights(label, rows, columns, w[columns], float(panel.lanes.b[lane]))
                            certificate, n = self.certifier.evaluate(label), panel.n_passes
                            outcome = (certificate, n, n * self.certifier.n_rows, panel.history[lane])
                            finished.append(self.certifier.finish(index, number, label, *outcome))
                yield finished

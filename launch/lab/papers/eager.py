"""Delayed and standard regularisation of stochastic gradient descent on one core (Elkan 2015, "Small timing experiments").

This module imports private parts of hpcml: it times single passes of its solver, without loading and certificate, and compares
weights after the same steps.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.kernels import njit
from hpcml.kernels.lanes.products import add_line, dot_row, shrink
from hpcml.methods.elastic_net import delayed_kernels as kernels
from hpcml.methods.elastic_net.certifier import ElasticRisk
from hpcml.methods.elastic_net.certifier_kernels import Vectors
from hpcml.methods.elastic_net.delayed import DelayedPanel, DelayedSolver
from hpcml.methods.elastic_net.delayed_kernels import INTERCEPT, LANES, DelayedLanes, SharedRates, Shrinkage
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.solver import warm_up
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

EAGER_ROWS = 100  # steps that are timed with all weights regularised
REPEATS = 3  # passes that are timed; the shortest counts


@njit
def sweep_eager(order: np.ndarray, matrix: Vectors, lanes: DelayedLanes, etas: np.ndarray, shrinkage: Shrinkage) -> None:
    """As `kernels.sweep_tables`, but all columns are regularised after each step."""
    (indptr, indices, data), w, b, (l1, l2, truncated) = matrix, lanes.w, lanes.b, shrinkage
    z, g, moves = np.empty(LANES, w.dtype), np.empty(LANES), np.empty(LANES, w.dtype)
    for s in range(order.size):
        i, eta = order[s], etas[s]
        dot_row((indices, data), (indptr[i], indptr[i + 1]), w, z, 0, LANES)
        kernels.slopes(z, lanes, i, g)
        for lane in range(LANES):
            b[lane] -= INTERCEPT * eta * g[lane]
            moves[lane] = -eta * g[lane]
        add_line((indices, data), (indptr[i], indptr[i + 1]), moves, 0, w, (0, LANES), LANES)
        factor = 1.0 - eta * l2 if truncated else 1.0 / (1.0 + eta * l2)
        by = eta * l1 if truncated else eta * l1 * factor
        for j in range(w.size // LANES):
            shrink(w, j * LANES, factor, by, LANES)


def _panels(risk: ElasticRisk, options: ElasticNetOptions) -> list[DelayedPanel]:
    n = risk.rows.n_labels
    groups = [np.arange(first, min(first + LANES, n)) for first in range(0, n, LANES)]
    return [DelayedPanel(risk, numbers.tolist(), numbers, options, NEVER) for numbers in groups]


def eager_steps(risk: ElasticRisk, options: ElasticNetOptions, n_steps: int) -> tuple[float, float]:
    """Return CPU seconds per eager step, and the largest difference from delayed steps in parts of the largest weight."""
    late, early = _panels(risk, options)[0], _panels(risk, options)[0]
    order = np.random.default_rng(0).permutation(risk.rows.n_local)[:n_steps]
    etas, shrinkage = late.rates()[: order.size], late.shrinkage
    sweep_eager(order[:0], risk.matrix, early.lanes, etas, shrinkage)
    began = time.process_time()
    sweep_eager(order, risk.matrix, early.lanes, etas, shrinkage)
    seconds = (time.process_time() - began) / order.size
    rates = SharedRates(etas, *np.empty((2, order.size + 1)))
    kernels.tables(rates, risk.lam, shrinkage.truncated)
    kernels.sweep_tables(order, risk.matrix, late.lanes, late.seen, rates, 0, risk.l1)
    kernels.flush_tables(late.w, late.seen, rates.phi[-1], rates.beta[-1], risk.l1)
    return seconds, float(np.abs(late.w - early.w).max() / np.abs(early.w).max())


def timed(path: Path) -> dict[str, float]:
    """Return examples per second of a pass for all labels. An example is one row for all labels. Raises DataError."""
    options, comm = ElasticNetOptions(solver="fobos", l1="0.1N/m"), mpi.self_comm()
    with DataFile(path) as dataset:
        shard = load_shard(comm, dataset, "all")
    risk = ElasticRisk(compact_rows(comm, shard, False, fold=False)[0], options, Profile())
    risk.prepare(comm)
    warm_up(DelayedSolver, risk, options)
    best = math.inf
    for _ in range(REPEATS):
        panels, began = _panels(risk, options), time.process_time()
        for panel in panels:
            panel.run_pass()
        best = min(best, time.process_time() - began)
    step, difference = eager_steps(risk, options, EAGER_ROWS)
    delayed, standard = risk.rows.n_global / best, 1 / (step * len(panels))
    return {"delayed": delayed, "standard": standard, "speed-up": delayed / standard, "difference": difference}

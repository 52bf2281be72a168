"""`hpcml train probe` and `hpcml train pegasos`: methods that step along a subgradient."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panels import FirstOrderSolver
from hpcml.methods.linear.settings import LAMBDA
from hpcml.methods.probe.options import PegasosOptions, ProbeOptions
from hpcml.methods.probe.probe import PegasosState, ProbeState


def probe(objective: Objective, labels: np.ndarray, n_lanes: int, options: ProbeOptions) -> FirstOrderSolver:
    """PROBE (Smith, Kim & Wilbur 2012, Algorithm 1). Raises MemoryError."""
    begin = partial(ProbeState, options.epsilon)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), labels, begin, options.step_limit)


def pegasos(objective: Objective, labels: np.ndarray, n_lanes: int, options: PegasosOptions) -> FirstOrderSolver:
    """Pegasos with the full subgradient; its model is the best iterate. Raises MemoryError."""
    begin, radius = partial(PegasosState, objective.lam, options.step_limit), 1.0 / math.sqrt(objective.lam)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), labels, begin, options.step_limit, radius)


METHOD = LinearMethod(solver=probe, axes=(LAMBDA,))
PEGASOS_METHOD = LinearMethod(solver=pegasos)

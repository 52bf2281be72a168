"""`hpcml train probe` and `hpcml train pegasos`: methods that step along a subgradient."""

from __future__ import annotations

import math

import numpy as np

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panels import FirstOrderSolver, Rule
from hpcml.methods.linear.settings import LAMBDA
from hpcml.methods.probe.options import PegasosOptions, ProbeOptions
from hpcml.methods.probe.pegasos import PegasosState
from hpcml.methods.probe.probe import ProbeState


def probe(objective: Objective, labels: np.ndarray, n_lanes: int, options: ProbeOptions) -> FirstOrderSolver:
    """PROBE (Smith, Kim & Wilbur 2012, Algorithm 1). Raises MemoryError."""
    rule = Rule(lambda: ProbeState(epsilon=options.epsilon), math.inf)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), rule, labels, options.step_limit)


def pegasos(objective: Objective, labels: np.ndarray, n_lanes: int, options: PegasosOptions) -> FirstOrderSolver:
    """Pegasos with the full subgradient; its model is the best iterate. Raises MemoryError."""
    max_steps, radius = options.step_limit, 1.0 / math.sqrt(objective.lam)
    rule = Rule(lambda: PegasosState(objective.lam, max_steps), radius)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), rule, labels, max_steps)


METHOD = LinearMethod(solver=probe, axes=(LAMBDA,))
PEGASOS_METHOD = LinearMethod(solver=pegasos)

"""The methods that step along a subgradient: PROBE, and Pegasos with the full subgradient."""

from __future__ import annotations

import math

import numpy as np

from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panels import FirstOrderSolver, Rule
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.probe import ProbeState


def probe(objective: Objective, labels: np.ndarray, n_lanes: int, options: ProbeOptions) -> FirstOrderSolver:
    """PROBE (Smith, Kim & Wilbur 2012, Algorithm 1). Raises MemoryError."""
    rule = Rule(lambda: ProbeState(epsilon=options.epsilon), ProbeState.unpack, math.inf)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), rule, labels, options.step_limit)

"""Pegasos with the full subgradient, to compare PROBE with."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np

from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panels import FirstOrderSolver, Rule, Step
from hpcml.methods.probe.options import PegasosOptions


@dataclass
class PegasosState:
    """Progress of one label (Shalev-Shwartz, Singer & Srebro 2007, with A_t = S): step t is 1/(λ
    t); no stopping rule.
    """

    lam: float
    n_steps: int
    f_min: float = math.inf
    step: int = 0

    phi = math.nan  # PROBE's
    cycle = 0

    def advance(self, f: float, grad_sq: float) -> Step:
        """Take f(w_t) and ‖g(w_t)‖², return the step to w_{t+1}; the caller projects it on the
        ball of radius 1/√λ.
        """
        self.step += 1
        improved = f < self.f_min
        self.f_min = min(f, self.f_min)
        return Step(1.0 / (self.lam * self.step), improved, grad_sq == 0.0 or self.step >= self.n_steps)

    def pack(self) -> np.ndarray:
        """The state as float64 numbers, for a checkpoint."""
        return np.array(astuple(self), dtype=np.float64)

    @classmethod
    def unpack(cls, values: np.ndarray) -> PegasosState:
        """The state that `pack` gave."""
        lam, n_steps, f_min, step = values.tolist()
        return cls(lam, int(n_steps), f_min, int(step))


def pegasos(objective: Objective, labels: np.ndarray, n_lanes: int, options: PegasosOptions) -> FirstOrderSolver:
    """Pegasos with the full subgradient; the model is the iterate with the least objective.
    Raises MemoryError.
    """
    max_steps = options.step_limit
    rule = Rule(lambda: PegasosState(objective.lam, max_steps), PegasosState.unpack, 1.0 / math.sqrt(objective.lam))
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), rule, labels, max_steps)

"""Pegasos with the full subgradient, to compare PROBE with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hpcml.methods.linear.panels import LabelProgress, Step


@dataclass
class PegasosState(LabelProgress):
    """Progress of a label (Shalev-Shwartz, Singer & Srebro 2007, A_t = S): step t is 1/(λ t)."""

    lam: float
    n_steps: int
    f_min: float = math.inf
    step: int = 0

    phi = math.nan  # PROBE's
    cycle = 0

    def advance(self, f: float, grad_sq: float) -> Step:
        """The step from f(w_t) and ‖g(w_t)‖²; the caller projects w on the ball of radius 1/√λ."""
        self.step += 1
        improved = f < self.f_min
        self.f_min = min(f, self.f_min)
        return Step(1.0 / (self.lam * self.step), improved, grad_sq == 0.0 or self.step >= self.n_steps)

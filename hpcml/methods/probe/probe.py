"""PROBE (Smith, Kim & Wilbur 2012, Algorithm 1) and Pegasos (for comparison): the state machine of one label.

PROBE estimates a lower bound (1 − φ) f_min of the objective and takes the Polyak step η = Δ/‖g‖² with Δ = f − (1 − φ) f_min. Cycles
of steps decide whether φ is multiplied by γ. A label is done when φ falls below ε.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panels import FirstOrderSolver, LabelProgress, Step
from hpcml.methods.linear.settings import LAMBDA
from hpcml.methods.probe.options import PegasosOptions, ProbeOptions

GAMMA = 2 / 3  # γ: ratio of successive φ
UPTICKS = 2  # ccf: number of increases of f that ends a cycle

NORMAL, TEST, RETEST = range(3)


@dataclass
class ProbeState(LabelProgress):
    epsilon: float = 0.05  # ε: training stops when φ falls below it
    f_min: float = math.inf
    f_previous: float = math.inf
    last_f_min: float = math.inf  # f_min at the end of the last cycle
    phi: float = GAMMA
    last_average: float = 0.0  # decrease of f_min per iteration of the test cycle
    cycle: int = NORMAL
    upticks: int = 0
    cycle_iteration: int = 0
    step: int = 0

    def advance(self, f: float, grad_sq: float) -> Step:
        """Return the step to w_{t+1} from f(w_t) and ‖g(w_t)‖² (one iteration of Algorithm 1)."""
        self.step += 1
        self.cycle_iteration += 1
        if f > self.f_previous:
            self.upticks += 1
        self.f_previous = f
        improved = f < self.f_min
        if improved:
            self.f_min = f
        if self.upticks == UPTICKS:
            self._end_cycle()
        gap = f - (1 - self.phi) * self.f_min  # Δ
        if self.phi < self.epsilon or grad_sq == 0.0 or gap <= 0.0:  # the bound is tight enough, or w_t is optimal
            return Step(0.0, improved, True)
        return Step(gap / grad_sq, improved, False)  # η = Δ/‖g‖²

    def _end_cycle(self) -> None:
        average = (self.last_f_min - self.f_min) / self.cycle_iteration
        if self.cycle == NORMAL:
            if self.f_min == self.last_f_min:
                self.phi *= GAMMA
                self.cycle = TEST
        elif self.cycle == TEST:
            self.phi /= GAMMA
            self.last_average = average
            self.cycle = RETEST
        else:
            if average <= self.last_average:
                self.phi *= GAMMA
            self.cycle = NORMAL
        self.upticks = 0
        self.cycle_iteration = 0
        self.last_f_min = self.f_min


@dataclass
class PegasosState(LabelProgress):
    """Progress of one label (Shalev-Shwartz, Singer & Srebro 2007, A_t = S): step t is 1/(λ t)."""

    lam: float
    n_steps: int
    f_min: float = math.inf
    step: int = 0

    phi = math.nan
    cycle = 0

    def advance(self, f: float, grad_sq: float) -> Step:
        """Return the step from f(w_t) and ‖g(w_t)‖²; the caller projects w onto the ball of radius 1/√λ."""
        self.step += 1
        improved = f < self.f_min
        self.f_min = min(f, self.f_min)
        return Step(1.0 / (self.lam * self.step), improved, grad_sq == 0.0 or self.step >= self.n_steps)


def probe(objective: Objective, labels: np.ndarray, n_lanes: int, options: ProbeOptions) -> FirstOrderSolver:
    begin = partial(ProbeState, options.epsilon)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), labels, begin, options.step_limit)


def pegasos(objective: Objective, labels: np.ndarray, n_lanes: int, options: PegasosOptions) -> FirstOrderSolver:
    begin, radius = partial(PegasosState, objective.lam, options.step_limit), 1.0 / math.sqrt(objective.lam)
    return FirstOrderSolver(objective, panel_widths(n_lanes, options.precision), labels, begin, options.step_limit, radius)


METHOD = LinearMethod(solver=probe, axes=(LAMBDA,))
PEGASOS_METHOD = LinearMethod(solver=pegasos)

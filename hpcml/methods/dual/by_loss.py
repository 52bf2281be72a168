"""Which solver trains the labels, by their loss."""

from __future__ import annotations

import numpy as np

from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.logistic import LogisticSolver
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.losses import DUAL_LOSSES
from hpcml.methods.linear.objective import Risk


def dual(risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> DualSolver:
    """Dual coordinate descent for the loss of the options. Raises MemoryError, NonFiniteError."""
    return (LogisticSolver if DUAL_LOSSES[options.loss].entropic else DualSolver)(risk, labels, n_lanes, options)

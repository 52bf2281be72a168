"""Which block trains the labels, by their loss."""

from __future__ import annotations

import numpy as np

from hpcml.methods.dual.dual import DualBlock
from hpcml.methods.dual.logistic import LogisticBlock
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.losses import DUAL_LOSSES
from hpcml.methods.linear.objective import Risk


def block_of(options: DualOptions) -> type[DualBlock]:
    """What trains with that loss."""
    return LogisticBlock if DUAL_LOSSES[options.loss].entropic else DualBlock


def dual(risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> DualBlock:
    """Dual coordinate descent. Raises MemoryError."""
    return block_of(options)(risk, labels, n_lanes, options)

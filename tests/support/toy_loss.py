"""A loss outside the package: ℓ(z) = √(1 + (1 − z)²) − 1."""

import math

from hpcml.kernels import njit

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = math.sqrt(2) - 1, 1.0, False


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z."""
    short = 1.0 - z
    root = math.sqrt(1.0 + short * short)
    return root - 1.0, -short / root, 1.0 / (root * root * root)

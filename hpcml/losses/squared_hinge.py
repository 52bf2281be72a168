"""The squared hinge loss ℓ(z) = max(0, 1 − z)²."""

import math

from hpcml.kernels import njit

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = 1.0, math.inf, False
DUAL_TOP, DUAL_CURVATURE = math.inf, 0.5  # −ℓ*(−a) = a − DUAL_CURVATURE a² / 2 for 0 ≤ a ≤ DUAL_TOP


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z."""
    short = 1.0 - z
    return (short * short, -2.0 * short, 2.0) if short > 0 else (0.0, 0.0, 0.0)

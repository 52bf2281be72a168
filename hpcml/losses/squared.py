"""The squared loss ℓ(z) = ½ (1 − z)², which is ½ (w · x − y)² for y = ±1."""

import math

from hpcml.kernels import njit

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = 0.5, math.inf, False


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z."""
    short = 1.0 - z
    return 0.5 * short * short, -short, 1.0


@njit(forceinline=True)
def dual(a):
    """Return −ℓ*(−a), a row's share of the dual objective."""
    return a - 0.5 * a * a

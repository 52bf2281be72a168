"""The hinge loss ℓ(z) = max(0, 1 − z) of support vector machines."""

from hpcml.kernels import njit

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = 1.0, 1.0, True
DUAL_TOP, DUAL_CURVATURE = 1.0, 0.0  # −ℓ*(−a) = a − DUAL_CURVATURE a² / 2 for 0 ≤ a ≤ DUAL_TOP


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z."""
    return (1.0 - z, -1.0, 0.0) if z < 1.0 else (0.0, 0.0, 0.0)


@njit(forceinline=True)
def smoothed_at(z, width):
    """Return the same of a loss that is a parabola for z from 1 − width to 1, and is at most width / 2 smaller."""
    short = 1.0 - z
    if short <= 0:
        return 0.0, 0.0, 0.0
    return (0.5 * short * short / width, -short / width, 1.0 / width) if short < width else (short - 0.5 * width, -1.0, 0.0)

"""The modified Huber loss: ℓ(z) = 0 if z ≥ 1, (1 − z)² if −1 ≤ z < 1, and −4 z if z < −1."""

from hpcml.kernels import njit

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = 1.0, 4.0, False


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z."""
    if z >= 1.0:
        return 0.0, 0.0, 0.0
    return ((1.0 - z) * (1.0 - z), -2.0 * (1.0 - z), 2.0) if z >= -1.0 else (-4.0 * z, -4.0, 0.0)

"""The logistic loss ℓ(z) = log(1 + exp(−z)).

ℓ′(z) = −σ(−z) and ℓ″(z) = σ(z) σ(−z). No value of z overflows: both come from the smaller one of σ(z) and σ(−z).
"""

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, log, log1p

VALUE_AT_ZERO, SLOPE_BOUND, HAS_UNIT_SLOPES = 0.6931471805599453, 1.0, False


@njit(forceinline=True)
def at(z):
    """Return ℓ, ℓ′ and ℓ″ at the margin z. It has choices and no branches, so LLVM makes vectors of a loop over rows."""
    e = exp(-abs(z))
    small = e / (1.0 + e)
    return log1p(e) - (0.0 if z > 0 else z), -(small if z > 0 else 1.0 - small), small * (1.0 - small)


@njit(forceinline=True)
def dual(a):
    """Return −ℓ*(−a), the entropy of a in nats, for 0 ≤ a ≤ 1."""
    first, second = -a * log(a), (1.0 - a) * log1p(-a)
    return (first if a > 0 else 0.0) - (second if a < 1 else 0.0)

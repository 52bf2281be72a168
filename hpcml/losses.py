"""The table of losses: what the objective must know of each besides the kernel that computes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """A convex loss ℓ(z) of the margin z = y (w · x), ℓ ≥ 0.

    `code` selects it inside the kernels (`kernels.fused.value_and_slope`). For exact sums the objective needs bounds:
    |ℓ′(z)| ≤ `slope_bound` everywhere, hence ℓ(z) ≤ `value_at_zero` + `slope_bound` |z|.
    """

    code: int
    value_at_zero: float
    slope_bound: float
    unit_slopes: bool  # ℓ′ is 0 or ±1 everywhere


LOSSES = {
    "hinge": Loss(code=0, value_at_zero=1.0, slope_bound=1.0, unit_slopes=True),  # [1 − z]₊
}

"""The table of losses: what the objective must know of each besides the kernel that computes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """A convex loss ℓ(z) of the margin z = y (w · x), ℓ ≥ 0 (SPEC 1).

    `code` selects it inside the kernels (`kernels.panel.value_and_slope`). For exact sums the objective needs bounds:
    |ℓ′(z)| ≤ `slope_bound` everywhere, hence ℓ(z) ≤ `value_at_zero` + `slope_bound` |z|.
    """

    code: int
    value_at_zero: float
    slope_bound: float
    unit_slopes: bool  # ℓ′ is 0 or ±1 everywhere


LOSSES = {
    "hinge": Loss(0, 1.0, 1.0, True),  # [1 − z]₊
    "huber": Loss(1, 1.0, 4.0, False),  # 0 if z ≥ 1, (1 − z)² if −1 ≤ z < 1, −4 z if z < −1
    "maxent": Loss(2, 0.6931471805599453, 1.0, False),  # log(1 + exp(−z))
}

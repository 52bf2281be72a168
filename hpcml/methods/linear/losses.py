"""The tables of losses: what the methods must know of each besides the kernel that computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np  # the command line reads this table, and must start quickly


@dataclass(frozen=True)
class Loss:
    """A convex loss ℓ(z) of the margin z = y (w · x), ℓ ≥ 0.

    `code` selects it inside the kernels (`panel_kernels.value_and_slope`). For exact sums the
    objective needs bounds:
    |ℓ′(z)| ≤ `slope_bound` everywhere, hence ℓ(z) ≤ `value_at_zero` + `slope_bound` |z|.
    """

    code: int
    value_at_zero: float
    slope_bound: float
    unit_slopes: bool  # ℓ′ is 0 or ±1 everywhere


LOSSES = {
    "hinge": Loss(0, 1.0, 1.0, True),  # [1 − z]₊
    "huber": Loss(1, 1.0, 4.0, False),  # 0 if z ≥ 1, (1 − z)² if −1 ≤ z < 1, −4 z if z < −1
    "logistic": Loss(2, 0.6931471805599453, 1.0, False),  # log(1 + exp(−z))
}


@dataclass(frozen=True)
class DualLoss:
    """C (1 − z)₊ or C (1 − z)₊² of `dual`; `costs` (2, n): C of positive and of negative rows.

    With `entropic` it is C log(1 + exp(−z)), which has a panel of its own.
    """

    squared: bool
    entropic: bool = False

    def top(self, costs: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The bounds (2, n) of the duals, numbers of `dtype` that are not above the exact ones."""
        import numpy as np

        if self.squared:
            return np.full(costs.shape, np.inf, dtype)
        rounded = costs.astype(dtype)
        return np.where(rounded > costs, np.nextafter(rounded, dtype.type(0)), rounded)

    def diagonal(self, costs: np.ndarray) -> np.ndarray:
        """The addend (2, n) to the diagonal of the dual's quadratic form."""
        return 0.5 / costs if self.squared else 0.0 * costs

    def losses(self, costs: np.ndarray, short: np.ndarray, short_squared: np.ndarray) -> np.ndarray:
        """Σ C ℓ (n), from Σ (1 − z)₊ and Σ (1 − z)₊² of positive and of negative rows (2, n)."""
        return (costs * (short_squared if self.squared else short)).sum(axis=0)

    def penalty(self, costs: np.ndarray, alpha_squared: np.ndarray) -> np.ndarray:
        """The dual objective's loss (n) by Σ alpha² of positive and of negative rows (2, n)."""
        return 0.5 * (self.diagonal(costs) * alpha_squared).sum(axis=0)


DUAL_LOSSES = {"hinge": DualLoss(False), "squared-hinge": DualLoss(True), "logistic": DualLoss(False, entropic=True)}

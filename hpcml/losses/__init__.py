"""Losses ℓ(z) of the margin z = y (w · x), one module each: formula, derivatives, bounds and dual.

    from hpcml.losses import load_loss

    load_loss("logistic").at(0.0)  # ℓ, ℓ′, ℓ″

A module has `at(z)`, a kernel that returns ℓ, ℓ′ and ℓ″; `dual(a)` = −ℓ*(−a) if a method needs it; and the bounds |ℓ′| ≤
`SLOPE_BOUND` and ℓ(0) = `VALUE_AT_ZERO`, so that ℓ(z) ≤ `VALUE_AT_ZERO` + `SLOPE_BOUND` |z|. `HAS_UNIT_SLOPES`: ℓ′ is 0 or ±1
everywhere. First-order methods take any of `FIRST_ORDER`. The vectorised forms for the labels of a panel of `dual` are in
`hpcml.kernels.lanes`. Begin with `logistic`.
"""

from importlib import import_module
from typing import Any

LOSSES = {name: f"hpcml.losses.{name.replace('-', '_')}" for name in ("hinge", "huber", "logistic", "squared", "squared-hinge")}
FIRST_ORDER = ("hinge", "huber", "logistic")  # losses with bounded slopes, which exact sums require


def load_loss(name: str) -> Any:
    """Import and return the module of a loss. The command line needs only the names, so modules are imported on use."""
    return import_module(LOSSES[name])

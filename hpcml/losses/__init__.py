"""The losses ℓ(z) of the margin z = y (w · x), a module each: formula, derivatives, bounds and dual.

    from hpcml.losses import load_loss

    load_loss("logistic").at(0.0)  # ℓ, ℓ′, ℓ″

A module has `at(z)`, a kernel that returns ℓ, ℓ′ and ℓ″; `dual(a)`, −ℓ*(−a), where a method needs it; and the bounds
|ℓ′| ≤ `SLOPE_BOUND` and ℓ(0) = `VALUE_AT_ZERO`, so ℓ(z) ≤ `VALUE_AT_ZERO` + `SLOPE_BOUND` |z|. `HAS_UNIT_SLOPES` says that ℓ′ is 0
or ±1 everywhere. First-order methods take any of `FIRST_ORDER`. The vectorised forms for the labels of a panel of
`dual` are in `hpcml.kernels.lanes`. Begin with `logistic`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

LOSSES = {name: f"hpcml.losses.{name.replace('-', '_')}" for name in ("hinge", "huber", "logistic", "squared", "squared-hinge")}
FIRST_ORDER = ("hinge", "huber", "logistic")  # of bounded slopes, as exact sums need them


def load_loss(name: str) -> Any:
    """Return the module of a loss. It is imported when it is used: the command line needs only the names."""
    return import_module(LOSSES[name])

"""Options of `hpcml train probe` and `hpcml train pegasos`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.losses import FIRST_ORDER
from hpcml.methods.linear.options import InterceptOptions, ScaleOptions
from hpcml.options import Between, Count, Seed


@dataclass(frozen=True)
class ProbeOptions(InterceptOptions):
    """Options of `hpcml train probe`."""

    losses: ClassVar[tuple[str, ...]] = FIRST_ORDER
    steps: ClassVar[int] = 5000

    loss: str = "hinge"
    """Convex loss ℓ: hinge, huber (modified Huber) or logistic."""
    epsilon: Annotated[float, Between(0, 2 / 3)] = 0.05
    """Stopping tolerance for φ, the estimated relative distance from the minimum (default: 0.05). The real distance can be several
    times as large.
    """
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """Skip rows that have not violated the margin for 10 steps, for 5 to 15 steps at a time (default). --no-dormant visits all
    rows.
    """
    seed: Seed = 0
    """Random seed for the number of steps that a row is skipped (default: 0)."""
    ranks_per_group: Count = None
    """Number of ranks that share the rows; labels are distributed over groups of this size. Default: chosen by memory and number of
    labels. Does not change the result.
    """
    max_steps: Count = None
    """Maximum number of steps per label; a label that reaches it is reported as not converged. Default: 5000."""


@dataclass(frozen=True)
class PegasosOptions(ScaleOptions):
    """Options of `hpcml train pegasos`, which always fits an intercept and has no stopping rule."""

    steps: ClassVar[int] = 500

    ranks_per_group: Count = None
    """Number of ranks that share the rows; labels are distributed over groups of this size. Default: chosen by memory and number of
    labels. Does not change the result.
    """
    max_steps: Count = None
    """Number of steps (default: 500); there is no stopping rule."""

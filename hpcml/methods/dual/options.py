"""The options of `hpcml train dual` that other linear methods lack; those of all are in `methods.linear.options`."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.methods.linear.options import InterceptOptions
from hpcml.options import Between, Count, Flag, Or, Seed

BALANCED = "balanced"


@Parameter(name="*")
@dataclass(frozen=True)
class DualOptions(InterceptOptions):
    """Options of `hpcml train dual`."""

    losses: ClassVar[tuple[str, ...]] = ("squared-hinge", "hinge", "logistic")
    steps: ClassVar[int] = 1000
    tolerance: ClassVar[str] = "dual_tol"
    free: ClassVar[frozenset[str]] = InterceptOptions.free - {"ranks_per_group"} | {"show_gaps"}

    loss: str = "squared-hinge"
    """Convex loss ℓ: squared-hinge, hinge or logistic."""
    dual_tol: Annotated[float, Between(0)] = 0.1
    """Stopping tolerance, with LIBLINEAR's meaning: of the projected gradients of all rows."""
    max_gap: Annotated[float | None, Between(0)] = None
    """Also require a certified duality gap, divided by the objective, of at most this value."""
    show_gaps: Flag = False
    """Show the objective and the certified duality gap of every label."""
    positive_weight: Annotated[str, Or("float")] = "1"
    """Weight of positive rows: a number, or balanced (the number of negative rows divided by that of positive rows)."""
    seed: Seed = 0
    """Random seed for the order of rows."""
    ranks_per_group: Count = None
    """Number of ranks that divide the rows; the labels are divided among such rank groups. Default: 1. Other numbers give the same
    model within the tolerance only.
    """
    max_steps: Count = None
    """Maximum number of passes over all rows per label; a pass over a part of the rows counts as that part. A label that reaches it
    is reported as not converged, and gets the best weights that were found. Default: 1000.
    """

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        if self.positive_weight != BALANCED:
            parse_weight(self.positive_weight)


def parse_weight(text: str) -> float:
    """The weight of positive rows. Raises ConfigError."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise OptionError("positive_weight", text, f"expected a number above 0, or {BALANCED}")
    return weight

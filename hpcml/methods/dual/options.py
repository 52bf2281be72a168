"""Options of `hpcml train dual`."""

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
    """Stopping tolerance for the range of the projected gradients, as in LIBLINEAR (default: 0.1). Lower values cost more passes.
    """
    max_gap: Annotated[float | None, Between(0)] = None
    """Also require a relative duality gap (gap / objective) of at most this value. Default: no limit."""
    show_gaps: Flag = False
    """Show the objective and the certified duality gap of every label."""
    positive_weight: Annotated[str, Or("float")] = "1"
    """Weight of positive rows: a number, or balanced (number of negative rows / number of positive rows). Default: 1."""
    no_scores: Flag = False
    """Do not store counts of the leave-one-out scores of the training rows in the model (squared hinge only). Saves up to a quarter
    of the time; thresholds and probabilities then need rows of their own.
    """
    seed: Seed = 0
    """Random seed for the order of rows."""
    ranks_per_group: Count = None
    """Number of ranks that share the rows; labels are distributed over groups of this size (default: 1). Values above 1 change the
    model within the tolerance.
    """
    max_steps: Count = None
    """Maximum number of passes over all rows per label (default: 1000); a pass over part of the rows counts as that fraction. A
    label that reaches the limit gets its best weights and is reported as not converged.
    """

    def validate(self) -> None:
        super().validate()
        if self.no_scores and self.loss != "squared-hinge":
            raise OptionError("no_scores", True, f"has no effect with --loss {self.loss}; remove it")
        if self.positive_weight != BALANCED:
            parse_weight(self.positive_weight)


def parse_weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise OptionError("positive_weight", text, f"expected a number above 0, or {BALANCED}")
    return weight

"""The options of `hpcml train probe` and `hpcml train pegasos`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.losses import FIRST_ORDER
from hpcml.methods.linear.options import InterceptOptions, ScaleOptions
from hpcml.options import Count, Seed


@Parameter(name="*")
@dataclass(frozen=True)
class ProbeOptions(InterceptOptions):
    """Options of `hpcml train probe`."""

    losses: ClassVar[tuple[str, ...]] = FIRST_ORDER
    steps: ClassVar[int] = 5000

    loss: str = "hinge"
    """Convex loss ℓ: hinge, huber (modified Huber) or logistic."""
    epsilon: float = 0.05
    """Stopping tolerance: of φ, the share of the objective that is still aimed for. The distance from the minimum can be several
    times as large.
    """
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """Skip rows that have not violated the margin for 10 steps, for 5 to 15 steps at a time. --no-dormant visits all."""
    seed: Seed = 0
    """Random seed for the numbers of steps for which rows are dormant."""
    ranks_per_group: Count = None
    """Number of ranks that divide the rows; the labels are divided among such rank groups. Default: by memory and labels. Does not
    change the result.
    """
    max_steps: Count = None
    """Maximum number of steps per label; a label that reaches it is reported as not converged. Default: 5000."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        if not 0 < self.epsilon < 2 / 3:
            raise OptionError("epsilon", self.epsilon, "expected a number between 0 and 2/3")


@Parameter(name="*")
@dataclass(frozen=True)
class PegasosOptions(ScaleOptions):
    """Options of `hpcml train pegasos`, which has an intercept and no stopping rule."""

    steps: ClassVar[int] = 500

    ranks_per_group: Count = None
    """Number of ranks that divide the rows; the labels are divided among such rank groups. Default: by memory and labels. Does not
    change the result.
    """
    max_steps: Count = None
    """Number of steps; there is no stopping rule. Default: 500."""

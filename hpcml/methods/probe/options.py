"""The options of `hpcml train probe` and `hpcml train pegasos`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.errors import ConfigError
from hpcml.losses import FIRST_ORDER
from hpcml.methods.linear.options import InterceptOptions, ScaleOptions


@Parameter(name="*")
@dataclass(frozen=True)
class ProbeOptions(InterceptOptions):
    """Options of `hpcml train probe`."""

    losses: ClassVar[tuple[str, ...]] = FIRST_ORDER
    steps: ClassVar[int] = 5000

    loss: str = "hinge"
    """Convex loss ℓ: hinge, huber (modified Huber) or logistic."""
    epsilon: float = 0.05
    """A label is done when φ, the share of the objective that is still aimed for, falls below this.
    It is no bound on the distance from the minimum, which can be several times as large.
    """
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """Rows that have not violated the margin for 10 steps are skipped for 5 to 15 steps at a
    time. --no-dormant visits all.
    """
    seed: int = 0
    """Another seed makes rows dormant for other numbers of steps."""
    ranks_per_group: int | None = None
    """Ranks that divide the rows among themselves; the labels are divided among such rank groups.
    Default: by memory and labels. Does not change the result.
    """
    max_steps: int | None = None
    """Give a label up after so many steps and say so. Default: 5000."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        if not 0 < self.epsilon < 2 / 3:
            raise ConfigError(f"--epsilon {self.epsilon}: expected a number between 0 and 2/3")


@Parameter(name="*")
@dataclass(frozen=True)
class PegasosOptions(ScaleOptions):
    """Options of `hpcml train pegasos`, which has an intercept and no stopping rule."""

    steps: ClassVar[int] = 500

    ranks_per_group: int | None = None
    """Ranks that divide the rows among themselves; the labels are divided among such rank groups.
    Default: by memory and labels. Does not change the result.
    """
    max_steps: int | None = None
    """The number of steps, for there is no stopping rule. Default: 500."""

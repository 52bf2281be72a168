"""Options shared by methods with a weight vector per label."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.options import FREE, Count, Flag, Or, Range, Seconds, Several, check_rules, option_flag, parse_part

SMALLEST_LAMBDA = 1e-300  # 1/λ must be a number


@Parameter(name="*")
@dataclass(frozen=True)
class LinearOptions:
    """Options of every method; options that only some methods offer are constants here."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    steps: ClassVar[int]  # default of max_steps
    tolerance: ClassVar[str] = ""  # name of the tolerance option with LIBLINEAR's meaning
    free: ClassVar[frozenset[str]] = FREE | {"labels_per_pass", "ranks_per_group"}  # may differ when a run is resumed
    smallest_lambda: ClassVar[float] = SMALLEST_LAMBDA
    bias: ClassVar[bool] = True
    epsilon: ClassVar[float] = 0.05
    dormant: ClassVar[bool] = False
    seed: ClassVar[int] = 0
    positive_weight: ClassVar[str] = "1"
    max_gap: ClassVar[float | None] = None
    show_gaps: ClassVar[bool] = False
    ranks_per_group: ClassVar[int | None] = None
    exclude: ClassVar[tuple[str, ...]] = ()
    scale: ClassVar[str | None] = None

    loss: str = "hinge"
    """Convex loss ℓ: hinge."""
    lam: Annotated[str, Parameter(name="--lambda"), Or("float")] = "X/m"
    """Regularisation λ: X/m, 0.1X/m, X/NUMBER, NUMBER/m or NUMBER, where X is the squared mean norm of the m training rows."""
    split: str | None = None
    """Split of the file to train on, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Several] = field(default=())
    """Train only these labels."""
    min_positives: Annotated[int, Range(0)] = 1
    """Train only labels with at least this number of positive rows (default: 1)."""
    label_part: str | None = None
    """Train only the K-th of N equal ranges of the labels, given as K/N; `hpcml merge` joins the models."""
    precision: Literal["single", "double"] = "single"
    """Precision of weights and margins: single (default) or double. Sums are exact in both."""
    drop: Annotated[float | None, Range(0)] = None
    """Discard weights with a magnitude below this value; the model is smaller. See `hpcml prune` for the effect on quality."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; `hpcml evaluate` then cannot warn about training rows."""
    labels_per_pass: Count = None
    """Number of labels that share a pass over the rows, per rank group (default: 16). Does not change the result."""
    max_steps: Count = None
    """Maximum number of steps per label; a label that reaches it is reported as not converged."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training (without loading) after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show each rank's seconds of computation, communication and waiting."""

    @property
    def step_limit(self) -> int:
        return self.max_steps or self.steps

    @property
    def advice(self) -> str:
        return f"lower --{option_flag(self.tolerance)}, or set --max-gap and --max-steps"

    def validate(self) -> None:
        """Raise ConfigError for invalid values. Called before the first collective."""
        if self.losses and self.loss not in self.losses:
            raise OptionError("loss", self.loss, f"expected {' or '.join(sorted(self.losses))}")
        check_rules(self)
        if self.label_part is not None:
            parse_part(self.label_part)


@Parameter(name="*")
@dataclass(frozen=True)
class ScaleOptions(LinearOptions):
    """Options of methods whose result depends on the scale of the features."""

    scale: Literal["standard", "max-abs", "none"] | None = None
    """Feature scaling: divide by the standard deviation without centring (standard) or by the largest magnitude (max-abs) over the
    training rows, or do not scale (none). The model stores the factors, so rows to predict are not scaled beforehand. Default:
    none, with a warning if the scales differ by a factor of more than 100.
    """


@Parameter(name="*")
@dataclass(frozen=True)
class InterceptOptions(ScaleOptions):
    """Options of methods whose intercept is optional."""

    bias: Annotated[bool, Parameter(negative="--no-bias")] = True
    """Fit an intercept as a regularised constant feature (default). `--no-bias` reproduces the PROBE paper and lowers quality, most
    for rare labels.
    """

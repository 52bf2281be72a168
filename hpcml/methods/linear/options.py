"""The options that methods with a weight vector for each label share; each method adds its own."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.options import FREE, Count, Flag, Or, Range, Seconds, Several, check_rules, flag_of, parse_part

SMALLEST_LAMBDA = 1e-300  # 1/λ must be a number


@Parameter(name="*")
@dataclass(frozen=True)
class LinearOptions:
    """The options of every method. What only some can choose is a constant here."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)  # that the method minimises
    steps: ClassVar[int]  # the default of max_steps
    tolerance: ClassVar[str] = ""  # the option that says how exact the minimum must be, with LIBLINEAR's meaning
    free: ClassVar[frozenset[str]] = FREE | {"labels_per_pass", "ranks_per_group"}  # may differ between a run and its continuation
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
    """Regularisation λ: X/m, 0.1X/m, X/NUMBER, NUMBER/m or NUMBER, where X = (mean norm of the
    training rows)² and m is their number.
    """
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Several] = field(default=())
    """Train only these labels."""
    min_positives: Annotated[int, Range(0)] = 1
    """Train only labels with at least so many positive rows."""
    label_part: str | None = None
    """Train only the K-th of N equal ranges of the labels, given as K/N; `hpcml merge` joins the models."""
    precision: Literal["single", "double"] = "single"
    """Of weights and margins: single (float32, like the data) or double. Sums are exact in both."""
    drop: Annotated[float | None, Range(0)] = None
    """Leave out weights of smaller magnitude than this; the model is stored sparse. hpcml prune shows what that costs."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot warn of rows that were trained on."""
    labels_per_pass: Count = None
    """Labels that share a pass over the rows, in each rank group. Default: 16. Does not change the result."""
    max_steps: Count = None
    """Maximum number of steps per label; a label that reaches it is reported as not converged."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training (without loading) after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that each rank computed, communicated and waited."""

    @property
    def step_limit(self) -> int:
        """Steps after which a label is given up."""
        return self.max_steps or self.steps

    @property
    def advice(self) -> str:
        """Advice for gaps that are too large."""
        return f"lower --{flag_of(self.tolerance)}, or set --max-gap and --max-steps"

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
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
    """Divide each feature by its standard deviation (standard, without centring) or by its largest magnitude (max-abs) over the
    training rows, or by nothing (none). The model stores the factors, so rows to predict stay as they are. Default: none; hpcml
    train warns if the scales differ by more than 100.
    """


@Parameter(name="*")
@dataclass(frozen=True)
class InterceptOptions(ScaleOptions):
    """Of methods that can do without an intercept."""

    bias: Annotated[bool, Parameter(negative="--no-bias")] = True
    """Add a constant feature 1 (regularised like the others), whose weight is the intercept. --no-bias is the protocol of the
    PROBE paper; it costs much of the quality, of rare labels above all.
    """

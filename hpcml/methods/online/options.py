"""The table of the single-pass learners, and their options."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter

from hpcml.options import FREE, Between, Flag, Only, Range, Seconds, Several, check_rules


@dataclass(frozen=True)
class OnlineLearner:
    """A learner: its number in `kernels`, the names of its weight vectors and where they start.

    Two vectors are weights for and against; their difference is a feature's importance.
    """

    code: int
    weights: dict[str, float]

    @property
    def winnow(self) -> bool:
        """Whether updates multiply: rows have a bias and no negative values, scores a divisor."""
        return any(self.weights.values())


LEARNERS: dict[str, OnlineLearner] = {
    "pw": OnlineLearner(0, {"w": 1.0}),
    "bw": OnlineLearner(1, {"u": 2.0, "v": 1.0}),
    "mbw": OnlineLearner(2, {"u": 2.0, "v": 1.0}),
    "perceptron": OnlineLearner(3, {"w": 0.0}),
    "pa": OnlineLearner(4, {"w": 0.0}),
    "romma": OnlineLearner(5, {"w": 0.0}),
}


@Parameter(name="*")
@dataclass(frozen=True)
class OnlineOptions:
    """The options of every learner. Options that only some have are constants here and fields in their class."""

    free: ClassVar[frozenset[str]] = FREE | {"final", "max_line_mb"}  # what may differ between a run and its continuation

    alpha: ClassVar[float] = 1.5
    beta: ClassVar[float] = 0.5
    theta: ClassVar[float] = 1.0
    margin: ClassVar[float] = 1.0
    epsilon: ClassVar[float] = 1.0
    gamma: ClassVar[float] = 0.1
    bias: ClassVar[bool | None] = None
    live_features: ClassVar[int | None] = None
    share: ClassVar[float] = 0.9

    voted: Flag = False
    """The model is the average of all hypotheses, each weighted by the rows that it got right."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Several] = field(default=())
    """Train only these labels. A stream of rows that are not all -1 or +1 needs it."""
    min_positives: Annotated[int, Range(0, 2**63)] = 1
    """Minimum number of positive rows of the labels to train (not on a stream)."""
    shuffle: Flag = False
    """Take the rows in random order, not in the file's (not on a stream). What these learners learn depends on the order."""
    seed: Annotated[int, Range(0, 2**32 - 1), Only("shuffle")] = 0
    """Another seed shuffles otherwise."""
    initial_model: Path | None = None
    """Continue the pass of this model, trained by the same method with the same options, with these rows."""
    final: Flag = False
    """Leave out of the model what --initial-model and EFS need: it is a third to a sixth of the size."""
    zero_based: Flag = False
    """Stream: indices start at 0, not at 1."""
    max_line_mb: int | None = None
    """Stream: the longest line that is read, in MiB. Default: 16."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot warn of rows that were trained on."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that rank 0 read, learned and wrote."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        check_rules(self)


def with_bias(options: OnlineOptions, method: str, bias: bool = True) -> OnlineOptions:
    """Return the options with this choice of an intercept, if there is one to make: a Winnow always has an intercept."""
    if options.bias is not None or LEARNERS[method].winnow:
        return options
    choice: dict[str, Any] = {"bias": bias}
    return replace(options, **choice)


@Parameter(name="*")
@dataclass(frozen=True)
class WinnowOptions(OnlineOptions):
    """Options of `hpcml train pw`."""

    alpha: Annotated[float, Between(1)] = 1.5
    """Promotion: weights of the features of a positive row that was missed are multiplied by this."""
    beta: Annotated[float, Between(0, 1)] = 0.5
    """Demotion: the same for a negative row."""
    theta: Annotated[float, Range(0)] = 1.0
    """Threshold of the score."""


@Parameter(name="*")
@dataclass(frozen=True)
class BalancedOptions(WinnowOptions):
    """Options of `hpcml train bw`."""

    live_features: Annotated[int | None, Range(1, 2**31 - 2)] = None
    """Maximum number of features in memory: the least important ones make room for new ones
    (extremal selection). Memory is fixed from the start."""
    share: Annotated[float, Range(0, 1), Only("live_features")] = 0.9
    """With --live-features: of the features that stay, the share with the largest weights; the others have the smallest."""


@Parameter(name="*")
@dataclass(frozen=True)
class MbwOptions(BalancedOptions):
    """Options of `hpcml train mbw`."""

    margin: Annotated[float, Range(0)] = 1.0
    """A score whose distance from the threshold is not above this counts as a mistake."""


@Parameter(name="*")
@dataclass(frozen=True)
class AdditiveOptions(OnlineOptions):
    """Options of `hpcml train perceptron` and `hpcml train romma`."""

    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """The rows have a constant feature 1, whose weight is the intercept. This is the default."""


@Parameter(name="*")
@dataclass(frozen=True)
class PaOptions(AdditiveOptions):
    """Options of `hpcml train pa`."""

    epsilon: Annotated[float, Range(0)] = 1.0
    """A row whose score is at least so far on the right side changes nothing."""
    gamma: Annotated[float, Range(0)] = 0.1
    """Relaxation; larger takes smaller steps."""

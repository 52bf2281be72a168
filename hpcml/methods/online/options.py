"""The table of the single-pass learners, and their options."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter

from hpcml.options import FREE, Between, Flag, Only, Range, Seconds, Several, check_rules


@dataclass(frozen=True)
class OnlineLearner:
    """A learner: its code in `kernels`, and the initial values of its weight vectors, one or two (for and against)."""

    code: int
    weights: dict[str, float]

    @property
    def winnow(self) -> bool:
        """Return whether updates are multiplicative: a bias, no negative values, and scores divided by the row sum."""
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
    """The options of all learners. An option that only some have is a constant here and a field in their class."""

    free: ClassVar[frozenset[str]] = FREE | {"final", "max_line_mb"}  # may differ between a run and its continuation

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
    """Use the average of all intermediate weight vectors, each weighted by the number of rows it classified correctly."""
    split: str | None = None
    """Split of the dataset to train on, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Several] = field(default=())
    """Train only these labels. Required for a stream with labels other than -1 and +1."""
    min_positives: Annotated[int, Range(0, 2**63)] = 1
    """Minimum number of positive rows of a label to train (not for a stream)."""
    shuffle: Flag = False
    """Shuffle the rows (not for a stream). The result of these learners depends on the row order."""
    seed: Annotated[int, Range(0, 2**32 - 1), Only("shuffle")] = 0
    """Random seed for --shuffle."""
    initial_model: Path | None = None
    """Model of the same method and options whose pass is continued with these rows."""
    final: Flag = False
    """Save only the weights (3 to 6 times smaller); the model then cannot be used with --initial-model or EFS."""
    zero_based: Flag = False
    """For a stream: indices start at 0. Default: at 1."""
    max_line_mb: int | None = None
    """For a stream: maximum length of a line, in MiB. Default: 16."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot detect training rows."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that rank 0 spent on reading, training and writing."""

    def validate(self) -> None:
        check_rules(self)


def with_bias(options: OnlineOptions, method: str, bias: bool = True) -> OnlineOptions:
    """Return the options with this choice of an intercept, unless it is set already. A Winnow always has an intercept."""
    if options.bias is not None or LEARNERS[method].winnow:
        return options
    choice: dict[str, Any] = {"bias": bias}
    return replace(options, **choice)


@dataclass(frozen=True)
class WinnowOptions(OnlineOptions):
    """Options of `hpcml train pw`."""

    alpha: Annotated[float, Between(1)] = 1.5
    """Promotion factor: after a false negative, the weights of the row's features are multiplied by this."""
    beta: Annotated[float, Between(0, 1)] = 0.5
    """Demotion factor: the same after a false positive."""
    theta: Annotated[float, Range(0)] = 1.0
    """Threshold of the score."""


@dataclass(frozen=True)
class BalancedOptions(WinnowOptions):
    """Options of `hpcml train bw`."""

    live_features: Annotated[int | None, Range(1, 2**31 - 2)] = None
    """Maximum number of features in memory; when it is reached, the least important features are dropped (extremal selection).
    Memory is allocated at the start."""
    share: Annotated[float, Range(0, 1), Only("live_features")] = 0.9
    """With --live-features: share of the remaining features with the largest weights; the others have the smallest weights."""


@dataclass(frozen=True)
class MbwOptions(BalancedOptions):
    """Options of `hpcml train mbw`."""

    margin: Annotated[float, Range(0)] = 1.0
    """Minimum distance of a correct score from the threshold; a smaller distance counts as a mistake."""


@dataclass(frozen=True)
class AdditiveOptions(OnlineOptions):
    """Options of `hpcml train perceptron` and `hpcml train romma`."""

    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """Fit an intercept as the weight of a constant feature 1 (default)."""


@dataclass(frozen=True)
class PaOptions(AdditiveOptions):
    """Options of `hpcml train pa`."""

    epsilon: Annotated[float, Range(0)] = 1.0
    """Margin: rows with at least this score on the correct side cause no update."""
    gamma: Annotated[float, Range(0)] = 0.1
    """Relaxation; larger values take smaller steps."""


OPTIONS: dict[str, type[OnlineOptions]] = {
    **{"pw": WinnowOptions, "bw": BalancedOptions, "mbw": MbwOptions},
    **{"perceptron": AdditiveOptions, "pa": PaOptions, "romma": AdditiveOptions},
}

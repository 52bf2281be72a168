"""The options of `hpcml train bernoulli-nb` and its relatives."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.methods.linear.options import LinearOptions
from hpcml.options import Between, Range, Several

LOG_19 = 2.9444389791664403
MOST_PARTS = 1000  # rounds or stages that a model file may have


@Parameter(name="*")
@dataclass(frozen=True)
class BernoulliNBOptions(LinearOptions):
    """Options of `hpcml train bernoulli-nb`."""

    losses: ClassVar[tuple[str, ...]] = ()  # counts minimise nothing
    steps: ClassVar[int] = 1
    smallest_lambda: ClassVar[float] = 0.0
    loss: ClassVar[str] = ""
    lam: ClassVar[str] = "0"
    bias: ClassVar[bool] = False  # the intercept is no column of the rows
    precision: ClassVar[str] = "double"
    drop: ClassVar[float | None] = 0.0
    labels_per_pass: ClassVar[int | None] = None  # labels are trained one by one
    max_steps: ClassVar[int | None] = None
    free: ClassVar[frozenset[str]] = LinearOptions.free - {"ranks_per_group", "labels_per_pass"}

    smoothing: Annotated[float, Between(0)] = 0.5
    """Number added to each of the four counts of a feature and a label (rows with and without the one and the other)."""
    min_weight: Annotated[float, Range(0)] = 1.5
    """Leave out features whose weight is of smaller magnitude than this. 0 keeps all that a row with the label has."""
    exclude: Annotated[tuple[str, ...], Several] = ()
    """Of data with headings as features: leave these headings out for every label. A label's own heading always is."""


@Parameter(name="*")
@dataclass(frozen=True)
class BoostedBayesOptions(BernoulliNBOptions):
    """Options of `hpcml train boosted-bayes`."""

    rounds: Annotated[int, Range(1, MOST_PARTS)] = 6
    """Rounds at most; a label without errors has fewer."""
    trim: float = 0.2
    """Leave out of the next round the rows with the smallest errors, up to this share of all weight."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        if not 0 <= self.trim < 1:
            raise OptionError("trim", self.trim, "expected a share of at least 0 and below 1")


@Parameter(name="*")
@dataclass(frozen=True)
class StagedOptions(BernoulliNBOptions):
    """The options of both methods with stages."""

    stages: ClassVar[int] = 2

    cut: Annotated[float, Range(-math.inf)] = LOG_19
    """Rows with a higher score go on to the next stage. Default: log 19, by which 95 of 100 rows are positive."""


@Parameter(name="*")
@dataclass(frozen=True)
class StagedBayesOptions(StagedOptions):
    """Options of `hpcml train staged-bayes`."""

    stages: Annotated[int, Range(2, MOST_PARTS)] = 2
    """How many times naive Bayes is trained, each time on the negative rows that those before gave a score from the cut on."""
    factor: Annotated[float, Range(-math.inf)] = 3.0
    """Factor of the scores of the stages behind the first one, before they are added to it."""


@Parameter(name="*")
@dataclass(frozen=True)
class StagedSvmOptions(StagedOptions):
    """Options of `hpcml train staged-svm`."""

    factor: Annotated[float, Range(-math.inf)] = 10.0
    """What the score of the SVM is multiplied by before it is added to that of naive Bayes."""
    svm_c: Annotated[float, Between(0)] = 0.1
    """C of the SVM."""
    svm_tol: Annotated[float, Between(0)] = 0.01
    """How far the conditions of its optimum may be violated."""
    chi_square: Annotated[float, Range(0)] = 3.84
    """The SVM gets the features whose chi-square with the label is above this, among the rows that it is trained on."""

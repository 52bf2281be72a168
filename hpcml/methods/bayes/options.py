"""The options of `hpcml train bernoulli-nb` and its relatives."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcml.errors import OptionError
from hpcml.methods.linear.options import LinearOptions
from hpcml.options import Between, Range, Several

LOG_19 = 2.9444389791664403
MAX_PARTS = 1000  # rounds or stages in a model file


@dataclass(frozen=True)
class BernoulliNBOptions(LinearOptions):
    """Options of `hpcml train bernoulli-nb`."""

    losses: ClassVar[tuple[str, ...]] = ()  # no objective: the weights follow from counts
    steps: ClassVar[int] = 1
    smallest_lambda: ClassVar[float] = 0.0
    loss: ClassVar[str] = ""
    lam: ClassVar[str] = "0"
    bias: ClassVar[bool] = False  # the rows get no constant feature
    precision: ClassVar[str] = "double"
    drop: ClassVar[float | None] = 0.0
    labels_per_pass: ClassVar[int | None] = None  # labels are trained one by one
    max_steps: ClassVar[int | None] = None
    free: ClassVar[frozenset[str]] = LinearOptions.free - {"ranks_per_group", "labels_per_pass"}

    smoothing: Annotated[float, Between(0)] = 0.5
    """Pseudo-count added to each of the four counts of a feature and a label (rows with and without either)."""
    min_weight: Annotated[float, Range(0)] = 1.5
    """Minimum magnitude of a weight; features with smaller weights are dropped. 0 keeps every feature of a positive row."""
    exclude: Annotated[tuple[str, ...], Several] = ()
    """Headings that no label may use as a feature (data with headings as features). A label never uses its own heading."""


@dataclass(frozen=True)
class BoostedBayesOptions(BernoulliNBOptions):
    """Options of `hpcml train boosted-bayes`."""

    rounds: Annotated[int, Range(1, MAX_PARTS)] = 6
    """Maximum number of boosting rounds; a label without training errors stops earlier."""
    trim: float = 0.2
    """Share of the total weight whose rows are skipped in the next round: the rows with the smallest errors."""

    def validate(self) -> None:
        super().validate()
        if not 0 <= self.trim < 1:
            raise OptionError("trim", self.trim, "expected a share of at least 0 and below 1")


@dataclass(frozen=True)
class StagedOptions(BernoulliNBOptions):
    """The options of both methods with stages."""

    stages: ClassVar[int] = 2

    cut: Annotated[float, Range(-math.inf)] = LOG_19
    """Score from which a row enters the next stage. Default: log 19, the log-odds of a probability of 95 %."""


@dataclass(frozen=True)
class StagedBayesOptions(StagedOptions):
    """Options of `hpcml train staged-bayes`."""

    stages: Annotated[int, Range(2, MAX_PARTS)] = 2
    """Number of stages; each is trained on the positive rows and the negative rows that passed --cut in all stages before."""
    factor: Annotated[float, Range(-math.inf)] = 3.0
    """Factor of the scores of the later stages in the sum with the first score."""


@dataclass(frozen=True)
class StagedSvmOptions(StagedOptions):
    """Options of `hpcml train staged-svm`."""

    factor: Annotated[float, Range(-math.inf)] = 10.0
    """Factor of the SVM score in the sum with the naive Bayes score."""
    svm_c: Annotated[float, Between(0)] = 0.1
    """Regularisation parameter C of the SVM."""
    svm_tol: Annotated[float, Between(0)] = 0.01
    """Tolerance of the SVM's optimality conditions."""
    chi_square: Annotated[float, Range(0)] = 3.84
    """Minimum chi-square statistic, over the training rows of the SVM, of the features that the SVM uses."""

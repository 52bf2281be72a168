"""The options of `hpcml tune`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.methods.linear.options import ScaleOptions
from hpcml.methods.registry import method_named, methods_supporting
from hpcml.options import Between, Flag, Or, Range, Seed, Several


@Parameter(name="*")
@dataclass(frozen=True)
class TuneOptions(ScaleOptions):
    """Options of `hpcml tune`: those of all linear methods, and its own."""

    losses: ClassVar[tuple[str, ...]] = ()  # of the method

    method: str = "dual"
    """Method to train: dual, probe, elastic-net, or another method that supports tuning according to the table of methods."""
    folds: Annotated[int, Range(3, 100)] = 5
    """Number of folds of the training rows, at least 3; each is scored by models trained on the other folds."""
    by: Literal["map", "f1", "auc"] = "map"
    """Measure that selects the settings, over the scores of all folds: map (mean average precision), f1 (F1 at the best threshold)
    or auc (area under the ROC curve)."""
    thresholds: Literal["label", "micro"] = "label"
    """Choice of thresholds: label (maximises each label's F1; rare labels are pulled towards labels of similar frequency) or micro
    (one probability for all labels that maximises micro F1 in the folds)."""
    one: Flag = False
    """Use one setting for all labels. Default: a setting per label; rare labels are pulled towards the best common setting."""
    lambdas: Annotated[tuple[float, ...], Several, Between(0)] = ()
    """Multiples of --lambda to try (for elastic-net: of --l1). Default: 0.1, 0.316, 1, 3.16 and 10, and further values while the
    best one lies at an end."""
    weights: Annotated[tuple[float, ...], Several, Between(0)] = ()
    """Weights of positive rows to try (dual only). Default: 1 and 4, and further values while the best one lies at an end."""
    loss: str | None = None
    """Convex loss ℓ, one of the method's. Default: the method's default."""
    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """Fit an intercept as the weight of a constant feature 1 (default). elastic-net always has an intercept."""
    lam: Annotated[str | None, Parameter(name="--lambda"), Or("float")] = None
    """Value of λ that --lambdas are multiples of, as in hpcml train METHOD. Default: the method's default."""
    l1: Annotated[str | None, Or("float")] = None
    """Value of λ₁ that --lambdas are multiples of (elastic-net only). Default: the method's default."""
    seed: Seed = 0
    """Random seed for dealing rows to folds and for the order of training rows."""

    def validate(self) -> None:
        if self.method not in (known := methods_supporting("tune")):
            raise OptionError("method", self.method, f"expected one of {', '.join(known)}")
        super().validate()
        for name in ("lambdas", "weights"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise OptionError(name, values, "expected different numbers")
        options = method_named(self.method).option_names
        for name, option in (("weights", "positive_weight"), ("l1", "l1"), ("bias", "bias")):
            value = getattr(self, name)
            if value not in (None, ()) and option not in options:
                users = ", ".join(each for each in methods_supporting("tune") if option in method_named(each).option_names)
                raise OptionError(name, value, f"has no effect on {self.method}, only on {users}; remove it")
        if self.l1 is not None and not self.l1.strip("0.").removesuffix("/m").strip("0."):
            raise OptionError("l1", self.l1, "expected a number above 0")

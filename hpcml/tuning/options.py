"""The options of `hpcml tune`."""

from __future__ import annotations

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
    """Options of `hpcml tune`: those that all linear methods have, and its own."""

    losses: ClassVar[tuple[str, ...]] = ()  # the method's

    method: str = "dual"
    """Method to train: dual, probe, elastic-net, or another method that the table of methods says can be tuned."""
    folds: Annotated[int, Range(3, 100)] = 5
    """Parts of the training rows, at least 3; each is scored by models of the others."""
    by: Literal["map", "f1", "auc"] = "map"
    """Measure of the choice: map (average precision), f1 (F1 at its best threshold) or auc, of the scores of all folds."""
    thresholds: Literal["label", "micro"] = "label"
    """Above which a row has a label: label (each label's F1 is to be large, rare ones drawn to those as frequent), or micro (the
    probability, the same for all labels, at which the F1 of all pairs of a row and a label is largest in the folds).
    """
    one: Flag = False
    """Choose the same for all labels. Default: for each label, drawn to what is best for all, the more the rarer it is."""
    lambdas: Annotated[tuple[float, ...], Several, Between(0)] = ()
    """Try these multiples of --lambda (of elastic-net: of --l1). Default: 0.1, 0.316, 1, 3.16 and
    10, and more where the best lies at the end.
    """
    weights: Annotated[tuple[float, ...], Several, Between(0)] = ()
    """Of dual: try these weights of positive rows. Default: 1 and 4, and more where the best lies at the end."""
    loss: str | None = None
    """Convex loss ℓ, one of the method's. Default: the method's."""
    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """The rows have a constant feature 1, whose weight is the intercept. This is the default; elastic-net always has one."""
    lam: Annotated[str | None, Parameter(name="--lambda"), Or("float")] = None
    """The λ that --lambdas are multiples of, as in hpcml train METHOD. Default: the method's."""
    l1: Annotated[str | None, Or("float")] = None
    """Of elastic-net: what --lambdas are multiples of. Default: the method's."""
    seed: Seed = 0
    """Random seed for dealing rows to folds and for the order of training rows."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        if self.method not in (known := methods_supporting("tune")):
            raise OptionError("method", self.method, f"expected one of {', '.join(known)}")
        super().validate()
        for name in ("lambdas", "weights"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise OptionError(name, values, "expected different numbers")
        options = method_named(self.method).option_names
        for name, value, option in (
            ("weights", self.weights, "positive_weight"),
            ("l1", self.l1, "l1"),
            ("bias", self.bias, "bias"),
        ):
            if value not in (None, ()) and option not in options:
                users = ", ".join(each for each in methods_supporting("tune") if option in method_named(each).option_names)
                raise OptionError(name, value, f"has no effect on {self.method}, only on {users}; remove it")
        if self.l1 is not None and not self.l1.strip("0.").removesuffix("/m").strip("0."):
            raise OptionError("l1", self.l1, "expected a number above 0, of which --lambdas are multiples")

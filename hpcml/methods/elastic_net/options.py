"""The options of `hpcml train elastic-net`."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.methods.linear.options import ScaleOptions
from hpcml.options import Between, Count, Flag, NotWith, Or, Range, Seed, Several


@Parameter(name="*")
@dataclass(frozen=True)
class ElasticNetOptions(ScaleOptions):
    """Options of `hpcml train elastic-net`."""

    losses: ClassVar[tuple[str, ...]] = ("logistic", "squared")
    steps: ClassVar[int] = 100
    smallest_lambda: ClassVar[float] = 0.0
    bias: ClassVar[bool] = False  # the intercept is no column of the rows: it is not regularised
    labels_per_pass: ClassVar[int | None] = None  # labels are trained one by one
    free: ClassVar[frozenset[str]] = ScaleOptions.free - {"ranks_per_group", "labels_per_pass"} | {"show_gaps"}

    loss: str = "logistic"
    """Convex loss ℓ of the score z, for y = ±1: logistic, log(1 + exp(−y z)), or squared, ½ (z − y)²."""
    lam: Annotated[str, Parameter(name="--lambda"), Or("float")] = "0.01X/m"
    """λ₂, the strength of ‖w‖²/2: X/m, 0.1X/m, X/NUMBER, NUMBER/m or NUMBER, where X = N² and m is the number of training rows."""
    l1: Annotated[str, NotWith("path"), Or("float")] = "0.01N/m"
    """λ₁, the strength of ‖w‖₁: N/m, 0.1N/m, NUMBER/m or NUMBER, where N is the mean norm of the
    training rows and m their number. More gives sparser models.
    """
    path: Annotated[tuple[str, ...], Several, Or("float")] = ()
    """Of newton: one run after the other for several values of λ₁, in this order, instead of --l1; each begins with the weights of
    the one before. They become run folders in the output, path-1 and so on, and path.csv says how sparse each is.
    """
    initial_model: Path | None = None
    """Of newton: begin with the weights of this model, which was trained on the same rows. It saves
    time and changes only what the gap allows.
    """
    solver: Literal["newton", "fobos", "sgd"] = "newton"
    """newton: exact. fobos or sgd: stochastic gradient descent with delayed regularisation, by
    forward-backward splitting or by truncated gradients.
    """
    rate: Literal["decaying", "constant", "adagrad"] = "decaying"
    """Of fobos and sgd, the learning rate: decaying (η (1 − t)², where t goes from 0 to 1 over all
    passes), constant, or adagrad (η / √(1 + the sum of the feature's squared gradients)).
    """
    eta: Annotated[float | None, Between(0)] = None
    """Of fobos and sgd: η. Default with decaying: 12/X for the logistic loss, 1.5 / (the largest
    squared norm of a row) for the squared loss; with constant a sixth of that; with adagrad 1.
    """
    passes: Annotated[int, Range(1, 2**31 - 1)] = 40
    """Of fobos and sgd: passes over the rows."""
    seed: Seed = 0
    """Another seed takes the rows in another order. For newton, which passes over all rows only for
    labels with many features, it changes no more than the gap allows.
    """
    drop: Annotated[float | None, Range(0)] = 0.0
    """Leave out of the model weights of smaller magnitude than this; zeros always are. hpcml prune shows what that costs."""
    max_gap: Annotated[float | None, Between(0)] = None
    """Of newton: train a label until its certified duality gap, divided by the objective, is at most this. Default: 1e-5."""
    show_gaps: Flag = False
    """Show the objective and the certified duality gap of every label."""
    max_steps: Count = None
    """Of newton: maximum number of rounds of choosing features; a label that reaches it is reported. Default: 100."""

    @property
    def advice(self) -> str:
        """Advice on gaps that are too large."""
        return "raise --max-steps" if self.solver == "newton" else "raise --passes, try another --eta, or take --solver newton"

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local, before the first collective."""
        super().validate()
        parse_l1(self.l1, 1.0, 1)
        for l1 in self.path:
            parse_l1(l1, 1.0, 1, "path")
        if len(set(self.path)) < len(self.path):
            raise OptionError("path", self.path, "a value is there twice")
        without = ("max_steps", "max_gap", "path", "initial_model") if self.solver != "newton" else ("rate", "eta", "passes")
        for option in fields(self):
            if option.name in without and getattr(self, option.name) != option.default:
                raise OptionError(option.name, getattr(self, option.name), f"has no effect with solver {self.solver}; remove it")


def parse_l1(text: str, norm: float, n_rows: int, name: str = "l1") -> float:
    """λ₁ from `N/m`, `0.1N/m`, `NUMBER/m` or `NUMBER`: N = mean ‖x_i‖ over the training rows (`norm`), m their number.

    Raises ConfigError.
    """
    number, slash, rows = text.partition("/")
    try:
        value = norm * float(number[:-1] or 1) if slash and number.endswith("N") else float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (slash and rows != "m"):
        raise OptionError(name, text, "expected N/m, 0.1N/m, NUMBER/m or NUMBER, at least 0")
    return value / n_rows if slash else value

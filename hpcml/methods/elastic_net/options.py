"""Options of `hpcml train elastic-net`."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.methods.linear.options import ScaleOptions
from hpcml.options import Between, Count, Flag, NotWith, Or, Range, Seed, Several


@dataclass(frozen=True)
class ElasticNetOptions(ScaleOptions):
    """Options of `hpcml train elastic-net`."""

    losses: ClassVar[tuple[str, ...]] = ("logistic", "squared")
    steps: ClassVar[int] = 100
    smallest_lambda: ClassVar[float] = 0.0
    bias: ClassVar[bool] = False  # the intercept is not a column, because it is not regularised
    labels_per_pass: ClassVar[int | None] = None  # labels are trained one by one
    free: ClassVar[frozenset[str]] = ScaleOptions.free - {"ranks_per_group", "labels_per_pass"} | {"show_gaps"}

    loss: str = "logistic"
    """Convex loss ℓ of the score z, for y = ±1: logistic, log(1 + exp(−y z)), or squared, ½ (z − y)²."""
    lam: Annotated[str, Parameter(name="--lambda"), Or("float")] = "0.01X/m"
    """Strength λ₂ of the penalty ‖w‖²/2: X/m, 0.1X/m, X/NUMBER, NUMBER/m or NUMBER, where X is the squared mean norm of the m
    training rows.
    """
    l1: Annotated[str, NotWith("path"), Or("float")] = "0.01N/m"
    """Strength λ₁ of the penalty ‖w‖₁: N/m, 0.1N/m, NUMBER/m or NUMBER, where N is the mean norm of the m training rows. Larger
    values give sparser models.
    """
    path: Annotated[tuple[str, ...], Several, Or("float")] = ()
    """Values of λ₁ to train one after another instead of --l1, each starting from the previous weights (newton only). Writes the
    run folders path-1, path-2, … and path.csv with the sparsity of each.
    """
    initial_model: Path | None = None
    """Model of the same rows to start from (newton only). It saves time and changes the result within the gap."""
    solver: Literal["newton", "fobos", "sgd"] = "newton"
    """Solver: newton (exact), or stochastic gradient descent with delayed regularisation by forward-backward splitting (fobos) or
    truncated gradients (sgd).
    """
    rate: Literal["decaying", "constant", "adagrad"] = "decaying"
    """Learning rate of fobos and sgd: decaying (η (1 − t)², where t goes from 0 to 1 over all passes), constant, or adagrad (η /
    √(1 + sum of the feature's squared gradients)).
    """
    eta: Annotated[float | None, Between(0)] = None
    """Learning rate factor η of fobos and sgd. Default with decaying: 12/X for the logistic loss, 1.5 / (largest squared norm of a
    row) for the squared loss; with constant a sixth of that; with adagrad 1.
    """
    passes: Annotated[int, Range(1, 2**31 - 1)] = 40
    """Passes over the rows of fobos and sgd (default: 40)."""
    seed: Seed = 0
    """Random seed for the order of rows (default: 0). With newton it changes the result only within the gap."""
    drop: Annotated[float | None, Range(0)] = 0.0
    """Discard weights with a magnitude below this value (default: 0, which discards zeros). See `hpcml prune` for the effect on
    quality.
    """
    max_gap: Annotated[float | None, Between(0)] = None
    """Relative duality gap (gap / objective) at which newton stops training a label. Default: 1e-5."""
    show_gaps: Flag = False
    """Show the objective and the certified duality gap of every label."""
    max_steps: Count = None
    """Maximum number of feature selection rounds of newton (default: 100); a label that reaches it is reported as not converged."""

    @property
    def advice(self) -> str:
        return "raise --max-steps" if self.solver == "newton" else "raise --passes, try another --eta, or use --solver newton"

    def validate(self) -> None:
        super().validate()
        parse_l1(self.l1, 1.0, 1)
        for l1 in self.path:
            parse_l1(l1, 1.0, 1, "path")
        if len(set(self.path)) < len(self.path):
            raise OptionError("path", self.path, "a value occurs twice")
        without = ("max_steps", "max_gap", "path", "initial_model") if self.solver != "newton" else ("rate", "eta", "passes")
        for option in fields(self):
            if option.name in without and getattr(self, option.name) != option.default:
                raise OptionError(option.name, getattr(self, option.name), f"has no effect with solver {self.solver}; remove it")


def parse_l1(text: str, norm: float, n_rows: int, name: str = "l1") -> float:
    """Return λ₁ from `N/m`, `0.1N/m`, `NUMBER/m` or `NUMBER`, where N is the mean norm of the rows. Raises ConfigError."""
    number, slash, rows = text.partition("/")
    try:
        value = norm * float(number[:-1] or 1) if slash and number.endswith("N") else float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf or (slash and rows != "m"):
        raise OptionError(name, text, "expected N/m, 0.1N/m, NUMBER/m or NUMBER, at least 0")
    return value / n_rows if slash else value

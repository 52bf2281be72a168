"""The options of `hpcml cv`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from hpcml.options import Flag, Range, Seed, Several


@dataclass(frozen=True, kw_only=True)
class CvOptions:
    """Options of `hpcml cv` that change the result."""

    folds: Annotated[int, Range(2)] = 5
    """Number of folds; the rows of each fold are tested by models trained on the other folds."""
    label: Annotated[tuple[str, ...], Several] = ()
    """Labels to use of the files given without a label. Default: all with enough rows."""
    split: str = "all"
    """Split of the files to use, or all."""
    seed: Seed = 0
    """Random seed for the folds and for the order of training rows."""
    baseline: str | None = None
    """Method that the others are compared with. Default: the first method."""
    in_order: Flag = False
    """Train on the rows in file order. Default: shuffled."""
    scale: Literal["standard", "max-abs", "none"] | None = None
    """Divide each feature by its standard deviation (standard, without centring) or by its largest magnitude (max-abs) over the
    training rows of a fold. Default: none, with a warning if the scales differ by more than 100.
    """
    bias: Annotated[bool, Parameter(negative="--no-bias")] = True
    """Fit an intercept (default). --no-bias affects probe, dual, perceptron, pa, romma, their voted forms, and svm."""

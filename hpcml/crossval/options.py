"""The options of `hpcml cv`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from hpcml.options import Flag, Range, Seed, Several


@dataclass(frozen=True, kw_only=True)
class CvOptions:
    """Options of `hpcml cv` that change the result."""

    folds: Annotated[int, Range(2)] = 5
    """Number of parts that the rows are dealt into; each is judged once by models trained on the others."""
    label: Annotated[tuple[str, ...], Several] = ()
    """Only this label of the files that are named without one."""
    split: str = "all"
    """Rows that take part: a split of the files, or all."""
    seed: Seed = 0
    """Random seed for the folds and for the order of training rows."""
    baseline: str | None = None
    """The method that the others are compared with. Default: the first."""
    in_order: Flag = False
    """Train on rows in the order of the file."""
    scale: Literal["none", "standard", "max-abs"] | None = None
    """Divide each feature by its standard deviation (standard, without centring) or by its largest magnitude (max-abs) over the
    rows that a fold trains on. Default: none, with a warning if the scales differ by more than 100.
    """
    bias: Annotated[bool, Parameter(negative="--no-bias")] = True
    """With --no-bias probe, dual, perceptron, pa, romma, their voted forms and svm have no intercept."""

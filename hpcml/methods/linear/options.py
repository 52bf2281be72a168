"""The options of the methods that train a weight vector for each label."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter

from hpcml.data.labels import parse_part
from hpcml.errors import ConfigError
from hpcml.methods.linear.losses import DUAL_LOSSES, LOSSES
from hpcml.options import Flag, check_magnitude, check_range, check_times, flag_of

BALANCED = "balanced"


@Parameter(name="*")
@dataclass(frozen=True)
class TrainOptions:
    """Options of `hpcml train`."""

    loss: str | None = None
    """Convex loss: hinge (default), huber (modified Huber), maxent (logistic); of dual: squared-hinge (default), hinge."""
    lam: Annotated[str, Parameter(name="--lambda")] = "X/m"
    """Regularisation λ: X/m, X/NUMBER or NUMBER, where X = (mean norm of the training rows)² and m is their number."""
    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """The rows have a constant feature 1 (regularised like the others), whose weight is the intercept. This is the default;
    --no-bias is the protocol of the PROBE paper; it costs much of the quality, of rare labels above all."""
    epsilon: float = 0.05
    """PROBE stops when its bound φ falls below this."""
    svmperf_epsilon: float = 0.1
    """SVMperf stops when its bound on f(w) − min f falls to this, in percent: 0.1 means 0.001."""
    liblinear_tol: float = 0.1
    """LIBLINEAR's stopping tolerance."""
    dual_tol: float = 0.1
    """dual: the stopping tolerance, with LIBLINEAR's meaning: of the projected gradients of all rows."""
    max_gap: float | None = None
    """dual: do not stop before the certified duality gap, divided by the objective, is at most this as well."""
    gap: Flag = False
    """dual: show the objective and the certified duality gap of every label."""
    positive_weight: str = "1"
    """dual: the weight of positive rows: a number, or balanced: as many times as there are negative rows for a positive one."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Parameter(negative="")] = field(default=())
    """Train only this label (may be repeated)."""
    min_positives: int = 1
    """Train only labels with at least so many positive rows."""
    label_part: str | None = None
    """K/N: of the labels that would be trained, only the K-th of N ranges of about equal size; `hpcml merge` joins the models."""
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """PROBE skips rows that have not violated for 10 steps, for 5 to 15 steps at a time. --no-dormant visits every row."""
    seed: int = 0
    """Another seed makes rows dormant for other numbers of steps; liblinear takes the rows in another order."""
    precision: str = "single"
    """Of weights and margins: single (float32, like the data) or double. Sums are exact in both."""
    drop: float | None = None
    """Leave out of the model weights of smaller magnitude than this; the model is stored sparse. hpcml prune shows what that
    costs."""
    block: int | None = None
    """Labels that share a pass over the rows, in each group of ranks. Default: 16. Does not change the result."""
    shards: int | None = None
    """Ranks that divide the rows among themselves; the labels are scattered over such groups. Default: by memory and labels.
    Does not change the result (dual: 1 by default, and other numbers give the same model within the tolerance only)."""
    max_steps: int | None = None
    """Give a label up after so many steps and say so. Default: 5000; pegasos, which has no stopping rule: 500;
    dual: 1000; liblinear: 20000."""
    checkpoint_every: float = 600.0
    """Seconds between checkpoints."""
    time_limit: float | None = None
    """Seconds of training (loading not counted) after which to write a checkpoint and stop with exit code 75."""

    profile: Flag = False
    """Show the seconds that each rank computed, communicated and waited."""

    def validate(self, losses: Iterable[str] = LOSSES | DUAL_LOSSES) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        if self.loss is not None and self.loss not in losses:
            raise ConfigError(f"--loss {self.loss}: expected one of {', '.join(sorted(losses))}")
        if not 0 < self.epsilon < 2 / 3:
            raise ConfigError(f"--epsilon {self.epsilon}: expected a number between 0 and 2/3")
        for name in ("svmperf_epsilon", "liblinear_tol", "dual_tol", "max_gap"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"--{flag_of(name)} {getattr(self, name)}: expected a number above 0")
        if self.positive_weight != BALANCED:
            parse_weight(self.positive_weight)
        if self.precision not in ("single", "double"):
            raise ConfigError(f"--precision {self.precision}: expected single or double")
        if self.drop is not None:
            check_magnitude("drop", self.drop)
        check_range(self, "seed", 0, 2**32 - 1)
        check_range(self, "max_steps", 1, 2**31 - 1)
        for name, low in (("min_positives", 0), ("block", 1), ("shards", 1)):
            check_range(self, name, low, 2**63)
        if self.label_part is not None:
            parse_part(self.label_part)
        check_times(self)


def parse_weight(text: str) -> float:
    """The weight of positive rows. Raises ConfigError."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ConfigError(f"--positive-weight {text}: expected a number above 0, or {BALANCED}")
    return weight

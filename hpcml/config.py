"""The options of converting and training: one dataclass each gives the flags, their help, and the keys of a TOML file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hpcml.errors import ConfigError
from hpcml.losses import LOSSES

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`."""

    zero_based: Flag = False
    """svmlight: indices start at 0, not at 1."""
    binary: Flag = False
    """Text: words present or not, instead of log(tf + 1) · idf with unit length."""
    pairs: Flag = False
    """Text: also adjacent word pairs with no stop word and no punctuation between."""
    min_df: int = 1
    """Text: keep words that occur in at least so many training rows."""
    stop_words: Path | None = None
    """Text: a file of words to leave out, one a line."""
    like: Path | None = None
    """Use the features, weights and labels of this dataset (the training file)."""
    test_share: float | None = None
    """Make this random share of the rows the split test, the others train."""
    seed: int = 0
    """Another seed gives another random split."""


@Parameter(name="*")
@dataclass(frozen=True)
class TrainOptions:
    """Options of `hpcml train`."""

    loss: str = "hinge"
    """Convex loss: hinge, huber (modified Huber) or maxent (logistic)."""
    lam: Annotated[str, Parameter(name="--lambda")] = "X/m"
    """Regularisation λ: X/m, X/NUMBER or NUMBER, where X = (mean norm of the training rows)² and m is their number."""
    bias: Flag = False
    """Append a constant feature 1 (regularised like the others)."""
    epsilon: float = 0.05
    """PROBE stops when its bound φ falls below this."""
    svmperf_epsilon: float = 0.1
    """SVMperf stops when its bound on f(w) − min f falls to this, in percent: 0.1 means 0.001."""
    liblinear_tol: float = 0.1
    """LIBLINEAR's stopping tolerance."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Parameter(negative="")] = field(default=())
    """Train only this label (may be repeated)."""
    min_positives: int = 1
    """Train only labels with at least so many positive rows."""
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """PROBE skips rows that have not violated for 10 steps, for 5 to 15 steps at a time. --no-dormant visits every row."""
    seed: int = 0
    """Another seed makes rows dormant for other numbers of steps; liblinear takes the rows in another order."""
    precision: str = "single"
    """Of weights and margins: single (float32, like the data) or double. Sums are exact in both."""
    block: int | None = None
    """Labels that share a pass over the rows, in each group of ranks. Default: 16. Does not change the result."""
    shards: int | None = None
    """Ranks that divide the rows among themselves; the labels are scattered over such groups. Default: by memory and labels.
    Does not change the result."""
    max_steps: int | None = None
    """Give a label up after so many steps and say so. Default: 5000; pegasos, which has no stopping rule: 500;
    liblinear: 20000."""
    checkpoint_every: float = 600.0
    """Seconds between checkpoints."""
    time_limit: float | None = None
    """Seconds of training (loading not counted) after which to write a checkpoint and stop with exit code 75."""

    profile: Flag = False
    """Show the seconds that each rank computed, communicated and waited."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        if self.loss not in LOSSES:
            raise ConfigError(f"--loss {self.loss}: expected one of {', '.join(sorted(LOSSES))}")
        if not 0 < self.epsilon < 2 / 3:
            raise ConfigError(f"--epsilon {self.epsilon}: expected a number between 0 and 2/3")
        for name in ("svmperf_epsilon", "liblinear_tol"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"--{flag_of(name)} {getattr(self, name)}: expected a number above 0")
        if self.precision not in ("single", "double"):
            raise ConfigError(f"--precision {self.precision}: expected single or double")
        for name, low in (("min_positives", 0), ("seed", 0), ("max_steps", 1), ("block", 1), ("shards", 1)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise ConfigError(f"--{name.replace('_', '-')} {value}: expected at least {low}")
        for name, most in (("seed", 2**32 - 1), ("max_steps", 2**31 - 1)):
            if (getattr(self, name) or 0) > most:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}: expected at most {most}")
        if not self.checkpoint_every > 0:
            raise ConfigError(f"--checkpoint-every {self.checkpoint_every}: expected seconds above 0")
        if self.time_limit is not None and not self.time_limit > 0:
            raise ConfigError(f"--time-limit {self.time_limit}: expected seconds above 0")


def flag_of(field_name: str) -> str:
    """The flag (without dashes) and TOML key of a field of TrainOptions."""
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")

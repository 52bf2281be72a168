"""The options of `hpcml select`: the flags and their help."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hpcml.errors import ConfigError, nearest
from hpcml.options import Flag, Several, check_range, flag_of

EFS = "efs"
NAMES = ("chi2", EFS, "ig")  # what --by may say
OVER = ("max", "mean")  # how the scores for several labels become one
P = 0.9  # the best share, says the paper


@Parameter(name="*")
@dataclass(frozen=True)
class SelectOptions:
    """Options of `hpcml select`."""

    by: str | None = None
    """Of a dataset: ig (information gain), chi2 (chi-square) or efs (extremal selection by the
    weights of mbw, trained for it in one pass). Of a model: efs.
    """
    features: int | None = None
    """How many features to keep."""
    share: float | None = None
    """efs: this share of them are the most important ones, the others the least important ones.
    Default: 0.9.
    """
    over: str | None = None
    """How the scores of a feature for several labels become one: max, or mean (weighted by the
    labels' rows). Default: max.
    """
    label: Annotated[tuple[str, ...], Several] = field(default=())
    """Look only at these labels."""
    split: str | None = None
    """Rows to count or to train on: a split of the dataset, or all. Default: train if it has it."""
    shuffle: Flag = False
    """efs of a dataset: take the rows in random order, not in the file's."""
    seed: int | None = None
    """Another seed shuffles otherwise. Default: 0."""
    like: Path | None = None
    """Take the features of this reduced dataset (by name), or of this list NAME.csv, for test
    data of a reduced training file.
    """
    data: Path | None = None
    """Of a model: the dataset it was trained on, whose names of features then stand in the list."""
    list: Path | None = None
    """Where to write the list of the features kept, best first. Default: OUTPUT's name with
    .features.csv.
    """

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        if self.like is not None:
            for name in ("by", "features", "share", "over", "label", "split", "shuffle", "seed", "data", "list"):
                self.refuse(name, f"does not go with --like, which says what to keep in {self.like}")
            return
        if self.by not in (None, *NAMES):
            raise ConfigError(f"--by {self.by}: no such score; {nearest(self.by, NAMES)}")
        if self.features is None:
            raise ConfigError("--features is missing: say how many to keep, or --like a file that is reduced already")
        check_range(self, "features", 1, 2**63)
        check_range(self, "share", 0, 1)
        if self.over not in (None, *OVER):
            raise ConfigError(f"--over {self.over}: expected max or mean")
        if self.by not in (None, EFS):
            for name in ("share", "shuffle", "seed"):
                self.refuse(name, f"is for --by efs, not {self.by}")
        if not self.shuffle:
            self.refuse("seed", "is for --shuffle")
        check_range(self, "seed", 0, 2**32 - 1)

    def refuse(self, name: str, reason: str) -> None:
        """Raise ConfigError if the user has given an option."""
        if getattr(self, name) not in (None, False, ()):
            raise ConfigError(f"--{flag_of(name)} {reason}; leave it out")

"""The options of `hpcml select`: the flags and their help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from hpcml.errors import ConfigError, OptionError, nearest
from hpcml.options import Flag, NotWith, Only, Range, Several, check_rules

EFS = "efs"
NAMES = ("chi2", EFS, "ig")  # what --by may say
LIKE, DATASET, MODEL = "like", "a dataset", "a model"
P = 0.9  # the best share, says the paper


@Parameter(name="*")
@dataclass(frozen=True)
class SelectOptions:
    """Options of `hpcml select`."""

    by: Annotated[str | None, NotWith(LIKE)] = None
    """Of a dataset: ig (information gain), chi2 (chi-square) or efs (extremal selection by the
    weights of mbw, trained for it in one pass). Of a model: efs.
    """
    features: Annotated[int | None, NotWith(LIKE), Range(1)] = None
    """Number of features to keep."""
    share: Annotated[float | None, NotWith(LIKE), Range(0, 1), Only(EFS)] = None
    """efs: this share of them are the most important ones, the others the least important ones. Default: 0.9."""
    over: Annotated[Literal["max", "mean"] | None, NotWith(LIKE)] = None
    """How the scores of a feature for several labels become one: max, or mean (weighted by the labels' rows). Default: max."""
    label: Annotated[tuple[str, ...], Several, NotWith(LIKE)] = ()
    """Look only at these labels."""
    split: Annotated[str | None, NotWith(LIKE), Only(DATASET)] = None
    """Rows to count or to train on: a split of the dataset, or all. Default: train if it has it."""
    shuffle: Annotated[Flag, NotWith(LIKE), Only(EFS), Only(DATASET)] = False
    """efs of a dataset: take the rows in random order, not in the file's."""
    seed: Annotated[int | None, NotWith(LIKE), Only("shuffle"), Range(0, 2**32 - 1)] = None
    """Random seed of --shuffle. Default: 0."""
    like: Annotated[Path | None, Only(DATASET)] = None
    """Take the features of this reduced dataset (by name), or of this list NAME.csv, for test data of a reduced training file."""
    data: Annotated[Path | None, NotWith(LIKE), Only(MODEL)] = None
    """Of a model: the dataset it was trained on, whose names of features then stand in the list."""
    list: Annotated[Path | None, NotWith(LIKE)] = None
    """Where to write the list of the features kept, best first. Default: OUTPUT's name with .features.csv."""

    def validate(self, kind: str = "") -> None:
        """Raise ConfigError for values that make no sense, or have no effect on an input of this kind. Local."""
        by = [self.by] if self.by else [EFS] if kind == MODEL else list(NAMES)
        check_rules(self, *([kind, *by] if kind else []))
        if self.like is not None:
            return
        if self.by not in (None, *NAMES):
            raise OptionError("by", self.by, f"no such score; {nearest(self.by, NAMES)}")
        if self.features is None:
            raise ConfigError("--features is missing: say how many to keep, or --like a file that is reduced already")

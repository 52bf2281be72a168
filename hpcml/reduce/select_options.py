"""The options of `hpcml select`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from hpcml.errors import ConfigError, OptionError, nearest
from hpcml.options import Flag, NotWith, Only, Range, Several, check_rules

EFS = "efs"
NAMES = ("chi2", EFS, "ig")  # values of --by
LIKE, DATASET, MODEL = "like", "a dataset", "a model"
P = 0.9  # the best share in the paper


@Parameter(name="*")
@dataclass(frozen=True)
class SelectOptions:
    """Options of `hpcml select`."""

    by: Annotated[str | None, NotWith(LIKE)] = None
    """Score. Datasets: ig (information gain), chi2 (chi-square) or efs (extremal selection by the weights of mbw after one pass).
    Models: efs.
    """
    features: Annotated[int | None, NotWith(LIKE), Range(1)] = None
    """Number of features to keep."""
    share: Annotated[float | None, NotWith(LIKE), Range(0, 1), Only(EFS)] = None
    """efs: share of the kept features that are the most important ones; the others are the least important ones. Default: 0.9."""
    over: Annotated[Literal["max", "mean"] | None, NotWith(LIKE)] = None
    """How scores for several labels are combined: max, or mean (weighted by the labels' rows). Default: max."""
    label: Annotated[tuple[str, ...], Several, NotWith(LIKE)] = ()
    """Use only these labels."""
    split: Annotated[str | None, NotWith(LIKE), Only(DATASET)] = None
    """Split of the dataset to count or train on, or all. Default: train if it exists."""
    shuffle: Annotated[Flag, NotWith(LIKE), Only(EFS), Only(DATASET)] = False
    """efs of a dataset: use the rows in random order. Default: in file order."""
    seed: Annotated[int | None, NotWith(LIKE), Only("shuffle"), Range(0, 2**32 - 1)] = None
    """Random seed of --shuffle. Default: 0."""
    like: Annotated[Path | None, Only(DATASET)] = None
    """Use the features of this reduced dataset (by name) or of this list NAME.csv, for test data of a reduced training file."""
    data: Annotated[Path | None, NotWith(LIKE), Only(MODEL)] = None
    """Models: the training dataset, whose feature names are added to the list."""
    list: Annotated[Path | None, NotWith(LIKE)] = None
    """Path of the list of kept features, best first. Default: name of the output with .features.csv."""

    def validate(self, kind: str = "") -> None:
        """Raise ConfigError for invalid values, or options without effect on an input of this kind. Local."""
        by = [self.by] if self.by else [EFS] if kind == MODEL else list(NAMES)
        check_rules(self, *([kind, *by] if kind else []))
        if self.like is not None:
            return
        if self.by not in (None, *NAMES):
            raise OptionError("by", self.by, f"no such score; {nearest(self.by, NAMES)}")
        if self.features is None:
            raise ConfigError("--features is missing; give the number of features to keep, or a reduced file with --like")

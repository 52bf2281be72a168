"""Labels as features: the headings of a row (`hpcml convert --headings-as-features`).

The feature of the heading "Humans" is named "Humans (heading)". No word ends like this, and no field may have this tag. A method
must not use the heading of the label that it trains, because it is the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from hpcml.data.dataset import DataFile, numbers_of
from hpcml.errors import OptionError, nearest

TAG = "(heading)"


@dataclass(frozen=True)
class Headings:
    """The feature of each label's heading (n_labels; −1: none), and the features excluded for all labels."""

    own: np.ndarray
    excluded: np.ndarray

    def in_columns(self, column_of: np.ndarray) -> Self:
        own = np.where(self.own >= 0, column_of[self.own], -1)
        return type(self)(own, column_of[self.excluded])

    def hides(self, label: int, columns: np.ndarray) -> np.ndarray:
        return np.asarray((columns == self.own[label]) | np.isin(columns, self.excluded))


def find_headings(dataset: DataFile, exclude: Sequence[str] = ()) -> Headings | None:
    if not dataset.has_headings:
        if exclude:
            why = f"{dataset.path} has no headings as features; convert with --headings-as-features"
            raise OptionError("exclude", exclude[0], why)
        return None
    names = dataset.label_names()
    own = numbers_of(dataset, [f"{name} {TAG}" for name in names])
    feature_of = dict(zip(names, own.tolist(), strict=True))
    for name in exclude:
        if feature_of.get(name, -1) < 0:
            known = [each for each, number in feature_of.items() if number >= 0]
            why = f"{dataset.path} has no such heading; {nearest(name, known)}"
            raise OptionError("exclude", name, why)
    return Headings(own, np.unique([feature_of[name] for name in exclude]).astype(np.int64))

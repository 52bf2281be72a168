"""Labels that are features, too: the headings of a row (`hpcml convert --headings-as-features`).

The feature of the heading "Humans" is named "Humans (heading)". No word ends so, and no field may
have this tag. A method must not use a label's own heading, for it is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.data.dataset import DataFile, numbers_of
from hpcml.errors import OptionError, nearest

TAG = "(heading)"


@dataclass(frozen=True)
class Headings:
    """The feature of each label's heading (n_labels; −1: none), and those hidden from all."""

    own: np.ndarray
    excluded: np.ndarray

    def in_columns(self, column_of: np.ndarray) -> Headings:
        """The same by columns; those of features without one are negative."""
        own = np.where(self.own >= 0, column_of[self.own], -1)
        return Headings(own, column_of[self.excluded])

    def hides(self, label: int, columns: np.ndarray) -> np.ndarray:
        """Return a mask of the columns that must not be used for a label."""
        return np.asarray((columns == self.own[label]) | np.isin(columns, self.excluded))


def find_headings(dataset: DataFile, exclude: Sequence[str] = ()) -> Headings | None:
    """The features that are headings; None where none are. Raises OptionError. Local."""
    if not dataset.has_headings:
        if exclude:
            why = f"the features of {dataset.path} are no headings; convert with --headings-as-features"
            raise OptionError("exclude", exclude[0], why)
        return None
    names = dataset.label_names()
    own = numbers_of(dataset, [f"{name} {TAG}" for name in names])
    place = dict(zip(names, own.tolist(), strict=True))
    for name in exclude:
        if place.get(name, -1) < 0:
            known = [each for each, number in place.items() if number >= 0]
            why = f"no such heading among the features of {dataset.path}; {nearest(name, known)}"
            raise OptionError("exclude", name, why)
    return Headings(own, np.unique([place[name] for name in exclude]).astype(np.int64))

"""What a source gives to the writer: this rank's rows, and what all ranks know about the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcml.data.vocabulary import TextSettings


@dataclass
class Labels:
    """The label sets of this rank's rows as CSR without values; `dropped` counts entries that --like does not know."""

    names: list[str]
    indptr: np.ndarray
    indices: np.ndarray
    dropped: int


@dataclass
class Part:
    """This rank's rows, CSR, `data` None for ones; `split` holds positions in `split_names`, -1 for rows in no split.

    Everything but the rows, `dropped` and `labels.dropped` is the same on all ranks.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None
    labels: Labels
    n_features: int
    split_names: list[str]
    split: np.ndarray
    row_ids: list[str] | None = None
    feature_names: Sequence[str] | None = None
    text: TextSettings | None = None
    dropped: int = 0  # svmlight: values, text: occurrences of words, that --like does not know

    @property
    def n_rows(self) -> int:
        """The number of this rank's rows."""
        return self.indptr.size - 1


def label_sets(names: list[str], lengths: np.ndarray, columns: np.ndarray) -> Labels:
    """Label sets from each row's number of entries and the entries' columns in any order; column -1 is dropped."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    known = columns >= 0
    width = max(1, len(names))
    entries = np.unique(rows[known] * width + columns[known])
    indptr = np.searchsorted(entries, np.arange(lengths.size + 1) * width)
    return Labels(names, indptr, entries % width, int(columns.size - np.count_nonzero(known)))

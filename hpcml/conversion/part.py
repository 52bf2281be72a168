"""What a source gives to the writer: this rank's rows, and what all ranks know about the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml.conversion.row_ids import RowIds
from hpcml.conversion.vocabulary import TextSettings
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import SLICE, Spool


@dataclass
class Labels:
    """The label sets of this rank's rows as CSR without values; `dropped` counts entries that --like does not know."""

    names: list[str]
    indptr: np.ndarray | Spool
    indices: np.ndarray | Spool
    dropped: int


@dataclass
class Part:
    """This rank's rows, CSR, `data` None for ones; `split` holds positions in `split_names`, -1 for rows in no split.

    `row_numbers` are other numbers of this rank's rows, by name; the dataset keeps them in its group `rows`.
    Everything but the rows, their numbers, `dropped` and `labels.dropped` is the same on all ranks.
    """

    indptr: np.ndarray | Spool
    indices: np.ndarray | Spool
    data: np.ndarray | Spool | None
    labels: Labels
    n_features: int
    split_names: list[str]
    split: np.ndarray
    row_ids: RowIds | None = None
    feature_names: Strings | None = None
    text: TextSettings | None = None
    label_titles: Sequence[str] | None = None  # what people call the labels, "" for none; None: the source does not tell
    row_numbers: dict[str, np.ndarray] = field(default_factory=dict)
    dropped: int = 0  # svmlight: values, text: occurrences of words, that --like does not know

    @property
    def n_rows(self) -> int:
        """The number of this rank's rows."""
        return self.indptr.size - 1


def waiting_label_sets(
    names: list[str], indptr: Spool, entries: Spool, columns_of: Callable[[np.ndarray], np.ndarray], scratch: Path
) -> Labels:
    """The label sets of rows whose entries wait in a spool; `columns_of` says the column of each (-1: none). Raises OSError."""
    ends_of, columns = Spool(scratch, np.int64), Spool(scratch, np.int64)
    labels = Labels(names, ends_of, columns, 0)
    ends_of.append(np.zeros(1, dtype=np.int64))
    begin, last = 0, indptr.size - 1
    while begin < last:
        ends = indptr[begin : begin + 1 + SLICE]
        ends = ends[: max(2, int(np.searchsorted(ends, ends[0] + SLICE, side="right")))]
        some = label_sets(names, np.diff(ends), columns_of(entries[ends[0] : ends[-1]]))
        ends_of.append(columns.size + some.indptr[1:])
        columns.append(np.asarray(some.indices))
        labels.dropped += some.dropped
        begin += ends.size - 1
    return labels


def label_sets(names: list[str], lengths: np.ndarray, columns: np.ndarray) -> Labels:
    """Label sets from each row's number of entries and the entries' columns in any order; column -1 is dropped."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    known = columns >= 0
    width = max(1, len(names))
    entries = np.sort(rows[known] * width + columns[known])
    entries = entries[np.diff(entries, prepend=-1) > 0]
    indptr = np.searchsorted(entries, np.arange(lengths.size + 1) * width)
    return Labels(names, indptr, entries % width, int(columns.size - np.count_nonzero(known)))

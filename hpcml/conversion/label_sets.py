"""Which labels a dataset has, and the label sets of its rows.

Without --like all labels that rows have are labels of the dataset. With it these are the labels of
that file; what it lacks is kept beside them as unknown, by name, so that a model of that file can
be judged on all that the rows have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.conversion.like import Like
from hpcml.conversion.part import Labels
from hpcml.conversion.vocabulary import merge_terms
from hpcml.files.spool import SLICE, Spool


class LabelColumns:
    """The columns of labels by name, equal on all ranks: the dataset's, then the unknown ones."""

    def __init__(self, names: Sequence[str], like: Like | None) -> None:
        """`names`: all labels that rows (without `like`: the source) have, in order. Local."""
        self._renamed = {} if like is None else like.renamed
        names = self._now(names)
        known = names if like is None else like.label_names
        there = set(known)
        others = [name for name in names if name not in there]
        self.names, self.unknown = (known + others, []) if like is not None and like.new_labels else (known, others)
        self._number = {name: column for column, name in enumerate(self.names + self.unknown)}

    def _now(self, names: Iterable[str]) -> list[str]:
        """The names that labels have by now, each once."""
        return list(dict.fromkeys(self._renamed.get(name, name) for name in names))

    def of(self, names: Iterable[str]) -> np.ndarray:
        """The columns of labels (int64), −1 for what is none."""
        return np.array([self._number.get(self._renamed.get(name, name), -1) for name in names], dtype=np.int64)


@mpi.collective
def label_columns(comm: mpi.Comm, found: Sequence[str], like: Like | None) -> LabelColumns:
    """Collective over `comm`. The columns of all ranks' labels; new ones in code-point order."""
    return LabelColumns(merge_terms(comm, found, np.ones(len(found), dtype=np.int64), 1), like)


def waiting_label_sets(
    columns: LabelColumns, indptr: Spool, entries: Spool, columns_of: Callable[[np.ndarray], np.ndarray], scratch: Path
) -> Labels:
    """Label sets of rows in a spool; `columns_of`: entries' columns (-1: none). Raises OSError."""
    kinds = [columns.names, *([columns.unknown] if columns.unknown else [])]
    waiting = [_Waiting(scratch) for _ in kinds]
    begin, last = 0, indptr.size - 1
    while begin < last:
        ends = indptr[begin : begin + 1 + SLICE]
        ends = ends[: max(2, int(np.searchsorted(ends, ends[0] + SLICE, side="right")))]
        some = label_sets(columns.names, np.diff(ends), columns_of(entries[ends[0] : ends[-1]]), columns.unknown)
        for sets, found in zip(waiting, some.sets.values(), strict=True):
            sets.add(found)
        begin += ends.size - 1
    labels, *unknown = (Labels(names, sets.indptr, sets.indices) for names, sets in zip(kinds, waiting, strict=True))
    labels.unknown = unknown[0] if unknown else None
    return labels


class _Waiting:
    """Label sets that grow outside of memory; every method raises OSError."""

    def __init__(self, scratch: Path) -> None:
        self.indptr, self.indices = Spool(scratch, np.int64), Spool(scratch, np.int64)
        self.indptr.append(np.zeros(1, dtype=np.int64))

    def add(self, labels: Labels) -> None:
        """Append the label sets of rows."""
        self.indptr.append(self.indices.size + np.asarray(labels.indptr)[1:])
        self.indices.append(np.asarray(labels.indices))


def label_sets(names: list[str], lengths: np.ndarray, columns: np.ndarray, unknown: Sequence[str] = ()) -> Labels:
    """Label sets by each row's number of entries and their columns, in any order (-1: left out).

    The columns are those of `names`, then of `unknown`.
    """
    rows = np.repeat(np.arange(lengths.size), lengths)
    some = columns >= 0
    width = max(1, len(names) + len(unknown))
    entries = np.sort(rows[some] * width + columns[some])
    entries = entries[np.diff(entries, prepend=-1) > 0]
    labels = _between(entries, lengths.size, width, 0, names)
    labels.unknown = _between(entries, lengths.size, width, len(names), list(unknown)) if unknown else None
    return labels


def _between(entries: np.ndarray, n_rows: int, width: int, first: int, names: list[str]) -> Labels:
    """The label sets in columns from `first` on, of ascending entries row · width + column."""
    columns = entries % width
    some = (columns >= first) & (columns < first + len(names))
    return Labels(names, np.searchsorted(entries[some], np.arange(n_rows + 1) * width), columns[some] - first)

"""Which labels a dataset has, and the label sets of its rows.

Without --like all labels that rows have are labels of the dataset. With it these are the labels of
that file; what it lacks is kept beside them as unknown, by name, so that a model of that file can
be judged on all that the rows have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Like
from hpcml.conversion.part import Labels, WaitingRows
from hpcml.conversion.vocabulary import merge_terms
from hpcml.files.spool import SLICE


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


def label_columns(comm: mpi.Comm, found: Sequence[str], like: Like | None) -> LabelColumns:
    """Collective over `comm`. The columns of all ranks' labels; new ones in code-point order."""
    return LabelColumns(merge_terms(comm, found), like)


def numbering() -> defaultdict[str, int]:
    """A dictionary that numbers names in the order in which they are first looked up."""
    numbers: defaultdict[str, int] = defaultdict(int)
    numbers.default_factory = numbers.__len__
    return numbers


def waiting_label_sets(columns: LabelColumns, waiting: WaitingRows, names: Iterable[str]) -> Labels:
    """The label sets of rows whose labels wait, as places in `names`. Raises OSError."""
    column_of = columns.of(names)
    kinds = [columns.names, *([columns.unknown] if columns.unknown else [])]
    grown = [WaitingRows(waiting.scratch) for _ in kinds]
    begin = 0
    while begin < waiting.n_rows:
        ends = waiting.indptr[begin : begin + 1 + SLICE]
        ends = ends[: max(2, int(np.searchsorted(ends, ends[0] + SLICE, side="right")))]
        some = label_sets(columns.names, np.diff(ends), column_of[waiting.indices[ends[0] : ends[-1]]], columns.unknown)
        for rows, found in zip(grown, some.sets.values(), strict=True):
            rows.add(np.diff(found.indptr), np.asarray(found.indices))
        begin += ends.size - 1
    labels, *unknown = (Labels(names, rows.indptr, rows.indices) for names, rows in zip(kinds, grown, strict=True))
    labels.unknown = unknown[0] if unknown else None
    return labels


def label_sets(names: list[str], lengths: np.ndarray, columns: np.ndarray, unknown: Sequence[str] = ()) -> Labels:
    """Label sets by rows' numbers of entries and columns, of `names`, then `unknown`; -1: none."""
    rows = np.repeat(np.arange(lengths.size), lengths)
    some = columns >= 0
    width = max(1, len(names) + len(unknown))
    entries = np.sort(rows[some] * width + columns[some])
    entries = entries[np.diff(entries, prepend=-1) > 0]

    def between(first: int, names: list[str]) -> Labels:
        columns = entries % width
        some = (columns >= first) & (columns < first + len(names))
        return Labels(names, np.searchsorted(entries[some], np.arange(lengths.size + 1) * width), columns[some] - first)

    labels = between(0, names)
    labels.unknown = between(len(names), list(unknown)) if unknown else None
    return labels

"""Rows on their way to a dataset: this rank's rows with labels, ids and splits, and the columns, equal on all ranks.

Without --like all labels that rows have are labels of the dataset. With it these are the labels of that file; what it lacks is kept
beside them as unknown, by name, so that a model of that file can be judged on all that the rows have.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.labels import LabelValues, missing_names, similar_names
from hpcml.conversion.split import RowSplits
from hpcml.conversion.vocabulary import TextSettings, merge_terms
from hpcml.data.dataset import UNKNOWN
from hpcml.data.row_keys import GROUP, ID, name_key
from hpcml.errors import DataError, OptionError, repeated
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import SLICE, Spool, StringSpool, slices
from hpcml.log import named, plural
from hpcml.mpi.routing import Routing

WAITING = 1 << 16  # rows and labels that wait in memory


class WaitingRows:
    """Rows that grow at their end and wait outside of memory: CSR arrays. Local; raises OSError."""

    def __init__(self, scratch: Path, dtype: type = np.int64, with_data: bool = False) -> None:
        self.scratch, self.indptr, self.indices = scratch, Spool(scratch, np.int64), Spool(scratch, dtype)
        self.data = Spool(scratch, np.float32) if with_data else None
        self.indptr.append(np.zeros(1, dtype=np.int64))
        self.n_rows = 0

    def add(self, lengths: np.ndarray, indices: np.ndarray, data: np.ndarray | None = None) -> None:
        """Append rows of so many entries."""
        self.n_rows += len(lengths)
        self.indptr.append(self.indices.size + np.cumsum(lengths))
        self.indices.append(indices)
        if self.data is not None and data is not None:
            self.data.append(data)


class RowIds:
    """This rank's row ids ("": none), or lines, from 0, of this rank's: slices as lists; outside of memory. Local."""

    def __init__(self, scratch: Path) -> None:
        self.ids, self.lines = StringSpool(scratch), Spool(scratch, np.int64)
        self.lines_above = 0  # of this rank's, in the file

    def __getitem__(self, where: slice) -> list[str]:
        lines = self.lines[where] + self.lines_above + 1
        return [row_id or str(line) for row_id, line in zip(self.ids[where], lines.tolist(), strict=True)]


class LabelledRows:
    """Labels, ids, splits and keys of this rank's rows, whatever the rows are. Local; raises OSError.

    Splits and keys are in memory; the rest waits outside of it.
    """

    def __init__(self, task: Conversion, with_ids: bool = True, at_once: bool = False) -> None:
        """`at_once`: see `LabelValues`."""
        self.scratch = scratch = task.scratch
        self.labels = WaitingRows(scratch, np.int32)
        known = () if task.like is None else [*task.like.label_names, *task.like.renamed]
        self.label_values = LabelValues(task.options.labels_as_text, known, at_once)
        self.places: list[tuple[int, Callable[[int], object]]] = []  # with --unique-ids: first row and place of rows of each batch
        self.label_numbers: defaultdict[str, int] = defaultdict(int)  # of labels that are given by name
        self.label_numbers.default_factory = self.label_numbers.__len__
        self.row_ids = RowIds(scratch) if with_ids else None
        self.splits: list[str] = []
        self.unlabelled = array("q")  # the places of rows that nobody labelled
        self.n_lines: int | None = None  # that this rank has read, where lines name rows without an id; None: rows are counted
        self.content_keys, self.id_keys, self.group_keys = array("Q"), array("Q"), array("Q")  # 0: no id, no group
        self._labels, self._lengths, self._ids, self._lines = array("i"), array("q"), list[str](), array("q")

    def describe(
        self,
        labels: Sequence[Sequence[str] | None] | None,
        ids: Sequence[str],
        splits: Sequence[str],
        lines: Sequence[int] | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        """Append what is known of rows; labels None: they are added by number.

        The labels of an unlabelled row are None. Empty `splits` or `groups`: the rows of the source have none.
        """
        if labels is not None:
            if None in labels:
                first = self.labels.n_rows + len(self._lengths)
                self.unlabelled.extend(first + row for row, of_row in enumerate(labels) if of_row is None)
                labels = [of_row or () for of_row in labels]
            self._labels.extend(map(self.label_numbers.__getitem__, chain.from_iterable(labels)))
            self._lengths.extend(map(len, labels))
        if self.row_ids is not None:
            first = self.row_ids.lines.size + len(self._ids)
            self._lines.extend(range(first, first + len(ids)) if lines is None else lines)
            self._ids += ids
            self.id_keys.extend(name_key(ID, name) for name in ids)
        self.group_keys.extend(name_key(GROUP, name) for name in groups)
        self.splits.extend(map(sys.intern, splits))
        if len(self._labels) + len(self._lengths) + len(self._ids) >= WAITING:
            self.flush()

    def flush(self) -> None:
        """Put away what waits in memory."""
        if self._lengths:
            self.labels.add(np.array(self._lengths, dtype=np.int64), np.array(self._labels, dtype=np.int32))
        if self.row_ids is not None and self._ids:
            self.row_ids.ids.extend([row_id.encode() for row_id in self._ids])
            self.row_ids.lines.append(np.array(self._lines, dtype=np.int64))
        for waiting in (self._labels, self._lengths, self._ids, self._lines):
            del waiting[:]

    def keep(self, flags: np.ndarray) -> None:
        """Keep the flagged rows (n_rows)."""
        self.flush()
        labels, row_ids = WaitingRows(self.scratch, np.int32), RowIds(self.scratch)
        for some in slices(flags.size, WAITING):
            ends = self.labels.indptr[some.start : some.stop + 1]
            sizes = np.diff(ends)
            labels.add(sizes[flags[some]], self.labels.indices[ends[0] : ends[-1]][np.repeat(flags[some], sizes)])
            row_ids.ids.extend(list(compress(self.row_ids.ids.codes(some.start, some.stop), flags[some])))
            row_ids.lines.append(self.row_ids.lines[some][flags[some]])
        self.labels, self.row_ids, self.splits = labels, row_ids, list(compress(self.splits, flags))
        kept = (array("Q", compress(keys, flags)) for keys in (self.content_keys, self.id_keys, self.group_keys))
        self.content_keys, self.id_keys, self.group_keys = kept
        unlabelled = np.zeros(flags.size, dtype=bool)
        unlabelled[np.array(self.unlabelled, dtype=np.int64)] = True
        self.unlabelled = array("q", np.flatnonzero(unlabelled[flags]).tolist())

    def row_keys(self, comm: mpi.Comm) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the keys of the rows, and those of their groups if any rank has some. Collective over `comm`."""
        keys, of_ids, of_groups = (np.array(found, np.uint64) for found in (self.content_keys, self.id_keys, self.group_keys))
        if of_ids.size:
            keys = np.where(of_ids != 0, of_ids, keys)
        if not mpi.agreed_any(comm, bool(of_groups.any())):
            return keys, None
        return keys, np.where(of_groups != 0, of_groups, keys) if of_groups.size else keys


def check_ids(task: Conversion, rows: LabelledRows) -> None:
    """Log how many rows have the id of an earlier row; with --unique-ids, raise DataError for the first. Collective."""
    comm, keys, row_ids = task.comm, np.array(rows.id_keys, np.uint64), rows.row_ids
    with_id = np.flatnonzero(keys)
    if task.options.unique_ids and not mpi.agreed_any(comm, bool(with_id.size)):
        raise OptionError("unique_ids", True, "has no effect on rows without ids; name the column of ids with --id, or remove it")
    routing = Routing(comm, (keys[with_id] % np.uint64(comm.size)).astype(np.int64))
    received = routing.send(keys[with_id])  # in the order of the rows
    order = np.argsort(received, kind="stable")
    is_repeat = np.zeros(received.size, bool)
    is_repeat[order[1:]] = received[order[1:]] == received[order[:-1]]
    if not mpi.agreed_any(comm, bool(is_repeat.any())):
        return
    repeats = with_id[routing.answer(is_repeat)]
    sentence = ""
    with mpi.agreed(comm, f"reading {task.what}"):
        if repeats.size:
            row = int(repeats[0])
            (row_id,), (line,) = row_ids.ids[row : row + 1], row_ids.lines[row : row + 1].tolist()
            kind = "row" if rows.n_lines is None else "line"
            batch = next(((first, place) for first, place in reversed(rows.places) if first <= row), None)
            where = f"{task.what}: {kind} {line + row_ids.lines_above + 1}" if batch is None else batch[1](row - batch[0])
            sentence = f"{where}: id {named(row_id)!r} is that of an earlier row, too"
            if task.options.unique_ids:
                raise DataError(f"{sentence} (--unique-ids)")
    counts, sentences = zip(*comm.allgather((repeats.size, sentence)), strict=True)
    count = plural(sum(counts), "row")
    task.log(f"{next(filter(None, sentences))}; {count} in all have the id of an earlier row")


@dataclass
class Part:
    """This rank's rows (without `data` their values are 1), and what is known of them.

    `row_numbers` are other numbers of this rank's rows, by name; the dataset keeps them in its
    group `rows`. Everything but the rows, their numbers and `dropped` is the same on all ranks.
    """

    matrices: dict[str, WaitingRows]  # X, the label sets Y and, where there are some, those of labels that --like lacks
    labels: dict[str, list[str]]  # the names of the columns of each matrix of label sets
    n_features: int
    splits: RowSplits
    keys: np.ndarray  # (n_rows) uint64: see hpcml.data.row_keys
    groups: np.ndarray | None = None  # (n_rows) uint64: the key of each row's group
    row_ids: RowIds | None = None
    feature_names: Strings | None = None
    text: TextSettings | None = None
    label_titles: Sequence[str] | None = None  # what people call the labels, "" for none; None: the source does not tell
    row_numbers: dict[str, np.ndarray] = field(default_factory=dict)
    unlabelled: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # the places of rows that nobody labelled
    dropped: int = 0  # svmlight: values, text: occurrences of words, that --like does not know


def make_part(
    task: Conversion,
    X: WaitingRows,
    rows: LabelledRows,
    splits: RowSplits,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    **about: Any,
) -> Part:
    """Return rows as a part of a dataset; `about`: other attributes of it. Collective.

    `label_names` are those of labels that were given by number; None: labels were given by name.
    `columns` are the labels that rows have, on any rank, in order; None: those that occur, by code points if given by name.
    """
    comm, like = task.comm, task.like
    by_name = label_names is None
    given = rows.label_values.names(comm, rows.label_numbers) if by_name else [name.strip() for name in label_names]
    used = np.zeros(len(given), dtype=np.int64)
    with mpi.agreed(comm, "dividing the rows by labels"):
        if not by_name and (twice := repeated(given)) is not None:
            raise DataError(f"{task.what}: two labels have the name {twice!r}; give each a name of its own")
        if not by_name and "" in given:
            raise DataError(f"{task.what}: label {given.index('') + 1} has no name; give each a name")
        rows.flush()
        for some in slices(rows.labels.indices.size):
            used[rows.labels.indices[some]] = 1
    if columns is None and label_names is None:
        columns = merge_terms(comm, filter(None, compress(given, used)))
    elif columns is None:
        columns = given if like is None else list(compress(given, mpi.allreduce_sum(comm, used)))

    # The columns of Y, and of the labels that the --like dataset lacks.
    renamed = {} if like is None else like.renamed
    columns = list(dict.fromkeys(renamed.get(name, name) for name in columns))
    labels = {"Y": columns}
    if like is not None:
        known = set(like.label_names)
        others = [name for name in columns if name not in known]
        labels = {"Y": like.label_names + others} if like.new_labels else {"Y": like.label_names, UNKNOWN: others}
    labels = {name: of_kind for name, of_kind in labels.items() if of_kind or name == "Y"}
    if comm.rank == 0:
        names = [*chain.from_iterable(labels.values())]
        for warning in filter(None, (similar_names(task.what, names), missing_names(task.what, names))):
            task.log(warning)
    column = {name: number for number, name in enumerate(chain.from_iterable(labels.values()))}
    column_of = np.array([column.get(renamed.get(name, name), -1) for name in given], dtype=np.int64)

    # Each row's labels as ascending columns, each once.
    matrices = {"X": X} | {name: WaitingRows(rows.scratch) for name in labels}
    width, begin = max(1, len(column)), 0
    with mpi.agreed(comm, "dividing the rows by labels"):
        while begin < rows.labels.n_rows:
            ends = rows.labels.indptr[begin : begin + 1 + SLICE]
            ends = ends[: max(2, int(np.searchsorted(ends, ends[0] + SLICE, side="right")))]
            of_rows, found = np.repeat(np.arange(ends.size - 1), np.diff(ends)), column_of[rows.labels.indices[ends[0] : ends[-1]]]
            entries = np.sort(of_rows[found >= 0] * width + found[found >= 0])
            of_rows, found = np.divmod(entries[np.diff(entries, prepend=-1) > 0], width)
            first = 0
            for name, of_kind in labels.items():
                here = (found >= first) & (found < first + len(of_kind))
                matrices[name].add(np.bincount(of_rows[here], minlength=ends.size - 1), found[here] - first)
                first += len(of_kind)
            begin += ends.size - 1

    if rows.row_ids is not None:
        (above,), _ = mpi.exclusive_sum(comm, [X.n_rows if rows.n_lines is None else rows.n_lines])
        rows.row_ids.lines_above = int(above)
    check_ids(task, rows)
    unlabelled = np.array(rows.unlabelled, dtype=np.int64)
    return Part(matrices, labels, splits=splits, row_ids=rows.row_ids, unlabelled=unlabelled, **about)

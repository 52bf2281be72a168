"""Rows of one rank before they are written: features, labels, ids and splits; the columns are equal on all ranks.

Without --like, all labels of the rows become labels of the dataset. With --like, the labels are those of that file; other labels
are stored by name as unknown labels, so that a model of that file can be evaluated on all labels of the rows.
"""

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from hpcml.data.row_keys import GROUP, ID, flag_repeats, name_key
from hpcml.errors import DataError, OptionError, repeated
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import SLICE, DiskArray, DiskStrings, slices
from hpcml.log import named, plural
from hpcml.partition import row_pieces

BUFFERED = 1 << 16  # rows and labels held in memory


class RowBuffer:
    def __init__(self, scratch: Path, dtype: type = np.int64, with_data: bool = False) -> None:
        self.scratch, self.indptr, self.indices = scratch, DiskArray(scratch, np.int64), DiskArray(scratch, dtype)
        self.data = DiskArray(scratch, np.float32) if with_data else None
        self.indptr.append(np.zeros(1, dtype=np.int64))
        self.n_rows = 0

    def append(self, lengths: np.ndarray, indices: np.ndarray, data: np.ndarray | None = None) -> None:
        self.n_rows += len(lengths)
        self.indptr.append(self.indices.size + np.cumsum(lengths))
        self.indices.append(indices)
        if self.data is not None and data is not None:
            self.data.append(data)

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, Any]]:
        """Yield (sizes of rows, indices, data or None) of consecutive rows."""
        indptr = self.indptr[:]
        for begin, end in row_pieces(indptr, SLICE):
            entries = slice(*indptr[[begin, end]].tolist())
            yield np.diff(indptr[begin : end + 1]), self.indices[entries], None if self.data is None else self.data[entries]


class RowIds:
    def __init__(self, scratch: Path) -> None:
        self.ids, self.lines = DiskStrings(scratch), DiskArray(scratch, np.int64)
        self.lines_above = 0  # of this rank's, in the file

    def __getitem__(self, where: slice) -> list[str]:
        lines = self.lines[where] + self.lines_above + 1
        return [row_id or str(line) for row_id, line in zip(self.ids[where], lines.tolist(), strict=True)]


class LabelledRows:
    """Splits and keys are in memory, the rest is in temporary files."""

    def __init__(self, task: Conversion, with_ids: bool = True, at_once: bool = False) -> None:
        self.scratch = scratch = task.scratch
        self.labels = RowBuffer(scratch, np.int32)
        known = () if task.like is None else [*task.like.label_names, *task.like.renamed]
        self.label_values = LabelValues(task.options.labels_as_text, known, at_once)
        # With --unique-ids: the first row of each batch, and its `locate`.
        self.locations: list[tuple[int, Callable[[int], object]]] = []
        self.label_numbers: defaultdict[str, int] = defaultdict(int)  # of label names
        self.label_numbers.default_factory = self.label_numbers.__len__
        self.row_ids = RowIds(scratch) if with_ids else None
        self.splits: list[str] = []
        self.unlabelled = array("q")  # row numbers
        self.n_lines: int | None = None  # lines read, if rows without an id are named by line; None: by row
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
        """`labels` None: labels are added by number; a row without labels is unlabelled if its labels are None."""
        if labels is not None:
            if None in labels:
                first = self.labels.n_rows + len(self._lengths)
                self.unlabelled.extend(first + row for row, row_labels in enumerate(labels) if row_labels is None)
                labels = [row_labels or () for row_labels in labels]
            self._labels.extend(map(self.label_numbers.__getitem__, chain.from_iterable(labels)))
            self._lengths.extend(map(len, labels))
        if self.row_ids is not None:
            first = self.row_ids.lines.size + len(self._ids)
            self._lines.extend(range(first, first + len(ids)) if lines is None else lines)
            self._ids += ids
            self.id_keys.extend(name_key(ID, name) for name in ids)
        self.group_keys.extend(name_key(GROUP, name) for name in groups)
        self.splits.extend(map(sys.intern, splits))
        if len(self._labels) + len(self._lengths) + len(self._ids) >= BUFFERED:
            self.flush()

    def flush(self) -> None:
        if self._lengths:
            self.labels.append(np.array(self._lengths, dtype=np.int64), np.array(self._labels, dtype=np.int32))
        if self.row_ids is not None and self._ids:
            self.row_ids.ids.extend([row_id.encode() for row_id in self._ids])
            self.row_ids.lines.append(np.array(self._lines, dtype=np.int64))
        for waiting in (self._labels, self._lengths, self._ids, self._lines):
            del waiting[:]

    def keep(self, flags: np.ndarray) -> None:
        self.flush()
        labels, row_ids = RowBuffer(self.scratch, np.int32), RowIds(self.scratch)
        for rows in slices(flags.size, BUFFERED):
            ends = self.labels.indptr[rows.start : rows.stop + 1]
            sizes = np.diff(ends)
            labels.append(sizes[flags[rows]], self.labels.indices[ends[0] : ends[-1]][np.repeat(flags[rows], sizes)])
            row_ids.ids.extend(list(compress(self.row_ids.ids.codes(rows.start, rows.stop), flags[rows])))
            row_ids.lines.append(self.row_ids.lines[rows][flags[rows]])
        self.labels, self.row_ids, self.splits = labels, row_ids, list(compress(self.splits, flags))
        keys_kept = (array("Q", compress(keys, flags)) for keys in (self.content_keys, self.id_keys, self.group_keys))
        self.content_keys, self.id_keys, self.group_keys = keys_kept
        unlabelled = np.zeros(flags.size, dtype=bool)
        unlabelled[np.array(self.unlabelled, dtype=np.int64)] = True
        self.unlabelled = array("q", np.flatnonzero(unlabelled[flags]).tolist())

    def row_keys(self, comm: mpi.Comm) -> tuple[np.ndarray, np.ndarray | None]:
        """Return keys of rows, and of groups (None if no rank has any). Collective over `comm`."""
        keys, id_keys, group_keys = (np.array(values, np.uint64) for values in (self.content_keys, self.id_keys, self.group_keys))
        if id_keys.size:
            keys = np.where(id_keys != 0, id_keys, keys)
        if not mpi.agreed_any(comm, bool(group_keys.any())):
            return keys, None
        return keys, np.where(group_keys != 0, group_keys, keys) if group_keys.size else keys


def check_ids(task: Conversion, rows: LabelledRows) -> None:
    comm, keys, row_ids = task.comm, np.array(rows.id_keys, np.uint64), rows.row_ids
    with_id = np.flatnonzero(keys)
    if task.options.unique_ids and not mpi.agreed_any(comm, bool(with_id.size)):
        raise OptionError("unique_ids", True, "has no effect on rows without ids; name the id column with --id, or remove it")
    repeats, sentence = with_id[flag_repeats(comm, keys[with_id])], ""
    if not mpi.agreed_any(comm, bool(repeats.size)):
        return
    with mpi.agreed(comm, f"reading {task.input_name}"):
        if repeats.size:
            row = int(repeats[0])
            (row_id,), (line,) = row_ids.ids[row : row + 1], row_ids.lines[row : row + 1].tolist()
            kind = "row" if rows.n_lines is None else "line"
            batch = next(((first, locate) for first, locate in reversed(rows.locations) if first <= row), None)
            where = f"{task.input_name}: {kind} {line + row_ids.lines_above + 1}" if batch is None else batch[1](row - batch[0])
            sentence = f"{where}: id {named(row_id)!r} is also the id of an earlier row"
            if task.options.unique_ids:
                raise DataError(f"{sentence} (--unique-ids)")
    counts, sentences = zip(*comm.allgather((repeats.size, sentence)), strict=True)
    count = plural(sum(counts), "row")
    task.log(f"{next(filter(None, sentences))}; {count} in total repeat the id of an earlier row")


@dataclass
class Part:
    """This rank's rows. Everything except rows, `titles`, `row_numbers` and `dropped` is equal on all ranks."""

    matrices: dict[str, RowBuffer]  # X (without `data`: all values 1), Y and, if any, unknown labels
    labels: dict[str, list[str]]  # column names of each label matrix
    n_features: int
    splits: RowSplits
    keys: np.ndarray  # (n_rows) uint64, see hpcml.data.row_keys
    groups: np.ndarray | None = None  # (n_rows) uint64
    row_ids: RowIds | None = None
    feature_names: Strings | None = None
    text: TextSettings | None = None
    label_titles: Sequence[str] | None = None  # "" for none; None: from --descriptors, --like or `titles`
    titles: dict[str, str] = field(default_factory=dict)  # of labels in this rank's rows; those of the last rank are used
    row_numbers: dict[str, np.ndarray] = field(default_factory=dict)  # other numbers per row, stored in group `rows`
    unlabelled: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # row numbers
    dropped: int = 0  # values (text: word occurrences) of features that are not in --like


def make_part(
    task: Conversion,
    X: RowBuffer,
    rows: LabelledRows,
    splits: RowSplits,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    **about: Any,
) -> Part:
    """`columns`: the labels of all rows, in order; None: those that occur. `label_names`: labels are numbers. Collective."""
    comm, like = task.comm, task.like
    by_name = label_names is None
    names = rows.label_values.names(comm, rows.label_numbers) if by_name else [name.strip() for name in label_names]
    used = np.zeros(len(names), dtype=np.int64)
    with mpi.agreed(comm, "sorting labels"):
        if not by_name and (twice := repeated(names)) is not None:
            raise DataError(f"{task.input_name}: two labels have the name {twice!r}; rename one")
        if not by_name and "" in names:
            raise DataError(f"{task.input_name}: label {names.index('') + 1} has no name; name every label")
        rows.flush()
        for piece in slices(rows.labels.indices.size):
            used[rows.labels.indices[piece]] = 1
    if columns is None and label_names is None:
        columns = merge_terms(comm, filter(None, compress(names, used)))
    elif columns is None:
        columns = names if like is None else list(compress(names, mpi.allreduce_sum(comm, used)))

    # The columns of Y and of the unknown labels.
    renamed = {} if like is None else like.renamed
    columns = list(dict.fromkeys(renamed.get(name, name) for name in columns))
    labels = {"Y": columns}
    if like is not None:
        known = set(like.label_names)
        others = [name for name in columns if name not in known]
        labels = {"Y": like.label_names + others} if like.new_labels else {"Y": like.label_names, UNKNOWN: others}
    labels = {name: kind_names for name, kind_names in labels.items() if kind_names or name == "Y"}
    if comm.rank == 0:
        all_names = [*chain.from_iterable(labels.values())]
        for warning in filter(None, (similar_names(task.input_name, all_names), missing_names(task.input_name, all_names))):
            task.log(warning)
    column = {name: number for number, name in enumerate(chain.from_iterable(labels.values()))}
    column_of = np.array([column.get(renamed.get(name, name), -1) for name in names], dtype=np.int64)

    # The labels of each row as ascending columns without repetition.
    matrices = {"X": X} | {name: RowBuffer(rows.scratch) for name in labels}
    width = max(1, len(column))
    with mpi.agreed(comm, "sorting labels"):
        for sizes, numbers, _ in rows.labels.blocks():
            row_numbers, label_columns = np.repeat(np.arange(sizes.size), sizes), column_of[numbers]
            entries = np.sort(row_numbers[label_columns >= 0] * width + label_columns[label_columns >= 0])
            row_numbers, label_columns = np.divmod(entries[np.diff(entries, prepend=-1) > 0], width)
            first = 0
            for name, kind_names in labels.items():
                in_kind = (label_columns >= first) & (label_columns < first + len(kind_names))
                matrices[name].append(np.bincount(row_numbers[in_kind], minlength=sizes.size), label_columns[in_kind] - first)
                first += len(kind_names)

    if rows.row_ids is not None:
        (above,), _ = mpi.exclusive_sum(comm, [X.n_rows if rows.n_lines is None else rows.n_lines])
        rows.row_ids.lines_above = int(above)
    check_ids(task, rows)
    unlabelled = np.array(rows.unlabelled, dtype=np.int64)
    return Part(matrices, labels, splits=splits, row_ids=rows.row_ids, unlabelled=unlabelled, **about)

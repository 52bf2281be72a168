"""The rows of a table on their way to a dataset: texts or numbers, labels, names and splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.like import Like
from hpcml.conversion.number_rows import NumberRows, NumberSlice, columns_like, find_unfit, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.roles import Roles
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus, vectorise
from hpcml.data.svmlight import label_name
from hpcml.errors import DataError
from hpcml.log import is_unicode, named

SLICE_VALUES = 1 << 22  # numbers that are looked at together


class Batch(NamedTuple):
    """Some rows: the values of each column with a role, and how messages name a row.

    Columns of features, and of indicators, are float64 arrays with NaN for what is missing; others
    are lists of strings, numbers, booleans, lists of them, and None.
    """

    n_rows: int
    columns: dict[str, Any]
    place: Callable[[int], str]


class TableRows:
    """This rank's rows of a table. Local; `add` raises DataError that names the row, OSError."""

    def __init__(
        self,
        roles: Roles,
        names: Sequence[str],
        options: ConvertOptions,
        like: Like | None,
        corpus: Corpus | None,
        scratch: Path,
        what: str,
    ) -> None:
        """`names` are the columns of the table; `corpus` is None where the rows are numbers."""
        self.roles, self.options, self.corpus = roles, options, corpus
        self.features = roles.numbers(names)
        self.n_rows = 0
        self.numbers: NumberRows | None = None
        if corpus is None:
            column_of, self.width, self.feature_names = columns_like(like, self.features, len(self.features), what)
            self.numbers = NumberRows(scratch, column_of, with_ids=roles.id is not None)

    def add(self, batch: Batch) -> None:
        """Append rows."""
        if self.corpus is None:
            self._add_numbers(batch)
            add_labels(self.numbers, batch, self.roles, self.options, self.n_rows)
        else:
            self._add_texts(batch, *described(batch, self.roles, self.options))
        self.n_rows += batch.n_rows

    def _add_texts(self, batch: Batch, labels: list[list[str]], ids: list[str], splits: list[str]) -> None:
        told_apart = not self.roles.text
        whole = [told_apart and field.whole for field in self.roles.fields]
        names = self.roles.texts
        for row in range(batch.n_rows):
            values = [_checked(batch, row, name, batch.columns[name][row], _texts) for name in names]
            for name, texts, stored in zip(names, values, whole, strict=False):
                if stored and any("\0" in text for text in texts):
                    raise DataError(f"{batch.place(row)}: column {name!r}: a value with a NUL, which cannot be stored; remove it")
            of_fields = values if told_apart else [[], [text for texts in values for text in texts]]
            self.corpus.add(ids[row], of_fields, labels[row], splits[row], line=self.n_rows + row)

    def _add_numbers(self, batch: Batch) -> None:
        step = max(1, SLICE_VALUES // max(1, len(self.features)))
        for begin in range(0, batch.n_rows, step):
            end = min(begin + step, batch.n_rows)
            values = np.empty((end - begin, len(self.features)))
            for column, name in enumerate(self.features):
                values[:, column] = batch.columns[name][begin:end]
            if self.options.missing_as_zero:
                values[np.isnan(values)] = 0
            if (place := find_unfit(values.reshape(-1))) >= 0:
                row, column = divmod(place, len(self.features))
                raise DataError(
                    f"{batch.place(begin + row)}: column {self.features[column]!r}: "
                    f"{unfit(float(values[row, column]), self.options)}"
                )
            self.numbers.add(NumberSlice.of_dense(values))


def described(batch: Batch, roles: Roles, options: ConvertOptions) -> tuple[list[list[str]], list[str], list[str]]:
    """The labels of each row, its name and its split, "" for none. Raises DataError."""
    labels = [_labels(batch, row, roles.labels, options.label_separator) for row in range(batch.n_rows)]
    for name in roles.indicators:
        values = batch.columns[name]
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if wrong.size:
            row = int(wrong[0])
            raise DataError(f"{batch.place(row)}: column {name!r}: {_number(values[row])}, but expected 0 or 1 (--indicators)")
        for row in np.flatnonzero(values).tolist():
            labels[row].append(name)
    ids, splits = _names(batch, roles.id), _names(batch, roles.split)
    if roles.split is not None:
        for row, split in enumerate(splits):
            _checked(batch, row, roles.split, split, check_split_name)
    return labels, ids, splits


def add_labels(rows: NumberRows, batch: Batch, roles: Roles, options: ConvertOptions, first: int) -> None:
    """Append labels, names and splits of rows, from this rank's row `first`. Raises DataError."""
    labels, ids, splits = described(batch, roles, options)
    rows.add_named(labels)
    rows.add_ids(ids, first)
    if roles.split is not None:
        rows.add_splits(splits)


def _labels(batch: Batch, row: int, columns: Sequence[str], separator: str | None) -> list[str]:
    """The labels of a row by the columns of labels."""
    found: list[str] = []
    for name in columns:
        value = batch.columns[name][row]
        for each in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
            text = _checked(batch, row, name, each, _label)
            parts = [text] if separator is None else text.split(separator)
            found += [part.strip() for part in parts if part.strip()]
    return found


def _names(batch: Batch, column: str | None) -> list[str]:
    """The values of a column that names rows, or splits; "" for none."""
    if column is None:
        return [""] * batch.n_rows
    return [_checked(batch, row, column, value, _label) for row, value in enumerate(batch.columns[column])]


def unfit(value: float, options: ConvertOptions) -> str:
    """The reason why a number cannot be stored."""
    if math.isnan(value):
        return "no number, but every row needs one; fill it in, or take what is missing for 0 (--missing-as-zero)"
    return f"{_number(value)}, but expected a finite number that float32 can hold"


@mpi.collective
def finish_table(comm: mpi.Comm, rows: TableRows, options: ConvertOptions, like: Like | None) -> Part:
    """Collective over `comm`. The part of a dataset; rows without names are numbered from 1."""
    if rows.numbers is not None:
        return finish(comm, rows.numbers, options, like, rows.width, rows.feature_names, None)
    (first,), _ = mpi.exclusive_sum(comm, [rows.n_rows])
    rows.corpus.row_ids.lines_above = int(first)
    return vectorise(comm, rows.corpus, options, like)


def _checked(batch: Batch, row: int, column: str, value: object, check: Callable[[Any], Any]) -> Any:
    """`check(value)`, whose ValueError becomes a DataError that names row and column."""
    try:
        return check(value)
    except ValueError as error:
        raise DataError(f"{batch.place(row)}: column {column!r}: {error}") from None


def _label(value: object) -> str:
    """A value as the name of a label, a row or a split; "" for a missing one. Raises ValueError."""
    if isinstance(value, str):
        if "\0" in value or not is_unicode(value):
            raise ValueError(f"{named(value)!r} holds a character that cannot be stored; remove it")
        return value
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return ""
        if math.isfinite(value) and value == math.floor(value):
            return label_name(float(value))
        raise ValueError(f"{value:g}, but a label is a name or a whole number; make classes of quantities")
    raise ValueError(f"{type(value).__name__}, but expected a string or a whole number")


def _texts(value: object) -> list[str]:
    """The texts of a value. Raises ValueError."""
    return list(_each_text(value))


def _each_text(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, (list, tuple, np.ndarray)):
        for each in value:
            yield from _each_text(each)
    elif value is not None and not (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"{type(value).__name__}, but expected text")


def _number(value: float) -> str:
    return "no number" if math.isnan(value) else f"{value:g}"

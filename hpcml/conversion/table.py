"""Tables: options name their columns; rows become texts or numbers, with labels, names and splits.

An index of pandas, a row number or an identifier says nothing about other rows, but in a sorted file it determines the labels. So
such columns are no features. The row number and identifiers are known only after the last row. Their values are compared while they
are read: a rank keeps the first row number of each file, and the values of identifiers. Then the ranks compare what they have.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, reading
from hpcml.conversion.labels import LabelValues, check_no_list, indicator_values
from hpcml.conversion.number_rows import FINITE, NumberRows, NumberSlice, dense_blocks, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import LabelledRows, Part
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus, Values, vectorise
from hpcml.conversion.vocabulary import PLAIN, Field
from hpcml.data.in_memory import is_missing
from hpcml.data.svmlight import label_name
from hpcml.errors import ConfigError, DataError, OptionError, nearest_name, repeated
from hpcml.files.spool import Spool
from hpcml.files.table import split_names
from hpcml.log import is_unicode, named
from hpcml.mpi.routing import Routing
from hpcml.options import quoted_name

PANDAS_INDEX = re.compile(r"(Unnamed: 0(\.\d+)?|__index_level_\d+__)?")
ID_NAMES = ("id", "index")
LEAST_ROWS = 3  # a column of fewer rows may hold 0, 1 or 1, 2 by chance
EXACT = 2.0**53  # from here on float64 does not tell all whole numbers apart
FEW = 6  # columns that the log names


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are for."""

    text: tuple[str, ...] = ()
    fields: tuple[Field, ...] = PLAIN  # texts that are told apart
    labels: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    id: str | None = None
    split: str | None = None
    group: str | None = None
    features: tuple[str, ...] | None = None  # the columns of numbers; None: all that nothing else names

    @classmethod
    def of(cls, options: ConvertOptions, names: Collection[str], fields: tuple[Field, ...] = PLAIN) -> Roles:
        """The roles that the options give to columns of these names; `fields` are those of the corpus.

        A name with blanks around it is that of a column with these blanks or, if there is none, without.
        """
        lists = (options.text, options.labels, options.indicators, options.features)
        known = set(names)
        text, labels, indicators, features = (
            tuple(name if name in known else name.strip() for name in of_option) for of_option in lists
        )
        return cls(text, fields, labels, indicators, options.id, options.split_column, options.group, features or None)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of texts; none if rows are made from numbers."""
        return self.text or (tuple(field.name for field in self.fields) if self.fields != PLAIN else ())

    def named(self) -> list[tuple[str, str]]:
        """(option, column) of every column that is named."""
        found = [("--text" if self.text else "--fields", name) for name in self.texts]
        found += [("--labels", name) for name in self.labels] + [("--indicators", name) for name in self.indicators]
        others = {"--id": self.id, "--split-column": self.split, "--group": self.group}
        found += [(option, name) for option, name in others.items() if name is not None]
        return found + [("--features", name) for name in self.features or ()]

    def check(self, where: str, names: Collection[str]) -> None:
        """Raise ConfigError unless a table of these columns has those wanted, each once."""
        seen: dict[str, str] = {}
        known = set(names)
        for option, name in self.named():
            if name not in known:
                near = next((each for each in names if name in map(str.strip, each.split(","))), None)
                near = nearest_name(name, names) if near is None else near
                if f'"{name}"' in known:
                    hint = "names of columns stand in quotation marks; give --quotes"
                elif near is not None:
                    form = "" if near == quoted_name(near) else f" Give it as {option} {shlex.quote(quoted_name(near))}"
                    hint = f"did you mean {near!r}?{form}"
                else:
                    every = ", ".join(map(quoted_name, sorted(names)))
                    hint = f"known: {every}" if len(names) <= FEW else f"it has {len(names)} columns"
                raise ConfigError(f"{where}: {option} {name}: no such column; {hint}")
            if name in seen and {option, seen[name]} not in ({"--id", "--features"}, {"--id", "--group"}):
                also = "is named twice" if seen[name] == option else f"is named by {seen[name]}, too"
                raise ConfigError(f"{where}: {option} {name}: the column {also}; a column is for one thing")
            seen[name] = option
        if (twice := repeated([name.strip() for name in self.indicators])) is not None:
            raise ConfigError(f"{where}: --indicators: two labels have the name {twice!r}; give each a name of its own")


class Batch(NamedTuple):
    """Some rows: the values of each column with a role, and how messages name a row.

    Columns of features are float64 arrays with NaN for what is missing, and columns of indicators
    may be; others are lists of strings, numbers, booleans, lists of them, and None.
    """

    n_rows: int
    columns: dict[str, Any]
    place: Callable[[int], object]
    file: int = 0  # which of the input files the rows are in, from 0

    def part(self, begin: int, end: int) -> Batch:
        """Return rows begin..end."""
        if end - begin == self.n_rows:
            return self
        columns = {name: values[begin:end] for name, values in self.columns.items()}
        return Batch(end - begin, columns, lambda row: self.place(begin + row), self.file)

    def numbers(self, names: Sequence[str], zero: bool = False) -> Iterator[NumberSlice]:
        """Yield the rows of these columns of numbers; `zero`: NaN is 0. Raises DataError that names row and column."""

        def take(begin: int, end: int) -> np.ndarray:
            return np.stack([self.columns[name][begin:end] for name in names], axis=1)

        def wrong(row: int, column: int, value: float) -> str:
            return f"{self.place(row)}: column {names[column]!r}: {unfit(value)}"

        return dense_blocks(take, (0, self.n_rows), len(names), zero, wrong)


def numbered(what: object, first: int) -> Callable[[int], str]:
    """What messages call rows of `what`, of which the first is row `first`, from 0."""
    return lambda row: f"{what}: row {first + row + 1}"


def wanted(roles: Roles, features: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that are read: those of features, and the others."""
    numbers = dict.fromkeys(features)
    return list(numbers), list(dict.fromkeys(name for _, name in roles.named() if name not in numbers))


def choose_features(
    task: Conversion, roles: Roles, columns: Mapping[str, Iterable[str]], index: Iterable[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the columns of numbers that are features, and why other columns are not.

    `columns` maps each column to the features that it becomes; `index` are those that the file calls an index.
    """
    if roles.texts or roles.features:
        return list(roles.features or ()), {}
    taken = {name for _, name in roles.named()}
    known = None if task.like is None or task.like.feature_names is None else set(task.like.feature_names)
    features: list[str] = []
    reasons: dict[str, str] = {}
    for name, made in columns.items():
        if known is not None and not known.isdisjoint(made) and (name not in taken or name == roles.id):
            features.append(name)
        elif name == roles.id:
            reasons[name] = "names the rows"
        elif name in taken:
            continue
        elif PANDAS_INDEX.fullmatch(name.strip()) or name in index:
            reasons[name] = "index of pandas"
        elif known is not None:
            reasons[name] = "not in --like"
        else:
            features.append(name)
    return features, reasons


class RowNumberSearch:
    """The columns of numbers that so far go up by 1, and the values of possible identifiers.

    With --features or --like there are none: the option or the file says which columns are features.
    """

    def __init__(self, task: Conversion, roles: Roles, names: Sequence[str]) -> None:
        self.all = () if roles.features or task.like is not None else tuple(names)
        self.pieces: list[tuple[int, int]] = []  # file and number of rows of each batch
        self.first: dict[str, list[float]] = {name: [] for name in self.all}  # the first value of each batch
        self.ids = {name: Spool(task.scratch, np.float64) for name in self.all if name.strip().casefold() in ID_NAMES}

    @property
    def names(self) -> set[str]:
        """The columns whose values are still needed."""
        return {*self.first, *self.ids}

    def add(self, batch: Batch) -> None:
        """Compare the values of rows. Raises OSError."""
        self.pieces.append((batch.file, batch.n_rows))
        for name in list(self.first):
            values = batch.columns[name]
            self.first[name].append(float(values[0]))
            if not np.array_equal(values, values[0] + np.arange(batch.n_rows)):
                del self.first[name]
        for name, spool in list(self.ids.items()):
            values = batch.columns[name]
            if np.array_equal(values, np.floor(values)):
                spool.append(values)
            else:
                del self.ids[name]


def leave_out_columns(task: Conversion, rows: NumberRows, search: RowNumberSearch, reasons: Mapping[str, str]) -> None:
    """Remove the features that only number or name the rows. Log which columns are not features. Collective.

    `reasons` are those of columns that are no features of `rows`. Raises ConfigError if no feature is left.
    """
    comm = task.comm
    parts = comm.allgather((search.pieces, search.first, list(search.ids)))
    files, sizes = np.array([piece for own, *_ in parts for piece in own] or [(0, 0)]).T  # of consecutive rows
    before = np.cumsum(sizes) - sizes
    in_file = before - before[np.searchsorted(files, files)]
    counts = ((before, sizes.sum()), (in_file, np.bincount(files, sizes).max()))  # of rows: over all files, or in each
    found: dict[str, str] = {}
    for name in search.all:
        first = [value for _, of_rank, _ in parts for value in of_rank.get(name, ())]
        goes_up = all(name in of_rank for _, of_rank, _ in parts)  # by 1, in each batch
        if goes_up and any(
            n_rows >= LEAST_ROWS and np.array_equal(first, count + base) for count, n_rows in counts for base in (0, 1)
        ):
            found[name] = "row number"
        elif all(name in ids for *_, ids in parts):
            with mpi.agreed(comm, "comparing identifiers"):
                values = search.ids[name][:]
                values = values[np.abs(values) < EXACT].astype(np.int64)
            received = Routing(comm, values % comm.size).send(values)
            if not mpi.agreed_any(comm, np.unique(received).size < received.size):
                found[name] = "unique whole numbers"
    reasons = {**reasons, **found}
    if reasons:
        few = ", ".join(f"{named(name)!r} ({why})" for name, why in list(reasons.items())[:FEW])
        more = f" and {len(reasons) - FEW} more" if len(reasons) > FEW else ""
        task.log(f"{task.what}: not used as features: {few}{more}; --features names the columns to use")
    with mpi.agreed(task.comm, f"reading {task.what}"):
        if found:
            rows.leave_out(found)
        if found and not rows.n_features:
            raise ConfigError(f"{task.what}: no column is left for features; name the columns to use with --features")


def read_table(
    task: Conversion, columns: list[list[str]], batches: Callable[[Roles, list[str]], Iterator[Batch]], index: Sequence[str] = ()
) -> Part:
    """Collective. This rank's rows of a table; `columns` are those of each file. Raises ConfigError, DataError.

    `batches` gives them, when it knows the columns' roles and which of them are features; `index` are the columns that the
    file calls an index.
    """
    what, names, options, like = str(task.what), columns[0], task.options, task.like
    corpus, roles, text_like = None, Roles.of(options, names), None if like is None else like.text
    if options.text or options.fields or text_like is not None:
        for name in ("missing_as_zero", "missing_columns_as_zero"):
            if getattr(options, name):
                raise OptionError(name, True, f"is for numbers, but --like {like.path} was made from texts; remove it")
        if text_like is not None and text_like.fields == PLAIN and not options.text:
            raise ConfigError(
                f"--like {like.path}: was made from texts that are not told apart; name the columns of texts with --text"
            )
        if text_like is not None and text_like.fields != PLAIN and options.text:
            fields = ", ".join(field.name for field in text_like.fields)
            raise ConfigError(f"--text does not go with --like {like.path}, which tells the columns {fields} apart; remove it")
        corpus = Corpus(task)
        roles = Roles.of(options, names, corpus.fields)
    with reading(task):
        for path, of_file in zip(task.inputs or [Path(what)], columns, strict=True):
            if (twice := repeated(of_file)) is not None:
                raise DataError(f"{path}: two columns have the name {twice!r}; give each a name of its own")
            if strange := set(of_file) ^ set(names):
                raise DataError(f"{path}: the columns are not those of {what} ({min(strange)!r} is in one of them only)")
        roles.check(what, names)
        features, reasons = choose_features(task, roles, {name: (name,) for name in names}, index)
        if "split" in names and "split" not in (name for _, name in roles.named()) and options.test_share is None:
            task.log(f"warning: {what}: the column split is not taken for the splits of the rows; --split-column split takes it")
        with_ids = roles.id is not None
        rows = None if corpus is not None else NumberRows(task, features, len(features), with_ids, others=names)
        if corpus is None and not features:
            raise ConfigError(f"{what}: no column is left for features; name columns of texts (--text) or of numbers (--features)")
        search = RowNumberSearch(task, roles, features)
        for batch in batches(roles, features):

            def add(some: Sequence[int], batch: Batch = batch) -> Batch:
                part = batch.part(some[0], some[-1] + 1)
                if corpus is not None:
                    _add_texts(corpus, part, roles, options)
                else:
                    _add_numbers(rows, part, features, roles, options)
                return part

            for part in task.bad.divided(range(batch.n_rows), add):
                if rows is not None:
                    search.add(part)
    if rows is not None:
        leave_out_columns(task, rows, search, reasons)
    task.log.detail(f"{what}: read; making rows")
    return finish(task, rows) if corpus is None else vectorise(task, corpus)


def _add_texts(corpus: Corpus, batch: Batch, roles: Roles, options: ConvertOptions) -> None:
    """Append rows that are made from texts, or none. Raises DataError that names the row, OSError."""
    told_apart = not roles.text
    labels, ids, splits, groups = _described(corpus, batch, roles, options)
    of_rows: list[Values] = []
    for row in range(batch.n_rows):
        values = texts_of_row(batch, row, roles.texts, told_apart)
        for field, texts in zip(roles.fields if told_apart else (), values, strict=False):
            if field.whole and any("\0" in text for text in texts):
                raise DataError(f"{batch.place(row)}: column {field.name!r}: a value with a NUL, which cannot be stored; remove it")
        of_rows.append(values)
    for row, of_fields in enumerate(of_rows):
        corpus.add(ids[row], of_fields, labels[row], splits[row], group=groups[row])


def _add_numbers(rows: NumberRows, batch: Batch, features: Sequence[str], roles: Roles, options: ConvertOptions) -> None:
    """Append rows of numbers, or none. Raises DataError that names the row, OSError."""

    blocks = list(batch.numbers(features, options.missing_as_zero))
    describe_rows(rows, batch, roles, options)
    for some in blocks:
        rows.add(some)


def describe_rows(rows: NumberRows, batch: Batch, roles: Roles, options: ConvertOptions, by_number: bool = False) -> None:
    """Append labels (not those `by_number`), ids and splits of rows, or nothing. Raises DataError that names the row, OSError."""
    labels, ids, splits, groups = _described(rows, batch, roles, options)
    splits, groups = splits if roles.split is not None else [], groups if roles.group is not None else []
    rows.describe(None if by_number else labels, ids, splits, groups=groups)


def _described(
    rows: LabelledRows, batch: Batch, roles: Roles, options: ConvertOptions
) -> tuple[list[list[str] | None], list[str], list[str], list[str]]:
    """Return the labels of each row by key (None: nobody labelled it), its name, split and group, "" for none. Raises DataError.

    A row is labelled if one of its cells of --labels is not empty, and none of its indicators is. With --empty-labels none each is.
    """
    if options.unique_ids:
        rows.places.append((len(rows.id_keys), batch.place))
    found = [_labels(batch, row, roles.labels, options.label_separator, rows.label_values) for row in range(batch.n_rows)]
    labels = [of_row or [] for of_row in found]
    unlabelled = np.array([of_row is None for of_row in found], dtype=bool) & bool(roles.labels or not roles.indicators)
    for name in roles.indicators:
        values = indicator_values(batch.columns[name])
        empty = np.isnan(values)
        unlabelled |= empty
        values = np.where(empty, 0.0, values)
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if wrong.size:
            row = int(wrong[0])
            shown = named(str(batch.columns[name][row]))
            raise DataError(f"{batch.place(row)}: column {name!r}: {shown}, but expected 1, 0, True or False (--indicators)")
        for row in np.flatnonzero(values).tolist():
            labels[row].append(name.strip())
    ids, splits = names_in_column(batch, roles.id), names_in_column(batch, roles.split)
    if roles.split is not None:
        for row, split in enumerate(splits):
            _checked(batch, row, roles.split, split, check_split_name)
    groups = names_in_column(batch, roles.group)
    if options.empty_labels is None and unlabelled.any():
        return [None if gone else of_row for of_row, gone in zip(labels, unlabelled.tolist(), strict=True)], ids, splits, groups
    return labels, ids, splits, groups


def _labels(batch: Batch, row: int, columns: Sequence[str], separator: str | None, values: LabelValues) -> list[str] | None:
    """Return the keys of the labels in the cells of some columns; None if all cells are empty, which an empty list is not."""
    found: list[str] = []
    has_list = False
    for name in columns:
        value, keys = batch.columns[name][row], values.keys[name]
        has_list |= isinstance(value, (list, tuple, np.ndarray)) and len(value) == 0
        for each in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
            if separator is None and type(each) is str and (key := keys.get(each)):
                found.append(key)
                continue
            text = _checked(batch, row, name, each, _as_written if values.as_text else _label)
            parts = [text.strip()] if separator is None else split_names(text, separator)
            found += [keys.get(part) or values.add(name, part, batch.place(row)) for part in parts if part]
    return found if found or has_list else None


def names_in_column(batch: Batch, column: str | None) -> list[str]:
    """Return the values of a column that names rows, or splits; "" for none."""
    if column is None:
        return [""] * batch.n_rows
    return [_checked(batch, row, column, value, _name) for row, value in enumerate(batch.columns[column])]


def unfit(value: float) -> str:
    """The reason why a number cannot be stored."""
    if math.isnan(value):
        return "no number, but every row needs one; fill it in, or take what is missing for 0 (--missing-as-zero)"
    return f"{value:g}, {FINITE}"


def _checked(batch: Batch, row: int, column: str, value: object, check: Callable[[Any], Any]) -> Any:
    """`check(value)`, whose ValueError becomes a DataError that names row and column."""
    try:
        return check(value)
    except ValueError as error:
        raise DataError(f"{batch.place(row)}: column {column!r}: {error}") from None


def _name(value: object) -> str:
    """A value as the name of a row, a split or a group; "" for a missing one. Raises ValueError."""
    if isinstance(value, (float, np.floating, Decimal)) and math.isfinite(value):
        if value != math.floor(value):
            raise ValueError(f"{value:g}, but expected a name or a whole number")
        return str(int(value)) if isinstance(value, Decimal) else label_name(float(value))
    return _as_written(value)


def _label(value: object) -> str:
    """A value of a column of labels as text; "" for a missing one. Raises ValueError, also for a list that is written as text."""
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == math.floor(value):
        return label_name(float(value))
    return check_no_list(_as_written(value))


def _as_written(value: object) -> str:
    """The text of a value, as pandas writes it to a CSV file; "" for a missing one. Raises ValueError."""
    if isinstance(value, str):
        if "\0" in value or not is_unicode(value):
            raise ValueError(f"{named(value)!r} holds a character that cannot be stored; remove it")
        return value
    if is_missing(value):
        return ""
    if isinstance(value, (bool, np.bool_, int, np.integer)) or (
        isinstance(value, (float, np.floating, Decimal)) and math.isfinite(value)
    ):
        return str(value)
    shown = f"{value:g}" if isinstance(value, (float, np.floating)) else type(value).__name__
    raise ValueError(f"{shown}, but expected a string or a whole number")


def texts_of_row(batch: Batch, row: int, columns: Sequence[str], told_apart: bool) -> Values:
    """Return the values of each field of a row of texts. Raises DataError that names row and column."""
    values = [_checked(batch, row, name, batch.columns[name][row], texts_of) for name in columns]
    return values if told_apart else [[], [text for texts in values for text in texts]]


def texts_of(value: object) -> list[str]:
    """The texts of a value. Raises ValueError."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, (list, tuple, np.ndarray)):
        return [text for each in value for text in texts_of(each)]
    if not is_missing(value):
        raise ValueError(f"{type(value).__name__}, but expected text")
    return []

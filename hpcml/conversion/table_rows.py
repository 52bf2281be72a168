"""The rows of a table on their way to a dataset: texts or numbers, labels, names and splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcml.conversion.fields import PLAIN, Field
from hpcml.conversion.number_rows import FINITE, NumberRows, dense_blocks
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.split import check_split_name
from hpcml.conversion.text import Corpus
from hpcml.data.in_memory import is_missing
from hpcml.data.svmlight import label_name
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.log import is_unicode, named


def listed(given: Iterable[str]) -> tuple[str, ...]:
    """The names in values such as "a,b", one after another."""
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


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
    def of(cls, options: ConvertOptions, fields: tuple[Field, ...]) -> Roles:
        """Those that the options name; `fields` are the ones of the corpus."""
        return cls(
            text=listed(options.text),
            fields=fields,
            labels=listed(options.labels),
            indicators=listed(options.indicators),
            id=options.id,
            split=options.split_column,
            group=options.group,
            features=listed(options.features) or None,
        )

    @property
    def is_text(self) -> bool:
        """Whether rows are made from text."""
        return bool(self.text) or self.fields != PLAIN

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of texts."""
        return self.text or (tuple(field.name for field in self.fields) if self.fields != PLAIN else ())

    def named(self) -> list[tuple[str, str]]:
        """(option, column) of every column that is named."""
        found = [("--text" if self.text else "--fields", name) for name in self.texts]
        found += [("--labels", name) for name in self.labels] + [("--indicators", name) for name in self.indicators]
        found += [("--id", self.id)] if self.id is not None else []
        found += [("--split-column", self.split)] if self.split is not None else []
        found += [("--group", self.group)] if self.group is not None else []
        return found + [("--features", name) for name in self.features or ()]

    def check(self, where: str, names: Collection[str], listed_by: str = "") -> None:
        """Raise ConfigError unless a table of these columns has those wanted, each once."""
        seen: dict[str, str] = {}
        known = set(names)
        for option, name in self.named():
            if name not in known:
                hint = nearest(name, names) or f"it has {len(names)} columns"
                raise ConfigError(f"{where}: {option} {name}: no such column; {hint}")
            if name in seen and {option, seen[name]} not in ({"--id", "--features"}, {"--id", "--group"}):
                also = "is named twice" if seen[name] == option else f"is named by {seen[name]}, too"
                raise ConfigError(f"{where}: {option} {name}: the column {also}; a column is for one thing")
            seen[name] = option


class Batch(NamedTuple):
    """Some rows: the values of each column with a role, and how messages name a row.

    Columns of features, and of indicators, are float64 arrays with NaN for what is missing; others
    are lists of strings, numbers, booleans, lists of them, and None.
    """

    n_rows: int
    columns: dict[str, Any]
    place: Callable[[int], object]
    file: int = 0  # which of the input files the rows are in, from 0


def numbered(what: object, first: int) -> Callable[[int], str]:
    """What messages call rows of `what`, of which the first is row `first`, from 0."""
    return lambda row: f"{what}: row {first + row + 1}"


def add_texts(corpus: Corpus, batch: Batch, roles: Roles, options: ConvertOptions) -> None:
    """Append rows that are made from texts. Raises DataError that names the row, OSError."""
    told_apart = not roles.text
    labels, ids, splits, groups = described(batch, roles, options)
    for row in range(batch.n_rows):
        values = [_checked(batch, row, name, batch.columns[name][row], _texts) for name in roles.texts]
        for field, texts in zip(roles.fields if told_apart else (), values, strict=False):
            if field.whole and any("\0" in text for text in texts):
                raise DataError(f"{batch.place(row)}: column {field.name!r}: a value with a NUL, which cannot be stored; remove it")
        of_fields = values if told_apart else [[], [text for texts in values for text in texts]]
        corpus.add(ids[row], of_fields, labels[row], splits[row], group=groups[row])


def add_numbers(rows: NumberRows, batch: Batch, features: Sequence[str], options: ConvertOptions) -> None:
    """Append X of rows. Raises DataError that names the row, OSError."""

    def take(begin: int, end: int) -> np.ndarray:
        return np.stack([batch.columns[name][begin:end] for name in features], axis=1)

    def wrong(row: int, column: int, value: float) -> str:
        return f"{batch.place(row)}: column {features[column]!r}: {unfit(value)}"

    for some in dense_blocks(take, (0, batch.n_rows), len(features), options.missing_as_zero, wrong):
        rows.add(some)


def describe_rows(rows: NumberRows, batch: Batch, roles: Roles, options: ConvertOptions, by_number: bool = False) -> None:
    """Append labels (not those added `by_number`), ids and splits of rows. Raises DataError that names the row, OSError."""
    labels, ids, splits, groups = described(batch, roles, options)
    splits, groups = splits if roles.split is not None else [], groups if roles.group is not None else []
    rows.describe(None if by_number else labels, ids, splits, groups=groups)


def described(
    batch: Batch, roles: Roles, options: ConvertOptions
) -> tuple[list[list[str] | None], list[str], list[str], list[str]]:
    """Return the labels of each row (None: nobody labelled it), its name, its split and its group, "" for none. Raises DataError.

    A row is labelled if one of its cells of --labels is not empty, and none of its indicators is. With --empty-labels none each is.
    """
    found = [_labels(batch, row, roles.labels, options.label_separator) for row in range(batch.n_rows)]
    labels = [of_row or [] for of_row in found]
    unlabelled = np.array([of_row is None for of_row in found], dtype=bool) & bool(roles.labels or not roles.indicators)
    for name in roles.indicators:
        values = batch.columns[name]
        empty = np.isnan(values)
        unlabelled |= empty
        values = np.where(empty, 0.0, values)
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if wrong.size:
            row = int(wrong[0])
            found_there = f"{values[row]:g}" if math.isfinite(values[row]) else "no number"
            raise DataError(f"{batch.place(row)}: column {name!r}: {found_there}, but expected 0 or 1 (--indicators)")
        for row in np.flatnonzero(values).tolist():
            labels[row].append(name)
    ids, splits = _names(batch, roles.id), _names(batch, roles.split)
    if roles.split is not None:
        for row, split in enumerate(splits):
            _checked(batch, row, roles.split, split, check_split_name)
    groups = _names(batch, roles.group)
    if options.empty_labels is None and unlabelled.any():
        return [None if gone else of_row for of_row, gone in zip(labels, unlabelled.tolist(), strict=True)], ids, splits, groups
    return labels, ids, splits, groups


def _labels(batch: Batch, row: int, columns: Sequence[str], separator: str | None) -> list[str] | None:
    """Return the labels in the cells of some columns; None if all cells are empty, which an empty list is not."""
    found: list[str] = []
    has_list = False
    for name in columns:
        value = batch.columns[name][row]
        has_list |= isinstance(value, (list, tuple, np.ndarray)) and len(value) == 0
        for each in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
            text = _checked(batch, row, name, each, _label)
            parts = [text] if separator is None else text.split(separator)
            found += [part.strip() for part in parts if part.strip()]
    return found if found or has_list else None


def _names(batch: Batch, column: str | None) -> list[str]:
    """Return the values of a column that names rows, or splits; "" for none."""
    if column is None:
        return [""] * batch.n_rows
    return [_checked(batch, row, column, value, _label) for row, value in enumerate(batch.columns[column])]


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


def _label(value: object) -> str:
    """A value as the name of a label, a row or a split; "" for a missing one. Raises ValueError."""
    if isinstance(value, str):
        if "\0" in value or not is_unicode(value):
            raise ValueError(f"{named(value)!r} holds a character that cannot be stored; remove it")
        return value
    if is_missing(value):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        if math.isfinite(value) and value == math.floor(value):
            return label_name(float(value))
        raise ValueError(f"{value:g}, but expected a name or a whole number (divide quantities into classes first)")
    raise ValueError(f"{type(value).__name__}, but expected a string or a whole number")


def _texts(value: object) -> list[str]:
    """The texts of a value. Raises ValueError."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, (list, tuple, np.ndarray)):
        return [text for each in value for text in _texts(each)]
    if not is_missing(value):
        raise ValueError(f"{type(value).__name__}, but expected text")
    return []

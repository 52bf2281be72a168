"""Tables: options give the roles of columns; rows become texts or numbers with labels, ids and splits.

A pandas index, a row number or an identifier carries no information about new rows, but in a sorted file it reveals the labels, so
such columns are not used as features. Row numbers and identifiers are detected while the rows are read: a rank keeps the first row
number of each batch and the values of possible identifiers, and the ranks compare them after the last row.
"""

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Self

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
from hpcml.data.row_keys import flag_repeats
from hpcml.data.svmlight import label_name
from hpcml.errors import ConfigError, DataError, OptionError, nearest_name, repeated
from hpcml.files.spool import DiskArray
from hpcml.files.table import split_names
from hpcml.log import is_unicode, named
from hpcml.options import quoted_name

PANDAS_INDEX = re.compile(r"(Unnamed: 0(\.\d+)?|__index_level_\d+__)?")
ID_NAMES = ("id", "index")
MIN_ROWS = 3  # fewer rows may hold 0, 1 or 1, 2 by chance
EXACT = 2.0**53  # float64 represents all whole numbers below this exactly
NAME_COLUMNS = "name columns with --features, --labels, --id or --text"
FEW = 6  # columns named in the log


@dataclass(frozen=True)
class Roles:
    text: tuple[str, ...] = ()
    fields: tuple[Field, ...] = PLAIN  # separate text fields
    labels: tuple[str, ...] = ()
    indicators: tuple[str, ...] = ()
    id: str | None = None
    split: str | None = None
    group: str | None = None
    features: tuple[str, ...] | None = None  # None: all columns without another role

    @classmethod
    def from_options(cls, options: ConvertOptions, names: Collection[str], fields: tuple[Field, ...] = PLAIN) -> Self:
        """A name matches a column with the same white space around it or, if there is none, the column without it."""
        lists = (options.text, options.labels, options.indicators, options.features)
        known = set(names)
        stripped = (tuple(name if name in known else name.strip() for name in of_option) for of_option in lists)
        text, labels, indicators, features = stripped
        return cls(text, fields, labels, indicators, options.id, options.split_column, options.group, features or None)

    @property
    def texts(self) -> tuple[str, ...]:
        return self.text or (tuple(field.name for field in self.fields) if self.fields != PLAIN else ())

    def named_columns(self) -> list[tuple[str, str]]:
        columns = [("--text" if self.text else "--fields", name) for name in self.texts]
        columns += [("--labels", name) for name in self.labels] + [("--indicators", name) for name in self.indicators]
        others = {"--id": self.id, "--split-column": self.split, "--group": self.group}
        columns += [(option, name) for option, name in others.items() if name is not None]
        return columns + [("--features", name) for name in self.features or ()]

    def check(self, where: str, names: Collection[str]) -> None:
        seen: dict[str, str] = {}
        known = set(names)
        for option, name in self.named_columns():
            if name not in known:
                near = next((each for each in names if name in map(str.strip, each.split(","))), None)
                near = nearest_name(name, names) if near is None else near
                if f'"{name}"' in known:
                    hint = "column names are quoted; use --quotes"
                elif near is not None:
                    form = "" if near == quoted_name(near) else f" Write {option} {shlex.quote(quoted_name(near))}"
                    hint = f"did you mean {near!r}?{form}"
                else:
                    every = ", ".join(map(quoted_name, sorted(names)))
                    hint = f"known: {every}" if len(names) <= FEW else f"it has {len(names)} columns"
                raise ConfigError(f"{where}: {option} {name}: no such column; {hint}")
            if name in seen and {option, seen[name]} not in ({"--id", "--features"}, {"--id", "--group"}):
                also = "is named twice" if seen[name] == option else f"is also named by {seen[name]}"
                raise ConfigError(f"{where}: {option} {name}: the column {also}; a column has one role")
            seen[name] = option
        if (twice := repeated([name.strip() for name in self.indicators])) is not None:
            raise ConfigError(f"{where}: --indicators: two labels have the name {twice!r}; rename one")


class Batch(NamedTuple):
    """Feature columns are float64 arrays, NaN: missing; indicator columns may be; other columns are lists of values and None."""

    n_rows: int
    columns: dict[str, Any]
    locate: Callable[[int], object]
    file: int = 0  # number of the input file, from 0

    def part(self, begin: int, end: int) -> Self:
        if end - begin == self.n_rows:
            return self
        columns = {name: values[begin:end] for name, values in self.columns.items()}
        return type(self)(end - begin, columns, lambda row: self.locate(begin + row), self.file)

    def numbers(self, names: Sequence[str], zero: bool = False, *advice: str) -> Iterator[NumberSlice]:
        """`zero`: NaN is 0. Raises DataError with `advice`."""

        def take(begin: int, end: int) -> np.ndarray:
            return np.stack([self.columns[name][begin:end] for name in names], axis=1)

        def wrong(row: int, column: int, value: float) -> str:
            return f"{self.locate(row)}: column {names[column]!r}: {invalid_number(value, *advice)}"

        return dense_blocks(take, (0, self.n_rows), len(names), zero, wrong)


ReadBatches = Callable[[Roles, list[str]], Iterator[Batch]]  # takes the roles and the feature columns


def row_namer(what: object, first: int) -> Callable[[int], str]:
    return lambda row: f"{what}: row {first + row + 1}"


def columns_to_read(roles: Roles, features: Sequence[str]) -> tuple[list[str], list[str]]:
    numbers = dict.fromkeys(features)
    return list(numbers), list(dict.fromkeys(name for _, name in roles.named_columns() if name not in numbers))


def choose_features(
    task: Conversion, roles: Roles, columns: Mapping[str, Iterable[str]], index: Iterable[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the feature columns, and the reasons why other columns are not features. `index`: index columns of the file."""
    if roles.texts or roles.features:
        return list(roles.features or ()), {}
    named = {name for _, name in roles.named_columns()}
    known = None if task.like is None or task.like.feature_names is None else set(task.like.feature_names)
    features: list[str] = []
    reasons: dict[str, str] = {}
    for name, becomes in columns.items():
        if known is not None and not known.isdisjoint(becomes) and (name not in named or name == roles.id):
            features.append(name)
        elif name == roles.id:
            reasons[name] = "row names"
        elif name in named:
            continue
        elif PANDAS_INDEX.fullmatch(name.strip()) or name in index:
            reasons[name] = "pandas index"
        elif known is not None:
            reasons[name] = "not in --like"
        else:
            features.append(name)
    return features, reasons


class RowNumberSearch:
    def __init__(self, task: Conversion, roles: Roles, names: Sequence[str]) -> None:
        self.all = () if roles.features or task.like is not None else tuple(names)
        self.pieces: list[tuple[int, int]] = []  # file and number of rows of each batch
        self.first: dict[str, list[float]] = {name: [] for name in self.all}  # the first value of each batch
        self.ids = {name: DiskArray(task.scratch, np.float64) for name in self.all if name.strip().casefold() in ID_NAMES}

    @property
    def names(self) -> set[str]:
        return {*self.first, *self.ids}

    def add(self, batch: Batch) -> None:
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
    """Remove row numbers and identifiers from the features. Collective. Raises ConfigError if no feature remains."""
    comm = task.comm
    parts = comm.allgather((search.pieces, search.first, list(search.ids)))
    files, sizes = np.array([piece for own, *_ in parts for piece in own] or [(0, 0)]).T  # of consecutive batches
    before = np.cumsum(sizes) - sizes
    in_file = before - before[np.searchsorted(files, files)]
    counts = ((before, sizes.sum()), (in_file, np.bincount(files, sizes).max()))  # row numbers over all files, or per file
    detected: dict[str, str] = {}
    for name in search.all:
        first = [value for _, rank_values, _ in parts for value in rank_values.get(name, ())]
        goes_up = all(name in rank_values for _, rank_values, _ in parts)  # by 1 in each batch
        is_count = (n_rows >= MIN_ROWS and np.array_equal(first, count + base) for count, n_rows in counts for base in (0, 1))
        if goes_up and any(is_count):
            detected[name] = "row number"
        elif all(name in ids for *_, ids in parts):
            with mpi.agreed(comm, "comparing identifiers"):
                values = search.ids[name][:]
                keys = values[np.abs(values) < EXACT].astype(np.int64).view(np.uint64)
            if not mpi.agreed_any(comm, bool(flag_repeats(comm, keys).any())):
                detected[name] = "unique whole numbers"
    reasons = {**reasons, **detected}
    if reasons:
        few = ", ".join(f"{named(name)!r} ({why})" for name, why in list(reasons.items())[:FEW])
        more = f" and {len(reasons) - FEW} more" if len(reasons) > FEW else ""
        task.log(f"{task.input_name}: not used as features: {few}{more}; choose feature columns with --features")
    with mpi.agreed(task.comm, f"reading {task.input_name}"):
        if detected:
            rows.leave_out(detected)
        if detected and not rows.n_features:
            raise ConfigError(f"{task.input_name}: no feature column remains; name feature columns with --features")


def read_table(task: Conversion, columns: Sequence[Sequence[str]], batches: ReadBatches, index: Sequence[str] = ()) -> Part:
    what, names, options, like = str(task.input_name), columns[0], task.options, task.like
    corpus, roles, text_like = None, Roles.from_options(options, names), None if like is None else like.text
    if options.text or options.fields or text_like is not None:
        for name in ("missing_as_zero", "missing_columns_as_zero"):
            if getattr(options, name):
                raise OptionError(name, True, f"is for numbers, but --like {like.path} was made from text; remove it")
        if text_like is not None and text_like.fields == PLAIN and not options.text:
            raise ConfigError(f"--like {like.path}: was made from text without separate fields; name the text columns with --text")
        if text_like is not None and text_like.fields != PLAIN and options.text:
            fields = ", ".join(field.name for field in text_like.fields)
            raise ConfigError(f"--text has no effect with --like {like.path}, which has the fields {fields}; remove it")
        corpus = Corpus(task)
        roles = Roles.from_options(options, names, corpus.fields)
    with reading(task):
        for path, file_columns in zip(task.inputs or [Path(what)], columns, strict=True):
            if (twice := repeated(file_columns)) is not None:
                raise DataError(f"{path}: two columns have the name {twice!r}; rename one")
            if strange := set(file_columns) ^ set(names):
                raise DataError(f"{path}: expected the columns of {what} ({min(strange)!r} is in only one of the files)")
        roles.check(what, names)
        features, reasons = choose_features(task, roles, {name: (name,) for name in names}, index)
        if "split" in names and "split" not in (name for _, name in roles.named_columns()) and options.test_share is None:
            task.log(f"warning: {what}: the column split is not used; use --split-column split for the splits of the rows")
        with_ids = roles.id is not None
        rows = None if corpus is not None else NumberRows(task, features, len(features), with_ids, others=names)
        if corpus is None and not features:
            raise ConfigError(f"{what}: no feature column remains; name text columns (--text) or numeric columns (--features)")
        search = RowNumberSearch(task, roles, features)
        for batch in batches(roles, features):

            def add(numbers: Sequence[int], batch: Batch = batch) -> Batch:
                part = batch.part(numbers[0], numbers[-1] + 1)
                if corpus is not None:
                    _add_texts(corpus, part, roles, options)
                else:
                    blocks = list(part.numbers(features, options.missing_as_zero))
                    describe_rows(rows, part, roles, options)
                    for block in blocks:
                        rows.add(block)
                return part

            for part in task.bad.divided(range(batch.n_rows), add):
                if rows is not None:
                    search.add(part)
    if rows is not None:
        leave_out_columns(task, rows, search, reasons)
    return finish(task, rows) if corpus is None else vectorise(task, corpus)


def _add_texts(corpus: Corpus, batch: Batch, roles: Roles, options: ConvertOptions) -> None:
    has_fields = not roles.text
    labels, ids, splits, groups = _described(corpus, batch, roles, options)
    row_values: list[Values] = []
    for row in range(batch.n_rows):
        values = texts_of_row(batch, row, roles.texts, has_fields)
        for field, texts in zip(roles.fields if has_fields else (), values, strict=False):
            if field.whole and any("\0" in text for text in texts):
                where = f"{batch.locate(row)}: column {field.name!r}"
                raise DataError(f"{where}: a value contains NUL, which cannot be stored; remove it")
        row_values.append(values)
    for row, values in enumerate(row_values):
        corpus.add(ids[row], values, labels[row], splits[row], group=groups[row])


def describe_rows(rows: NumberRows, batch: Batch, roles: Roles, options: ConvertOptions, by_number: bool = False) -> None:
    """Append rows. A DataError is raised before anything is appended."""
    labels, ids, splits, groups = _described(rows, batch, roles, options)
    splits, groups = splits if roles.split is not None else [], groups if roles.group is not None else []
    rows.describe(None if by_number else labels, ids, splits, groups=groups)


def _described(
    rows: LabelledRows, batch: Batch, roles: Roles, options: ConvertOptions
) -> tuple[list[list[str] | None], list[str], list[str], list[str]]:
    """A row is labelled if a cell of --labels is not empty and no indicator is missing, or with --empty-labels none."""
    if options.unique_ids:
        rows.locations.append((len(rows.id_keys), batch.locate))
    label_keys = [_labels(batch, row, roles.labels, options.label_separator, rows.label_values) for row in range(batch.n_rows)]
    labels = [row_keys or [] for row_keys in label_keys]
    unlabelled = np.array([row_keys is None for row_keys in label_keys], dtype=bool) & bool(roles.labels or not roles.indicators)
    for name in roles.indicators:
        values = indicator_values(batch.columns[name])
        empty = np.isnan(values)
        unlabelled |= empty
        values = np.where(empty, 0.0, values)
        wrong = np.flatnonzero((values != 0) & (values != 1))
        if wrong.size:
            row = int(wrong[0])
            value = named(str(batch.columns[name][row]))
            raise DataError(f"{batch.locate(row)}: column {name!r}: {value}, but expected 1, 0, True or False (--indicators)")
        for row in np.flatnonzero(values).tolist():
            labels[row].append(name.strip())
    ids, splits = names_in_column(batch, roles.id), names_in_column(batch, roles.split)
    if roles.split is not None:
        for row, split in enumerate(splits):
            _checked(batch, row, roles.split, split, check_split_name)
    if options.empty_labels is not None:
        unlabelled[:] = False
    described = [None if is_unlabelled else row_keys for row_keys, is_unlabelled in zip(labels, unlabelled.tolist(), strict=True)]
    return described, ids, splits, names_in_column(batch, roles.group)


def _labels(batch: Batch, row: int, columns: Sequence[str], separator: str | None, values: LabelValues) -> list[str] | None:
    label_keys: list[str] = []
    has_list = False
    for name in columns:
        value, keys = batch.columns[name][row], values.keys[name]
        has_list |= isinstance(value, (list, tuple, np.ndarray)) and len(value) == 0
        for each in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
            if separator is None and type(each) is str and (key := keys.get(each)):
                label_keys.append(key)
                continue
            text = _checked(batch, row, name, each, _as_written if values.as_text else _label)
            parts = [text.strip()] if separator is None else split_names(text, separator)
            label_keys += [keys.get(part) or values.add(name, part, batch.locate(row)) for part in parts if part]
    return label_keys if label_keys or has_list else None


def names_in_column(batch: Batch, column: str | None) -> list[str]:
    if column is None:
        return [""] * batch.n_rows
    return [_checked(batch, row, column, value, _name) for row, value in enumerate(batch.columns[column])]


def invalid_number(value: float, advice: str = "use --missing-as-zero") -> str:
    if math.isnan(value):
        return f"missing number; fill it in, or {advice}"
    return f"{value:g}, {FINITE}"


def _checked(batch: Batch, row: int, column: str, value: object, check: Callable[[Any], Any]) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise DataError(f"{batch.locate(row)}: column {column!r}: {error}") from None


def _name(value: object) -> str:
    if isinstance(value, (float, np.floating, Decimal)) and math.isfinite(value):
        if value != math.floor(value):
            raise ValueError(f"{value:g}, but expected a name or a whole number")
        return str(int(value)) if isinstance(value, Decimal) else label_name(float(value))
    return _as_written(value)


def _label(value: object) -> str:
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and value == math.floor(value):
        return label_name(float(value))
    return check_no_list(_as_written(value))


def _as_written(value: object) -> str:
    """Return a value as pandas writes it to CSV; "" if missing."""
    if isinstance(value, str):
        if "\0" in value or not is_unicode(value):
            raise ValueError(f"{named(value)!r} contains a character that cannot be stored; remove it")
        return value
    if is_missing(value):
        return ""
    is_finite = isinstance(value, (float, np.floating, Decimal)) and math.isfinite(value)
    if is_finite or isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(value)
    description = f"{value:g}" if isinstance(value, (float, np.floating)) else type(value).__name__
    raise ValueError(f"{description}, but expected a string or a whole number")


def texts_of_row(batch: Batch, row: int, columns: Sequence[str], has_fields: bool) -> Values:
    values = [_checked(batch, row, name, batch.columns[name][row], to_texts) for name in columns]
    return values if has_fields else [[], [text for texts in values for text in texts]]


def to_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, (list, tuple, np.ndarray)):
        return [text for each in value for text in to_texts(each)]
    if not is_missing(value):
        raise ValueError(f"{type(value).__name__}, but expected text")
    return []

"""Tables: options name their columns; rows become texts or numbers, with labels. CSV and TSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.csv_rows import Dialect, Segment, divide, read_header, read_rows
from hpcml.conversion.feature_columns import RowNumberSearch, choose_features, leave_out_columns
from hpcml.conversion.fields import PLAIN
from hpcml.conversion.number_rows import ZERO_COLUMNS, NumberRows, finish
from hpcml.conversion.part import Part
from hpcml.conversion.table_rows import Batch, Roles, add_numbers, add_texts, describe_rows
from hpcml.conversion.text import Corpus, new_corpus, vectorise
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import plain_size
from hpcml.log import is_unicode
from hpcml.partition import bounds_in_items

CSV_BLOCK = 1 << 20  # bytes of rows that become one batch


def corpus_and_roles(task: Conversion) -> tuple[Corpus | None, Roles]:
    """Collective. Where texts go (None: numbers), and the roles. Raises ConfigError."""
    options, like = task.options, task.like
    text_like = None if like is None else like.text
    if not options.text and not options.fields and text_like is None:
        return None, Roles.of(options, PLAIN)
    if options.features:
        raise ConfigError(f"--features {','.join(options.features)}: rows are made from texts or from numbers; leave one out")
    for flag, given in {"--missing-as-zero": options.missing_as_zero, ZERO_COLUMNS: options.missing_columns_as_zero}.items():
        if given and like is not None:
            raise ConfigError(f"{flag} is for numbers, but --like {like.path} was made from texts; leave it out")
    if text_like is not None and text_like.fields == PLAIN and not options.text:
        raise ConfigError(f"--like {like.path}: was made from texts that are not told apart; name the columns of texts with --text")
    if text_like is not None and text_like.fields != PLAIN and options.text:
        names = ", ".join(field.name for field in text_like.fields)
        raise ConfigError(f"--text does not go with --like {like.path}, which tells the columns {names} apart; leave it out")
    corpus = new_corpus(task)
    return corpus, Roles.of(options, corpus.fields)


def read_table(
    task: Conversion, names: Sequence[str], batches: Callable[[Roles, list[str]], Iterator[Batch]], index: Sequence[str] = ()
) -> Part:
    """Collective. This rank's rows of a table with these columns. Raises ConfigError, DataError.

    `batches` gives them, when it knows the columns' roles and which of them are features; `index` are the columns that the
    file calls an index.
    """
    what = str(task.what)
    corpus, roles = corpus_and_roles(task)
    with task.reading():
        roles.check(what, names)
        features, reasons = choose_features(task, roles, {name: (name,) for name in names}, index)
        if "split" in names and "split" not in (name for _, name in roles.named()) and task.options.test_share is None:
            task.log(f"warning: {what}: the column split is not taken for the splits of the rows; --split-column split takes it")
        with_ids = roles.id is not None
        rows = None if corpus is not None else NumberRows(task, features, len(features), with_ids, others=names)
        if corpus is None and not features:
            raise ConfigError(f"{what}: no column is left for features; name columns of texts (--text) or of numbers (--features)")
        search = RowNumberSearch(task, roles, features)
        for batch in batches(roles, features):
            if corpus is not None:
                add_texts(corpus, batch, roles, task.options)
            else:
                add_numbers(rows, batch, features, task.options)
                describe_rows(rows, batch, roles, task.options)
                search.add(batch)
    if rows is not None:
        leave_out_columns(task, rows, search, reasons)
    task.log(f"{what}: read; making rows")
    return finish(task, rows) if corpus is None else vectorise(task, corpus)


def wanted(roles: Roles, features: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that are read: those of numbers, and the others."""
    numbers = dict.fromkeys([*features, *roles.indicators])
    return list(numbers), list(dict.fromkeys(name for _, name in roles.named() if name not in numbers))


def read_csv(task: Conversion) -> Part:
    """Collective. Read this rank's rows of CSV files. Raises DataError with the line."""
    return _read_separated(task, task.options.delimiter or ",")


def read_tsv(task: Conversion) -> Part:
    """Collective. As `read_csv`, with tabs between the columns."""
    return _read_separated(task, "\t")


def _read_separated(task: Conversion, delimiter: str) -> Part:
    """Collective. Rank 0 finds where rows end, then each rank reads its own."""
    dialect = Dialect(delimiter, "" if task.options.no_quotes else '"')
    of_file, parts = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _divided(task, dialect))

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        columns = wanted(roles, features)
        for file, segment in enumerate(parts[task.comm.rank]):
            for batch in _csv_batches(segment, of_file[segment.path], dialect, columns, task.max_line):
                yield batch._replace(file=file)

    return read_table(task, of_file[task.inputs[0]], batches)


def _divided(task: Conversion, dialect: Dialect) -> tuple[dict[Path, list[str]], list[list[Segment]]]:
    """Return the columns of each file, and the rows that each rank reads: about as many bytes for each."""
    what, tables = task.what, [read_header(path, dialect, task.max_line) for path in task.inputs]
    names = tables[0].names
    for table in tables:
        if strange := set(table.names) ^ set(names):
            raise DataError(
                f"{table.path}: line 1: the columns are not those of {what} ({next(iter(strange))!r} is in one of them only)"
            )
    check_delimiter(what, names, dialect.delimiter)
    Roles.of(task.options, PLAIN).check(str(what), names)
    bounds = bounds_in_items([plain_size(table.path) - table.begin for table in tables], task.comm.size)
    divided = [divide(table, of_table, dialect, task.max_line) for table, of_table in zip(tables, bounds, strict=True)]
    return {table.path: table.names for table in tables}, [list(parts) for parts in zip(*divided, strict=True)]


def check_delimiter(what: object, names: Sequence[str], delimiter: str) -> None:
    """Raise ConfigError for a header that is one name with other delimiters in it."""
    if len(names) > 1:
        return
    for other, way in ((";", "--delimiter ';'"), ("\t", "convert tsv"), ("|", "--delimiter '|'"), (",", "convert csv")):
        if other in names[0] and other != delimiter:
            raise ConfigError(
                f"{what}: line 1: one column, {names[0][:60]!r}; what stands between columns seems to be {other!r}: use {way}"
            )


def _csv_batches(
    segment: Segment, names: list[str], dialect: Dialect, columns: tuple[list[str], list[str]], max_line: int
) -> Iterator[Batch]:
    """Yield the rows of a segment. Raises DataError, OSError."""
    rows: list[list[str]] = []
    lines: list[int] = []
    begin = segment.begin
    for end, line, values in read_rows(segment, names, dialect, max_line):
        rows.append(values)
        lines.append(line)
        if end - begin >= CSV_BLOCK:
            yield _csv_batch(segment.path, rows, lines, names, columns)
            rows, lines, begin = [], [], end
    if rows:
        yield _csv_batch(segment.path, rows, lines, names, columns)


def _csv_batch(
    path: Path, rows: list[list[str]], lines: list[int], names: list[str], columns: tuple[list[str], list[str]]
) -> Batch:
    """Return rows as a batch. Raises DataError that names line and column."""

    def place(row: int) -> str:
        return f"{path}: line {lines[row]}"

    column_of = {name: column for column, name in enumerate(names)}
    numbers, others = ([column_of[name] for name in some] for some in columns)
    found: dict[str, Any] = {}
    if numbers:
        of_row = itemgetter(*numbers) if len(numbers) > 1 else lambda row: (row[numbers[0]],)
        values = list(chain.from_iterable(map(of_row, rows)))
        try:
            table = _as_numbers(values)
        except ValueError:
            wrong = next(number for number, value in enumerate(values) if not _is_number(value))
            row, column = divmod(wrong, len(numbers))
            shown = values[wrong][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise DataError(
                f"{place(row)}: column {columns[0][column]!r}: {shown!r}, but expected a number; name columns with --features, "
                "--labels, --id or --text"
            ) from None
        found = dict(zip(columns[0], table.reshape(len(rows), len(numbers)).T, strict=True))
    for name, column in zip(columns[1], others, strict=True):
        texts = [row[column] for row in rows]
        if not is_unicode("".join(texts)):
            row = next(row for row, text in enumerate(texts) if not is_unicode(text))
            shown = texts[row][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise DataError(f"{place(row)}: column {name!r}: {shown!r} is not UTF-8; save the file as UTF-8")
        found[name] = texts
    return Batch(len(rows), found, place)


def _as_numbers(values: list[str]) -> np.ndarray:
    """Return float64, NaN for "". Raises ValueError."""
    try:
        found = np.fromiter(map(float, values), np.float64, len(values))
    except ValueError:
        found = np.fromiter((float(value or "nan") for value in values), np.float64, len(values))
    if "_" in (together := "".join(values)) or not together.isascii():
        raise ValueError("float() takes underscores and the digits of other scripts")
    return found


def _is_number(value: str) -> bool:
    try:
        float(value or "0")
    except ValueError:
        return False
    return "_" not in value and value.isascii()

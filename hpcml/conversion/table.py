"""Tables: options name their columns; rows become texts or numbers, with labels. CSV and TSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.fields import PLAIN
from hpcml.conversion.part import Part
from hpcml.conversion.table_rows import Batch, Roles, TableRows
from hpcml.conversion.text import Corpus, new_corpus
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import plain_size

if TYPE_CHECKING:
    from hpcml.files.records import Dialect, Segment

CSV_BLOCK = 1 << 22  # bytes that are looked at together
COLUMN_BYTES = 256  # and at least so many for each column: what a block costs grows with the columns


def import_pyarrow(what: str) -> Any:
    """The module pyarrow. Raises ConfigError without it."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(f"{what} needs the package pyarrow; install it: pip install 'hpcml[tables]'") from None
    return pyarrow


def corpus_and_roles(task: Conversion) -> tuple[Corpus | None, Roles]:
    """Collective. Where texts go (None: numbers), and the roles. Raises ConfigError."""
    options, like = task.options, task.like
    text_like = None if like is None else like.text
    if not options.text and not options.fields and text_like is None:
        return None, Roles.of(options, PLAIN)
    if options.features:
        raise ConfigError(f"--features {','.join(options.features)}: rows are made from texts or from numbers; leave one out")
    if text_like is not None and text_like.fields == PLAIN and not options.text:
        raise ConfigError(f"--like {like.path}: was made from texts that are not told apart; name the columns of texts with --text")
    if text_like is not None and text_like.fields != PLAIN and options.text:
        names = ", ".join(field.name for field in text_like.fields)
        raise ConfigError(f"--text does not go with --like {like.path}, which tells the columns {names} apart; leave it out")
    corpus = new_corpus(task)
    return corpus, Roles.of(options, corpus.fields)


def read_table(task: Conversion, names: Sequence[str], batches: Callable[[Roles, list[str]], Iterator[Batch]]) -> Part:
    """Collective. This rank's rows of a table with these columns. Raises ConfigError, DataError.

    `batches` gives them, when it knows the columns' roles and which of them are features.
    """
    what = str(task.what)
    corpus, roles = corpus_and_roles(task)
    with task.reading():
        roles.check(what, names)
        features = roles.numbers(names)
        if "split" in names and "split" not in (name for _, name in roles.named()) and task.options.test_share is None:
            task.log(f"warning: {what}: the column split is not taken for the splits of the rows; --split-column split takes it")
        if corpus is None and not features:
            raise ConfigError(f"{what}: no column is left for features; name columns of texts (--text) or of numbers (--features)")
        rows = TableRows(task, roles, features, corpus)
        for batch in batches(roles, features):
            rows.add(batch)
    task.log(f"{what}: read; making rows")
    return rows.finish()


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
    from hpcml.files.records import Dialect

    dialect = Dialect(delimiter, "" if task.options.no_quotes else '"')
    with task.reading():
        import_pyarrow("csv")
    with mpi.node_first(task.comm):
        _compile()
    of_file, parts = task.from_root(lambda: _divided(task, dialect))

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        columns = wanted(roles, features)
        for segment in parts[task.comm.rank]:
            yield from _csv_batches(segment, of_file[segment.path], dialect, columns, task.max_line)

    return read_table(task, of_file[task.inputs[0]], batches)


def _divided(task: Conversion, dialect: Dialect) -> tuple[dict[Path, list[str]], list[list[Segment]]]:
    """The columns of each file, and what each rank reads. Raises ConfigError, DataError."""
    from hpcml.files.records import read_header, segments

    what, tables = task.what, [read_header(path, dialect, task.max_line) for path in task.inputs]
    names = tables[0].names
    for table in tables:
        if strange := set(table.names) ^ set(names):
            raise DataError(
                f"{table.path}: line 1: the columns are not those of {what} ({next(iter(strange))!r} is in one of them only)"
            )
    check_delimiter(what, names, dialect.delimiter)
    Roles.of(task.options, PLAIN).check(str(what), names)
    parts = segments(tables, [plain_size(table.path) for table in tables], dialect, task.comm.size)
    return {table.path: table.names for table in tables}, parts


def check_delimiter(what: object, names: Sequence[str], delimiter: str) -> None:
    """Raise ConfigError for a header that is one name with other delimiters in it."""
    if len(names) > 1:
        return
    for other, way in ((";", "--delimiter ';'"), ("\t", "convert tsv"), ("|", "--delimiter '|'"), (",", "convert csv")):
        if other in names[0] and other != delimiter:
            raise ConfigError(
                f"{what}: line 1: one column, {names[0][:60]!r}; what stands between columns seems to be {other!r}: use {way}"
            )


def _compile() -> None:
    """Compile, or load, what finds the ends of rows."""
    from hpcml.files.records import codes
    from hpcml.kernels import row_ends as kernels

    kernels.last_end(codes(b"a\n"), 44, 34)


def _csv_batches(
    segment: Segment, names: list[str], dialect: Dialect, columns: tuple[list[str], list[str]], max_line: int
) -> Iterator[Batch]:
    """The rows of a segment. Raises DataError, OSError."""
    import pyarrow
    from pyarrow import csv

    from hpcml.files.records import record_blocks

    numbers, others = columns
    types = dict.fromkeys(numbers, pyarrow.float64()) | dict.fromkeys(others, pyarrow.string())
    convert = csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=False)
    parse = csv.ParseOptions(delimiter=dialect.delimiter, quote_char=dialect.quote or False, newlines_in_values=True)
    for lines, text in record_blocks(segment, dialect, max_line, max(CSV_BLOCK, COLUMN_BYTES * len(names))):
        if text.isspace():
            continue
        block = _CsvBlock(segment.path, lines, text, dialect)
        read = csv.ReadOptions(use_threads=False, column_names=names, block_size=len(text) + 1)
        try:
            table = csv.read_csv(pyarrow.BufferReader(text), read, parse, convert)
        except pyarrow.ArrowInvalid as error:
            raise DataError(block.problem(names, columns, str(error))) from None
        found = {name: table.column(name).to_numpy() for name in numbers}
        yield Batch(table.num_rows, found | {name: table.column(name).to_pylist() for name in others}, block.place)


class _CsvBlock(NamedTuple):
    """Whole rows of a file, behind so many lines."""

    path: Path
    lines: int
    text: bytes
    dialect: Dialect

    def row(self, number: int) -> tuple[str, list[bytes]]:
        """Where a row is, and its values. Raises ValueError."""
        from hpcml.files.records import row_at

        before, values = row_at(self.text, self.dialect, number)
        return f"{self.path}: line {self.lines + before + 1}", values

    def place(self, number: int) -> str:
        """Where a row is."""
        return self.row(number)[0]

    def problem(self, names: list[str], columns: tuple[list[str], list[str]], said: str) -> str:
        """The sentence about a row that pyarrow refuses; it is looked at again."""
        found = re.search(r"Row #(\d+): (.*)", said, re.DOTALL)
        if found is None:
            return f"{self.path}: line {self.lines + 1} or below: {said}"
        try:
            place, values = self.row(int(found[1]) - 1)
        except ValueError:
            return f"{self.path}: line {self.lines + 1} or below: {found[2]}"
        if len(values) != len(names):
            return f"{place}: {len(values)} values, but the header names {len(names)} columns"
        of_numbers, of_others = map(set, columns)
        for name, value in zip(names, values, strict=True):
            shown = value[:100].decode("utf-8", "backslashreplace")
            if name in of_numbers and not _is_number(value):
                return (
                    f"{place}: column {name!r}: {shown!r}, but expected a number; name columns with --features, --labels or --text"
                )
            if name in of_others and not _is_utf8(value):
                return f"{place}: column {name!r}: {shown!r} is not UTF-8; save the file as UTF-8"
        return f"{place}: {found[2]}"


def _is_number(value: bytes) -> bool:
    try:
        float(value or b"0")
    except ValueError:
        return False
    return b"_" not in value


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

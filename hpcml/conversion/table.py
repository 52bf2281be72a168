"""Tables: options name their columns; rows become texts or numbers, with labels. CSV and TSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcml import mpi
from hpcml.conversion.fields import PLAIN
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.roles import Roles
from hpcml.conversion.table_rows import Batch, TableRows, finish_table
from hpcml.conversion.text import Corpus, new_corpus
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import line_limit, plain_size
from hpcml.log import Log

if TYPE_CHECKING:
    from hpcml.files.records import Dialect, Segment

CSV_BLOCK = 1 << 22  # bytes that are looked at together
COLUMN_BYTES = 256  # and at least so many for each column: what a block costs grows with the columns
EXTRA = "pip install 'hpcml[tables]'"


def import_pyarrow(what: str) -> Any:
    """The module pyarrow. Raises ConfigError without it."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(f"{what} needs the package pyarrow; install it: {EXTRA}") from None
    return pyarrow


@mpi.collective
def corpus_and_roles(comm: mpi.Comm, options: ConvertOptions, like: Like | None, scratch: Path) -> tuple[Corpus | None, Roles]:
    """Collective over `comm`. Where texts go (None: numbers), and the roles. Raises ConfigError."""
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
    corpus = new_corpus(comm, options, like, scratch)
    return corpus, Roles.of(options, corpus.fields)


@mpi.collective
def read_table(
    comm: mpi.Comm,
    what: str,
    names: Sequence[str],
    batches: Callable[[Roles, list[str]], Iterator[Batch]],
    options: ConvertOptions,
    like: Like | None,
    log: Log,
    scratch: Path,
) -> Part:
    """Collective over `comm`. This rank's rows of a table with columns of these names, the same on
    all ranks.

    `batches` gives them, when it knows the columns' roles and which of them are features. Raises
    ConfigError and DataError.
    """
    corpus, roles = corpus_and_roles(comm, options, like, scratch)
    with mpi.agreed(comm, f"reading {what}"):
        roles.check(what, names)
        features = roles.numbers(names)
        if "split" in names and "split" not in (name for _, name in roles.named()) and options.test_share is None:
            log(f"warning: {what}: the column split is not taken for the splits of the rows; --split-column split takes it")
        if corpus is None and not features:
            raise ConfigError(f"{what}: no column is left for features; name columns of texts (--text) or of numbers (--features)")
        rows = TableRows(roles, names, options, like, corpus, scratch, what)
        for batch in batches(roles, features):
            rows.add(batch)
    log(f"{what}: read; making rows")
    return finish_table(comm, rows, options, like)


def wanted(roles: Roles, features: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that are read: those of numbers, and the others."""
    numbers = dict.fromkeys([*features, *roles.indicators])
    return list(numbers), list(dict.fromkeys(name for _, name in roles.named() if name not in numbers))


@mpi.collective
def read_csv(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read this rank's rows of CSV. Raises DataError with the line."""
    return _read_separated(comm, inputs, options, like, log, scratch, options.delimiter or ",")


@mpi.collective
def read_tsv(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. As `read_csv`, with tabs between the columns."""
    return _read_separated(comm, inputs, options, like, log, scratch, "\t")


@mpi.collective
def _read_separated(
    comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path, delimiter: str
) -> Part:
    """Collective over `comm`. Rank 0 goes through the files once, to find where rows end; then
    each rank reads its own.
    """
    from hpcml.files.records import Dialect, read_header, segments

    dialect, max_line = Dialect(delimiter, "" if options.no_quotes else '"'), line_limit(options.max_line_mb)
    what = str(inputs[0])
    names: list[str] = []
    parts: list[list[Segment]] = []
    of_file: dict[Path, list[str]] = {}
    with mpi.agreed(comm, f"reading {what}"):
        import_pyarrow("csv")
    with mpi.node_first(comm):
        _compile()
    with mpi.agreed(comm, f"reading {what}"):
        if comm.rank == 0:
            tables = [read_header(path, dialect, max_line) for path in inputs]
            names = tables[0].names
            for table in tables:
                if set(table.names) != set(names):
                    strange = next(iter(set(table.names) ^ set(names)))
                    raise DataError(
                        f"{table.path}: line 1: the columns are not those of {what} ({strange!r} is in one of them only)"
                    )
            check_delimiter(what, names, delimiter, options)
            Roles.of(options, PLAIN).check(what, names)
            parts = segments(tables, [plain_size(table.path) for table in tables], dialect, comm.size)
            of_file = {table.path: table.names for table in tables}
    names, of_file, mine = comm.bcast(names), comm.bcast(of_file), comm.scatter(parts if comm.rank == 0 else None)

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        columns = wanted(roles, features)
        for segment in mine:
            yield from _csv_batches(segment, of_file[segment.path], dialect, columns, max_line)

    return read_table(comm, what, names, batches, options, like, log, scratch)


def check_delimiter(what: str, names: Sequence[str], delimiter: str, options: ConvertOptions) -> None:
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
    from hpcml.kernels import csv as kernels

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
    for lines, block in record_blocks(segment, dialect, max_line, max(CSV_BLOCK, COLUMN_BYTES * len(names))):
        if block.isspace():
            continue
        read = csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1)
        try:
            table = csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
        except pyarrow.ArrowInvalid as error:
            raise DataError(_csv_problem(segment, lines, block, dialect, names, numbers, others, str(error))) from None
        yield Batch(
            table.num_rows,
            {name: table.column(name).to_numpy() for name in numbers} | {name: table.column(name).to_pylist() for name in others},
            _line_of(segment, lines, block, dialect),
        )


def _line_of(segment: Segment, lines: int, block: bytes, dialect: Dialect) -> Callable[[int], str]:
    from hpcml.files.records import row_at

    return lambda row: f"{segment.path}: line {lines + row_at(block, dialect, row)[0] + 1}"


def _csv_problem(
    segment: Segment,
    lines: int,
    block: bytes,
    dialect: Dialect,
    names: list[str],
    numbers: list[str],
    others: list[str],
    said: str,
) -> str:
    """The sentence about rows that pyarrow refuses; the row that it names is looked at again."""
    from hpcml.files.records import row_at

    found = re.search(r"Row #(\d+): (.*)", said, re.DOTALL)
    if found is None:
        return f"{segment.path}: line {lines + 1} or below: {said}"
    try:
        before, values = row_at(block, dialect, int(found[1]) - 1)
    except ValueError:
        return f"{segment.path}: line {lines + 1} or below: {found[2]}"
    where = f"{segment.path}: line {lines + before + 1}"
    if len(values) != len(names):
        return f"{where}: {len(values)} values, but the header names {len(names)} columns"
    of_numbers, of_others = set(numbers), set(others)
    for name, value in zip(names, values, strict=True):
        shown = value[:100].decode("utf-8", "backslashreplace")
        if name in of_numbers and not _is_number(value):
            return f"{where}: column {name!r}: {shown!r}, but expected a number; name columns with --features, --labels or --text"
        if name in of_others and not _is_utf8(value):
            return f"{where}: column {name!r}: {shown!r} is not UTF-8; save the file as UTF-8"
    return f"{where}: {found[2]}"


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

"""CSV and TSV tables, plain or compressed. A rank reads the rows that start in its range of bytes."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import BadRecords, Conversion
from hpcml.conversion.labels import MISSING
from hpcml.conversion.part import Part
from hpcml.conversion.table import NAME_COLUMNS, Batch, Roles, columns_to_read, read_table
from hpcml.data.svmlight import parse_number
from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.lines import BLOCK_BYTES, BYTE_ORDER_MARK, open_decompressed, skip_to, uncompressed_size
from hpcml.files.table import unescape_formulas
from hpcml.log import is_unicode, plural
from hpcml.partition import bounds_in_items

CSV_BLOCK = 1 << 20  # bytes of rows per batch
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
QUOTED = re.compile(rb'(?<![^\t])"[^\t\r\n]*"(?![^\t\r\n])')  # a TSV value
UNQUOTED_TSV = ("\t", "")  # delimiter and quote
REASONS = {  # part of csv.Error's message -> our message
    "unexpected end of data": "unclosed quotation mark",
    "expected after": "text after a closing quotation mark",
    "new-line character": "a carriage return without a line feed; save the file with Unix or Windows line ends",
}
Record = tuple[int, int, list[str] | DataError]  # byte after the row, line, values or the error of a bad row


class Dialect(NamedTuple):
    """The ASCII delimiter, and the quotation mark around values that may contain it ("": none)."""

    delimiter: str = ","
    quote: str = '"'
    advice: str = "; double quotation marks that are part of the text"  # for values that are probably misread


class Segment(NamedTuple):
    """Whole rows in bytes `begin` to `end` of a file, preceded by `lines` newlines; `names`: the columns of a CSV file."""

    path: Path
    begin: int
    end: int
    lines: int = 0
    names: Sequence[str] = ()


@dataclass
class Misreadings:
    rows: int = 0  # rows with a value that probably contains other rows
    first: str = ""  # location of the first of them
    values: int = 0  # TSV values in quotation marks, which are ordinary characters


class CsvReader:
    def __init__(self, path: Path, raw: Iterable[bytes], begin: int, lines: int, dialect: Dialect, max_line: int) -> None:
        self.path, self.raw, self.at, self.row_begin, self.lines, self.max_line = path, raw, begin, begin, lines, max_line
        self.line, self.lines_read = lines + 1, lines  # first line of the row, from 1; newlines before byte `at`
        csv.field_size_limit(1 << 40)
        quotes: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
        self.rows = csv.reader(self._text(), delimiter=dialect.delimiter, strict=True, **quotes)
        self.dialect, self.n_quoted = dialect, 0  # TSV values in quotation marks

    def _text(self) -> Iterator[str]:
        for raw in self.raw:
            self.at += len(raw)
            if self.at - self.row_begin > self.max_line:
                limit, spans = f"{self.max_line / 2**20:g} MiB", self.lines + self.rows.line_num > self.line
                why = f"a row longer than {limit}{self.advice if spans else ''}; shorten it, or raise --max-line-mb"
                raise DataError(f"{self.path}: line {self.line}: {why}")
            if b'"' in raw and self.dialect[:2] == UNQUOTED_TSV:
                self.n_quoted += len(QUOTED.findall(raw))
            yield raw.decode("utf-8", "surrogateescape")

    @property
    def advice(self) -> str:
        last = self.lines + self.rows.line_num
        spans = f"; a quotation mark extends the row to line {last}" if last > self.line else ""
        return f"{spans}{self.dialect.advice}"

    def next_row(self) -> list[str] | DataError | None:
        """Return [] for an empty line, the error of a bad row, None at the end."""
        self.row_begin, self.line = self.at, self.lines_read + 1
        try:
            return next(self.rows, None)
        except csv.Error as error:
            reason = next((ours for theirs, ours in REASONS.items() if theirs in str(error)), str(error))
            bad = DataError(f"{self.path}: line {self.line}: {reason}{self.advice if 'quotation mark' in reason else ''}")
            if "unexpected end of data" in str(error):  # the rest of the file is one row
                raise bad from None
            return bad
        finally:
            self.lines_read = self.lines + self.rows.line_num

    def records(self, names: Sequence[str], end: int | None, misread: Misreadings | None = None) -> Iterator[Record]:
        """Yield the rows that begin before byte `end` (None: all)."""
        while end is None or self.at < end:
            if (values := self.next_row()) is None:
                if end is None:
                    return
                raise DataError(f"{self.path}: unexpected end of file; the file must not change while it is read")
            if isinstance(values, DataError):
                yield self.at, self.line, values
            elif len(values) == len(names):
                if self.lines_read > self.line and misread is not None and may_hold_rows(values, self.dialect.delimiter):
                    misread.rows, misread.first = misread.rows + 1, misread.first or f"{self.path}: line {self.line}"
                yield self.at, self.line, values
            elif values:
                by_quotes = self.lines_read > self.line or (not self.dialect.quote and any('"' in value for value in values))
                numbers = f"{len(values)} values, but the header names {len(names)} columns"
                yield self.at, self.line, DataError(f"{self.path}: line {self.line}: {numbers}{self.advice if by_quotes else ''}")


def _lines(file: Any, max_line: int) -> Iterator[bytes]:
    return iter(lambda: file.readline(max_line + 1), b"")


def check_header(path: Path, names: list[str] | DataError | None) -> list[str]:
    if isinstance(names, DataError):
        raise names
    if not names or not any(names):
        raise DataError(f"{path}: line 1: no column names; expected a header line")
    if not is_unicode("".join(names)):
        raise DataError(f"{path}: line 1: a column name is not UTF-8; save the file as UTF-8")
    if (name := repeated(names)) is not None:
        raise DataError(f"{path}: line 1: two columns have the name {name!r}; rename one")
    return names


def read_header(path: Path, dialect: Dialect, max_line: int) -> Segment:
    """Return all rows of a CSV file."""
    with open_decompressed(path) as file:
        first = file.readline(max_line + 1)
        if not first:
            raise DataError(f"{path}: the file is empty; expected a header line with column names")
        if first.startswith(UTF_16):
            raise DataError(f"{path}: UTF-16, but expected UTF-8; save the file as UTF-8")
        text = first.removeprefix(BYTE_ORDER_MARK)
        rows = CsvReader(path, chain([text], _lines(file, max_line)), len(first) - len(text), 0, dialect, max_line)
        names = rows.next_row()
    return Segment(path, rows.at, uncompressed_size(path), rows.lines_read, check_header(path, names))


def divide(table: Segment, bounds: Sequence[int], dialect: Dialect, max_line: int) -> list[Segment]:
    """Bounds are ascending bytes after the header; the last is the end. An error stays in the segment of its rank."""
    starts: list[tuple[int, int]] = []
    targets = [table.begin + bound for bound in bounds if bound < bounds[-1]]
    at, lines, quote = table.begin, table.lines, dialect.quote.encode()

    def add_starts(position: int, line: int) -> None:
        while len(starts) < len(targets) and targets[len(starts)] <= position:
            starts.append((position, line))

    add_starts(at, lines)
    with open_decompressed(table.path) as file:
        skip_to(file, table.begin)
        while len(starts) < len(targets) and (block := file.read(BLOCK_BYTES)):
            if not block.endswith(b"\n"):
                block += file.readline(max_line + 1)
            if quote and quote in block:
                raw, end = chain(io.BytesIO(block), _lines(file, max_line)), at + len(block)
                rows = CsvReader(table.path, raw, at, lines, dialect, max_line)
                try:
                    while rows.at < end and rows.next_row() is not None:
                        add_starts(rows.at, rows.lines_read)
                except DataError:
                    break
                at, lines = rows.at, rows.lines_read
                continue
            while len(starts) < len(targets) and targets[len(starts)] <= at + len(block):
                position = block.find(b"\n", targets[len(starts)] - at - 1) + 1 or len(block)
                add_starts(at + position, lines + block.count(b"\n", 0, position))
            at, lines = at + len(block), lines + block.count(b"\n")
    starts += [(table.begin + bounds[-1], lines)] * (len(bounds) - len(starts))
    return [table._replace(begin=begin, end=end, lines=line) for (begin, line), (end, _) in pairwise(starts)]


def may_hold_rows(values: Sequence[str], delimiter: str) -> bool:
    last = len(values) - 1
    for column, value in enumerate(values):
        if "\n" in value and last and not any(delimiter + each in value for each in (" ", "\n", "\r")):
            first, *middle, end = (line.count(delimiter) for line in value.split("\n"))
            if first == last - column and end == column and all(count == last for count in middle):
                return True
    return False


def read_rows(segment: Segment, dialect: Dialect, max_line: int, misread: Misreadings | None = None) -> Iterator[Record]:
    """Bytes that are not UTF-8 are surrogates."""
    path, begin, end, lines, names = segment
    if begin >= end:
        return
    with open_decompressed(path) as file:
        skip_to(file, begin)
        rows = CsvReader(path, _lines(file, max_line), begin, lines, dialect, max_line)
        yield from rows.records(names, end, misread)
        if misread is not None:
            misread.values += rows.n_quoted


def read_csv(task: Conversion) -> Part:
    advice = Dialect().advice
    if task.source == "tsv":
        unquoted = Dialect(*UNQUOTED_TSV, "; use --quotes if values are quoted")
        dialect = Dialect("\t", '"', f"{advice}, or remove --quotes") if task.options.quotes else unquoted
    else:
        quote, advice = ("", "") if task.options.no_quotes else ('"', f"{advice}, or use --no-quotes")
        dialect = Dialect(task.options.delimiter or ",", quote, advice)
    what, misread = task.input_name, Misreadings()

    def divide_files() -> list[list[Segment]]:
        tables = [read_header(path, dialect, task.max_line) for path in task.inputs]
        names = tables[0].names
        if (first := dialect.delimiter.join(names).strip()).startswith("sep=") and len(first) < 6:
            raise DataError(f"{what}: line 1: {first!r}, which only Excel supports; remove the line")
        for other, way in ((";", "--delimiter ';'"), ("\t", "convert tsv"), ("|", "--delimiter '|'"), (",", "convert csv")):
            if len(names) == 1 and other in names[0] and other != dialect.delimiter:
                between = f"columns seem to be separated by {other!r}; use {way}"
                raise ConfigError(f"{what}: line 1: one column, {names[0][:60]!r}; {between}")
        Roles.from_options(task.options, names).check(str(what), names)
        bounds = bounds_in_items([table.end - table.begin for table in tables], task.comm.size)
        return [divide(table, table_bounds, dialect, task.max_line) for table, table_bounds in zip(tables, bounds, strict=True)]

    segments = mpi.run_on_root(task.comm, f"reading {what}", divide_files)

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        columns = columns_to_read(roles, features)
        for file, parts in enumerate(segments):
            segment = parts[task.comm.rank]
            for batch in _csv_batches(segment, read_rows(segment, dialect, task.max_line, misread), columns, task.bad):
                yield batch._replace(file=file)

    part = read_table(task, [parts[0].names for parts in segments], batches)
    everywhere = task.comm.allgather(misread)
    if n_rows := sum(each.rows for each in everywhere):
        first = next(each.first for each in everywhere if each.rows)
        count = f"({plural(n_rows, 'such value')} in all)"
        task.log(f"warning: {first}: a quoted value contains lines that look like rows {count}{dialect.advice}")
    if n_values := sum(each.values for each in everywhere):
        begin = plural(n_values, "value begins and ends", "values begin and end")
        task.log(f"warning: {what}: {begin} with a quotation mark, which is read as text{dialect.advice}")
    return part


read_tsv = read_csv


def _csv_batches(
    segment: Segment,
    records: Iterator[Record],
    columns: tuple[list[str], list[str]],
    bad: BadRecords,
) -> Iterator[Batch]:
    rows: list[list[str]] = []
    lines: list[int] = []

    def batch_of(numbers: Sequence[int]) -> Batch:
        rows_of_batch = slice(numbers[0], numbers[-1] + 1)
        return csv_batch(segment.path, rows[rows_of_batch], lines[rows_of_batch], segment.names, columns)

    def flush() -> Iterator[Batch]:
        if rows:
            yield from bad.divided(range(len(rows)), batch_of)
        rows.clear()
        lines.clear()

    begin = segment.begin
    try:
        for end, line, values in records:
            if isinstance(values, DataError):  # after the rows before it
                yield from flush()
                bad.add(values)
                continue
            rows.append(values)
            lines.append(line)
            if end - begin >= CSV_BLOCK:
                yield from flush()
                begin = end
    except DataError:  # after the rows before it
        yield from flush()
        raise
    yield from flush()


def csv_batch(
    path: Path,
    rows: list[list[str]],
    lines: list[int],
    names: Sequence[str],
    columns: tuple[list[str], list[str]],
    hint: str = NAME_COLUMNS,
) -> Batch:
    def locate(row: int) -> str:
        return f"{path}: line {lines[row]}"

    column_of = {name: column for column, name in enumerate(names)}
    numbers, others = ([column_of[name] for name in names_of_kind] for names_of_kind in columns)
    columns_read: dict[str, Any] = {}
    if numbers:
        get_numbers = itemgetter(*numbers) if len(numbers) > 1 else lambda row: (row[numbers[0]],)
        values = list(chain.from_iterable(map(get_numbers, rows)))
        try:
            try:
                table = np.fromiter(map(float, values), np.float64, len(values))
            except ValueError:  # possibly missing values
                table = np.fromiter((float(value or "nan") for value in values), np.float64, len(values))
            if "_" in (together := "".join(values)) or not together.isascii():
                raise ValueError("float() takes underscores and the digits of other scripts")
        except ValueError:
            wrong = next(number for number, value in enumerate(values) if parse_number(value or "0") is None)
            row, column = divmod(wrong, len(numbers))
            value_text = values[wrong][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if len(value_text) > 1 and value_text[0] == '"' == value_text[-1]:
                hint = "quoted values need --quotes (csv: remove --no-quotes)"
            elif re.fullmatch(r"[+-]?\d[\d.]*,\d[\d.,]*", value_text):
                hint = "use a decimal point and no thousands separator"
            elif value_text.strip() in MISSING:
                hint = "leave a missing value empty"
            where = f"{locate(row)}: column {columns[0][column]!r}"
            raise DataError(f"{where}: {value_text!r}, but expected a number; {hint}") from None
        columns_read = dict(zip(columns[0], table.reshape(len(rows), len(numbers)).T, strict=True))
    for name, column in zip(columns[1], others, strict=True):
        texts = [row[column] for row in rows]
        if not is_unicode(together := "".join(texts)):
            row = next(row for row, text in enumerate(texts) if not is_unicode(text))
            value_text = texts[row][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise DataError(f"{locate(row)}: column {name!r}: {value_text!r} is not UTF-8; save the file as UTF-8")
        columns_read[name] = unescape_formulas(texts) if "'" in together else texts
    return Batch(len(rows), columns_read, locate)

"""CSV and TSV tables, plain or compressed, whose rows are shared out over ranks by the bytes in which they start."""

from __future__ import annotations

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
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.labels import MISSING
from hpcml.conversion.part import Part
from hpcml.conversion.records import BadRecords
from hpcml.conversion.table import Batch, Roles, read_table, wanted
from hpcml.data.svmlight import number_of
from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.lines import BLOCK_BYTES, BYTE_ORDER_MARK, go_to, open_plain, plain_size
from hpcml.files.table import unescaped_formulas
from hpcml.log import is_unicode, plural
from hpcml.partition import bounds_in_items

CSV_BLOCK = 1 << 20  # bytes of rows that become one batch
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
QUOTED = re.compile(rb'(?<![^\t])"[^\t\r\n]*"(?![^\t\r\n])')  # a value of TSV
UNQUOTED_TSV = ("\t", "")  # delimiter and quote
REASONS = {  # what csv.Error says -> what this program says
    "unexpected end of data": "a quotation mark opens a value that nothing closes",
    "expected after": "text behind the quotation mark that closes a value",
    "new-line character": "a carriage return without a line feed; save the file with the line ends of Unix or Windows",
}


class Dialect(NamedTuple):
    """The ASCII characters between values, and around a value that may hold these ("": none)."""

    delimiter: str = ","
    quote: str = '"'
    advice: str = "; double quotation marks that are text"  # where they are perhaps misread


class Segment(NamedTuple):
    """Bytes `begin` to `end` of a file: whole rows. `lines` newlines stand before them."""

    path: Path
    begin: int
    end: int
    lines: int


class Table(NamedTuple):
    """CSV text: the names of its columns, and its first row's byte and newlines before it."""

    path: Path
    names: list[str]
    begin: int
    lines: int


@dataclass
class Misreadings:
    """Counts of values that are probably misread, on one rank."""

    rows: int = 0  # rows with a value that probably holds other rows
    first: str = ""  # place of the first of them
    values: int = 0  # values of TSV in quotation marks that are ordinary characters


class CsvReader:
    """Rows of raw lines; `at` is the byte behind the last row."""

    def __init__(self, path: Path, raw: Iterable[bytes], begin: int, lines: int, dialect: Dialect, max_line: int) -> None:
        self.path, self.raw, self.at, self.row_begin, self.lines, self.max_line = path, raw, begin, begin, lines, max_line
        self.line, self.lines_read = lines + 1, lines  # of the row's beginning, from 1; newlines before byte `at`
        csv.field_size_limit(1 << 40)
        quotes: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
        self.rows = csv.reader(self._text(), delimiter=dialect.delimiter, strict=True, **quotes)
        self.dialect, self.n_quoted = dialect, 0  # values of TSV in quotation marks that are ordinary characters

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
        """Return advice for a last row that is wrong because of quotation marks."""
        last = self.lines + self.rows.line_num
        spans = f"; a quotation mark makes the row go on to line {last}" if last > self.line else ""
        return f"{spans}{self.dialect.advice}"

    def next_row(self) -> list[str] | DataError | None:
        """Return the values of the next row, [] for an empty line, the error of a bad row, None at the end. Raises DataError."""
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

    def records(
        self, names: Sequence[str], end: int | None, misread: Misreadings | None = None
    ) -> Iterator[tuple[int, int, list[str] | DataError]]:
        """Yield the rows that begin before byte `end` as `read_rows`; None: all. Raises DataError."""
        while end is None or self.at < end:
            if (values := self.next_row()) is None:
                if end is None:
                    return
                raise DataError(f"{self.path}: ends too early; it must not change while it is read")
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
    """Yield raw lines; of one that is longer than `max_line` bytes, a part that is too long, too."""
    return iter(lambda: file.readline(max_line + 1), b"")


def check_header(path: Path, names: list[str] | DataError | None) -> list[str]:
    """Return the names of the columns in a first row. Raises DataError."""
    if isinstance(names, DataError):
        raise names
    if not names or not any(names):
        raise DataError(f"{path}: line 1: no names of columns; expected a line with them")
    if not is_unicode("".join(names)):
        raise DataError(f"{path}: line 1: a name of a column is not UTF-8; save the file as UTF-8")
    if (name := repeated(names)) is not None:
        raise DataError(f"{path}: line 1: two columns have the name {name!r}; give each a name of its own")
    return names


def read_header(path: Path, dialect: Dialect, max_line: int) -> Table:
    """Return the header of a file. Raises DataError if there is none, and as `open_plain`."""
    with open_plain(path) as file:
        first = file.readline(max_line + 1)
        if not first:
            raise DataError(f"{path}: the file is empty; expected a line with the names of the columns")
        if first.startswith(UTF_16):
            raise DataError(f"{path}: UTF-16, but expected UTF-8; save the file as UTF-8")
        text = first.removeprefix(BYTE_ORDER_MARK)
        rows = CsvReader(path, chain([text], _lines(file, max_line)), len(first) - len(text), 0, dialect, max_line)
        names = rows.next_row()
    return Table(path, check_header(path, names), rows.at, rows.lines_read)


def divide(table: Table, bounds: Sequence[int], dialect: Dialect, max_line: int) -> list[Segment]:
    """Return the rows that begin between each two bounds: ascending bytes behind the header, the last one the end.

    Reads the file up to the last bound before the end, or up to an error, which is in the segment of the rank that will
    raise it. Raises as `open_plain`.
    """
    found: list[tuple[int, int]] = []
    wanted = [table.begin + bound for bound in bounds if bound < bounds[-1]]
    at, lines, quote = table.begin, table.lines, dialect.quote.encode()

    def take(place: int, line: int) -> None:
        while len(found) < len(wanted) and wanted[len(found)] <= place:
            found.append((place, line))

    take(at, lines)
    with open_plain(table.path) as file:
        go_to(file, table.begin)
        while len(found) < len(wanted) and (block := file.read(BLOCK_BYTES)):
            if not block.endswith(b"\n"):
                block += file.readline(max_line + 1)
            if quote and quote in block:
                raw, end = chain(io.BytesIO(block), _lines(file, max_line)), at + len(block)
                rows = CsvReader(table.path, raw, at, lines, dialect, max_line)
                try:
                    while rows.at < end and rows.next_row() is not None:
                        take(rows.at, rows.lines_read)
                except DataError:
                    break
                at, lines = rows.at, rows.lines_read
                continue
            while len(found) < len(wanted) and wanted[len(found)] <= at + len(block):
                place = block.find(b"\n", wanted[len(found)] - at - 1) + 1 or len(block)
                take(at + place, lines + block.count(b"\n", 0, place))
            at, lines = at + len(block), lines + block.count(b"\n")
    found += [(table.begin + bounds[-1], lines)] * (len(bounds) - len(found))
    return [Segment(table.path, begin, end, line) for (begin, line), (end, _) in pairwise(found)]


def may_hold_rows(values: Sequence[str], delimiter: str) -> bool:
    """Return whether a value has the lines of the end of a row, of whole rows, and of the beginning of one.

    So it is where a quotation mark that is text opens a value. A delimiter before a blank or the end of a line is taken
    for a comma of a sentence.
    """
    last = len(values) - 1
    for column, value in enumerate(values):
        if "\n" in value and last and not any(delimiter + each in value for each in (" ", "\n", "\r")):
            first, *middle, end = (line.count(delimiter) for line in value.split("\n"))
            if first == last - column and end == column and all(count == last for count in middle):
                return True
    return False


def read_rows(
    segment: Segment, names: Sequence[str], dialect: Dialect, max_line: int, misread: Misreadings | None = None
) -> Iterator[tuple[int, int, list[str] | DataError]]:
    """Yield (byte behind it, line, values) of each row that is no empty line; bytes that are not UTF-8 are surrogates.

    A bad row has an error that names the line, also for other values than one for each of `names`. Raises DataError
    where the rest of the file cannot be divided into rows, and as `open_plain`.
    """
    path, begin, end, lines = segment
    if begin >= end:
        return
    with open_plain(path) as file:
        go_to(file, begin)
        rows = CsvReader(path, _lines(file, max_line), begin, lines, dialect, max_line)
        yield from rows.records(names, end, misread)
        if misread is not None:
            misread.values += rows.n_quoted


def read_csv(task: Conversion) -> Part:
    """Collective. Read this rank's rows of CSV files. Raises DataError with the line."""
    quote, advice = ("", "") if task.options.no_quotes else ('"', f"{Dialect().advice}, or give --no-quotes")
    return _read(task, Dialect(task.options.delimiter or ",", quote, advice))


def read_tsv(task: Conversion) -> Part:
    """Collective. As `read_csv`, with tabs between the columns."""
    quoted = Dialect("\t", '"', f"{Dialect().advice}, or remove --quotes")
    return _read(
        task, quoted if task.options.quotes else Dialect(*UNQUOTED_TSV, "; if values are in quotation marks, give --quotes")
    )


def _read(task: Conversion, dialect: Dialect) -> Part:
    """Read this rank's rows. Collective. Raises DataError."""
    what, misread = task.what, Misreadings()

    def divide_files() -> tuple[list[list[str]], list[list[Segment]]]:
        tables = [read_header(path, dialect, task.max_line) for path in task.inputs]
        names = tables[0].names
        if (first := dialect.delimiter.join(names).strip()).startswith("sep=") and len(first) < 6:
            raise DataError(f"{what}: line 1: {first!r}, which only Excel reads; remove the line")
        for other, way in ((";", "--delimiter ';'"), ("\t", "convert tsv"), ("|", "--delimiter '|'"), (",", "convert csv")):
            if len(names) == 1 and other in names[0] and other != dialect.delimiter:
                between = f"what stands between columns seems to be {other!r}: use {way}"
                raise ConfigError(f"{what}: line 1: one column, {names[0][:60]!r}; {between}")
        Roles.of(task.options, names).check(str(what), names)
        bounds = bounds_in_items([plain_size(table.path) - table.begin for table in tables], task.comm.size)
        divided = [divide(table, of_table, dialect, task.max_line) for table, of_table in zip(tables, bounds, strict=True)]
        return [table.names for table in tables], divided

    of_file, segments = mpi.run_on_root(task.comm, f"reading {what}", divide_files)

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        columns = wanted(roles, features)
        for file, names in enumerate(of_file):
            segment = segments[file][task.comm.rank]
            records = read_rows(segment, names, dialect, task.max_line, misread)
            for batch in _csv_batches(segment, records, names, columns, task.bad):
                yield batch._replace(file=file)

    part = read_table(task, of_file, batches)
    everywhere = task.comm.allgather(misread)
    if n_rows := sum(each.rows for each in everywhere):
        first = next(each.first for each in everywhere if each.rows)
        count = f"({plural(n_rows, 'such value')} in all)"
        task.log(f"warning: {first}: a value in quotation marks has lines like rows of the table {count}{dialect.advice}")
    if n_values := sum(each.values for each in everywhere):
        begin = plural(n_values, "value begins and ends", "values begin and end")
        task.log(f"warning: {what}: {begin} with a quotation mark, which is read as text{dialect.advice}")
    return part


def _csv_batches(
    segment: Segment,
    records: Iterator[tuple[int, int, list[str] | DataError]],
    names: list[str],
    columns: tuple[list[str], list[str]],
    bad: BadRecords,
) -> Iterator[Batch]:
    """Yield the rows of a segment without bad ones; `records` are those of `read_rows`. Raises DataError, OSError."""
    rows: list[list[str]] = []
    lines: list[int] = []

    def batch_of(some: Sequence[int]) -> Batch:
        places = slice(some[0], some[-1] + 1)
        return csv_batch(segment.path, rows[places], lines[places], names, columns)

    def waiting() -> Iterator[Batch]:
        if rows:
            yield from bad.divided(range(len(rows)), batch_of)
        rows.clear()
        lines.clear()

    begin = segment.begin
    try:
        for end, line, values in records:
            if isinstance(values, DataError):  # behind the rows before it
                yield from waiting()
                bad.add(values)
                continue
            rows.append(values)
            lines.append(line)
            if end - begin >= CSV_BLOCK:
                yield from waiting()
                begin = end
    except DataError:  # behind the rows before it, too
        yield from waiting()
        raise
    yield from waiting()


def csv_batch(path: Path, rows: list[list[str]], lines: list[int], names: list[str], columns: tuple[list[str], list[str]]) -> Batch:
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
            try:
                table = np.fromiter(map(float, values), np.float64, len(values))
            except ValueError:  # perhaps only of missing ones
                table = np.fromiter((float(value or "nan") for value in values), np.float64, len(values))
            if "_" in (together := "".join(values)) or not together.isascii():
                raise ValueError("float() takes underscores and the digits of other scripts")
        except ValueError:
            wrong = next(number for number, value in enumerate(values) if number_of(value or "0") is None)
            row, column = divmod(wrong, len(numbers))
            shown = values[wrong][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            hint = "name columns with --features, --labels, --id or --text"
            if len(shown) > 1 and shown[0] == '"' == shown[-1]:
                hint = "values in quotation marks need --quotes (csv: no --no-quotes)"
            elif re.fullmatch(r"[+-]?\d[\d.]*,\d[\d.,]*", shown):
                hint = "write a decimal point, and nothing between thousands"
            elif shown.strip() in MISSING:
                hint = "leave a missing value empty"
            raise DataError(f"{place(row)}: column {columns[0][column]!r}: {shown!r}, but expected a number; {hint}") from None
        found = dict(zip(columns[0], table.reshape(len(rows), len(numbers)).T, strict=True))
    for name, column in zip(columns[1], others, strict=True):
        texts = [row[column] for row in rows]
        if not is_unicode(together := "".join(texts)):
            row = next(row for row, text in enumerate(texts) if not is_unicode(text))
            shown = texts[row][:100].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise DataError(f"{place(row)}: column {name!r}: {shown!r} is not UTF-8; save the file as UTF-8")
        found[name] = unescaped_formulas(texts) if "'" in together else texts
    return Batch(len(rows), found, place)

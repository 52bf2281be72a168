"""Rows of CSV text, plain or compressed, shared out over ranks by the bytes in which they start."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hpcml.errors import DataError, repeated
from hpcml.files.lines import BLOCK_BYTES, BYTE_ORDER_MARK, go_to, open_plain
from hpcml.log import is_unicode

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
REASONS = {  # what csv.Error says -> what this program says
    "unexpected end of data": "a quotation mark opens a value that nothing closes",
    "expected after": "text behind the quotation mark that closes a value; double the quotation marks inside of values",
    "new-line character": "a carriage return without a line feed; save the file with the line ends of Unix or Windows",
}


class Dialect(NamedTuple):
    """The ASCII characters between values, and around a value that may hold these ("": none)."""

    delimiter: str = ","
    quote: str = '"'


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


class _CsvReader:
    """Rows of raw lines; `at` is the byte behind the last row, `line` the line of its beginning, from 1."""

    def __init__(self, path: Path, raw: Iterable[bytes], begin: int, lines: int, dialect: Dialect, max_line: int) -> None:
        self.path, self.raw, self.at, self.row_begin, self.lines, self.max_line = path, raw, begin, begin, lines, max_line
        self.line = lines + 1
        csv.field_size_limit(1 << 40)
        quotes: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
        self.rows = csv.reader(self._text(), delimiter=dialect.delimiter, strict=True, **quotes)

    def _text(self) -> Iterator[str]:
        for raw in self.raw:
            self.at += len(raw)
            if self.at - self.row_begin > self.max_line:
                limit = f"{self.max_line / 2**20:g} MiB"
                raise DataError(f"{self.path}: line {self.line}: a row longer than {limit}; shorten it, or raise --max-line-mb")
            yield raw.decode("utf-8", "surrogateescape")

    @property
    def lines_read(self) -> int:
        """The number of newlines before byte `at`."""
        return self.lines + self.rows.line_num

    def next_row(self) -> list[str] | None:
        """Return the values of the next row, [] for an empty line, None at the end. Raises DataError."""
        self.row_begin, self.line = self.at, self.lines_read + 1
        try:
            return next(self.rows, None)
        except csv.Error as error:
            reason = next((ours for theirs, ours in REASONS.items() if theirs in str(error)), str(error))
            raise DataError(f"{self.path}: line {self.line}: {reason}") from None


def _lines(file: Any, max_line: int) -> Iterator[bytes]:
    """Yield raw lines; of one that is longer than `max_line` bytes, a part that is too long, too."""
    return iter(lambda: file.readline(max_line + 1), b"")


def read_header(path: Path, dialect: Dialect, max_line: int) -> Table:
    """Return the header of a file. Raises DataError if there is none, and as `open_plain`."""
    with open_plain(path) as file:
        first = file.readline(max_line + 1)
        if not first:
            raise DataError(f"{path}: the file is empty; expected a line with the names of the columns")
        if first.startswith(b"PK\3\4"):
            raise DataError(f"{path}: an Excel workbook, or another ZIP archive; save the sheet as CSV in UTF-8")
        if first.startswith(UTF_16):
            raise DataError(f"{path}: UTF-16, but expected UTF-8; save the file as UTF-8")
        text = first.removeprefix(BYTE_ORDER_MARK)
        rows = _CsvReader(path, chain([text], _lines(file, max_line)), len(first) - len(text), 0, dialect, max_line)
        names = rows.next_row()
    if not names or not any(names):
        raise DataError(f"{path}: line 1: no names of columns; expected a line with them")
    if not is_unicode("".join(names)):
        raise DataError(f"{path}: line 1: a name of a column is not UTF-8; save the file as UTF-8")
    if (name := repeated(names)) is not None:
        raise DataError(f"{path}: line 1: two columns have the name {name!r}; give each a name of its own")
    return Table(path, names, rows.at, rows.lines_read)


def divide(table: Table, bounds: Sequence[int], dialect: Dialect, max_line: int) -> list[Segment]:
    """Return the rows that begin between each two bounds: ascending bytes behind the header, the last one the end.

    Reads the file up to the last bound before the end. Raises DataError for rows that cannot be told apart, and as
    `open_plain`.
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
                rows = _CsvReader(table.path, raw, at, lines, dialect, max_line)
                while rows.at < end and rows.next_row() is not None:
                    take(rows.at, rows.lines_read)
                at, lines = rows.at, rows.lines_read
                continue
            while len(found) < len(wanted) and wanted[len(found)] <= at + len(block):
                place = block.find(b"\n", wanted[len(found)] - at - 1) + 1 or len(block)
                take(at + place, lines + block.count(b"\n", 0, place))
            at, lines = at + len(block), lines + block.count(b"\n")
    found += [(table.begin + bounds[-1], lines)] * (len(bounds) - len(found))
    return [Segment(table.path, begin, end, line) for (begin, line), (end, _) in pairwise(found)]


def read_rows(segment: Segment, names: Sequence[str], dialect: Dialect, max_line: int) -> Iterator[tuple[int, int, list[str]]]:
    """Yield (byte behind it, line, values) of each row that is no empty line; bytes that are not UTF-8 are surrogates.

    Raises DataError that names the line, also for other values than one for each of `names`; and as `open_plain`.
    """
    path, begin, end, lines = segment
    if begin >= end:
        return
    with open_plain(path) as file:
        go_to(file, begin)
        rows = _CsvReader(path, _lines(file, max_line), begin, lines, dialect, max_line)
        while rows.at < end:
            if (values := rows.next_row()) is None:
                raise DataError(f"{path}: ends too early; it must not change while it is read")
            if len(values) == len(names):
                yield rows.at, rows.line, values
            elif values:
                raise DataError(f"{path}: line {rows.line}: {len(values)} values, but the header names {len(names)} columns")

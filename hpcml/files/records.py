"""Rows of CSV text, plain or compressed, shared out over ranks by the bytes in which they start."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml.errors import DataError, repeated
from hpcml.files.lines import BLOCK_BYTES, BYTE_ORDER_MARK, LINE_MIB, go_to, open_plain
from hpcml.kernels import row_ends as kernels
from hpcml.partition import even_bounds

UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Dialect(NamedTuple):
    """The letters (ASCII) between values, and around a value that may hold these ("": none)."""

    delimiter: str = ","
    quote: str = '"'

    @property
    def codes(self) -> tuple[int, int]:
        """As the kernels want them."""
        return ord(self.delimiter), ord(self.quote) if self.quote else -1


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


def read_header(path: Path, dialect: Dialect, max_line: int = LINE_MIB << 20) -> Table:
    """The header of a file. Raises DataError if there is none, and as `open_plain`."""
    with open_plain(path) as file:
        text = file.read(min(1 << 16, max_line))
        if not text:
            raise DataError(f"{path}: the file is empty; expected a line with the names of the columns")
        if text.startswith(b"PK\3\4"):
            raise DataError(f"{path}: an Excel workbook, or another ZIP archive; save the sheet as CSV in UTF-8")
        if text.startswith(UTF_16):
            raise DataError(f"{path}: UTF-16, but expected UTF-8; save the file as UTF-8")
        first = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
        while (found := kernels.next_end(codes(text), first, kernels.BEGIN, *dialect.codes, 0))[0] < 0:
            if len(text) >= max_line:
                raise DataError(f"{path}: line 1: longer than {max_line / 2**20:g} MiB; expected the names of the columns")
            if not (more := file.read(min(len(text), max_line - len(text)))):
                break
            text += more
    end, _, lines = found
    end = len(text) if end < 0 else end
    try:
        (names,) = islice(_reader(text[first:end].decode(), dialect), 1)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: line 1: byte {first + error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except (ValueError, csv.Error):
        names = []
    if not any(names):
        raise DataError(f"{path}: line 1: no names of columns; expected a line with them")
    if (name := repeated(names)) is not None:
        raise DataError(f"{path}: line 1: two columns have the name {name!r}; give each a name of its own")
    return Table(path, names, end, lines)


def divide(table: Table, size: int, dialect: Dialect, targets: Sequence[int]) -> list[tuple[int, int]]:
    """For each target (ascending bytes of the rows): the next row's byte, newlines before it.

    Goes through the file of `size` bytes once. Raises DataError for a quoted value that nothing
    ends, and as `open_plain`.
    """
    found: list[tuple[int, int]] = []
    wanted = [table.begin + target for target in targets]
    at, state, lines = table.begin, kernels.BEGIN, table.lines
    while len(found) < len(wanted) and wanted[len(found)] <= at:
        found.append((at, lines))
    with open_plain(table.path) as file:
        go_to(file, table.begin)
        while block := file.read(BLOCK_BYTES):
            text, begin = codes(block), 0
            while begin < text.size:
                target = wanted[len(found)] - at if len(found) < len(wanted) else text.size + 1
                place, state, newlines = kernels.next_end(text, begin, state, *dialect.codes, target)
                lines += newlines
                if place < 0:
                    break
                begin = place
                while len(found) < len(wanted) and wanted[len(found)] <= at + place:
                    found.append((at + place, lines))
            at += text.size
    if at != size:
        raise DataError(f"{table.path}: has {at} bytes, but had {size}; it must not change while it is read")
    if state == kernels.QUOTED:
        raise DataError(f"{table.path}: line {_unclosed(table, dialect)}: a quotation mark opens a value that nothing closes")
    return found + [(size, lines)] * (len(wanted) - len(found))


def _unclosed(table: Table, dialect: Dialect) -> int:
    """The line on which the last row begins."""
    lines, state, carried = table.lines, kernels.BEGIN, 0
    with open_plain(table.path) as file:
        go_to(file, table.begin)
        while block := file.read(BLOCK_BYTES):
            text, begin = codes(block), 0
            while True:
                begin, state, newlines = kernels.next_end(text, begin, state, *dialect.codes, 0)
                carried += newlines
                if begin < 0:
                    break
                lines, carried = lines + carried, 0
    return lines + 1


def segments(tables: Sequence[Table], sizes: Sequence[int], dialect: Dialect, n_ranks: int) -> list[list[Segment]]:
    """The bytes of each rank: consecutive rows of the files in order, about as many for each."""
    lengths = [size - table.begin for table, size in zip(tables, sizes, strict=True)]
    bounds, before = even_bounds(sum(lengths), n_ranks), 0
    parts: list[list[Segment]] = [[] for _ in range(n_ranks)]
    for table, size, length in zip(tables, sizes, lengths, strict=True):
        targets = [min(max(0, int(bound) - before), length) for bound in bounds]
        places = divide(table, size, dialect, targets)
        for part, ((begin, lines), (end, _)) in zip(parts, pairwise(places), strict=True):
            if begin < end:
                part.append(Segment(table.path, begin, end, lines))
        before += length
    return parts


def record_blocks(
    segment: Segment, dialect: Dialect, max_line: int = LINE_MIB << 20, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, bytes]]:
    """(newlines before it, whole rows) of about `block_bytes` each, of a segment.

    Raises DataError for a row of more than `max_line` bytes, and as `open_plain`.
    """
    lines, left, rest = segment.lines, segment.end - segment.begin, b""
    with open_plain(segment.path) as file:
        go_to(file, segment.begin)
        while left > 0:
            text = file.read(min(block_bytes, left))
            if not text:
                raise DataError(f"{segment.path}: ends too early; it must not change while it is read")
            left -= len(text)
            block = rest + text
            place = len(block) if left == 0 else kernels.last_end(codes(block), *dialect.codes)[0]
            if place == 0 and len(block) > max_line:
                raise DataError(
                    f"{segment.path}: line {lines + 1}: a row longer than {max_line / 2**20:g} MiB; mend it, or raise --max-line-mb"
                )
            if place:
                yield lines, block[:place]
                lines += block.count(b"\n", 0, place)
            rest = block[place:]


def row_at(block: bytes, dialect: Dialect, row: int) -> tuple[int, list[bytes]]:
    """(newlines before, values) of a row, without empty lines from 0. Raises ValueError."""
    text = block.decode("utf-8", "surrogateescape")
    reader, before, number = _reader(text, dialect), 0, -1
    for values in reader:
        number += bool(values)
        if values and number == row:
            return before, [value.encode("utf-8", "surrogateescape") for value in values]
        before = reader.line_num
    raise ValueError(f"there is no row {row}")


def _reader(text: str, dialect: Dialect):  # type: ignore[no-untyped-def]  # the type has no public name
    csv.field_size_limit(1 << 40)
    quotes: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    return csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter, **quotes)


def codes(text: bytes) -> np.ndarray:
    """Text as the kernels want it."""
    return np.frombuffer(text, dtype=np.uint8)

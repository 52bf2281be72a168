r"""Tables: aligned lines for people, and CSV for programs.

CSV files are UTF-8 with lines that end in "\n". A cell with a comma, a quote, "\n" or "\r" is quoted, so names are preserved:
`csv.reader(open(path, newline="", encoding="utf-8"))` returns them, and so does `pandas.read_csv(path, header=None, dtype=str,
keep_default_na=False)`; with a header pandas changes duplicate names. There are two exceptions. A `'` is written before a text that
a spreadsheet would evaluate as a formula, and before a `'` followed by such a text. NUL and unpaired surrogates, which a file
cannot contain, become `\x00` and `\udc80`.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hpcml.errors import ConfigError
from hpcml.files.atomic import write_atomically
from hpcml.files.opening import read_small
from hpcml.log import named, visible

_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
_FIRST = "'=+-@\t\r"
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # beginning of a formula for spreadsheets, possibly escaped
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LARGEST = 1 << 30  # bytes of an input table
LONGEST_CELL = (1 << 31) - 1  # characters of an input cell; Python's default limit is 128 KiB


def table(rows: list[list[str]]) -> list[str]:
    cells = [[visible(cell) for cell in rows[0]], *([named(cell) for cell in row] for row in rows[1:])]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return ["  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))) for row in cells]


def escape_formula(cell: object) -> object:
    """Write `'` before a text that a spreadsheet would evaluate; numbers are unchanged."""
    text = str(cell) if isinstance(cell, str | Path) else ""
    return f"'{text}" if text[:1] in _FIRST and _FORMULA.match(text) and not _NUMBER.fullmatch(text) else cell


def unescape_formulas(cells: Iterable[str]) -> list[str]:
    return [cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell for cell in cells]


def storable(text: str) -> str:
    return text if text.isascii() and "\0" not in text else _NOT_STORABLE.sub(lambda match: visible(match[0]), text)


def csv_lines(rows: Iterable[Sequence[object]], delimiter: str = ",") -> list[str]:
    """Return the lines of a CSV file, with formulas escaped; None becomes an empty cell."""
    lines: list[str] = []
    # csv quotes only characters of its own line end; "\r\n" makes it quote both.
    writer = csv.writer(SimpleNamespace(write=lines.append), delimiter=delimiter, lineterminator="\r\n")
    writer.writerows([escape_formula(cell) for cell in row] for row in rows)
    return [storable(line[:-2]) + "\n" for line in lines]


def pyarrow() -> Any:
    """Raises ConfigError if pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("parquet needs the package pyarrow; install it: pip install 'hpcml[tables]'") from None
    return pyarrow


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    return "".join(csv_lines(rows))


def write_table(path: Path | str, rows: Iterable[Sequence[object]]) -> None:
    write_atomically(path, format_csv(rows).encode())


def read_csv(path: Path) -> list[dict[str, str]]:
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        rows = map(unescape_formulas, csv.reader(io.StringIO(read_small(path, LARGEST), newline="")))
        names = next(rows, [])
        return [dict(zip(names, row, strict=False)) for row in rows if row]
    finally:
        csv.field_size_limit(before)


def joined_names(names: Iterable[str]) -> str:
    r"""Join names with `;`: in a name `;` becomes `\;`, `\` becomes `\\`, and an empty name becomes `\e`."""
    return ";".join(name.replace("\\", "\\\\").replace(";", "\\;") or "\\e" for name in names)


def split_names(cell: str, separator: str) -> list[str]:
    if "\\" not in cell:
        return [name.strip() for name in cell.split(separator)]
    escaped = iter(re.findall(pattern := rf"\\(\\|{re.escape(separator)})", cell))
    names = re.sub(pattern, "\0", cell).split(separator)  # a cell cannot contain NUL
    return ["" if name == r"\e" else re.sub("\0", lambda _: next(escaped), name) for name in map(str.strip, names)]

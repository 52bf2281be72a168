"""Names of features and labels in a text file, one a line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hpcml import mpi
from hpcml.conversion.conversion import from_root
from hpcml.conversion.source_lines import decoded
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain

LONGEST = 1 << 16  # bytes of a name


@mpi.collective
def read_names(comm: mpi.Comm, path: Path | None, size: int, what: str) -> list[str] | None:
    """Collective over `comm`. The `size` names in a file, None without one. Raises DataError."""
    return None if path is None else from_root(comm, f"reading {path}", lambda: _read(path, size, what))


def check_distinct(names: list[str], where: str) -> None:
    """Raise DataError unless each label has a name of its own."""
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise DataError(f"{where}: {count} labels have the name {name!r}; give each a name of its own")


def _read(path: Path, size: int, what: str) -> list[str]:
    """The lines of a file, without white space around them. Raises DataError, OSError."""
    names: list[str] = []
    with open_plain(path) as file:
        while line := file.readline(LONGEST + 1):
            number = len(names) + 1
            if len(line) > LONGEST:
                raise DataError(f"{path}: line {number}: longer than {LONGEST} bytes; expected a name")
            try:
                name = decoded(line.removeprefix(BYTE_ORDER_MARK)).strip()
            except ValueError as error:
                raise DataError(f"{path}: line {number}: {error}") from None
            if not name or "\0" in name:
                raise DataError(f"{path}: line {number}: {'a NUL in' if name else 'no'} name; expected one on every line")
            names.append(name)
    if len(names) != size:
        raise DataError(f"{path}: {len(names)} names, but there are {size} {what}; expected one a line")
    if what == "labels":
        check_distinct(names, str(path))
    return names

"""Names of features and labels in a text file, one a line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain

LONGEST = 1 << 16  # bytes of a name


@mpi.collective
def read_names(comm: mpi.Comm, path: Path | None, size: int, what: str) -> list[str] | None:
    """Collective over `comm`. The `size` names in a file, None without one. Raises DataError."""
    if path is None:
        return None
    names: list[str] = []
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            names = _read(path)
            if len(names) != size:
                raise DataError(f"{path}: {len(names)} names, but there are {size} {what}; expected one a line")
            if what == "labels":
                check_distinct(names, str(path))
    return comm.bcast(names)


def check_distinct(names: list[str], where: str) -> None:
    """Raise DataError unless each label has a name of its own."""
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise DataError(f"{where}: {count} labels have the name {name!r}; give each a name of its own")


def _read(path: Path) -> list[str]:
    """The lines of a file, without white space around them. Raises DataError, OSError."""
    names: list[str] = []
    with open_plain(path) as file:
        while line := file.readline(LONGEST + 1):
            number = len(names) + 1
            if len(line) > LONGEST:
                raise DataError(f"{path}: line {number}: longer than {LONGEST} bytes; expected a name")
            try:
                name = line.removeprefix(BYTE_ORDER_MARK).decode().strip()
            except UnicodeDecodeError as error:
                raise DataError(f"{path}: line {number}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
            if not name or "\0" in name:
                raise DataError(f"{path}: line {number}: {'a NUL in' if name else 'no'} name; expected one on every line")
            names.append(name)
    return names

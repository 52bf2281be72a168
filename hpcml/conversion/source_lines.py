"""Lines of a source, each with the place that messages name; files with a name on each line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import DataError, OptionError
from hpcml.files.lines import BLOCK_BYTES, line_blocks, lines_before, read_lines
from hpcml.files.opening import decoded as decoded

LONGEST = 1 << 16  # bytes of a name


class Place(NamedTuple):
    """A line: of a block that begins at byte `offset`, and of this rank's lines; both from 0."""

    path: Path
    offset: int
    in_block: int
    of_rank: int

    def __str__(self) -> str:
        return f"{self.path}: line {lines_before(self.path, self.offset) + self.in_block + 1}"


def lines_of(task: Conversion, path: Path, begin: int, end: int, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[Place, bytes]]:
    """The lines that start in bytes begin..end of a file. Raises DataError, OSError."""
    of_rank = 0
    for offset, block in line_blocks(path, begin, end, block_bytes, task.max_line):
        for in_block, line in enumerate(BytesIO(block)):
            yield Place(path, offset, in_block, of_rank), line
            of_rank += 1


@contextmanager
def placed(place: object) -> Iterator[None]:
    """What is wrong, a ValueError, becomes a DataError that names the place."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{place}: {error}") from None


def read_names(comm: mpi.Comm, path: Path | None, size: int, what: str) -> list[str] | None:
    """Return the `size` names in a file, one a line; None without a file. Collective over `comm`; raises DataError."""
    if path is None:
        return None

    def read() -> list[str]:
        names: list[str] = []
        for number, line in read_lines(path, LONGEST, "; expected a name"):
            name = line.strip()
            if not name or "\0" in name:
                raise DataError(f"{path}: line {number}: {'a NUL in' if name else 'no'} name; expected one on every line")
            names.append(name)
        if len(names) != size:
            raise DataError(f"{path}: {len(names)} names, but there are {size} {what}; expected one a line")
        return names

    return mpi.run_on_root(comm, f"reading {path}", read)


def check_matrix_labels(what: object, options: ConvertOptions) -> None:
    """Raise ConfigError for options that have no effect if a matrix holds the labels."""
    for name in ("empty_labels", "label_separator"):
        if (value := getattr(options, name)) is not None:
            raise OptionError(name, value, f"has no effect, because {what} is a matrix of the labels; remove it")

"""Lines of a source, each with the place that messages name."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from hpcml.conversion.conversion import Conversion
from hpcml.files.lines import BLOCK_BYTES, line_blocks, lines_before


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


def decoded(text: bytes) -> str:
    """Text as UTF-8. Raises ValueError with the reason."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None

"""Lines of a plain or compressed file, shared out over ranks by the bytes in which they start."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.partition import even_bounds

BLOCK_BYTES = 1 << 25
# The first bytes of each kind of compressed file, its usual ending, and what opens it.
MAGIC = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"BZh": (".bz2", bz2.open),
    b"\xfd7zXZ\x00": (".xz", lzma.open),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def compression(path: Path) -> str:
    """The kind of compression by the file's first bytes: ".gz", ".bz2", ".xz" or "" for none. Raises OSError."""
    with path.open("rb") as file:
        begin = file.read(8)
    return next((kind for magic, (kind, _) in MAGIC.items() if begin.startswith(magic)), "")


@contextmanager
def open_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading its uncompressed bytes.

    Raises DataError for a damaged or truncated compressed file, OSError for what the operating system refuses.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(f"{path}: not a regular file; every rank reads its part of it, so write it to disk first")
    kind = compression(path)
    opener = next((opener for known, opener in MAGIC.values() if known == kind), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{path}: truncated or damaged {kind} file ({error}); get or make it again") from None


def plain_size(path: Path) -> int:
    """The number of uncompressed bytes. Raises as `open_plain`."""
    if not compression(path) and path.is_file():
        return path.stat().st_size
    size = 0
    with open_plain(path) as file:
        while block := file.read(1 << 20):
            size += len(block)
    return size


@mpi.collective
def byte_range(comm: mpi.Comm, path: Path) -> tuple[int, int]:
    """Collective over `comm`. The range of uncompressed bytes in which this rank's lines start.

    Raises DataError for an empty, unreadable or damaged file.
    """
    size = 0
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            size = plain_size(path)
            if size == 0:
                raise DataError(f"{path}: the file is empty; expected at least one line")
    bounds = even_bounds(comm.bcast(size), comm.size)
    return int(bounds[comm.rank]), int(bounds[comm.rank + 1])


def line_blocks(path: Path, begin: int, end: int, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines) of about `block_bytes` each: all lines that start in bytes begin..end. Raises as `open_plain`."""
    if begin >= end:
        return
    with open_plain(path) as file:
        offset = begin
        if begin > 0:
            file.seek(begin - 1)
            offset = begin - 1 + len(file.readline())  # the line that contains byte begin - 1 is another range's
        while offset < end:
            block = file.read(min(block_bytes, end - offset))
            if not block:
                raise DataError(f"{path}: ends after {offset} of {end} bytes; it must not change while it is read")
            if not block.endswith(b"\n"):
                block += file.readline()
            yield offset, block.removeprefix(BYTE_ORDER_MARK) if offset == 0 else block
            offset += len(block)


def lines_before(path: Path, offset: int) -> int:
    """The number of newlines in the first `offset` uncompressed bytes. Raises as `open_plain`."""
    count = 0
    with open_plain(path) as file:
        while offset > 0 and (block := file.read(min(BLOCK_BYTES, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count

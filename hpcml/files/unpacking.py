"""Compressed inputs, unpacked once for all ranks, who would else unpack all that stands before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.lines import BLOCK_BYTES, COPIES, HEAD_BYTES, find_long, kind_of, long_line, open_plain
from hpcml.files.opening import open_regular
from hpcml.files.temporary import scratch_folder


def _is_packed(path: Path) -> bool:
    """Whether it is a compressed file; what cannot be read is for its reader to say."""
    try:
        with open_regular(path) as file:
            return bool(kind_of(file.read(HEAD_BYTES)))
    except (OSError, DataError):
        return False


def _unpack(path: Path, copy: Path, max_line: int) -> None:
    """Write a file's uncompressed bytes to `copy`. Raises as `open_plain`; too long a line."""
    begin, lines = b"", 0  # the last line, as far as it is known, and the newlines before it
    with open_plain(path) as file, copy.open("wb", buffering=0) as out:
        while block := file.read(BLOCK_BYTES):
            text = begin + block
            if (place := find_long(text, len(text), max_line)) >= 0:
                raise long_line(path, lines + text.count(b"\n", 0, place) + 1, max_line)
            lines += block.count(b"\n")
            begin = text[text.rfind(b"\n") + 1 :]
            view = memoryview(block)
            try:
                while view:
                    view = view[out.write(view) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(copy.parent.parent)) from None


@contextmanager
def unpacked_once(comm: mpi.Comm, paths: Sequence[Path], scratch: Path, max_line: int) -> Iterator[None]:
    """Collective over `comm`. In the body, `open_plain` reads rank 0's copies of compressed files.

    They lie hidden in `scratch`, which all ranks must see, and go with the body; no rank may leave
    it before all have read. Raises as `open_plain`, and DataError for lines above `max_line` bytes.
    """
    copies: dict[Path, Path] = {}
    with ExitStack() as stack:
        for path in paths:
            with mpi.agreed(comm, f"reading {path}"):
                if comm.rank == 0 and _is_packed(path):
                    copy = stack.enter_context(scratch_folder(f"{path.name}.unpacked", scratch)) / "plain"
                    _unpack(path, copy, max_line)
                    copies[path] = copy
        copies = comm.bcast(copies)
        COPIES.update(copies)
        try:
            yield
        finally:
            for path in copies:
                del COPIES[path]

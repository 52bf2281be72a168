"""Opening what a user names as an input: all waiting has a limit, and small files stay small."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import time
from pathlib import Path

from hpcml.errors import DataError, file_error

SMALL_BYTES = 1 << 24  # of a file that is read whole
WRITER_SECONDS = 60.0  # to wait for somebody to write into a named pipe
LOOK_SECONDS = 0.05  # between looks


def _opened(path: Path) -> int:
    """A descriptor to read from, opened without waiting. Raises OSError, which names the path."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise DataError(f"{str(path)!r}: cannot be a name of a file ({error})") from None
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return descriptor


def _not_regular(path: Path) -> DataError:
    return DataError(f"{path}: a pipe or a device, but expected a regular file; write it to disk first")


def check_regular(path: Path | str) -> None:
    """Raise DataError for a pipe, socket or device, OSError; nothing if it is not there."""
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise _not_regular(Path(path))


def open_regular(path: Path | str) -> io.FileIO:
    """A regular file, unbuffered. Raises DataError for a pipe, socket or device; OSError."""
    path = Path(path)
    descriptor = _opened(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return io.FileIO(descriptor, "rb")


def open_stream(path: Path | str) -> tuple[io.FileIO, bytes]:
    """A file, named pipe or device, unbuffered, and what had to be read of it already.

    Raises DataError if no writer opens the pipe within WRITER_SECONDS, and OSError.
    """
    path = Path(path)
    descriptor = _opened(path)
    try:
        head = _first_of_pipe(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return io.FileIO(descriptor, "rb"), head


def _first_of_pipe(descriptor: int, path: Path) -> bytes:
    """Wait for a writer of the pipe; a byte if it came meanwhile. Raises DataError."""
    poll, end = select.poll(), time.monotonic() + WRITER_SECONDS
    poll.register(descriptor, select.POLLIN)
    while not poll.poll(1000 * LOOK_SECONDS):  # else there are bytes, or the writer has left
        try:
            if byte := os.read(descriptor, 1):
                return byte
        except BlockingIOError:  # somebody is there, and silent
            return b""
        if time.monotonic() > end:
            raise DataError(f"{path}: nobody has opened this pipe to write for {WRITER_SECONDS:g} s; start what writes into it")
    return b""


def read_beginning(path: Path | str, limit: int) -> bytes:
    """A regular file's bytes, at most `limit` and one more. Raises DataError."""
    content = b""
    try:
        with open_regular(path) as file:
            while len(content) <= limit and (more := file.read(limit + 1 - len(content))):
                content += more
    except OSError as error:
        raise file_error(path, "read", error) from None
    return content


def read_small(path: Path | str, limit: int = SMALL_BYTES) -> str:
    """The text (UTF-8) of a regular file of at most `limit` bytes. Raises DataError."""
    content = read_beginning(path, limit)
    if len(content) > limit:
        raise DataError(f"{path}: larger than {limit >> 20} MiB; expected a small text file")
    try:
        return decoded(content)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def decoded(text: bytes) -> str:
    """Return text as UTF-8. Raises ValueError with the reason."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None

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


def open_regular(path: Path | str, or_stream: bool = False) -> io.FileIO:
    """Open a file, unbuffered and without waiting. Raises DataError for a pipe, socket or device unless `or_stream`; OSError."""
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise DataError(f"{str(path)!r}: cannot be a name of a file ({error})") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (or_stream and not stat.S_ISDIR(mode)):
        return io.FileIO(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise DataError(f"{path}: a pipe or a device, but expected a regular file; write it to disk first")


def open_stream(path: Path | str) -> tuple[io.FileIO, bytes]:
    """Return a file, named pipe or device, unbuffered, and what had to be read of it already.

    Raises DataError if no writer opens the pipe within WRITER_SECONDS, and OSError.
    """
    file, head, end = open_regular(path, or_stream=True), b"", time.monotonic() + WRITER_SECONDS
    try:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            poll = select.poll()
            poll.register(file, select.POLLIN)
            while not head and not poll.poll(1000 * LOOK_SECONDS):  # else there are bytes, or the writer has left
                try:
                    head = os.read(file.fileno(), 1)  # a byte if it came meanwhile
                except BlockingIOError:  # a writer is there, and silent
                    break
                if not head and time.monotonic() > end:
                    raise DataError(
                        f"{path}: nobody has opened this pipe to write for {WRITER_SECONDS:g} s; start what writes into it"
                    )
        os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file, head


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

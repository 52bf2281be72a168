"""Opening of input files that a user names, without waiting indefinitely."""

import errno
import io
import os
import select
import stat
import time
from pathlib import Path

from hpcml.errors import DataError, file_error

SMALL_BYTES = 1 << 24  # size limit of a file that is read at once
WRITER_SECONDS = 60.0  # to wait for a writer of a named pipe
POLL_SECONDS = 0.05


def open_regular(path: Path | str, or_stream: bool = False) -> io.FileIO:
    """Open a file, unbuffered and without waiting. Raises DataError for a pipe, socket or device unless `or_stream`; OSError."""
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise DataError(f"{str(path)!r}: not a valid file name ({error})") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or (or_stream and not stat.S_ISDIR(mode)):
        return io.FileIO(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise DataError(f"{path}: a pipe or a device, but expected a regular file; write it to disk first")


def open_stream(path: Path | str) -> tuple[io.FileIO, bytes]:
    """Open a file, pipe or device; return it and the bytes already read. Raises OSError, and DataError without a writer."""
    file, head, end = open_regular(path, or_stream=True), b"", time.monotonic() + WRITER_SECONDS
    try:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            poll = select.poll()
            poll.register(file, select.POLLIN)
            while not head and not poll.poll(1000 * POLL_SECONDS):  # otherwise there are bytes, or the writer has gone
                try:
                    head = os.read(file.fileno(), 1)  # a byte that arrived meanwhile
                except BlockingIOError:  # a writer is connected, but has written nothing
                    break
                if not head and time.monotonic() > end:
                    why = f"no process opened this pipe for writing within {WRITER_SECONDS:g} s; start the writer"
                    raise DataError(f"{path}: {why}")
        os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file, head


def read_at_most(path: Path | str, limit: int) -> bytes:
    """Return the bytes of a regular file, at most `limit` + 1. Raises DataError."""
    try:
        with io.BufferedReader(open_regular(path)) as file:
            return file.read(limit + 1)
    except OSError as error:
        raise file_error(path, "read", error) from None


def read_small(path: Path | str, limit: int = SMALL_BYTES) -> str:
    content = read_at_most(path, limit)
    if len(content) > limit:
        raise DataError(f"{path}: larger than {limit >> 20} MiB; expected a small text file")
    try:
        return decoded(content)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None

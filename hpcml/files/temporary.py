"""Temporary files for atomic writes; files left by dead processes are removed.

The name contains host and process number. While it is alive, the process holds a lock on the file: a lock that can be taken, on the
host in the name, means that its writer is dead. Files of other hosts are kept, because not all file systems share locks.
"""

import fcntl
import os
import shutil
import socket
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from hpcml.signals import cleanup_on_exit

NAME_BYTES = 255  # longest file name in common file systems
_RANK_BYTES = 11  # of the suffix that ranks append for their own parts
_HOST_BYTES = 32


def _shorten(name: str, n_bytes: int) -> str:
    raw = os.fsencode(name)
    return name if len(raw) <= n_bytes else f"{os.fsdecode(raw[: n_bytes - 9])}~{zlib.crc32(raw):08x}"


def _prefix(final: Path) -> str:
    host = _shorten(socket.gethostname(), _HOST_BYTES)
    rest = len(os.fsencode(f"..part-{host}-{'9' * 10}")) + _RANK_BYTES
    return f".{_shorten(final.name, NAME_BYTES - rest)}.part-{host}-"


def temporary_name(final: Path) -> Path:
    return final.with_name(f"{_prefix(final)}{os.getpid()}")


def remove(temporary: Path) -> None:
    """Remove a temporary file or folder, and the ranks' parts NAME-RANK, ignoring errors."""
    with suppress(OSError):
        for path in temporary.parent.iterdir():
            if path.name == temporary.name or path.name.startswith(f"{temporary.name}-"):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def claimed(temporary: Path, final: Path, folder: bool = False) -> Iterator[None]:
    """Create and lock an empty file or folder during the body, which renames or removes it. Raises OSError."""
    remove_left(final)
    try:
        if folder:
            temporary.mkdir(parents=True)
        how = os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
        descriptor = os.open(temporary, how | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from None
    try:
        with suppress(OSError):  # without locks, no file counts as left over
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a folder in `parent` (default: TMPDIR) that is removed after the body or when the process ends. Raises OSError."""
    final = (parent or Path(tempfile.gettempdir())) / name
    folder = temporary_name(final)
    with cleanup_on_exit(partial(_remove, folder)), claimed(folder, final, folder=True):
        try:
            folder.chmod(0o700)
            yield folder
        finally:
            _remove(folder)


def remove_left(final: Path) -> None:
    begin = _prefix(final)
    with suppress(OSError):
        for path in final.parent.iterdir():
            pid = path.name.removeprefix(begin).partition("-")[0]
            if path.name.startswith(begin) and pid.isdigit() and not _has_live_writer(final.with_name(begin + pid)):
                _remove(path)


def _has_live_writer(temporary: Path) -> bool:
    """Return whether the writer of a temporary file is alive or its state is unknown; False if the file is missing."""
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False

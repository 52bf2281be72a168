"""Temporary names for what is made until it is whole; what dead processes left there is removed.

The name says the host and the process that write. While it lives, the process holds a lock on the file: a lock that can be taken,
on the host that the name says, means that its writer is dead. What other hosts left stays: not all file systems share locks.
"""

from __future__ import annotations

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

from hpcml.signals import undone

NAME_BYTES = 255  # of a name, in all file systems in use
_RANK_BYTES = 11  # of what ranks append for parts of their own
_HOST_BYTES = 32


def _shortened(name: str, n_bytes: int) -> str:
    """Return the name, if it has at most `n_bytes` bytes; else its beginning and a checksum of it all."""
    raw = os.fsencode(name)
    return name if len(raw) <= n_bytes else f"{os.fsdecode(raw[: n_bytes - 9])}~{zlib.crc32(raw):08x}"


def _prefix(final: Path) -> str:
    """Return the temporary names of one destination on this host, up to the number of the process."""
    host = _shortened(socket.gethostname(), _HOST_BYTES)
    rest = len(os.fsencode(f"..part-{host}-{'9' * 10}")) + _RANK_BYTES
    return f".{_shortened(final.name, NAME_BYTES - rest)}.part-{host}-"


def temporary_name(final: Path) -> Path:
    """Return the hidden name in the folder of `final` under which this process makes it."""
    return final.with_name(f"{_prefix(final)}{os.getpid()}")


def remove(temporary: Path) -> None:
    """Remove what a temporary name stands for, and the ranks' parts NAME-RANK. Local; no errors."""
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
    """Until the body's end an empty file or folder of that name is ours. Local; OSError.

    What dead processes left of the same destination is removed first. The body renames or removes what it made.
    """
    remove_left(final)
    try:
        if folder:
            temporary.mkdir(parents=True)
        how = os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
        descriptor = os.open(temporary, how | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from None
    try:
        with suppress(OSError):  # where there are no locks, nothing is taken for left
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder(name: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder in `parent` (TMPDIR) that goes with body or process. Local; raises OSError."""
    final = (parent or Path(tempfile.gettempdir())) / name
    folder = temporary_name(final)
    with undone(partial(_remove, folder)), claimed(folder, final, folder=True):
        try:
            folder.chmod(0o700)
            yield folder
        finally:
            _remove(folder)


def remove_left(final: Path) -> None:
    """Remove what dead processes of this host left of `final`. Local; raises nothing."""
    begin = _prefix(final)
    with suppress(OSError):
        for path in final.parent.iterdir():
            pid = path.name.removeprefix(begin).partition("-")[0]
            if path.name.startswith(begin) and pid.isdigit() and not _alive(final.with_name(begin + pid)):
                _remove(path)


def _alive(temporary: Path) -> bool:
    """Whether somebody still makes this, or it is unclear; without the file itself, nobody."""
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

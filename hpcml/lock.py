"""The lock on a run folder: one run at a time, freed by the kernel when its process ends, however that happens."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from hpcml.environment import node_name
from hpcml.errors import ConfigError
from hpcml.log import Log

LOCK = ".hpcml-lock"
PATIENCE = 3.0  # seconds: the processes of a job that was killed may take a moment to go
_CANNOT = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}  # the file system has no locks
_MAY_NOT = {errno.EACCES, errno.EPERM, errno.EROFS}  # who may not write here does no harm; what is written next says so


class FolderLock:
    """An exclusive lock on a folder by the file LOCK in it, which says who holds it. Every method is local."""

    def __init__(self, folder: Path, log: Log) -> None:
        self.folder, self.path, self.log = folder, folder / LOCK, log
        self._descriptor, self._entered = -1, False

    def acquire(self) -> None:
        """Create the folder, if need be, and take the lock. Raises OSError, or ConfigError if another process holds it."""
        end = time.monotonic() + PATIENCE
        while not self._try():
            if time.monotonic() > end:
                raise ConfigError(f"{self.folder} is in use by {self._holder()}; wait for it, or choose another --output")
            time.sleep(0.05)
        self._entered = True

    def _try(self) -> bool:
        """Whether the lock is ours now, or cannot be had by anybody."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:  # a run that could not begin removed the folder
            return False
        except OSError as error:
            if error.errno in _MAY_NOT:
                return True
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), self.path.stat()):  # else its holder removed it in between
                self._descriptor, descriptor = descriptor, -1
                self._sign()
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self.path.unlink()
            self.log(f"{self.folder}: the file system has no locks ({error.strerror}); see that no other job uses the folder")
            return True
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return self._descriptor >= 0

    def _sign(self) -> None:
        """Say in the file who holds the lock."""
        job = f" (Slurm job {os.environ['SLURM_JOB_ID']})" if "SLURM_JOB_ID" in os.environ else ""
        text = f"process {os.getpid()} on {node_name()}{job} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
        with suppress(OSError):  # the disk may be full; the lock holds all the same
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text.encode(), 0)

    def _holder(self) -> str:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")[:200].strip()
        except OSError:
            text = ""
        return text if text.isprintable() and text else "another process"

    def release(self) -> None:
        """Remove the file, and the folder if nothing else is in it, then free the lock. Does nothing if it was not acquired."""
        if not self._entered:
            return
        self._entered = False
        with suppress(OSError):
            if self._descriptor >= 0:
                self.path.unlink()  # while it is ours: who waits for it notices
            self.folder.rmdir()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

"""The lock on a run folder: one run at a time, released by the kernel however the process ends.

A file in the folder carries the lock (`flock`) and names its holder. Some file systems have no locks, or separate locks on each
node. There the time of the file decides: the holder updates it every BEAT seconds.
"""

import errno
import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from hpcml.errors import InUseError
from hpcml.log import Log
from hpcml.mpi.runtime import node_name

LOCK = ".hpcml-lock"
PATIENCE = 3.0  # seconds to wait, because processes of a killed job take a moment to end
BEAT = 10.0  # seconds between two updates of the file's time by its holder
SILENCE = 35.0  # seconds without an update after which a holder on another node counts as dead
LONG_AGO = 600.0  # age of the last update above which it counts as dead at once, in spite of clock differences
_LONGEST = 2000  # bytes of the file to read
BOOT = ""  # id of this boot of the kernel, whose processes all see its locks; "" if unknown
with suppress(OSError):
    BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
_CANNOT = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}  # the file system has no locks
_MAY_NOT = {errno.EACCES, errno.EPERM, errno.EROFS}  # without permission to write, the next write reports the error


class FolderLock:
    def __init__(self, folder: Path, log: Log) -> None:
        self.folder, self.path, self.log = folder, folder / LOCK, log
        self._descriptor, self._entered = -1, False
        self._released = threading.Event()
        self._beats: threading.Thread | None = None
        self._holder, self._touched = "", 0.0  # content of the file, and its time in seconds
        self._first_time, self._first_look = 0.0, 0.0  # for a watched holder: first time of the file, and when it was read

    def acquire(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._try():
            is_alive = self._first_time and self._touched != self._first_time
            if is_alive or (time.monotonic() > end and not self._first_time):
                used = f"{self.folder} is in use by {self._holder or 'another process'}"
                silent = time.time() - self._touched if self._touched else 0.0
                if silent > LONG_AGO:  # some file systems keep the locks of a dead node
                    used += f", which has been silent for {silent / 60:.0f} min"
                    raise InUseError(f"{used}; if no job uses the folder, remove {self.path}")
                raise InUseError(f"{used}; wait for it, or choose another --output")
            time.sleep(0.5 if self._first_time else 0.05)
        self._entered = True

    def _try(self) -> bool:
        """Return whether the lock was taken, or cannot be taken by anybody."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except FileNotFoundError:  # a run that failed to start removed the folder
            return False
        except OSError as error:
            if error.errno in _MAY_NOT:
                return True
            raise
        try:
            has_locks, is_held = True, False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_held = True
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                has_locks = False

            # Parse the two lines of `signature`; other content is ignored.
            self._holder, boot, self._touched = "", "", os.fstat(descriptor).st_mtime
            with suppress(ValueError):
                lines = os.pread(descriptor, _LONGEST, 0).decode().splitlines()
                self._holder, boot = lines if "".join(lines).isprintable() else ("", "")
            if is_held or not os.path.samestat(os.fstat(descriptor), self.path.stat()):
                return False  # held, or removed by its holder meanwhile

            # The holder has released the lock or is dead: certain within one kernel, else judged by the file's time.
            may_live = self._holder and not (has_locks and boot and boot == BOOT)
            if may_live and time.time() - self._touched <= LONG_AGO:
                if not self._first_time:
                    self.log(
                        f"{self.folder} is locked by {self._holder}; waiting {SILENCE:.0f} s for a sign that it is still running"
                    )
                    self._first_time, self._first_look = self._touched, time.monotonic()
                if self._touched != self._first_time or time.monotonic() - self._first_look <= SILENCE:
                    return False

            # The lock is ours: write the holder, and update the file's time from now on.
            self._descriptor = descriptor
            with suppress(OSError):  # the disk may be full; the lock is valid anyway
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, signature(), 0)
            self._released.clear()
            with suppress(RuntimeError):  # no thread can be started; the lock is valid anyway
                self._beats = threading.Thread(target=self._beat, name="lock", daemon=True)
                self._beats.start()
            if not has_locks:
                self.log(f"warning: {self.folder}: the file system has no locks; make sure that no other job uses the folder")
        except FileNotFoundError:
            return False
        finally:
            if self._descriptor != descriptor:
                os.close(descriptor)
        return True

    def _beat(self) -> None:
        while not self._released.wait(BEAT):
            with suppress(OSError):  # the next update may succeed
                os.utime(self._descriptor)

    def release(self) -> None:
        """Remove the file and an empty folder, and free the lock, if it was acquired."""
        if not self._entered:
            return
        self._entered = False
        self._released.set()
        if self._beats is not None and self._beats.is_alive():
            self._beats.join(timeout=1)  # a file system that no longer responds must not block the job
        with suppress(OSError):
            if self._descriptor >= 0 and os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                self.path.unlink()  # while it is locked, so that waiting jobs notice
            self.folder.rmdir()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def signature() -> bytes:
    """Return the content of the file for this process: a line for people, and the boot id of its kernel."""
    job = os.environ.get("SLURM_JOB_ID", "")
    of_job = f" (Slurm job {job})" if job else ""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {node_name()}{of_job} since {since}\n{BOOT}\n".encode(errors="replace")

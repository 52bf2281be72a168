"""Where compiled kernels are kept between processes.

What numba keeps are pickles, which run the code of whoever wrote them: so a folder is used only if
nobody else can write to it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

UNUSED_DAYS = 60
WAIT = 60  # seconds for a kernel that another process compiles, before it is compiled here, too


class CompiledOnce(FunctionCache):
    """The kept forms of a kernel: of the processes that lack one, one compiles it, and the others
    wait and take it.

    numba's own class lets all of them compile it, and processes that keep forms for different types
    at once mix up the files. It also keeps a form when a kernel or a constant of another module has
    changed that went into it.
    """

    _locked: ClassVar[set[str]] = set()  # by this process; kernels that one function makes share a file
    _stamped = False  # whether the kept forms are of these sources; only once all modules are imported that a kernel needs
    _lock: tuple[str, int] | None = None  # that this kernel holds: the path and the descriptor

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The form for a signature; None if it must be compiled, and then the lock is held until
        `save_overload`.
        """
        if not self._stamped:
            stamp = sources_digest(self._py_func.__module__)
            # The name depends on the sources and on the compiler, not on where the package is installed: clones and environments
            # share it. The Python version, the processor and the argument types are in numba's file names and keys.
            compiler = f"numba-{numba.__version__}-llvmlite-{llvmlite.__version__}-numpy-{np.__version__}"
            folder = Path(config.CACHE_DIR, compiler, f"{self._py_func.__module__}-{stamp[:16]}")
            self._cache_path = self._impl.locator._cache_path = str(folder)
            names = {"cache_path": self._cache_path, "filename_base": self._impl.filename_base}
            self._cache_file, self._stamped = IndexDataCacheFile(source_stamp=stamp, **names), True
        found = self._kept_form(sig, target_context)
        path = str(Path(self._cache_path, f"{self._impl.filename_base}.lock"))
        if found is None and path not in self._locked:
            with contextlib.suppress(FileExistsError):
                Path(self._cache_path).mkdir(mode=0o700, parents=True)
                remove_unused()
            descriptor, end = os.open(path, os.O_CREAT | os.O_RDWR, 0o600), time.monotonic() + WAIT
            with contextlib.suppress(OSError):  # a file system without locks
                while time.monotonic() < end:
                    with contextlib.suppress(BlockingIOError):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    time.sleep(0.01)
            self._lock = path, descriptor
            self._locked.add(path)
            found = self._kept_form(sig, target_context)
            if found is not None:
                self._unlock()
        return found

    def _kept_form(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError):  # an earlier version's, of arguments whose class has another name or place now
            self._cache_file.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a form that was compiled here."""
        super().save_overload(sig, data)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            path, descriptor = self._lock
            os.close(descriptor)
            self._locked.remove(path)
            self._lock = None


def remove_unused() -> None:
    """Remove the folders of compiled kernels that no process has read for UNUSED_DAYS."""
    oldest = time.time() - UNUSED_DAYS * 86400
    for other in Path(config.CACHE_DIR).glob("numba-*/*"):
        with contextlib.suppress(OSError):
            if max(path.stat().st_atime for path in (other, *other.iterdir())) < oldest:
                shutil.rmtree(other, ignore_errors=True)


@functools.cache
def sources_digest(name: str) -> str:
    """A digest of what goes into the kernels of a module: its source, its constants, and the same
    of the modules with kernels that it uses, and that these use.
    """
    seen, waiting, parts = {name}, [name], []
    while waiting:
        module = sys.modules[waiting.pop()]
        parts.append(_digest(module))
        values = [] if hasattr(module, "__path__") else vars(module).values()  # of a package: what has been imported so far
        for value in chain.from_iterable(each if isinstance(each, list) else [each] for each in values):
            used = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
            if not isinstance(used, str) or used in seen or used not in sys.modules:
                continue
            if used.startswith("hpcml.losses.") or (used.startswith("hpcml.") and "kernels" in used):
                seen.add(used)
                waiting.append(used)
    return hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()


@functools.cache
def _digest(module: ModuleType) -> str:
    """A digest of a module's source and of its constants, which may come from others."""
    found = hashlib.sha256(module.__name__.encode())
    found.update(Path(module.__file__ or "").read_bytes())
    for name, value in sorted(vars(module).items()):
        if isinstance(value, (int, float, str, tuple, np.generic)) and not name.startswith("__"):
            found.update(f"{name} {value!r} ".encode())
        elif isinstance(value, np.ndarray):
            found.update(name.encode() + value.tobytes())
    return found.hexdigest()


def choose_cache() -> None:
    """Let numba keep kernels in NUMBA_CACHE_DIR if that is set, else in `cache_folder()`."""
    if not config.CACHE_DIR:
        config.CACHE_DIR = str(cache_folder())


def n_kept() -> int:
    """How many compiled kernels are kept so far."""
    return sum(1 for _ in Path(config.CACHE_DIR).rglob("*.nbc"))


def cache_folder() -> Path:
    """A folder that is ours alone, made if need be.

    In a Slurm job it is on the node's own disk (SLURM_TMPDIR, TMPDIR or /tmp), which many nodes do
    not read at once; else in XDG_CACHE_HOME or ~/.cache, or on that disk if nothing can be written
    there. If the one there is not ours alone, it is a new one, which goes with this process.
    """
    local = Path(os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir(), f"hpcml-numba-{os.getuid()}")
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "hpcml", "numba")
    except RuntimeError:  # no HOME, and a user whom the system does not know, as in a container
        home = local
    for folder in (local,) if "SLURM_JOB_ID" in os.environ else (home, local):
        if folder.is_absolute() and _is_ours(folder):
            return folder
    folder = Path(tempfile.mkdtemp(prefix="hpcml-numba-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_ours(folder: Path) -> bool:
    """Return whether a folder, made if need be, can be written to, and neither be written to nor be replaced by other users."""
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status, above = folder.lstat(), folder.parent.stat()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        return False
    others_write_above = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    return above.st_uid in (0, os.getuid()) and not others_write_above

"""Storage of compiled kernels between processes.

numba's cache files are pickles, which can execute code, so a folder is used only if no other user can write to it.
"""

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
WAIT = 60  # seconds to wait for another process to compile a kernel, before compiling it here, too


class CompiledOnce(FunctionCache):
    """Cached forms of a kernel, each compiled by one process while the others wait.

    In numba's own class all processes would compile it, processes that save forms of different types at once mix up the files, and
    a form stays valid when a kernel or constant of another module that it uses has changed.
    """

    _locked: ClassVar[set[str]] = set()  # by this process; kernels of one factory share a file
    _stamped = False  # the cache path has the sources' digest; set when all modules are imported that a kernel needs
    _lock: tuple[str, int] | None = None  # path and descriptor of the lock that this kernel holds

    def __init__(self, function: Any) -> None:
        self._py_func = function  # numba's constructor, which tests the cache folder, is called for a kernel that is used

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the form for a signature, or None if it must be compiled; the lock is then held until `save_overload`."""
        if not self._stamped:
            super().__init__(self._py_func)
            stamp = sources_digest(self._py_func.__module__)
            # The name depends on the sources and the compiler but not on the path of the package, so clones and environments share
            # it. Python version, processor and argument types are in numba's file names and keys.
            compiler = f"numba-{numba.__version__}-llvmlite-{llvmlite.__version__}-numpy-{np.__version__}"
            folder = Path(config.CACHE_DIR, compiler, f"{self._py_func.__module__}-{stamp[:16]}")
            self._cache_path = self._impl.locator._cache_path = str(folder)
            names = {"cache_path": self._cache_path, "filename_base": self._impl.filename_base}
            self._cache_file, self._stamped = IndexDataCacheFile(source_stamp=stamp, **names), True
        form = self._cached_form(sig, target_context)
        path = str(Path(self._cache_path, f"{self._impl.filename_base}.lock"))
        if form is None and path not in self._locked:
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
            form = self._cached_form(sig, target_context)
            if form is not None:
                self._unlock()
        return form

    def _cached_form(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (AttributeError, ImportError):  # written by an earlier version, with argument classes that no longer exist
            self._cache_file.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            path, descriptor = self._lock
            os.close(descriptor)
            self._locked.remove(path)
            self._lock = None


def remove_unused() -> None:
    oldest = time.time() - UNUSED_DAYS * 86400
    for other in Path(config.CACHE_DIR).glob("numba-*/*"):
        with contextlib.suppress(OSError):
            if max(path.stat().st_atime for path in (other, *other.iterdir())) < oldest:
                shutil.rmtree(other, ignore_errors=True)


@functools.cache
def sources_digest(name: str) -> str:
    """Return a digest of a module's kernels: its source and constants, and those of all modules with kernels that it uses."""
    seen, waiting, parts = {name}, [name], []
    while waiting:
        module = sys.modules[waiting.pop()]
        parts.append(_digest(module))
        values = [] if hasattr(module, "__path__") else vars(module).values()  # a package only has what was imported so far
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
    digest = hashlib.sha256(module.__name__.encode())
    digest.update(Path(module.__file__ or "").read_bytes())
    for name, value in sorted(vars(module).items()):
        if isinstance(value, (int, float, str, tuple, np.generic)) and not name.startswith("__"):
            digest.update(f"{name} {value!r} ".encode())
        elif isinstance(value, np.ndarray):
            digest.update(name.encode() + value.tobytes())
    return digest.hexdigest()


def choose_cache() -> None:
    if not config.CACHE_DIR:
        config.CACHE_DIR = str(cache_folder())


def cache_folder() -> Path:
    """Return a folder that only this user can write to, created if necessary.

    In a Slurm job it is on the node's disk (SLURM_TMPDIR, TMPDIR or /tmp); otherwise in XDG_CACHE_HOME or ~/.cache if writable. If
    it is not safe, a new temporary folder is removed with the process.
    """
    local = Path(os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir(), f"hpcml-numba-{os.getuid()}")
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "hpcml", "numba")
    except RuntimeError:  # no HOME and an unknown user, as in a container
        home = local
    for folder in (local,) if "SLURM_JOB_ID" in os.environ else (home, local):
        if folder.is_absolute() and _is_ours(folder):
            return folder
    folder = Path(tempfile.mkdtemp(prefix="hpcml-numba-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_ours(folder: Path) -> bool:
    """Return whether a folder, created if necessary, is writable for us and neither writable nor replaceable for other users."""
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

"""Where compiled kernels are kept between processes.

What numba keeps are pickles, which run the code of whoever wrote them: so a folder is used only if nobody else can write to it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from pathlib import Path

from numba import config


def choose_cache() -> None:
    """Let numba keep kernels in NUMBA_CACHE_DIR if that is set, else in `cache_folder()`."""
    if not config.CACHE_DIR:
        config.CACHE_DIR = str(cache_folder())


def n_kept() -> int:
    """How many compiled kernels are kept so far."""
    return sum(1 for _ in Path(config.CACHE_DIR).rglob("*.nbc"))


def cache_folder() -> Path:
    """A folder that is ours alone, made if need be.

    In a Slurm job it is on the node's own disk (SLURM_TMPDIR, TMPDIR or /tmp), which many nodes do not read at once; else in
    XDG_CACHE_HOME or ~/.cache, or on that disk if nothing can be written there. If the one there is not ours alone, it is a
    new one, which goes with this process.
    """
    local = Path(os.environ.get("SLURM_TMPDIR") or tempfile.gettempdir(), f"hpcml-numba-{os.getuid()}")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "hpcml", "numba")
    for folder in (local,) if "SLURM_JOB_ID" in os.environ else (home, local):
        if folder.is_absolute() and _is_ours(folder):
            return folder
    folder = Path(tempfile.mkdtemp(prefix="hpcml-numba-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_ours(folder: Path) -> bool:
    """Whether a folder, made if need be, is a real one of this user's, can be written to, and by nobody else."""
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status, above = folder.lstat(), folder.parent.stat()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
    except OSError:
        return False
    # by whoever can write to the folder above
    replaceable = above.st_uid not in (0, os.getuid()) or (above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022 and not replaceable

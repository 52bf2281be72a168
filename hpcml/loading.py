"""Room for compiled libraries, before they are loaded, one thread for each, and an end to a loading that does not end.

OpenBLAS, which NumPy and SciPy bring along, takes memory for each thread while it is loaded. Where there is none left it tries
again, some versions without end, and the loader has Python's lock meanwhile: no handler of a signal runs, and no other thread.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any

# Address space, in bytes, that loading takes with one thread; on Linux, x86-64, a training under `ulimit -v` works from there on.
START_BYTES = 225 * 10**6  # MPI, NumPy, h5py
KERNEL_BYTES = 286 * 10**6  # numba, LLVM, SciPy, and the kernels
THREAD_BYTES = 42 * 10**6  # a further thread of OpenBLAS: a stack and a buffer
SECONDS = 600  # more than the slowest disk takes for them
in_program = False  # whether the process is ours to end
# The variables by which libraries choose their number of threads while they are loaded.
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    "NUMBA_NUM_THREADS",
)


def cap_threads() -> None:
    """Let all libraries that are loaded later compute with one thread in this process, which is one of several ranks."""
    os.environ.update(dict.fromkeys(THREADS, "1"))


@lru_cache(maxsize=1)
def _libraries(_n_modules: int) -> Any:
    """Return the libraries that are loaded with this number of modules. The search takes 2.5 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries compute with one thread in the body, also in a process that is not ours, which keeps its own number."""
    with nullcontext() if in_program else _libraries(len(sys.modules)).limit(limits=1):
        yield


def lacking(size: int) -> str:
    """Why the system would not give so many bytes, and those of the threads; "" if it would."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = []
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        with suppress(ValueError):
            wanted.append(int(os.environ.get(name, "")))
    threads = next((min(number, cores) for number in wanted if number > 0), cores)
    size += (threads - 1) * THREAD_BYTES
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        fewer = ", or set OPENBLAS_NUM_THREADS=1" if threads > 1 else ""
        return f"the libraries take {size // 10**6} MB of address space, more than there is; raise the limit (ulimit -v){fewer}"
    return ""


@contextmanager
def in_time() -> Iterator[None]:
    """Load libraries in the body. A program of ours is ended if they are not there after SECONDS.

    By the system's alarm, which needs no lock of Python's.
    """
    if not in_program:
        yield
        return
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)

"""Loading of compiled libraries: memory check, one thread each, and a time limit.

OpenBLAS, which NumPy and SciPy contain, allocates memory for each thread while it is loaded. Without memory it retries, some
versions endlessly, while the loader holds Python's lock: no signal handler and no other thread runs.
"""

import mmap
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any

# Address space, in bytes, that loading needs with one thread: the smallest `ulimit -v` under which training works on Linux, x86-64.
START_BYTES = 225 * 10**6  # MPI, NumPy, h5py
KERNEL_BYTES = 286 * 10**6  # numba, LLVM, SciPy, and the kernels
THREAD_BYTES = 42 * 10**6  # a further thread of OpenBLAS: stack and buffer
SECONDS = 600  # more than loading takes on the slowest disk
in_program = False  # this process runs hpcml's program, which may end it
began = time.perf_counter()  # of the program
# Variables from which libraries read their number of threads while they are loaded.
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    "NUMBA_NUM_THREADS",
)


def cap_threads() -> None:
    os.environ.update(dict.fromkeys(THREADS, "1"))


@lru_cache(maxsize=1)
def _libraries(_n_modules: int) -> Any:
    """Return the loaded libraries; cached by the number of modules, because the search takes 2.5 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries compute with one thread in the body, also in a host process, whose number of threads is restored."""
    with nullcontext() if in_program else _libraries(len(sys.modules)).limit(limits=1):
        yield


def lacking(size: int) -> str:
    """Return why the system cannot provide `size` bytes and the memory of the threads; "" if it can."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    settings = []
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        with suppress(ValueError):
            settings.append(int(os.environ.get(name, "")))
    threads = next((min(number, cores) for number in settings if number > 0), cores)
    size += (threads - 1) * THREAD_BYTES
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        fewer = ", or set OPENBLAS_NUM_THREADS=1" if threads > 1 else ""
        return f"the libraries need {size // 10**6} MB of address space, more than is available; raise the limit (ulimit -v){fewer}"
    return ""


@contextmanager
def in_time() -> Iterator[None]:
    """Load libraries in the body; an alarm, which needs no lock of Python, ends hpcml's program after SECONDS."""
    if not in_program:
        yield
        return
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)

"""Memory that a rank may use, and memory that it has used."""

from __future__ import annotations

import ctypes
import mmap
import resource
from collections import Counter
from contextlib import suppress

import numpy as np

from hpcml import mpi
from hpcml.errors import OptionError
from hpcml.log import size
from hpcml.mpi.limits import Limit, limits, process_bytes

MEMORY_SHARE = 0.5  # share of a rank's memory that rows and weights may use
OWN_BYTES = 120 * 10**6  # of a rank for Python, libraries and compiled kernels


def node_memory() -> Limit:
    return min(limits())


def memory_per_rank(comm: mpi.Comm, in_use: int = 0) -> float:
    """Return the bytes for each rank, in equal parts, less `in_use` (except from ulimit's limit). Collective over `comm`."""
    own_limits = limits()
    with mpi.on_node(comm) as node:
        n_sharing = Counter(shared for others in node.allgather({limit.shared for limit in own_limits}) for shared in others)
    least = min(limit / n_sharing[limit.shared] - in_use * (not limit.shared.startswith("process")) for limit in own_limits)
    return max(0.0, -mpi.allreduce_max(comm, -least))


def room_per_rank(comm: mpi.Comm) -> float:
    """Return the bytes that rows and weights of every rank may use. Collective over `comm`."""
    return min(MEMORY_SHARE * memory_per_rank(comm), memory_per_rank(comm, OWN_BYTES))


def check_room(comm: mpi.Comm, learner: str, n_rows: int, n_features: int, copies: int) -> None:
    """Raise OptionError unless copies of dense float32 rows fit into memory. Collective over `comm`."""
    needed, room = copies * 4.0 * n_rows * n_features, room_per_rank(comm)
    if needed > room:
        sizes = f"{n_rows:,} × {n_features:,} values, up to {size(needed)} on each rank"
        why = f"it needs dense rows, {sizes}, but a rank has {size(room)}; choose a learner for sparse rows, fewer ranks on "
        raise OptionError("base", learner, f"{why}a node, or fewer features")


def return_freed_memory() -> None:
    """Return freed memory, which the allocator may keep, to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def ask_for(*arrays: np.ndarray) -> None:
    """Let the system prefetch these mapped arrays exactly, without the surrounding megabytes."""
    with suppress(OSError, AttributeError):
        for array in arrays:
            begin = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
            size = array.ctypes.data + array.nbytes - begin
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), ctypes.c_int(mmap.MADV_WILLNEED))


def peak_mib() -> float:
    return (process_bytes("VmHWM") or 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20

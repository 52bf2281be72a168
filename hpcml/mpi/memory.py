"""How much memory a rank may plan with, and how much it has needed."""

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
from hpcml.mpi.limits import Limit, bytes_of_process, limits

MEMORY_SHARE = 0.5  # of a rank's share of its node that rows and weights may take
OWN_BYTES = 120 * 10**6  # of a rank: Python, libraries and compiled kernels


def memory_of_node() -> Limit:
    """Return the bytes of memory of this node for its processes: the tightest limit."""
    return min(limits())


def memory_per_rank(comm: mpi.Comm, taken: int = 0) -> float:
    """Collective over `comm`. Bytes for each rank, in equal parts, less `taken` (not of ulimit's, which is what is left)."""
    mine = limits()
    with mpi.on_node(comm) as node:
        sharing = Counter(shared for there in node.allgather({limit.shared for limit in mine}) for shared in there)
    least = min(limit / sharing[limit.shared] - taken * (not limit.shared.startswith("process")) for limit in mine)
    return max(0.0, -mpi.allreduce_max(comm, -least))


def room_per_rank(comm: mpi.Comm) -> float:
    """Collective over `comm`. Bytes that the rows and weights of every rank may take."""
    return min(MEMORY_SHARE * memory_per_rank(comm), memory_per_rank(comm, OWN_BYTES))


def check_room(comm: mpi.Comm, learner: str, n_rows: int, n_features: int, copies: int) -> None:
    """Collective over `comm`. Raise OptionError unless copies of dense float32 rows fit."""
    needed, room = copies * 4.0 * n_rows * n_features, room_per_rank(comm)
    if needed > room:
        sizes = f"{n_rows:,} × {n_features:,} values, up to {size(needed)} on each rank"
        why = f"it needs dense rows, {sizes}, but a rank has {size(room)}; choose a learner that takes sparse rows, fewer ranks on "
        raise OptionError("base", learner, f"{why}a node, or fewer features")


def return_freed_memory() -> None:
    """Return freed memory, which the allocator may keep, to the system. Local."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def ask_for(*arrays: np.ndarray) -> None:
    """Let the system read these mapped arrays, not the megabytes around a page. Local."""
    with suppress(OSError, AttributeError):
        for array in arrays:
            begin = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
            size = array.ctypes.data + array.nbytes - begin
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), ctypes.c_int(mmap.MADV_WILLNEED))


def peak_mib() -> float:
    """The peak of this process's resident memory, in MiB. Local."""
    return (bytes_of_process("VmHWM") or 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 2**20

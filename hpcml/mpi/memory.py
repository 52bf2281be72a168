"""Memory that a rank may use (limits of machine, Slurm, control groups of versions 1 and 2, `ulimit`), and has used."""

import ctypes
import mmap
import os
import re
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.errors import OptionError
from hpcml.log import size
from hpcml.mpi.runtime import node_name

MEMORY_SHARE = 0.5  # share of a rank's memory that rows and weights may use
OWN_BYTES = 120 * 10**6  # of a rank for Python, libraries and compiled kernels
_FILES = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
# ulimit's option, the limit, the field of memory in use.
_OWN = (("-v", resource.RLIMIT_AS, "VmSize"), ("-d", resource.RLIMIT_DATA, "VmData"))
_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}  # Slurm's units; MiB without a unit


class Limit(int):
    """A memory limit in bytes, its source, and its scope: processes with equal `shared` share it."""

    source: str
    shared: str

    def __new__(cls, size: int, source: str, shared: str) -> "Limit":
        limit = super().__new__(cls, size)
        limit.source, limit.shared = source, shared
        return limit


def limits(root: Path = Path("/")) -> list[Limit]:
    all_limits = [Limit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the machine's memory", "machine")]

    # Memory requested by the Slurm job on this node; 0 means all memory.
    cpus = os.environ.get("SLURM_CPUS_ON_NODE", "")
    n_cpus = int(cpus) if cpus.isdecimal() else 0
    for what, factor, source in (("NODE", 1, "Slurm's --mem"), ("CPU", n_cpus, f"Slurm's --mem-per-cpu, {cpus} CPUs")):
        size = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", os.environ.get(f"SLURM_MEM_PER_{what}", ""))
        if size is not None and factor * int(size[1]) > 0:
            all_limits.append(Limit(factor * int(size[1]) * _UNITS[size[2]], source, f"slurm {node_name()}"))

    # Every control group of this process, from the innermost to the outermost mounted one.
    for kind, folder, group in control_groups(root):
        levels = (group, *(parent for parent in group.parents if parent.is_relative_to(folder)))
        texts = [(level / name, _read(level / name).strip()) for level in levels for name in _FILES[kind]]
        if kind == "cgroup":  # the kernel's limit over all levels, also those that are not mounted
            sums = re.findall(r"^hierarchical_memory_limit (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
            texts += [(folder / "memory.stat", text) for text in sums[:1]]
        for file, text in texts:
            if text.isascii() and text.isdecimal():
                status = file.parent.stat()  # identifies the group, whatever its path is inside a container
                all_limits.append(Limit(int(text), f"control group {file}", f"group {status.st_dev} {status.st_ino}"))

    # What `ulimit` allows this process in addition to the memory in use.
    for option, number, field in _OWN:
        soft = resource.getrlimit(number)[0]
        if soft != resource.RLIM_INFINITY:
            all_limits.append(Limit(max(0, soft - process_bytes(field)), f"ulimit {option}", f"process {os.getpid()}"))
    return all_limits


def control_groups(root: Path) -> Iterator[tuple[str, Path, Path]]:
    paths = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        if number == "0" and not controllers:
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    for line in _read(root / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        mount, system = left.split(), right.split()
        if len(mount) < 5 or len(system) < 3 or not mount[3].startswith("/") or system[0] not in paths:
            continue
        if system[0] == "cgroup2" or "memory" in system[2].split(","):
            # In mountinfo, blanks are octal escapes.
            mounted, folder = (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path) for path in mount[3:5])
            path, inside = paths[system[0]], os.path.relpath(paths[system[0]], mounted)
            top = root / folder.lstrip("/")
            # For a group outside of the mount, use the root of the mount.
            yield system[0], top, top if path.startswith("/..") or inside.startswith("..") else top / inside


def process_bytes(name: str) -> int:
    """Return a memory field of /proc/self/status in bytes, such as VmHWM; 0 if it is missing."""
    field = re.search(rf"^{name}:\s+(\d+) kB", _read(Path("/proc/self/status")), re.MULTILINE)
    return 1024 * int(field[1]) if field else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


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
    return min(MEMORY_SHARE * memory_per_rank(comm), memory_per_rank(comm, OWN_BYTES))


def check_room(comm: mpi.Comm, learner: str, n_rows: int, n_features: int, copies: int) -> None:
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

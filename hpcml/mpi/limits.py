"""Limits of this process's memory: machine, Slurm, control groups (1, 2), `ulimit`. All local."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from hpcml.mpi.runtime import node_name

_FILES = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
_OWN = (("-v", resource.RLIMIT_AS, "VmSize"), ("-d", resource.RLIMIT_DATA, "VmData"))  # ulimit's option, the limit, what is taken
_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}  # Slurm's; without one: MiB


class Limit(int):
    """Bytes of memory, the source of the limit, and its sharers: processes with equal `shared`."""

    source: str
    shared: str

    def __new__(cls, size: int, source: str, shared: str) -> Limit:
        """A limit of `size` bytes."""
        limit = super().__new__(cls, size)
        limit.source, limit.shared = source, shared
        return limit


def limits(root: Path = Path("/")) -> list[Limit]:
    """All that is found; `root` is where /proc and the mounted control groups are looked for."""
    found = [Limit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "the machine's memory", "machine")]

    # What the Slurm job asked for on this node; 0 means all there is.
    cpus = os.environ.get("SLURM_CPUS_ON_NODE", "")
    n_cpus = int(cpus) if cpus.isdecimal() else 0
    for what, factor, source in (("NODE", 1, "Slurm's --mem"), ("CPU", n_cpus, f"Slurm's --mem-per-cpu, {cpus} CPUs")):
        size = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", os.environ.get(f"SLURM_MEM_PER_{what}", ""))
        if size is not None and factor * int(size[1]) > 0:
            found.append(Limit(factor * int(size[1]) * _UNITS[size[2]], source, f"slurm {node_name()}"))

    # Every control group that this process is in, from the innermost to the outermost mounted.
    for kind, folder, group in control_groups(root):
        levels = (group, *(parent for parent in group.parents if parent.is_relative_to(folder)))
        texts = [(level / name, _read(level / name).strip()) for level in levels for name in _FILES[kind]]
        if kind == "cgroup":  # the kernel's own sum of all levels, of those that are not mounted, too
            sums = re.findall(r"^hierarchical_memory_limit (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
            texts += [(folder / "memory.stat", text) for text in sums[:1]]
        for file, text in texts:
            if text.isascii() and text.isdecimal():
                status = file.parent.stat()  # identifies the group, however its path looks from inside of a container
                found.append(Limit(int(text), f"control group {file}", f"group {status.st_dev} {status.st_ino}"))

    # What `ulimit` leaves to this process alone, on top of what it has.
    for option, number, taken in _OWN:
        soft = resource.getrlimit(number)[0]
        if soft != resource.RLIM_INFINITY:
            found.append(Limit(max(0, soft - bytes_of_process(taken)), f"ulimit {option}", f"process {os.getpid()}"))
    return found


def control_groups(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """Yield the control groups of this process that may limit memory: file system, its mount point, folder of the group."""
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
            # In mountinfo, blanks are octal numbers.
            mounted, folder = (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path) for path in mount[3:5])
            path, inside = paths[system[0]], os.path.relpath(paths[system[0]], mounted)
            top = root / folder.lstrip("/")
            # Of a group outside of what is mounted, the root of the mount is the nearest there is.
            yield system[0], top, top if path.startswith("/..") or inside.startswith("..") else top / inside


def bytes_of_process(name: str) -> int:
    """Bytes that the system tells of this process by a name, such as VmHWM; else 0."""
    found = re.search(rf"^{name}:\s+(\d+) kB", _read(Path("/proc/self/status")), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def _read(path: Path) -> str:
    """The text of a file of the kernel; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""

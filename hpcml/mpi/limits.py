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

    @property
    def is_left(self) -> bool:
        """Whether it is what the process may take on top of what it has."""
        return self.shared.startswith("process")


def limits(root: Path = Path("/")) -> list[Limit]:
    """All that is found; `root` is where /proc and the mounted control groups are looked for."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return [Limit(total, "the machine's memory", "machine"), *_of_slurm(), *_of_groups(root), *_of_process()]


def _of_slurm() -> Iterator[Limit]:
    """The memory that the Slurm job asked for on this node."""
    if (size := _of_words(os.environ.get("SLURM_MEM_PER_NODE", ""))) > 0:
        yield Limit(size, "Slurm's --mem", f"slurm {node_name()}")
    cpus, size = os.environ.get("SLURM_CPUS_ON_NODE", ""), _of_words(os.environ.get("SLURM_MEM_PER_CPU", ""))
    if size > 0 and cpus.isdecimal() and int(cpus) > 0:
        yield Limit(int(cpus) * size, f"Slurm's --mem-per-cpu, {cpus} CPUs", f"slurm {node_name()}")


def _of_words(text: str) -> int:
    """Bytes of a size as Slurm writes it; 0 (which to Slurm means: all there is) if it is none."""
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _of_groups(root: Path) -> Iterator[Limit]:
    """Of every group that this process is in, from the innermost to the outermost mounted."""
    paths = _paths(root)
    for kind, mounted, folder in _mounts(root):
        if kind not in paths:
            continue
        inside = os.path.relpath(paths[kind], mounted)
        outside = paths[kind].startswith("/..") or inside.startswith("..")  # of what is mounted: its root is the nearest there is
        group = folder if outside else folder / inside
        for level in (group, *(parent for parent in group.parents if parent.is_relative_to(folder))):
            yield from _of_files(level, _FILES[kind])
        if kind == "cgroup":  # the kernel's own sum of all levels, of those that are not mounted, too
            yield from _of_files(folder, (), _hierarchical(group / "memory.stat"))


def _paths(root: Path) -> dict[str, str]:
    """The group that this process is in, by the kind of file system that shows it."""
    found = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        if number == "0" and not controllers:
            found["cgroup2"] = path
        elif "memory" in controllers.split(","):
            found["cgroup"] = path
    return found


def _mounts(root: Path) -> Iterator[tuple[str, str, Path]]:
    """The mounted trees of groups that may limit memory: kind, the group at its root, folder."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        mount, system = left.split(), right.split()
        if len(mount) < 5 or len(system) < 3 or not mount[3].startswith("/"):
            continue
        if system[0] == "cgroup2" or (system[0] == "cgroup" and "memory" in system[2].split(",")):
            yield system[0], _plain(mount[3]), root / _plain(mount[4]).lstrip("/")


def _plain(path: str) -> str:
    """A path of mountinfo, where blanks are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _of_files(folder: Path, names: tuple[str, ...], more: str = "") -> Iterator[Limit]:
    """The limits in the files of a group's folder, and `more`."""
    found = [(_read(folder / name).strip(), name) for name in names]
    for text, name in [*found, (more, "memory.stat")]:
        if text.isascii() and text.isdecimal():
            yield Limit(int(text), f"control group {folder / name}", f"group {_identity(folder)}")


def _hierarchical(stat: Path) -> str:
    found = re.search(r"^hierarchical_memory_limit (\d+)$", _read(stat), re.MULTILINE)
    return found[1] if found else ""


def _identity(folder: Path) -> str:
    """The identity of a group, however its path looks from inside of a container."""
    try:
        status = folder.stat()
    except OSError:
        return str(folder)
    return f"{status.st_dev} {status.st_ino}"


def _of_process() -> Iterator[Limit]:
    """The memory that `ulimit` leaves to this process alone, on top of what it has."""
    for option, number, taken in _OWN:
        soft = resource.getrlimit(number)[0]
        if soft != resource.RLIM_INFINITY:
            yield Limit(max(0, soft - bytes_of_process(taken)), f"ulimit {option}", f"process {os.getpid()}")


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

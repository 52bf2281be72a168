"""`hpcml check`: whether launcher, nodes and file system can run a training. Prints one sentence per check."""

import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hpcml import mpi
from hpcml.check import bits
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, HpcmlError, Interrupted
from hpcml.files.atomic import sync
from hpcml.log import Log, joined, plural, size
from hpcml.methods.registry import method_named, train
from hpcml.mpi.memory import node_memory, room_per_rank
from hpcml.mpi.runtime import node_name
from hpcml.run.session import Session, Target
from hpcml.signals import StopSignals, cleanup_on_exit

_BYTES = 8 << 20  # size of each rank's test file, and of the large sum
_ROWS = 2000


@dataclass
class Findings:
    """The sentences of the checks, one line each, which start with ok, warning or error."""

    lines: list[str] = field(default_factory=list)
    success: str = "everything that training needs works"

    def add(self, level: str, sentence: str) -> None:
        """Add a sentence. warning: training is slower or less safe; error: training fails."""
        self.lines.append(f"{level:8} {sentence}")

    def count(self, level: str) -> int:
        return sum(line.startswith(level) for line in self.lines)

    def __str__(self) -> str:
        end = f"all is well: {self.success}"
        if n_errors := self.count("error"):
            end = f"{plural(n_errors, 'error')} to correct"
        elif n_warnings := self.count("warning"):
            end = f"{self.success}, with {plural(n_warnings, 'warning')}"
        return joined([*self.lines, end])


@contextmanager
def _temporary_folder(comm: mpi.Comm, folder: Path) -> Iterator[None]:
    """Create a folder, and remove it at the end. Raises ConfigError if it exists. Collective over `comm`."""

    def create() -> None:
        if folder.exists():
            raise ConfigError(f"{folder} exists already; name a new folder, which is removed at the end")
        folder.mkdir()

    mpi.run_on_root(comm, f"creating {folder}", create)
    remove = partial(shutil.rmtree, folder, ignore_errors=True)
    with cleanup_on_exit(remove):
        try:
            yield
        except BaseException:
            if comm.rank == 0:
                remove()
            raise
    mpi.run_on_root(comm, f"removing {folder}", lambda: shutil.rmtree(folder))


def check(comm: mpi.Comm, folder: Path) -> Findings:
    """Run all checks in a new folder and return rank 0's findings. Raises ConfigError if it exists. Collective over `comm`."""
    findings = Findings()
    with _temporary_folder(comm, folder):
        for part in (check_ranks, check_cores, check_memory, check_clocks, check_messages):
            part(comm, findings)
        if check_files(comm, folder, findings):
            check_locks(comm, folder, findings)
            check_training(comm, folder, findings)
    return findings


def check_bits(comm: mpi.Comm, folder: Path, methods: Collection[str]) -> tuple[Findings, bits.Digests]:
    """Compare digests with the shipped ones; return rank 0's findings and digests. Raises ConfigError. Collective."""
    findings, shipped = Findings(success="all results equal those of other processors, bit by bit"), bits.read_shipped()
    for method in methods:
        method_named(method)
    with _temporary_folder(comm, folder):
        digests = bits.compute_digests(comm, folder, methods)
    for name, parts in digests.items():
        difference, package = bits.describe_difference(parts, shipped.get(name)), bits.find_package(name, bits.EXTERNAL)
        if not difference:
            findings.add("ok", f"{name}: same")
        elif package is not None or name not in shipped:
            reason = f" (computed by {package}, whose versions differ)" if package else ""
            findings.add("warning", f"{name}: {difference}{reason}")
        else:
            findings.add("error", f"{name}: {difference}")
    return findings, digests


def check_ranks(comm: mpi.Comm, findings: Findings) -> None:
    nodes = Counter(comm.allgather(node_name()))
    per_node = sorted(set(nodes.values()))
    spread = f", {'-'.join(map(str, dict.fromkeys((per_node[0], per_node[-1]))))} per node" if len(nodes) > 1 else ""
    findings.add("ok", f"ranks: {comm.size} on {plural(len(nodes), 'node')}{spread}; {mpi.library()}, {mpi.abi()}")
    n_tasks, n_nodes = os.environ.get("SLURM_NTASKS", ""), os.environ.get("SLURM_JOB_NUM_NODES", "")
    if n_tasks.isdigit() and int(n_tasks) != comm.size:
        advice = f"start them with mpirun -n {n_tasks}"
        findings.add("warning", f"ranks: the Slurm job has {n_tasks} tasks, but {plural(comm.size, 'rank')} started; {advice}")
    if n_nodes.isdigit() and int(n_nodes) != len(nodes):
        findings.add("warning", f"ranks: the Slurm job has {n_nodes} nodes, but the ranks use {len(nodes)}; start them with srun")
    if len(per_node) > 1:
        findings.add("warning", "ranks: the nodes have different numbers of ranks; make them equal with --ntasks-per-node")


def check_cores(comm: mpi.Comm, findings: Findings) -> None:
    cores_of_ranks = comm.allgather((node_name(), os.sched_getaffinity(0)))
    for node, n_ranks in Counter(name for name, _ in cores_of_ranks).items():
        n_cores = len(set().union(*(cores for name, cores in cores_of_ranks if name == node)))
        if n_cores < n_ranks:
            findings.add(
                "warning",
                f"cores: {n_ranks} ranks share {plural(n_cores, 'core')} on {node}, which slows all of them; start at most "
                f"{plural(n_cores, 'rank')} there, or request one core per rank (Slurm: --cpus-per-task=1)",
            )
        else:
            idle = f"; `mpirun -n {n_cores} hpcml ...` uses all of them" if comm.size == 1 < n_cores else ""
            findings.add("ok", f"cores: {n_cores} on {node}, one per rank{idle}")


def check_memory(comm: mpi.Comm, findings: Findings) -> None:
    limit, room = node_memory(), room_per_rank(comm)
    lowest, source, node = min(comm.allgather((int(limit), limit.source, node_name())))
    findings.add("ok", f"memory: {size(lowest)} on {node} ({source}); {size(room)} per rank for rows and weights")


def check_clocks(comm: mpi.Comm, findings: Findings) -> None:
    """Check that the clocks of the nodes agree to 5 s; only logs depend on them. Collective over `comm`."""
    comm.Barrier()
    times = comm.allgather(time.time())
    if (difference := max(times) - min(times)) > 5:
        findings.add(
            "warning", f"clocks: the nodes differ by {difference:.1f} s, and so do the times in their logs; synchronise them"
        )


def check_messages(comm: mpi.Comm, findings: Findings) -> None:
    if comm.size == 1:
        return
    fastest = []
    for n_values, repeats in ((1, 50), (_BYTES // 8, 5)):
        buffer, seconds = np.zeros(n_values), []
        for _ in range(repeats):
            comm.Barrier()
            begin = time.perf_counter()
            mpi.allreduce_sum(comm, buffer)
            seconds.append(time.perf_counter() - begin)
        fastest.append(mpi.allreduce_max(comm, min(seconds)))
    findings.add("ok", f"messages: {1e6 * fastest[0]:.0f} µs for a sum over all ranks, {1e3 * fastest[1]:.1f} ms for 8 MiB")


def check_files(comm: mpi.Comm, folder: Path, findings: Findings) -> bool:
    """Return whether each rank can write to `folder` and read the file of another rank. Collective over `comm`."""
    names = comm.bcast([str(folder / f"rank{rank}") for rank in range(comm.size)])
    pattern = np.random.default_rng(comm.rank).bytes(_BYTES)
    begin = time.perf_counter()
    can_write = _succeeds(lambda: Path(names[comm.rank]).write_bytes(pattern)) and _succeeds(lambda: sync(Path(names[comm.rank])))
    seconds = mpi.allreduce_max(comm, time.perf_counter() - begin)
    comm.Barrier()
    other = (comm.rank + comm.size // 2) % comm.size  # on another node, if there are several
    expected = np.random.default_rng(other).bytes(_BYTES)
    can_read = can_write and _succeeds(lambda: Path(names[other]).read_bytes() == expected)
    failing = sorted({node for node, works in comm.allgather((node_name(), can_read)) if not works})
    if failing:
        findings.add("error", f"files: {', '.join(failing)} cannot write to {folder} or read from it; use a shared file system")
        return False
    free, speed = shutil.disk_usage(folder).free, comm.size * _BYTES / seconds / 1e6
    findings.add("ok", f"files: all ranks read and write {folder}, {speed:.0f} MB/s in total; {size(free)} free")
    return True


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        return call() is not False
    except OSError:
        return False


def check_locks(comm: mpi.Comm, folder: Path, findings: Findings) -> None:
    """Check that a lock of rank 0, as on a run folder, excludes the last rank. Collective over `comm`."""
    has_file = comm.rank in (0, comm.size - 1)
    with mpi.agreed(comm, f"opening {folder / 'lock'}"):
        file = (folder / "lock").open("ab") if has_file else None
    is_locked = file is not None and comm.rank == 0 and _can_lock(file)
    comm.Barrier()
    is_excluded = file is not None and not (comm.rank == comm.size - 1 and comm.size > 1 and _can_lock(file))
    works = comm.gather(is_locked if comm.rank == 0 else is_excluded)
    comm.Barrier()
    if file is not None:
        file.close()
    if comm.rank == 0 and works[0] and works[-1]:
        findings.add("ok", "locks: a second job cannot use a run folder that is in use")
    else:
        findings.add("warning", "locks: this file system has no locks between nodes; never use one run folder in two jobs")


def _can_lock(file: BinaryIO) -> bool:
    return _succeeds(partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB))


def check_training(comm: mpi.Comm, folder: Path, findings: Findings) -> None:
    """Compare a small run on all ranks, interrupted and resumed, with one on rank 0 alone. Collective over `comm`."""
    quiet = Log(1)
    begin = time.perf_counter()
    try:
        options = method_named("probe").options(bias=True, split="all")
        convert(comm, "synthetic", [Path("gaussians")], folder / "tiny.h5", ConvertOptions(rows=_ROWS), False, quiet)
        stopped = StopSignals()
        stopped.seen = True
        try:
            train("probe", Session(comm, quiet, stopped), folder / "tiny.h5", Target(folder / "all"), options)
        except Interrupted:
            train("probe", Session(comm, quiet), folder / "tiny.h5", Target(folder / "all", resume=True), options)
        with mpi.agreed(comm, "training on rank 0 alone"):
            if comm.rank == 0:
                train("probe", Session(mpi.self_comm(), quiet), folder / "tiny.h5", Target(folder / "one"), options)
                same = (folder / "all" / "model.h5").read_bytes() == (folder / "one" / "model.h5").read_bytes()
    except HpcmlError as error:
        findings.add("error", f"training: {error}")
        return
    seconds = time.perf_counter() - begin
    if comm.rank == 0:
        ranks = plural(comm.size, "rank")
        if same:
            run = f"a small run on {ranks}, interrupted and resumed,"
            findings.add("ok", f"training: {run} gave the model of rank 0 alone, in {seconds:.1f} s")
        else:
            findings.add(
                "error", f"training: {ranks} gave another model than rank 0 alone; check that all nodes have the same libraries"
            )

"""`hpcml check`: do launcher, nodes, file system do what a training run needs? In plain words."""

from __future__ import annotations

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
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, HpcmlError, Interrupted
from hpcml.files.atomic import sync
from hpcml.log import Log, joined, plural, size
from hpcml.methods.registry import method_named, train
from hpcml.mpi.memory import memory_of_node, room_per_rank
from hpcml.mpi.runtime import node_name
from hpcml.run.session import Session, Target
from hpcml.signals import StopSignals, undone

_BYTES = 8 << 20  # of each rank's test file, and of a large sum
_ROWS = 2000


@dataclass
class Findings:
    """The findings: sentences, and how many of them are warnings and errors."""

    lines: list[str] = field(default_factory=list)
    n_warnings: int = 0
    n_bad: int = 0
    well: str = "everything that training needs works"

    def ok(self, sentence: str) -> None:
        """All is well."""
        self.lines.append(f"ok       {sentence}")

    def warn(self, sentence: str) -> None:
        """It works, but slower or less safely than it could."""
        self.lines.append(f"warning  {sentence}")
        self.n_warnings += 1

    def bad(self, sentence: str) -> None:
        """Training would fail, or be lost."""
        self.lines.append(f"error    {sentence}")
        self.n_bad += 1

    def __str__(self) -> str:
        end = f"all is well: {self.well}"
        if self.n_bad:
            end = f"{plural(self.n_bad, 'error')} to correct"
        elif self.n_warnings:
            end = f"{self.well}, with {plural(self.n_warnings, 'warning')}"
        return joined([*self.lines, end])


@contextmanager
def _tried_in(comm: mpi.Comm, folder: Path) -> Iterator[None]:
    """Collective over `comm`. A new folder, which goes at the end. ConfigError if there is one."""

    def create() -> None:
        if folder.exists():
            raise ConfigError(f"{folder} exists already; name a folder to try things in, it is removed at the end")
        folder.mkdir()

    mpi.run_on_root(comm, f"creating {folder}", create)
    remove = partial(shutil.rmtree, folder, ignore_errors=True)
    with undone(remove):
        try:
            yield
        except BaseException:
            if comm.rank == 0:
                remove()
            raise
    mpi.run_on_root(comm, f"removing {folder}", lambda: shutil.rmtree(folder))


def check(comm: mpi.Comm, folder: Path) -> Findings:
    """Collective over `comm`. Try everything, in a new folder that is removed again; for rank 0.

    Raises ConfigError if `folder` exists already.
    """
    found = Findings()
    with _tried_in(comm, folder):
        for part in (check_ranks, check_cores, check_memory, check_clocks, check_messages):
            part(comm, found)
        if check_files(comm, folder, found):
            check_locks(comm, folder, found)
            check_training(comm, folder, found)
    return found


def check_bits(comm: mpi.Comm, folder: Path, methods: Collection[str]) -> tuple[Findings, bits.Digests]:
    """Collective over `comm`. Does what these methods (none: all) make of tiny data have the bits
    that it has elsewhere? For rank 0, with the digests. Raises ConfigError as `check`.
    """
    found, expected = Findings(well="everything has the bits that it has on other processors"), bits.shipped()
    for method in methods:
        method_named(method)
    with _tried_in(comm, folder):
        made = bits.digests(comm, folder, methods)
    for name, parts in made.items():
        differs, package = bits.difference(parts, expected.get(name)), bits.package_of(name, bits.OTHERS)
        if not differs:
            found.ok(f"{name}: same")
        elif package is not None or name not in expected:
            found.warn(f"{name}: {differs}" + (f" (computed by {package}, whose versions differ)" if package else ""))
        else:
            found.bad(f"{name}: {differs}")
    return found, made


def check_ranks(comm: mpi.Comm, found: Findings) -> None:
    """Collective over `comm`. Ranks, nodes, and whether Slurm counts as many."""
    nodes = Counter(comm.allgather(node_name()))
    per_node = sorted(set(nodes.values()))
    spread = f", {'-'.join(map(str, dict.fromkeys((per_node[0], per_node[-1]))))} a node" if len(nodes) > 1 else ""
    found.ok(f"ranks: {comm.size} on {plural(len(nodes), 'node')}{spread}; {mpi.library()}, {mpi.abi()}")
    tasks, wanted = os.environ.get("SLURM_NTASKS", ""), os.environ.get("SLURM_JOB_NUM_NODES", "")
    if tasks.isdigit() and int(tasks) != comm.size:
        found.warn(f"ranks: the Slurm job has {tasks} tasks, but only {comm.size} ranks run; start them with mpirun -n {tasks}")
    if wanted.isdigit() and int(wanted) != len(nodes):
        found.warn(f"ranks: the Slurm job has {wanted} nodes, but ranks run on {len(nodes)}; start them with srun")
    if len(per_node) > 1:
        found.warn("ranks: the nodes have different numbers of ranks; --ntasks-per-node makes them equal")


def check_cores(comm: mpi.Comm, found: Findings) -> None:
    """Collective over `comm`. Whether each rank of a node, which has one thread, has a core."""
    places = comm.allgather((node_name(), tuple(sorted(os.sched_getaffinity(0)))))
    for node, n_ranks in Counter(name for name, _ in places).items():
        n_cores = len(set().union(*(cores for name, cores in places if name == node)))
        if n_cores < n_ranks:
            found.warn(
                f"cores: {n_ranks} ranks of {node} share {plural(n_cores, 'core')}, so they wait for one another and work takes "
                f"longer; start at most {plural(n_cores, 'rank')} there, or ask for a core each (Slurm: --cpus-per-task=1)"
            )
        else:
            idle = f"; `mpirun -n {n_cores} hpcml ...` uses all" if comm.size == 1 < n_cores else ""
            found.ok(f"cores: {n_cores} on {node}, of which each rank uses one{idle}")


def check_memory(comm: mpi.Comm, found: Findings) -> None:
    """Collective over `comm`. The tightest limit on memory of any rank, and what it leaves."""
    limit, room = memory_of_node(), room_per_rank(comm)
    least, source, node = min(comm.allgather((int(limit), limit.source, node_name())))
    found.ok(f"memory: {size(least)} on {node} ({source}); rows and weights may take {size(room)} of it on each rank")


def check_clocks(comm: mpi.Comm, found: Findings) -> None:
    """Collective over `comm`. Whether the nodes have the same time (only logs depend on it)."""
    comm.Barrier()
    times = comm.allgather(time.time())
    if (apart := max(times) - min(times)) > 5:
        found.warn(f"clocks: the nodes' clocks are {apart:.1f} s apart, and so are the times in their logs; synchronise them")


def check_messages(comm: mpi.Comm, found: Findings) -> None:
    """Collective over `comm`. How fast small and large sums over the ranks are."""
    if comm.size == 1:
        return
    least = []
    for size_of_sum, repeats in ((1, 50), (_BYTES // 8, 5)):
        buffer, seconds = np.zeros(size_of_sum), []
        for _ in range(repeats):
            comm.Barrier()
            begin = time.perf_counter()
            mpi.allreduce_sum(comm, buffer)
            seconds.append(time.perf_counter() - begin)
        least.append(mpi.allreduce_max(comm, min(seconds)))
    found.ok(f"messages: a sum over all ranks takes {1e6 * least[0]:.0f} µs, one of 8 MiB {1e3 * least[1]:.1f} ms")


def check_files(comm: mpi.Comm, folder: Path, found: Findings) -> bool:
    """Collective over `comm`. Do all ranks see one file system, and what the others write?"""
    names = comm.bcast([str(folder / f"rank{rank}") for rank in range(comm.size)])
    pattern = np.random.default_rng(comm.rank).bytes(_BYTES)
    begin = time.perf_counter()
    wrote = _succeeds(lambda: Path(names[comm.rank]).write_bytes(pattern)) and _succeeds(lambda: sync(Path(names[comm.rank])))
    seconds = mpi.allreduce_max(comm, time.perf_counter() - begin)
    comm.Barrier()
    other = (comm.rank + comm.size // 2) % comm.size  # on another node, if there are several
    expected = np.random.default_rng(other).bytes(_BYTES)
    seen = wrote and _succeeds(lambda: Path(names[other]).read_bytes() == expected)
    blind = [node for node, works in comm.allgather((node_name(), seen)) if not works]
    if blind:
        found.bad(
            f"files: {', '.join(sorted(set(blind)))} cannot write {folder}, or read what others wrote; use a shared file system"
        )
        return False
    free, speed = shutil.disk_usage(folder).free, comm.size * _BYTES / seconds / 1e6
    found.ok(f"files: all ranks read and write {folder}, together with {speed:.0f} MB/s; {size(free)} are free")
    return True


def _succeeds(work: Callable[[], object]) -> bool:
    """Whether the system lets the work be done, and its answer is not False."""
    try:
        return work() is not False
    except OSError:
        return False


def check_locks(comm: mpi.Comm, folder: Path, found: Findings) -> None:
    """Collective over `comm`. Does rank 0's lock, which protects a run, keep the last rank out?"""
    mine = comm.rank in (0, comm.size - 1)
    with mpi.agreed(comm, f"opening {folder / 'lock'}"):
        file = (folder / "lock").open("ab") if mine else None
    locked = file is not None and comm.rank == 0 and _locks(file)
    comm.Barrier()
    kept_out = file is not None and not (comm.rank == comm.size - 1 and comm.size > 1 and _locks(file))
    works = comm.gather(locked if comm.rank == 0 else kept_out)
    comm.Barrier()
    if file is not None:
        file.close()
    if comm.rank == 0 and works[0] and works[-1]:
        found.ok("locks: a run folder is safe from a second job")
    else:
        found.warn("locks: this file system has none between nodes; never let two jobs use one run folder")


def _locks(file: BinaryIO) -> bool:
    return _succeeds(partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB))


def check_training(comm: mpi.Comm, folder: Path, found: Findings) -> None:
    """Collective over `comm`. Has a tiny run, interrupted and resumed, the bits of rank 0 alone?"""
    from hpcml.conversion.convert import convert

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
        found.bad(f"training: {error}")
        return
    seconds = time.perf_counter() - begin
    if comm.rank == 0:
        ranks = plural(comm.size, "rank")
        if same:
            run = f"a small run on {ranks}, interrupted and resumed,"
            found.ok(f"training: {run} gave the model of rank 0 alone, in {seconds:.1f} s")
        else:
            found.bad(f"training: {ranks} gave another model than rank 0 alone; the nodes' processors or libraries differ")

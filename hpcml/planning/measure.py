"""`hpcml bench machine`: constants of this machine, by the real kernels on generated rows.

Computing, and the start of the program, are measured in seconds of the processor, which other
programs disturb little; the disk and messages by the clock. Of all the least of several is taken.
What the clock says of computing tells whether the machine was busy. Every constant of computing is
measured on one rank of the node alone, and on all ranks at once, which then share caches and
memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from hpcml import __version__, mpi
from hpcml.data.compact import compact_rows
from hpcml.data.labels import count_positives, fingerprint
from hpcml.data.shard import Shard
from hpcml.files.atomic import sync
from hpcml.kernels.cache import n_kept
from hpcml.kernels.processor import processor_name
from hpcml.log import Log
from hpcml.methods.forecast import Curve, Forecaster, Machine, Timer
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.objective import aligned
from hpcml.methods.registry import METHODS
from hpcml.mpi.memory import peak_mib, room_per_rank
from hpcml.mpi.runtime import node_name
from hpcml.partition import offsets
from hpcml.planning.generated import GeneratedRows, generate

# Rows × columns. 4,000,000 columns took 20 of 30 s of the processor, for constants that were up to a half higher than those at
# 1,000,000 (elastic.index), most of them less than a fifth.
GRID = ((20_000, 10_000), (60_000, 100_000), (120_000, 1_000_000), (140_000, 2_000_000))
QUICK = ((2_000, 1_000), (4_000, 10_000))
SMALLEST = (400, 100)
LIMIT = 75.0  # seconds by the clock, beyond which no larger number of columns is measured; one rank needs some 30 of the processor
GROWTH = 0.6  # power of the columns by which the time grows that the next number of them takes
BUSY = 1.25  # seconds by the clock for a second of the processor, from which on a machine is called busy
DISK_REPEATS = 3
DISK_BYTES, QUICK_BYTES = 1 << 27, 1 << 22  # of a rank's test file, all ranks together
MESSAGE = 1 << 23  # bytes of a large sum
COLUMN_BYTES = 500  # of a column at most while constants are measured
PAIRS = 5  # labels of a row


class Stopwatch:
    """Measures calls in seconds of the processor, and remembers how long they took by the clock."""

    def __init__(self) -> None:
        self.processor = self.clock = 0.0

    def __call__(self, call: Callable[[], object]) -> float:
        """Seconds of the processor that a call takes."""
        begin, seconds = time.perf_counter(), processor_seconds(call)
        self.processor, self.clock = self.processor + seconds, self.clock + time.perf_counter() - begin
        return seconds


def processor_seconds(call: Callable[[], object]) -> float:
    """Seconds of the processor that a call takes."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def clock_seconds(call: Callable[[], object]) -> float:
    """Seconds by the clock that a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def forecasters() -> list[Forecaster]:
    """Those of all methods that have one; of those that measure the same, the first."""
    found: dict[object, Forecaster] = {}
    for method in METHODS.values():
        if method.forecast:
            forecaster = method.load(method.forecast)
            found.setdefault(type(forecaster).measure, forecaster)
    return list(found.values())


def measure_machine(comm: mpi.Comm, folder: Path, quick: bool, log: Log) -> Machine:
    """Collective over `comm`. All constants; a test file is written in `folder`, and removed."""
    began, watch, curves = time.perf_counter(), Stopwatch(), {}
    program, started = _measure_program(comm, log)
    with mpi.on_node(comm) as node:
        counts = list(dict.fromkeys((1, int(mpi.allreduce_max(comm, node.size)))))
        for number, n_busy in enumerate(counts, 1):
            until = began + LIMIT * number / len(counts)
            curves[str(n_busy)] = measure_curves(comm, node, n_busy, QUICK if quick else GRID, until, watch, log)
            disk = measure_disk(comm, node, folder, n_busy, QUICK_BYTES if quick else DISK_BYTES)
            curves[str(n_busy)] |= {name: [[1.0, seconds]] for name, seconds in disk.items()}
        latency, bandwidth = (None, None) if comm.size == 1 else latency_and_bandwidth(comm.size, *measure_sums(comm))
        n_nodes = comm.allreduce(int(node.rank == 0))
    for each in curves.values():
        each["start"] = [[1.0, started]]
    processor, clock = comm.allreduce(watch.processor), comm.allreduce(watch.clock)
    about = {
        "hpcml": __version__,
        "processor": processor_name(),
        "node": node_name(),
        "nodes": n_nodes,
        "ranks": comm.size,
        "cores": os.cpu_count(),
        "quick": quick,
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "program_bytes": program,  # of a rank that has loaded the program and its kernels, but no rows
        "latency": latency,
        "bandwidth": bandwidth,
        "seconds": round(time.perf_counter() - began, 1),
        "clock_per_processor": round(clock / max(processor, 1e-9), 2),  # of computing
    }
    machine = Machine(about, curves)
    if warning := busy_warning(machine):
        log(f"warning: {warning}; measure again while nothing else runs, with no more ranks than cores")
    return machine


def _measure_program(comm: mpi.Comm, log: Log) -> tuple[int, float]:
    """Collective over `comm`. Memory of a rank without rows, and the processor's seconds that rank 0 took to start.

    Measured with the kernels of one method, before those of the others are compiled.
    """
    kept, some = n_kept(), generate(*SMALLEST)
    with mpi.node_first(comm):  # a training loads the kernels of one method
        measure_loading(some, processor_seconds)
        forecasters()[0].measure(some, processor_seconds)
        program, started = peak_mib() * 2**20, time.process_time()
    if mpi.agreed_any(comm, n_kept() > kept):
        log("note: kernels were compiled just now: the memory and the time of a start are known better when this runs again")
    with mpi.node_first(comm):  # compile the rest
        measure_rows(some, processor_seconds)
    return int(mpi.allreduce_max(comm, program)), float(comm.bcast(started))


def busy_warning(machine: Machine) -> str:
    """That the machine was busy when it was measured; "" if it was not, or nobody looked."""
    ratio = machine.about.get("clock_per_processor", 1.0)
    if ratio < BUSY:
        return ""
    return f"the machine was busy: computing took {ratio:.1f} times as long by the clock as of the processor, and may seem dearer"


def measure_curves(
    comm: mpi.Comm, node: mpi.Comm, n_busy: int, grid: Sequence[tuple[int, int]], until: float, timer: Timer, log: Log
) -> dict[str, Curve]:
    """Collective over `comm`. The constants of computing that can be had `until` then."""
    found: dict[str, Curve] = {}
    room, began, expected = room_per_rank(comm), time.perf_counter(), 0.0  # seconds of the next, for each column to this power
    for n_rows, n_columns in grid:
        if COLUMN_BYTES * n_columns > room:
            log(f"note: no constants for {n_columns:,} columns: a rank has too little memory for them")
            continue
        if mpi.agreed_any(comm, expected > 0 and began + expected * n_columns**GROWTH > until):
            log(f"note: no constants for {n_columns:,} columns: they would take too long now")
            break
        log(f"measuring with {n_columns:,} columns, {n_busy} of {node.size} ranks of a node busy")
        mine: dict[str, tuple[float, float]] = {}
        with mpi.agreed(comm, "making rows"):  # all begin to measure at once
            made = generate(n_rows, n_columns, node.rank) if node.rank < n_busy else None
        with mpi.agreed(comm, "measuring", sleep=True):
            if made is not None:
                mine = measure_rows(made, timer)
        del made
        _add(comm, found, mine)
        seconds, began = time.perf_counter() - began, time.perf_counter()
        expected = seconds / n_columns**GROWTH
    return found


def _add(comm: mpi.Comm, found: dict[str, Curve], mine: dict[str, tuple[float, float]]) -> None:
    """Collective over `comm`. A point of each curve: the mean over the ranks that measured."""
    points = [each for each in comm.allgather(mine) if each]
    for name in points[0]:
        at, value = (float(np.mean([point[name][k] for point in points])) for k in (0, 1))
        found.setdefault(name, []).append([at, value])


def measure_rows(made: GeneratedRows, timer: Timer) -> dict[str, tuple[float, float]]:
    """The constants of loading, and those of all methods, on some rows. Local."""
    found = measure_loading(made, timer)
    weights = aligned(LANES * made.rows.n_columns, np.float32).reshape(-1, LANES)
    seconds = min(timer(partial(np.ascontiguousarray, weights[:, lane])) for lane in range(3))
    found["keep.column"] = (made.rows.n_columns, seconds / made.rows.n_columns)
    del weights
    for forecaster in forecasters():
        found.update(forecaster.measure(made, timer))
    return found


def measure_loading(made: GeneratedRows, timer: Timer) -> dict[str, tuple[float, float]]:
    """Seconds of a value, and of a row's label, to make rows to train on of a file's. Local."""
    rows, alone = made.rows, mpi.self_comm()
    n = rows.n_global

    def shard(n_pairs: int) -> Shard:
        y_indices = np.tile(np.arange(PAIRS, dtype=np.int32), n)[:n_pairs]
        y_indptr = offsets(np.full(n, n_pairs // n))
        return Shard(0, np.arange(n), rows.indptr, rows.indices, rows.data, y_indptr, y_indices, n, 0, rows.n_columns, PAIRS)

    def load(some: Shard) -> None:
        _, columns = compact_rows(alone, some, True)
        columns.tables(alone)
        if some.y_indices.size:
            count_positives(alone, some)
            fingerprint(alone, some, "")

    bare, labelled = shard(0), shard(PAIRS * n)
    load(labelled)  # compile
    without, with_labels = (min(timer(partial(load, some)) for _ in range(2)) for some in (bare, labelled))
    pairs = PAIRS * n
    return {"load.value": (rows.n_columns, without / rows.data.size), "load.pair": (pairs, max(0.0, with_labels - without) / pairs)}


def measure_disk(comm: mpi.Comm, node: mpi.Comm, folder: Path, n_busy: int, nbytes: int) -> dict[str, float]:
    """Collective. Seconds of a byte that a node's ranks write, and read again, not from memory."""
    nbytes //= n_busy
    block, written, read = np.random.default_rng(comm.rank).bytes(min(nbytes, 1 << 22)), [], []
    for _ in range(DISK_REPEATS):
        with mpi.agreed(comm, f"writing a test file in {folder}"):
            mine = (0.0, 0.0)
            if node.rank < n_busy:
                with tempfile.NamedTemporaryFile(dir=folder, prefix="hpcml-disk-") as file:
                    path = Path(file.name)
                    seconds = clock_seconds(partial(_write, path, block, nbytes))
                    with suppress(OSError, AttributeError):
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    mine = (seconds, clock_seconds(partial(_read, path)))
        written.append(mpi.allreduce_max(comm, mine[0]))
        read.append(mpi.allreduce_max(comm, mine[1]))
    return {"disk.write": min(written) / (n_busy * nbytes), "disk.read": min(read) / (n_busy * nbytes)}


def _write(path: Path, block: bytes, nbytes: int) -> None:
    with path.open("wb") as out:
        for _ in range(nbytes // len(block)):
            out.write(block)
    sync(path)


def _read(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 22):
            pass


def measure_sums(comm: mpi.Comm) -> tuple[float, float]:
    """Collective over `comm`. The least seconds of a sum of one number over the ranks, and of MESSAGE bytes."""
    least = []
    for size, repeats in ((1, 50), (MESSAGE // 8, 5)):
        buffer, seconds = np.zeros(size), []
        for _ in range(repeats):
            comm.Barrier()
            seconds.append(clock_seconds(partial(mpi.allreduce_sum, comm, buffer)))
        least.append(mpi.allreduce_max(comm, min(seconds)))
    return least[0], least[1]


def latency_and_bandwidth(n_ranks: int, small: float, large: float, nbytes: int = MESSAGE) -> tuple[float, float]:
    """α and β of `Cluster.exchange`, from the seconds of a small sum and of one of `nbytes`."""
    rounds, share = 2 * int(np.ceil(np.log2(n_ranks))), 2 * (n_ranks - 1) / n_ranks
    return small / rounds, share * nbytes / max(large - small, 1e-9)

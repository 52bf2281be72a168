"""A run of PSBML from its first cycle to its last, in either mode."""

from __future__ import annotations

import csv
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import DataError, Stopped
from hpcml.files.slabs import Slab
from hpcml.files.table import read_csv, write_table
from hpcml.log import Log, plural
from hpcml.methods.psbml.asynchronous import Asynchronous
from hpcml.methods.psbml.pocket import Pocket, quality
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.snapshot import ENTRY, HISTORY, Assessor, CycleFacts, Snapshot, all_rows
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.signals import StopSignals

OnStep = Callable[[Synchronous, Snapshot], None]


class TorusRun(Job):
    """The cycles of a run, or in memory those of a classifier. Making one is local."""

    doing, title, unit = "running a cycle", "cycles", "cycle"
    log = Log(1)  # of a classifier: nothing is said

    def __init__(
        self,
        problem: TorusProblem,
        folder: RunFolder | None = None,
        signals: StopSignals | None = None,
        on_step: OnStep | None = None,
    ) -> None:
        """`folder` None: nothing is written. `on_step` is called after each synchronous cycle."""
        self.problem, self.folder, self.on_step = problem, folder, on_step
        self.comm, self.options = problem.comm, problem.options
        self.total = self.options.cycles
        group = mpi.self_comm() if self.options.asynchronous else problem.comm  # who does a turn together
        if folder is None:
            self.driver = Driver(problem.comm, group)
        else:
            self.log, self.checkpoints = folder.log, Checkpoints(problem.comm, folder.checkpoints, folder.log)
            self.driver = Driver(problem.comm, group, signals, self.options.time_limit, self.options.checkpoint_every)
        self.assessor = Assessor(problem)
        self.slots = problem.first_slots
        self.fitness = {node: np.full(slots.size, np.inf) for node, slots in self.slots.items()}
        self.cycles = np.zeros(problem.n_nodes)
        self.taken: list[Snapshot] = []  # not assessed yet
        self.at_once = 2 * problem.comm.size  # how many are assessed together: a faster rank can take more of them
        self.told = -1  # the last cycle that the run told of before it was resumed
        self.grid: Asynchronous | None = None
        self.saving = self.resumed = False
        self.steps, self.worked = 0, 0.0  # of nodes, asynchronously, and the seconds that they took

    @property
    def n_done(self) -> float:
        """The cycles that have been taken, which rank 0 counts for all."""
        return self.n_taken if self.comm.rank == 0 else 0

    def note(self, turns: int) -> str:
        """The best cycle so far."""
        pocket = self.assessor.pocket
        return f"validation {quality(self.options.judge, pocket.error, pocket.auc)}" if pocket.cycle >= 0 else ""

    def discard(self) -> None:
        """Remove a run that has no checkpoint to go on from. Local."""
        if self.folder is not None and self.comm.rank == 0 and not self.resumed:
            self.folder.discard()

    @property
    def n_taken(self) -> int:
        """How many cycles have been taken, but for cycle 0."""
        cycles = [line[0] for line in self.assessor.history]
        return sum(cycle > 0 for cycle in (*cycles, *(each.cycle for each in (*self.assessor.handed, *self.taken))))

    def train(self, restore: bool = False) -> None:
        """Collective. Do the cycles. Raises Interrupted after a signal or the time limit."""
        self.resumed = restore
        if not (restore and self._restore()):
            self.taken.append(all_rows(self.slots))
        if not self.options.asynchronous:
            self.driver.run(self._in_step(), self, self.log)
            return
        self.grid = Asynchronous(self.problem, self.slots, self.fitness, self.cycles)
        try:
            self.driver.run(self._apart(self.grid), self, self.log)
        finally:
            if not self.saving:  # a rank that fails alone in a checkpoint would wait for letters of those that wait for it
                self.grid.close()

    def _in_step(self) -> Generator[list[Snapshot], None, None]:
        """Collective. The cycles in step; after one for each rank, each assesses one of them."""
        with mpi.agreed(self.comm, "reading the rows"):
            grid = Synchronous(self.problem, self.slots, int(self.cycles.max(initial=0)))
        while (self.taken or grid.cycle < self.options.cycles) and not self.assessor.at_plateau:
            yield []
            if grid.cycle < self.options.cycles and len(self.taken) < self.comm.size:
                self.taken.append(grid.step(self.driver.look))
                self.slots = grid.slots
                self.cycles[:] = grid.cycle
                if self.on_step is not None:
                    with mpi.agreed(self.comm, "calling on_cycle"):
                        self.on_step(grid, self.taken[-1])
            if len(self.taken) >= self.comm.size or grid.cycle == self.options.cycles:
                self._assess([1.0] * self.comm.size)

    def _apart(self, grid: Asynchronous) -> Generator[list[Snapshot] | None, None, None]:
        """A step of a node here in each turn, at this rank's speed, until the grid is done."""
        nodes = itertools.cycle(self.slots)
        while True:
            if not self.slots or self._grid_is_done:
                grid.deliver()
                yield None
                continue
            begin = time.monotonic()
            grid.step(next(nodes))
            self.steps, self.worked = self.steps + 1, self.worked + time.monotonic() - begin
            while self.n_taken < min(self.options.cycles, grid.cycles_done):
                self.taken.append(grid.snapshot(self.n_taken + 1))
            yield []

    @property
    def _grid_is_done(self) -> bool:
        """Whether the grid has done its cycles, as far as known here, or is at a plateau."""
        return self.assessor.at_plateau or (self.grid is not None and self.grid.cycles_done >= self.options.cycles)

    @property
    def meets(self) -> bool:
        """Whether asynchronous cycles wait to be assessed: many, or all that there will be."""
        if self.grid is None or self.assessor.at_plateau:
            return False
        rest = self._grid_is_done and (self.taken or self.n_taken < self.options.cycles)
        return len(self.taken) >= self.at_once or bool(rest)

    def meet(self) -> None:
        """Collective. Assess the cycles that the asynchronous grid has taken. Raises Stopped."""
        self._note_state()
        costs = self.comm.allgather(self.worked / self.steps if self.steps else 1e-3)  # little for a rank that has no nodes
        while self.taken and not self.assessor.at_plateau:
            self._assess(costs)

    def _note_state(self) -> None:
        """Collective. Note the state of an asynchronous grid, up to the fastest rank's cycle."""
        if self.grid is None:
            return
        known = max(self.n_taken, min(self.options.cycles, int(self.grid.cycles_done)))
        for number in range(self.n_taken + 1, int(mpi.allreduce_max(self.comm, known)) + 1):
            self.taken.append(self.grid.snapshot(number))
        self.slots, self.fitness, self.cycles = self.grid.slots, self.grid.fitness, self.grid.table[:, 0]

    def _assess(self, costs: list[float]) -> None:
        """Collective. Assess some that were taken, tell of them, write the history. Raises Stopped.

        `costs`: seconds for a step.
        """
        self.assessor.hand_out(self.taken[: self.at_once], costs)
        del self.taken[: self.at_once]
        try:
            with mpi.agreed(self.comm, "assessing the grid"):
                self.assessor.work(self.driver.look)
        except Stopped:
            self.taken = self.assessor.take_back() + self.taken
            raise
        first = len(self.assessor.history)
        self.assessor.gather()
        for line in self.assessor.history[first:]:
            said = dict(zip(HISTORY, line, strict=True))
            judged = quality(self.options.judge, said["error"], said["auc"])
            if said["cycle"] <= self.told:
                continue
            if said["cycle"] == 0:
                self.log(f"cycle 0, all {said['distinct_rows']:,.0f} rows: validation {judged}")
                continue
            self.log(
                f"cycle {said['cycle']:.0f}: validation {judged}, {said['distinct_rows']:,.0f} distinct "
                f"rows, {said['seconds']:.2f} s, {said['bytes_sent']:,.0f} bytes to neighbours"
            )
        if self.assessor.at_plateau:
            self.log(f"{self.options.patience} cycles are no better than the best one before them: these are enough")
        if self.folder is None:
            return
        with mpi.agreed(self.comm, f"writing {self.folder.history}"):
            if self.comm.rank == 0:
                write_history(self.folder.history, self.assessor.history)

    def save(self) -> None:
        """Collective. Write a checkpoint."""
        self.saving = True
        self._note_state()
        n_nodes, width, pocket, here = self.problem.n_nodes, self.problem.largest_node, self.assessor.pocket, list(self.slots)
        cycles = np.zeros(n_nodes)
        cycles[here] = self.cycles[here]
        mpi.allreduce_maxima(self.comm, cycles)
        judged = [(pocket.cycle, pocket.error, pocket.auc, pocket.threshold)] if pocket.cycle >= 0 else []
        lines: dict[str, Sequence[Any]] = {"elapsed": [(self.driver.seconds,)], "cycles": [cycles], "judged": judged}
        lines |= {"history": self.assessor.history, "taken_cycles": [(snapshot.cycle,) for snapshot in self.taken]}
        lines["facts"] = CycleFacts.merged(self.comm.allgather([snapshot.facts for snapshot in self.taken]))
        whole = {name: np.array(values, dtype="<f8") for name, values in lines.items() if len(values)}
        whole["origin"] = np.frombuffer(self.problem.origin, dtype=np.uint8)[None]
        slabs = {name: Slab(values.shape, values.dtype.str) for name, values in whole.items()}
        slabs |= {"places": Slab((n_nodes, width), "<i8"), "fitness": Slab((n_nodes, width), "<f8")}
        for name, n in (("pocket", len(judged)), ("taken", len(self.taken))):
            if n:
                slabs[f"{name}_places"] = Slab((n * n_nodes, width), "<i8")
                slabs[f"{name}_weights"] = Slab((n * n_nodes, width), "<f4")

        def fill(out: CheckpointWriter) -> None:
            for node, slots in self.slots.items():
                out.write_row("places", node, _padded(slots, width, -1))
                out.write_row("fitness", node, _padded(self.fitness[node], width, np.nan))
            for number, snapshot in enumerate(self.taken):
                _write_entries(out, "taken", number * n_nodes, here, snapshot.entries, width)
            if pocket.entries is not None:
                _write_entries(out, "pocket", 0, range(n_nodes), pocket.entries, width)
            for name, values in whole.items() if self.comm.rank == 0 else ():
                out.write_rows(name, 0, values)

        self.checkpoints.save(slabs, fill)
        self.saving = False

    def _restore(self) -> bool:
        """Collective. Take up the newest checkpoint: whether there is one."""
        path = self.checkpoints.newest()
        if path is None:
            self.log("no checkpoint was written yet; starting from the beginning")
            return False
        n_nodes = self.problem.n_nodes
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            if file["origin"][0].tobytes() != self.problem.origin:
                raise DataError("this run was started on other data; resume with the same file")
            self.driver.before, self.cycles = float(file["elapsed"][0, 0]), file["cycles"][0]
            for node, slots in self.slots.items():
                self.slots[node] = file["places"][node, : slots.size].astype(slots.dtype)
                self.fitness[node] = file["fitness"][node, : slots.size]
            if "history" in file:
                self.assessor.history = [tuple(line) for line in file["history"][:].tolist()]
            for number, line in enumerate(file["facts"][:].tolist() if "facts" in file else ()):
                entries = _read_entries(file, "taken", number * n_nodes, list(self.slots))
                facts = CycleFacts(*line) if self.comm.rank == 0 else CycleFacts()
                self.taken.append(Snapshot(int(file["taken_cycles"][number, 0]), entries, facts))
            if "judged" in file:
                cycle, error, auc, threshold = file["judged"][0].tolist()
                entries = _read_entries(file, "pocket", 0, list(range(n_nodes))) if self.comm.rank == 0 else None
                self.assessor.pocket = Pocket(int(cycle), error, auc, threshold, entries=entries)
            if (
                self.folder is not None and self.comm.rank == 0 and not self.options.asynchronous
            ):  # whose cycles are others when they are done again
                self.told = _last_cycle(self.folder.history)
        again = f"; done again, for they were not saved: up to cycle {self.told}" if self.told > self.n_taken else ""
        self.log(f"resuming from {path.name}: {self.n_taken} of {plural(self.options.cycles, 'cycle')} done{again}")
        return True


def _last_cycle(history: Path) -> int:
    """The last cycle of history.csv; −1 if it says nothing."""
    try:
        return max((int(line["cycle"]) for line in read_csv(history)), default=-1)
    except (OSError, DataError, KeyError, TypeError, ValueError, csv.Error):
        return -1


def _padded(values: np.ndarray, width: int, filler: float) -> np.ndarray:
    out = np.full(width, filler, dtype=np.float64 if isinstance(filler, float) else np.int64)
    out[: values.size] = values
    return out


def _write_entries(out: CheckpointWriter, name: str, first: int, nodes: Iterable[int], entries: np.ndarray, width: int) -> None:
    for node in nodes:
        own = entries[entries["node"] == node]
        out.write_row(f"{name}_places", first + node, _padded(own["place"], width, -1))
        out.write_row(f"{name}_weights", first + node, _padded(own["weight"], width, 0.0))


def _read_entries(file: h5py.File, name: str, first: int, nodes: list[int]) -> np.ndarray:
    """The entries of some nodes as `_write_entries` wrote them, from row `first` on."""
    parts = [np.empty(0, dtype=ENTRY)]
    for node in nodes:
        places = file[f"{name}_places"][first + node]
        part = np.empty(int(np.count_nonzero(places >= 0)), dtype=ENTRY)
        part["place"], part["node"] = places[: part.size], node
        part["weight"] = file[f"{name}_weights"][first + node, : part.size]
        parts.append(part)
    return np.concatenate(parts)


def write_history(path: Path, lines: list[tuple[float, ...]]) -> None:
    """history.csv: a line for each cycle. Local; raises DataError."""
    whole = {"cycle", "distinct_rows", "bytes_sent"}
    rows = (
        [int(value) if name in whole else repr(float(value)) for name, value in zip(HISTORY, line, strict=True)] for line in lines
    )
    write_table(path, [HISTORY, *rows])

"""A run of PSBML from its first cycle to its last, in either mode.

Assessments do not affect the cycles or each other. They are therefore done in batches, one cycle per rank; the rank reads the rows
from the file. The best cycle so far is kept.
"""

import itertools
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.slabs import Slab
from hpcml.files.table import write_table
from hpcml.log import Log, plural
from hpcml.methods.psbml.asynchronous import Asynchronous
from hpcml.methods.psbml.problem import TorusProblem, unique_sorted
from hpcml.methods.psbml.selection import VALIDATION, population
from hpcml.methods.psbml.snapshot import (
    ENTRY,
    HISTORY,
    BestCycle,
    CycleFacts,
    Snapshot,
    cycle_loss,
    format_quality,
    make_entries,
    validate,
)
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.signals import StopSignals


class TorusRun(Job):
    """The cycles of a run, or of a classifier in memory. The constructor is local."""

    doing, title, unit = "running a cycle", "cycles", "cycle"
    log = Log(1)  # without a folder, nothing is printed

    def __init__(
        self,
        problem: TorusProblem,
        folder: RunFolder | None = None,
        signals: StopSignals | None = None,
        on_step: Callable[[Synchronous, Snapshot], None] | None = None,
    ) -> None:
        """`folder` None: nothing is written. `on_step` is called after each synchronous cycle."""
        self.problem, self.folder, self.on_step = problem, folder, on_step
        self.comm, self.options = problem.comm, problem.options
        self.total = self.options.cycles
        group = mpi.self_comm() if self.options.asynchronous else problem.comm  # the ranks of a turn
        if folder is None:
            self.driver = Driver(problem.comm, group)
        else:
            self.log, self.checkpoints = folder.log, Checkpoints(problem.comm, folder.checkpoints, folder.log)
            self.driver = Driver(problem.comm, group, signals, self.options.time_limit, self.options.checkpoint_every)
        self.slots = dict(problem.first_slots)
        self.fitness = {node: np.full(slots.size, np.inf) for node, slots in self.slots.items()}
        self.cycles = np.zeros(problem.torus.n_nodes)
        self.pending: list[Snapshot] = []  # to be assessed
        self.batch_size = 2 * problem.comm.size  # more than one per rank, so that faster ranks can assess more
        self.history: list[tuple[float, ...]] = []  # the columns of HISTORY for each assessed cycle
        self.best = BestCycle()
        self.grid: Asynchronous | None = None
        self.saving = self.resumed = False
        self.steps, self.step_seconds = 0, 0.0  # of local nodes in the asynchronous mode
        self._validation: tuple | None = None

    @property
    def n_done(self) -> float:
        return self.n_collected if self.comm.rank == 0 else 0

    @property
    def n_collected(self) -> int:
        return len(self.history) + len(self.pending) - 1

    @property
    def at_plateau(self) -> bool:
        """Return whether `patience` cycles brought no improvement; cycle 0 is not counted."""
        best, since = np.inf, 0
        for _, error, auc, *_ in self.history[1:]:
            loss = cycle_loss(self.options.judge, error, auc)
            best, since = min(best, loss), 0 if loss < best else since + 1
        return self.options.patience is not None and since >= self.options.patience

    def note(self, turns: int) -> str:
        best = self.best
        return f"validation {format_quality(self.options.judge, best.error, best.auc)}" if best.cycle >= 0 else ""

    def discard(self) -> None:
        if self.folder is not None and self.comm.rank == 0 and not self.resumed:
            self.folder.discard()

    def train(self, restore: bool = False) -> None:
        self.resumed = restore
        if not (restore and self._restore()):
            populations = {node: population(slots) for node, slots in self.slots.items()}
            facts = CycleFacts(np.nan, np.nan)  # cycle 0: the base learner on all rows
            self.pending.append(Snapshot(0, make_entries(populations, np.nan, np.nan), facts))
        if not self.options.asynchronous:
            self.driver.run(self._run_synchronous(), self, self.log)
            return
        self.grid = Asynchronous(self.problem, self.slots, self.fitness, self.cycles)
        try:
            self.driver.run(self._run_asynchronous(self.grid), self, self.log)
        finally:
            if not self.saving:  # if one rank fails while saving, the others do not reach the collective close
                self.grid.close()

    def _run_synchronous(self) -> Generator[list[Snapshot], None, None]:
        """Run the synchronous cycles; after one per rank, each rank assesses one of them. Collective."""
        with mpi.agreed(self.comm, "reading the rows"):
            grid = Synchronous(self.problem, self.slots, int(self.cycles.max(initial=0)))
        while (self.pending or grid.cycle < self.options.cycles) and not self.at_plateau:
            yield []
            if grid.cycle < self.options.cycles and len(self.pending) < self.comm.size:
                self.pending.append(grid.step(self.driver.look))
                self.slots = grid.slots
                self.cycles[:] = grid.cycle
                if self.on_step is not None:
                    with mpi.agreed(self.comm, "calling on_cycle"):
                        self.on_step(grid, self.pending[-1])
            if len(self.pending) >= self.comm.size or grid.cycle == self.options.cycles:
                self._assess([1.0] * self.comm.size)

    def _run_asynchronous(self, grid: Asynchronous) -> Generator[list[Snapshot] | None, None, None]:
        nodes = itertools.cycle(self.slots)
        while True:
            if not self.slots or self.at_plateau or grid.cycles_done >= self.options.cycles:
                grid.deliver()
                yield None
                continue
            begin = time.monotonic()
            grid.step(next(nodes))
            self.steps, self.step_seconds = self.steps + 1, self.step_seconds + time.monotonic() - begin
            while self.n_collected < min(self.options.cycles, grid.cycles_done):
                self.pending.append(grid.snapshot(self.n_collected + 1))
            yield []

    @property
    def meets(self) -> bool:
        if self.grid is None or self.at_plateau:
            return False
        waiting = len(self.pending) > 0 or self.n_collected < self.options.cycles
        return len(self.pending) >= self.batch_size or (waiting and self.grid.cycles_done >= self.options.cycles)

    def meet(self) -> None:
        self._collect_state()
        costs = self.comm.allgather(self.step_seconds / self.steps if self.steps else 1e-3)  # ranks without nodes are fast
        while self.pending and not self.at_plateau:
            self._assess(costs)

    def _collect_state(self) -> None:
        """Collect the state of an asynchronous grid up to the fastest rank's cycle. Collective."""
        if self.grid is None:
            return
        known = max(self.n_collected, min(self.options.cycles, int(self.grid.cycles_done)))
        for number in range(self.n_collected + 1, int(mpi.allreduce_max(self.comm, known)) + 1):
            self.pending.append(self.grid.snapshot(number))
        self.slots, self.fitness, self.cycles = self.grid.slots, self.grid.fitness, self.grid.table[:, 0]

    def _assess(self, costs: list[float]) -> None:
        """Assess a batch of cycles and write the history. `costs`: the ranks' seconds per step. Raises Stopped. Collective."""
        comm, judge, snapshots = self.comm, self.options.judge, self.pending[: self.batch_size]
        local: list[tuple[int, np.ndarray]] = []  # cycles that this rank assesses, with the entries of all nodes
        load = np.zeros(comm.size)  # each cycle is assigned to the rank that finishes it first
        for snapshot in snapshots:
            rank = int(np.argmin(load + costs))
            load[rank] += costs[rank]
            parts = [np.empty(0, dtype=ENTRY)] * comm.size
            parts[rank] = snapshot.entries
            received = mpi.exchange(comm, parts)
            if rank == comm.rank:
                local.append((snapshot.cycle, np.concatenate(received)))
        assessed: dict[int, BestCycle] = {}
        with mpi.agreed(comm, "assessing the grid"), self.problem.computing("assess"):
            for cycle, entries in local:
                self.driver.look()
                result = self._assess_cycle(cycle, entries)
                if any(before.rank(judge) < result.rank(judge) for before in assessed.values()):
                    result.classifier = result.entries = None  # cannot be the best
                assessed[cycle] = result
        del self.pending[: self.batch_size]

        # The results are sent to all ranks; entries and classifier of the best cycle stay on their rank.
        small = [replace(result, entries=None, classifier=None) for result in assessed.values()]
        gathered = comm.allgather((small, [snapshot.facts for snapshot in snapshots]))
        results = {result.cycle: result for rank_results, _ in gathered for result in rank_results}
        for snapshot, facts in zip(snapshots, CycleFacts.merge([facts for _, facts in gathered]), strict=True):
            if self.at_plateau:  # later cycles do not count, since their number depends on the ranks
                break
            result = results[snapshot.cycle]
            self.history.append((result.cycle, result.error, result.auc, result.n_rows, *facts))
            if result.rank(judge) < self.best.rank(judge):
                self.best = assessed.get(result.cycle, result)
            rows, measured = f"{result.n_rows:,}", f"validation {format_quality(judge, result.error, result.auc)}"
            if result.cycle == 0:
                self.log(f"cycle 0, all {rows} rows: {measured}")
            else:
                self.log(f"cycle {result.cycle}: {measured}")
                self.log.detail(f"  {rows} distinct rows, {facts.seconds:.2f} s, {facts.sent:,.0f} bytes to neighbours")
        if self.at_plateau:
            self.log(f"stopping early: no improvement in {plural(self.options.patience or 0, 'cycle')}")
        if self.folder is None:
            return
        history, whole = self.folder.history, {"cycle", "distinct_rows", "bytes_sent"}
        lines = [
            [int(value) if name in whole else repr(float(value)) for name, value in zip(HISTORY, line, strict=True)]
            for line in self.history
        ]
        mpi.run_on_root(comm, f"writing {history}", lambda: write_table(history, [HISTORY, *lines]))

    def _assess_cycle(self, cycle: int, entries: np.ndarray) -> BestCycle:
        problem, positions = self.problem, unique_sorted([entries["position"]])
        classifier = problem.train(problem.read(positions), positions, "assess", cycle)
        self.driver.look()
        if self._validation is None:
            held_out = np.flatnonzero(problem.start == VALIDATION)
            self._validation = (problem.prepared(problem.read(held_out)), problem.classes.of[held_out])
        matrix, classes = self._validation
        threshold = None if self.options.judge == "auc" else 0.0
        measures = validate(classifier, matrix, classes, problem.classes.n_classes, threshold)
        return BestCycle(cycle, *measures, self.comm.rank, positions.size, entries, classifier)

    def save(self) -> None:
        self.saving = True
        self._collect_state()
        n_nodes, best, local_nodes = self.problem.torus.n_nodes, self.best, list(self.slots)
        width = int(np.bincount(self.problem.start[self.problem.start >= 0], minlength=n_nodes).max())
        cycles = np.zeros(n_nodes)
        cycles[local_nodes] = self.cycles[local_nodes]
        mpi.allreduce_maxima(self.comm, cycles)
        lines: dict[str, Sequence[Any]] = {"elapsed": [(self.driver.seconds,)], "cycles": [cycles], "history": self.history}
        lines |= {"taken_cycles": [(snapshot.cycle,) for snapshot in self.pending]}
        lines["facts"] = CycleFacts.merge(self.comm.allgather([snapshot.facts for snapshot in self.pending]))
        # The owner of the best cycle writes its rows; every rank writes the pending cycles of its nodes.
        states: dict[str, list[np.ndarray | None]] = {"taken": [snapshot.entries for snapshot in self.pending]}
        if best.cycle >= 0:
            lines["judged"] = [(best.cycle, best.error, best.auc, best.threshold)]
            states["pocket"] = [best.entries]
        whole = {name: np.array(values, dtype="<f8") for name, values in lines.items() if len(values)}
        whole["origin"] = np.frombuffer(self.problem.origin, dtype=np.uint8)[None]
        slabs = {name: Slab(values.shape, values.dtype.str) for name, values in whole.items()}
        slabs |= {"places": Slab((n_nodes, width), "<i8"), "fitness": Slab((n_nodes, width), "<f8")}
        slabs |= {state: Slab((len(parts) * n_nodes, 2 * width), "<i8") for state, parts in states.items() if parts}

        def fill(out: CheckpointWriter) -> None:
            def write(name: str, row: int, values: np.ndarray, filler: float = -1) -> None:
                out.write_row(name, row, np.append(values, np.full(slabs[name].shape[1] - values.size, filler, values.dtype)))

            for node, slots in self.slots.items():
                write("places", node, slots)
                write("fitness", node, self.fitness[node], np.nan)
            for state, number, entries in ((state, *each) for state, parts in states.items() for each in enumerate(parts)):
                for node in np.unique(entries["node"]).tolist() if entries is not None else ():
                    write(state, number * n_nodes + node, entries[entries["node"] == node].view("<i8"))
            for name, values in whole.items() if self.comm.rank == 0 else ():
                out.write_rows(name, 0, values)

        self.checkpoints.save(slabs, fill)
        self.saving = False

    def _restore(self) -> bool:
        """Restore the newest checkpoint and return whether there is one. Collective."""
        path, n_nodes = self.checkpoints.newest(), self.problem.torus.n_nodes
        if path is None:
            self.log("no checkpoint was written yet; starting from the beginning")
            return False
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            if file["origin"][0].tobytes() != self.problem.origin:
                raise DataError("this run was started on other data; resume with the same file")

            def read(state: str, number: int, nodes: Sequence[int]) -> np.ndarray:
                rows = [file[state][number * n_nodes + node].view(ENTRY) for node in nodes]
                return np.concatenate([np.empty(0, dtype=ENTRY), *(part[part["position"] >= 0] for part in rows)])

            self.driver.before, self.cycles = float(file["elapsed"][0, 0]), file["cycles"][0]
            for node, slots in self.slots.items():
                self.slots[node] = file["places"][node, : slots.size].astype(slots.dtype)
                self.fitness[node] = file["fitness"][node, : slots.size]
            if "history" in file:
                self.history = [tuple(line) for line in file["history"][:].tolist()]
            if "judged" in file:
                cycle, error, auc, threshold = file["judged"][0].tolist()
                entries = read("pocket", 0, range(n_nodes)) if self.comm.rank == 0 else None
                self.best = BestCycle(int(cycle), error, auc, threshold, entries=entries)
            for number, line in enumerate(file["facts"][:].tolist() if "facts" in file else ()):
                facts = CycleFacts(*line) if self.comm.rank == 0 else CycleFacts()
                self.pending.append(Snapshot(int(file["taken_cycles"][number, 0]), read("taken", number, list(self.slots)), facts))
        self.log(f"resuming from {path.name}: {self.n_collected} of {plural(self.options.cycles, 'cycle')} done")
        return True

"""A run of PSBML from its first cycle to its last, in either mode.

Assessments do not depend on one another nor the cycles on them. So they are not made in the cycles but some at a time, one on each
rank; the rank reads the rows from the file. The best so far is the pocket.
"""

from __future__ import annotations

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
from hpcml.methods.psbml.problem import TorusProblem, distinct
from hpcml.methods.psbml.selection import VALIDATION, population
from hpcml.methods.psbml.snapshot import ENTRY, HISTORY, CycleFacts, Pocket, Snapshot, entries_of, loss_of, quality, validate
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
        self.slots = dict(problem.first_slots)
        self.fitness = {node: np.full(slots.size, np.inf) for node, slots in self.slots.items()}
        self.cycles = np.zeros(problem.torus.n_nodes)
        self.taken: list[Snapshot] = []  # not assessed yet
        self.at_once = 2 * problem.comm.size  # how many are assessed together: a faster rank can take more of them
        self.history: list[tuple[float, ...]] = []  # a line of HISTORY for each cycle assessed
        self.pocket = Pocket()
        self.grid: Asynchronous | None = None
        self.saving = self.resumed = False
        self.steps, self.worked = 0, 0.0  # of nodes, asynchronously, and the seconds that they took
        self._validation: tuple | None = None

    @property
    def n_done(self) -> float:
        """The cycles that have been taken, which rank 0 counts for all."""
        return self.n_taken if self.comm.rank == 0 else 0

    @property
    def n_taken(self) -> int:
        """The number of cycles that have been taken, without cycle 0."""
        return len(self.history) + len(self.taken) - 1

    @property
    def at_plateau(self) -> bool:
        """Whether `patience` cycles are no better than the best before; cycle 0 never counts."""
        best, since = np.inf, 0
        for _, error, auc, *_ in self.history[1:]:
            loss = loss_of(self.options.judge, error, auc)
            best, since = min(best, loss), 0 if loss < best else since + 1
        return self.options.patience is not None and since >= self.options.patience

    def note(self, turns: int) -> str:
        """The best cycle so far."""
        pocket = self.pocket
        return f"validation {quality(self.options.judge, pocket.error, pocket.auc)}" if pocket.cycle >= 0 else ""

    def discard(self) -> None:
        """Remove a run that has no checkpoint to go on from. Local."""
        if self.folder is not None and self.comm.rank == 0 and not self.resumed:
            self.folder.discard()

    def train(self, restore: bool = False) -> None:
        """Collective. Do the cycles. Raises Interrupted after a signal or the time limit."""
        self.resumed = restore
        if not (restore and self._restore()):
            populations = {node: population(slots) for node, slots in self.slots.items()}
            facts = CycleFacts(np.nan, np.nan)  # of cycle 0: the base learner on all rows, without PSBML
            self.taken.append(Snapshot(0, entries_of(populations, np.nan, np.nan), facts))
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
        while (self.taken or grid.cycle < self.options.cycles) and not self.at_plateau:
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
            if not self.slots or self.at_plateau or grid.cycles_done >= self.options.cycles:
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
    def meets(self) -> bool:
        """Whether asynchronous cycles wait to be assessed: many, or all that there will be."""
        if self.grid is None or self.at_plateau:
            return False
        waiting = len(self.taken) > 0 or self.n_taken < self.options.cycles
        return len(self.taken) >= self.at_once or (waiting and self.grid.cycles_done >= self.options.cycles)

    def meet(self) -> None:
        """Collective. Assess the cycles that the asynchronous grid has taken. Raises Stopped."""
        self._note_state()
        costs = self.comm.allgather(self.worked / self.steps if self.steps else 1e-3)  # little for a rank that has no nodes
        while self.taken and not self.at_plateau:
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
        """Collective. Assess some cycles that were taken, log them, write the history. Raises Stopped; they then wait on.

        `costs`: the ranks' seconds for a step. Cycles after a plateau do not count: how many were done depends on the ranks.
        """
        comm, judge, snapshots = self.comm, self.options.judge, self.taken[: self.at_once]
        mine: list[tuple[int, np.ndarray]] = []  # what this rank has to assess: cycles, and entries of all nodes
        load = np.zeros(comm.size)  # each cycle goes to the rank that is done with it soonest
        for snapshot in snapshots:
            rank = int(np.argmin(load + costs))
            load[rank] += costs[rank]
            parts = [np.empty(0, dtype=ENTRY)] * comm.size
            parts[rank] = snapshot.entries
            received = mpi.exchange(comm, parts)
            if rank == comm.rank:
                mine.append((snapshot.cycle, np.concatenate(received)))
        assessed: dict[int, Pocket] = {}
        with mpi.agreed(comm, "assessing the grid"), self.problem.computing("assess"):
            for cycle, entries in mine:
                self.driver.look()
                judged = self._judge(cycle, entries)
                if any(before.rank(judge) < judged.rank(judge) for before in assessed.values()):
                    judged.classifier = judged.entries = None  # it cannot be the best
                assessed[cycle] = judged
        del self.taken[: self.at_once]

        # The results go to all ranks, what is large of the best stays in place.
        small = [replace(judged, entries=None, classifier=None) for judged in assessed.values()]
        gathered = comm.allgather((small, [snapshot.facts for snapshot in snapshots]))
        results = {judged.cycle: judged for of_rank, _ in gathered for judged in of_rank}
        for snapshot, facts in zip(snapshots, CycleFacts.merged([facts for _, facts in gathered]), strict=True):
            if self.at_plateau:
                break
            judged = results[snapshot.cycle]
            self.history.append((judged.cycle, judged.error, judged.auc, judged.n_rows, *facts))
            if judged.rank(judge) < self.pocket.rank(judge):
                self.pocket = assessed.get(judged.cycle, judged)
            rows, measured = f"{judged.n_rows:,}", f"validation {quality(judge, judged.error, judged.auc)}"
            if judged.cycle == 0:
                self.log(f"cycle 0, all {rows} rows: {measured}")
            else:
                self.log(f"cycle {judged.cycle}: {measured}")
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

    def _judge(self, cycle: int, entries: np.ndarray) -> Pocket:
        """Train on the unique rows of a cycle and judge by the validation set. Local; raises Stopped."""
        problem, places = self.problem, distinct([entries["place"]])
        classifier = problem.train(problem.read(places), places, "assess", cycle)
        self.driver.look()
        if self._validation is None:
            held_out = np.flatnonzero(problem.start == VALIDATION)
            self._validation = (problem.prepared(problem.read(held_out)), problem.classes.of[held_out])
        matrix, classes = self._validation
        threshold = None if self.options.judge == "auc" else 0.0
        measures = validate(classifier, matrix, classes, problem.classes.n_classes, threshold)
        return Pocket(cycle, *measures, self.comm.rank, places.size, entries, classifier)

    def save(self) -> None:
        """Collective. Write a checkpoint."""
        self.saving = True
        self._note_state()
        n_nodes, pocket, here = self.problem.torus.n_nodes, self.pocket, list(self.slots)
        width = int(np.bincount(self.problem.start[self.problem.start >= 0], minlength=n_nodes).max())
        cycles = np.zeros(n_nodes)
        cycles[here] = self.cycles[here]
        mpi.allreduce_maxima(self.comm, cycles)
        lines: dict[str, Sequence[Any]] = {"elapsed": [(self.driver.seconds,)], "cycles": [cycles], "history": self.history}
        lines |= {"taken_cycles": [(snapshot.cycle,) for snapshot in self.taken]}
        lines["facts"] = CycleFacts.merged(self.comm.allgather([snapshot.facts for snapshot in self.taken]))
        # Its owner writes the rows of the pocket, and every rank those of its nodes in the cycles that are not assessed yet.
        states: dict[str, list[np.ndarray | None]] = {"taken": [snapshot.entries for snapshot in self.taken]}
        if pocket.cycle >= 0:
            lines["judged"] = [(pocket.cycle, pocket.error, pocket.auc, pocket.threshold)]
            states["pocket"] = [pocket.entries]
        whole = {name: np.array(values, dtype="<f8") for name, values in lines.items() if len(values)}
        whole["origin"] = np.frombuffer(self.problem.origin, dtype=np.uint8)[None]
        slabs = {name: Slab(values.shape, values.dtype.str) for name, values in whole.items()}
        slabs |= {"places": Slab((n_nodes, width), "<i8"), "fitness": Slab((n_nodes, width), "<f8")}
        for state, parts in states.items():
            if parts:
                slabs[f"{state}_places"] = Slab((len(parts) * n_nodes, width), "<i8")
                slabs[f"{state}_weights"] = Slab((len(parts) * n_nodes, width), "<f4")

        def fill(out: CheckpointWriter) -> None:
            def write(name: str, row: int, values: np.ndarray, filler: float) -> None:
                out.write_row(name, row, np.concatenate([values, np.full(width - values.size, filler)]))

            for node, slots in self.slots.items():
                write("places", node, slots, -1)
                write("fitness", node, self.fitness[node], np.nan)
            for state, number, entries in ((state, *each) for state, parts in states.items() for each in enumerate(parts)):
                for node in np.unique(entries["node"]).tolist() if entries is not None else ():
                    own = entries[entries["node"] == node]
                    write(f"{state}_places", number * n_nodes + node, own["place"], -1)
                    write(f"{state}_weights", number * n_nodes + node, own["weight"], 0)
            for name, values in whole.items() if self.comm.rank == 0 else ():
                out.write_rows(name, 0, values)

        self.checkpoints.save(slabs, fill)
        self.saving = False

    def _restore(self) -> bool:
        """Collective. Take up the newest checkpoint: whether there is one."""
        path, n_nodes = self.checkpoints.newest(), self.problem.torus.n_nodes
        if path is None:
            self.log("no checkpoint was written yet; starting from the beginning")
            return False
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            if file["origin"][0].tobytes() != self.problem.origin:
                raise DataError("this run was started on other data; resume with the same file")

            def read(state: str, number: int, nodes: Sequence[int]) -> np.ndarray:
                """The entries of some nodes in a state."""
                parts = [np.empty(0, dtype=ENTRY)]
                for node in nodes:
                    places = file[f"{state}_places"][number * n_nodes + node]
                    part = np.empty(int(np.count_nonzero(places >= 0)), dtype=ENTRY)
                    part["place"], part["node"] = places[: part.size], node
                    part["weight"] = file[f"{state}_weights"][number * n_nodes + node, : part.size]
                    parts.append(part)
                return np.concatenate(parts)

            self.driver.before, self.cycles = float(file["elapsed"][0, 0]), file["cycles"][0]
            for node, slots in self.slots.items():
                self.slots[node] = file["places"][node, : slots.size].astype(slots.dtype)
                self.fitness[node] = file["fitness"][node, : slots.size]
            if "history" in file:
                self.history = [tuple(line) for line in file["history"][:].tolist()]
            if "judged" in file:
                cycle, error, auc, threshold = file["judged"][0].tolist()
                entries = read("pocket", 0, range(n_nodes)) if self.comm.rank == 0 else None
                self.pocket = Pocket(int(cycle), error, auc, threshold, entries=entries)
            for number, line in enumerate(file["facts"][:].tolist() if "facts" in file else ()):
                facts = CycleFacts(*line) if self.comm.rank == 0 else CycleFacts()
                self.taken.append(Snapshot(int(file["taken_cycles"][number, 0]), read("taken", number, list(self.slots)), facts))
        self.log(f"resuming from {path.name}: {self.n_taken} of {plural(self.options.cycles, 'cycle')} done")
        return True

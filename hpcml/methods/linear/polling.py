"""Work on labels that the groups of ranks do at their own speed, until all is done, or a signal or the time limit ends it."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.errors import HpcmlError
from hpcml.log import Progress
from hpcml.methods.linear.watch import DONE, DUE, FAILED, FINISHED, SIGNAL, TIME_UP, Stopped, Watch
from hpcml.run.checkpoint import Pace
from hpcml.signals import StopSignals

IDLE_SECONDS = 0.002


class Work(Protocol):
    """What one group of ranks works on. All methods are collective over the group's ranks."""

    @property
    def busy(self) -> bool:
        """Whether there is anything left to do."""

    def turn(self, seconds: float) -> list[Any]:
        """Some progress; the labels that are done. Raises Stopped; all is then as before the turn."""

    def settle(self) -> None:
        """Wait for what is on its way: MPI must not write into what is gone."""


class Limits(Protocol):
    """Of the options of a run: when it stops, and when it writes checkpoints."""

    @property
    def time_limit(self) -> float | None:
        """Seconds."""

    @property
    def checkpoint_every(self) -> float | None:
        """Seconds, or None for as often as is worth it."""


class PolledRun:
    """Labels, over all groups of ranks; a subclass says what is kept of them. Making one is local."""

    def __init__(
        self,
        comm: mpi.Comm,
        rows: CompactRows,
        n_labels: int,
        limits: Limits,
        signals: StopSignals,
        unit: str = "pass",
        spent: float = 0.0,
    ) -> None:
        """`rows.comm` is the group; what the labels' rows are watched by is `watch`. `unit` is what a turn is called.

        `spent`: so many seconds of the time limit are gone.
        """
        self.spent = spent
        self.comm, self.rows, self.limits, self.signals, self.unit = comm, rows, limits, signals, unit
        self.leads = rows.comm.rank == 0  # of the ranks of its group, the one that writes
        self.done = np.zeros(n_labels, dtype=np.uint8)  # the labels that this group's leader has finished
        self.n_done = 0  # on all ranks, as far as known
        self.elapsed = 0.0
        self.began = time.monotonic()
        self.pace = Pace(limits.checkpoint_every)
        self._error: HpcmlError | None = None
        self._busy = True
        n_values = int(rows.counts.sum(dtype=np.int64))  # on all ranks of the group
        self.watch = Watch(comm, rows.comm, n_values, self._flags, self._wants)

    def _wants(self) -> bool:
        """Whether this rank has a reason to stop."""
        limit = self.limits.time_limit
        return self.signals.seen or (limit is not None and time.monotonic() - self.began + self.spent >= limit)

    def _flags(self) -> tuple[float, ...]:
        """What this rank has to say in a pulse."""
        late = self._wants() and not self.signals.seen
        due = self.comm.rank == 0 and self.pace.due  # one clock decides for all
        return (self.signals.seen, due, late, self._error is not None, not self._busy, self.leads * self.done.sum())

    @mpi.collective
    def train(self, work: Any, progress: Progress) -> str:
        """Collective. Work until all labels are done: ""; or until a signal or the time limit, after a checkpoint: why."""
        before, turns, stopped = self.elapsed, 0, False
        self.began = time.monotonic()
        self.pace = Pace(self.limits.checkpoint_every)
        while True:
            self.elapsed = before + time.monotonic() - self.began
            if work.busy and self._error is None and not stopped:
                try:
                    self._keep(work.turn(self.elapsed))
                    turns += 1
                except HpcmlError as failure:  # the others learn of it by the pulse
                    self._error = failure
                except Stopped:
                    stopped = True
            elif self.comm.size > 1:
                time.sleep(IDLE_SECONDS)
            self._busy = work.busy or stopped  # what was being trained when a pass was left may not be in the block any more
            seen = self.watch.poll()
            if seen is None:
                continue
            self.n_done = int(seen[DONE])
            progress.update(self.n_done, f"{self.unit} {turns}")
            if seen[FAILED] or seen[FINISHED] == self.comm.size:
                work.settle()
                break
            stop = "a signal arrived" if seen[SIGNAL] else "the time limit is reached" if seen[TIME_UP] else ""
            if stop or seen[DUE]:
                work.settle()
                with self.pace.saving():
                    self.save(work)
            if stop:
                return stop
        with mpi.agreed(self.comm, "training"):
            if self._error is not None:
                raise self._error
        self.elapsed = before + time.monotonic() - self.began
        self._complete()
        return ""

    @mpi.collective
    def _keep(self, finished: list[Any]) -> None:
        """Collective over the group. Write the labels that are done, and note them in `done`."""
        raise AssertionError("a subclass says")

    @mpi.collective
    def save(self, work: Any) -> None:
        """Collective. Write a checkpoint of everything that is not on the disk yet."""
        raise AssertionError("a subclass says")

    @mpi.collective
    def _complete(self) -> None:
        """Collective. All labels are done: force to the disk what was written of them."""
        raise AssertionError("a subclass says")

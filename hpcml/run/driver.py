"""The one loop around long work: turn after turn to its end, a signal, the time limit, a failure.

The work is a generator: each step of it is a turn, which yields what it has finished. It is asked
for its turns by the ranks of a group together, and every group goes on at its own speed. What all
ranks do together (a checkpoint, the end) they do when they see the same sums of their flags. The
driver knows the pace of checkpoints, signals, the time limit and progress. What becomes of what is
finished is a `Job`'s to say: its model, history and checkpoints.

    driver = Driver(comm, group, options, signals)
    # "", or why it was stopped, after a checkpoint
    stopped = driver.run(solver.solve(labels, driver.stop), job, progress)
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from hpcml import mpi
from hpcml.errors import HpcmlError, Stopped
from hpcml.log import Progress
from hpcml.run.checkpoint import Pace
from hpcml.run.stop import DONE, DUE, FAILED, FINISHED, MEET, SHARE, SIGNAL, TIME_UP, GroupStop
from hpcml.signals import StopSignals

IDLE_SECONDS = 0.002  # between looks of a rank that has nothing to do whether the others are done


class Limits(Protocol):
    """Of the options of a run: when it stops, and when it writes checkpoints."""

    @property
    def time_limit(self) -> float | None:
        """Seconds."""

    @property
    def checkpoint_every(self) -> float | None:
        """Seconds, or None for as often as is worth it."""


@dataclass(frozen=True)
class NoLimits:
    """Of work that has neither a time limit nor checkpoints."""

    time_limit: float | None = None
    checkpoint_every: float | None = math.inf


class Job:
    """The use that is made of the work: a subclass keeps and saves it; here nothing is done."""

    doing = "training"  # in the sentence about a rank that fails
    share_done = math.nan  # the share of all ranks' work that this one has done; NaN: as `n_done` says

    @property
    def n_done(self) -> float:
        """How much is done, of this rank's share: the sum over the ranks is shown."""
        raise AssertionError("a subclass says")

    def note(self, turns: int) -> str:
        """The remark that is shown beside it."""
        return ""

    @property
    def meets(self) -> bool:
        """Whether this rank asks all ranks to `meet`."""
        return False

    def keep(self, finished: Any) -> None:
        """Collective over the group. Take what a turn has finished."""

    def save(self) -> None:
        """Collective over all ranks. Write a checkpoint of what is not on the disk yet."""

    def meet(self) -> None:
        """Collective over all ranks. Done together when one of them asks for it. Raises Stopped."""


class Driver:
    """Drives work over `comm`, in groups of its ranks. Making one is local."""

    def __init__(
        self, comm: mpi.Comm, group: mpi.Comm, limits: Limits, signals: StopSignals, n_values: int = 0, spent: float = 0.0
    ) -> None:
        """`group`: ranks of a turn, of `n_values` values. `spent`: seconds of the limit."""
        self.comm, self.group, self.limits, self.signals, self.spent = comm, group, limits, signals, spent
        self.before = 0.0  # seconds that earlier jobs of the same run have taken
        self.n_done = 0  # on all ranks, as far as known
        self.stop = GroupStop(comm, group, n_values, self._flags, self.wants, lambda: self.elapsed)
        self._job = Job()
        self._expected = HpcmlError if group.size > 1 else Exception  # what a group raises together
        self._failure: Exception | None = None
        self._idle = self._stopped = False
        self._begin()

    def _begin(self) -> None:
        self.began, self.began_cpu, self.pace = time.monotonic(), time.process_time(), Pace(self.limits.checkpoint_every)

    @property
    def elapsed(self) -> float:
        """Seconds of work, over all jobs of the run."""
        return self.before + time.monotonic() - self.began

    @property
    def cpu_seconds(self) -> float:
        """Seconds of this rank's processor, in this job."""
        return time.process_time() - self.began_cpu

    def wants(self) -> bool:
        """Whether this rank has a reason to stop. Local."""
        return self.signals.seen or self._late()

    def _late(self) -> bool:
        limit = self.limits.time_limit
        return limit is not None and time.monotonic() - self.began + self.spent >= limit

    def look(self) -> None:
        """Raise Stopped if there is a reason, for work that `mpi.agreed` guards. Local."""
        if self.wants():
            raise Stopped

    def _flags(self) -> tuple[float, ...]:
        signal = self.signals.seen
        due = self.comm.rank == 0 and self.pace.due  # one clock decides for all
        meets, late = self._job.meets and self._failure is None, self._late() and not signal
        return (signal, due, late, self._failure is not None, meets, self._idle, self._job.n_done, self._job.share_done)

    def run(self, turns: Generator[Any, None, None], job: Job, progress: Progress) -> str:
        """Collective. Drive the work to its end, "", or until a signal or the time limit: why.

        A turn yields what it has finished, which the job keeps, or None: nothing is left to do, as
        long as no other rank has more. Raises, on all ranks, what a turn raises on any.
        """
        self._job, n_turns = job, 0
        self._begin()
        with closing(turns):
            while True:
                worked = self._turn(turns)
                n_turns += worked
                if not worked and self.comm.size > 1:
                    time.sleep(IDLE_SECONDS)
                seen = self.stop.poll()
                if seen is None:
                    continue
                self.n_done = int(seen[DONE])
                progress.update(self.n_done, job.note(n_turns), None if math.isnan(seen[SHARE]) else float(seen[SHARE]))
                if seen[FAILED]:
                    break
                stop = "a signal arrived" if seen[SIGNAL] else "the time limit is reached" if seen[TIME_UP] else ""
                if seen[FINISHED] == self.comm.size and not seen[MEET]:
                    return ""
                if stop or seen[DUE]:
                    with self.pace.saving():
                        job.save()
                if stop:
                    return stop
                if seen[MEET]:
                    self._meet()
        with mpi.agreed(self.comm, job.doing):
            if self._failure is not None:
                raise self._failure
        raise AssertionError("a rank has failed")

    def _turn(self, turns: Generator[Any, None, None]) -> bool:
        """Collective over the group. A turn, if there is one: whether anything was done in it."""
        if self._failure is not None or self._stopped:
            return False
        try:
            finished = next(turns, None)
            if finished:
                self._job.keep(finished)
        except Stopped:
            self._stopped, self._idle = True, False
            return False
        except self._expected as failure:  # the others learn of it by the pulse
            self._failure = failure
            return False
        self._idle = finished is None
        return not self._idle

    def _meet(self) -> None:
        """Collective. The job's meeting; a reason to stop is in the next pulse."""
        try:
            self._job.meet()
        except Stopped:
            self._stopped, self._idle = True, False

"""The one loop around long work: turn after turn to its end, a signal, the time limit, a failure.

The work is a generator: each step of it is a turn, which yields what it has finished. It is asked for its turns by the ranks of a
group together, and every group goes on at its own speed. What all ranks do together (a checkpoint, the end) they do when they see
the same sums of their flags. The driver knows the pace of checkpoints, signals, the time limit and progress. A `Job` takes what is
finished: a run's files, an estimator's arrays, the scores of held-out rows.

    driver = Driver(comm, group, signals, options.time_limit, options.checkpoint_every)
    driver.run(solver.solve(labels, driver), job, log)  # raises Interrupted after a checkpoint

The driver is also the solver's `Stop`. Every rank goes through its slices at its own speed, so nobody may leave a pass alone: those
with whom it shares the rows would wait forever. The ranks of a group tell one another between slices, without waiting, whether one
of them wants to stop. The sums of a round are the same for all of them, so they leave in the same round; those that are done with a
pass go on with the rounds until all are. The flags of other groups are in the sums of the run's `RepeatedSum`, which goes on in
between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

import numpy as np

from hpcml import mpi, slices
from hpcml.errors import CollectiveError, HpcmlError, Interrupted, Stopped
from hpcml.log import Log, Progress, plural
from hpcml.run.checkpoint import Pace
from hpcml.run.stop import Stop
from hpcml.signals import StopSignals

SIGNAL, DUE, TIME_UP, FAILED, MEET, IDLE, DONE, SHARE = range(8)  # what a pulse carries
N_FLAGS = 8
WANTS, READY, HEARD = range(3)  # what the ranks of a group tell one another
IDLE_SECONDS = 0.002  # between looks of a rank that has nothing to do whether the others are done

T = TypeVar("T")


class Job:
    """The use that is made of the work. The base class keeps and saves nothing."""

    doing = "training"  # in the sentence about a rank that fails
    title, unit = "labels", "label"  # of the progress, and of one of what is done
    total: int | None = None  # units of all ranks; None: not known
    saved = "checkpoint written"  # in the sentence about an interruption
    share_done = math.nan  # the share of all ranks' work that this one has done; NaN: as `n_done` says
    needs_support = needs_scores = False  # what `keep` takes of a label besides its weights: see `linear.solver.Finished`

    @property
    def n_done(self) -> float:
        """Units that this rank has done. The sum over the ranks is shown."""
        return 0.0

    def note(self, turns: int) -> str:
        """The remark that is shown with the progress."""
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

    def discard(self) -> None:
        """Collective over all ranks. Remove what was begun: an error ended it before the first checkpoint."""


class Driver(Stop):
    """Drives work over `comm`, in groups of its ranks. Making one is local."""

    def __init__(
        self,
        comm: mpi.Comm,
        group: mpi.Comm,
        signals: StopSignals | None = None,
        time_limit: float | None = None,
        checkpoint_every: float | None = math.inf,
        n_values: int = 0,
        spent: float = 0.0,
    ) -> None:
        """`group`: ranks of a turn, of `n_values` values. `spent`: seconds of the limit.

        `checkpoint_every`: seconds, or None for as often as is worth it.
        """
        self.comm, self.group, self.signals = comm, group, signals or StopSignals()
        self.time_limit, self.checkpoint_every, self.spent = time_limit, checkpoint_every, spent
        self.long = slices.is_long(n_values, group.size)  # else passes are too short to be left
        self.before = 0.0  # seconds that earlier jobs of the same run have taken
        self._pulse, self._rounds = mpi.RepeatedSum(comm, group, N_FLAGS), mpi.RepeatedSum(group, mpi.self_comm(), 3)
        self._heard: np.ndarray | None = None  # sums of the pulse that the loop has not seen
        self._job = Job()
        self._expected = HpcmlError if group.size > 1 else Exception  # what a group raises together
        self._failure: Exception | None = None
        self._idle = self._stopped = False
        self.began, self.began_cpu, self.pace = time.monotonic(), time.process_time(), Pace(checkpoint_every)

    @property
    def seconds(self) -> float:
        """Seconds of work, over all jobs of the run."""
        return self.before + time.monotonic() - self.began

    @property
    def cpu_seconds(self) -> float:
        """Seconds of this rank's processor, in this job."""
        return time.process_time() - self.began_cpu

    def _late(self) -> bool:
        return self.time_limit is not None and time.monotonic() - self.began + self.spent >= self.time_limit

    def look(self) -> None:
        """Raise Stopped if this rank has a reason, for work that `mpi.agreed` guards. Local."""
        if self.signals.seen or self._late():
            raise Stopped

    def _flags(self) -> tuple[float, ...]:
        signal = self.signals.seen
        due = self.comm.rank == 0 and self.pace.due  # one clock decides for all
        meets, late = self._job.meets and self._failure is None, self._late() and not signal
        return (signal, due, late, self._failure is not None, meets, self._idle, self._job.n_done, self._job.share_done)

    def run(self, turns: Generator[Any, None, None], job: Job, log: Log | None = None) -> None:
        """Collective. Drive the work to its end.

        A turn yields what it has finished, which the job keeps, or None: nothing is left to do, as long as no other rank has more.
        Raises, on all ranks, what a turn raises on any, and Interrupted after a signal or the time limit, when the job has saved.
        """
        self._job, n_turns, has_saved = job, 0, False
        self.began, self.began_cpu, self.pace = time.monotonic(), time.process_time(), Pace(self.checkpoint_every)
        try:
            with closing(turns), closing(Progress(log or Log(1), job.title, job.total)) as progress:
                while True:
                    worked = self._turn(turns)
                    n_turns += worked
                    if not worked and self.comm.size > 1:
                        time.sleep(IDLE_SECONDS)
                    seen = self.poll()
                    if seen is None:
                        continue
                    progress.update(int(seen[DONE]), job.note(n_turns), None if math.isnan(seen[SHARE]) else float(seen[SHARE]))
                    if seen[FAILED]:
                        with mpi.agreed(self.comm, job.doing):
                            if self._failure is not None:
                                raise self._failure
                    stop = "a signal arrived" if seen[SIGNAL] else "the time limit is reached" if seen[TIME_UP] else ""
                    if seen[IDLE] == self.comm.size and not seen[MEET]:
                        return
                    if stop or seen[DUE]:
                        with self.pace.saving():
                            job.save()
                        has_saved = True
                    if stop:
                        n_done = int(mpi.allreduce_sum(self.comm, np.array([job.n_done]))[0])
                        done = plural(n_done, job.unit) if job.total is None else f"{n_done} of {plural(job.total, job.unit)}"
                        raise Interrupted(f"{stop}: {job.saved}; continue with --resume ({done} done)")
                    if seen[MEET]:
                        try:
                            job.meet()
                        except Stopped:  # the reason is in the next pulse
                            self._stopped, self._idle = True, False
        except HpcmlError:
            if not has_saved:
                job.discard()
            raise
        finally:
            self._job = Job()  # a job refers to its driver: neither is kept by the other, nor the files that they have mapped

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
        except CollectiveError:  # another rank of the group leaves with an unexpected error, and will not hear of this one
            raise
        except self._expected as failure:  # the others learn of it by the pulse
            self._failure = failure
            return False
        self._idle = finished is None
        return not self._idle

    def poll(self) -> np.ndarray | None:
        """Collective over the group, between passes. The pulse's sums, if a round is complete."""
        if self._heard is None:
            return self._pulse.poll(self._flags())
        heard, self._heard = self._heard, None
        return heard

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """Collective over the group. This rank's parts until all are done; or Stopped, on all."""
        if not self.long:
            yield from parts
            return
        for part in parts:
            self._is_ready(ready=False)
            yield part
        while not self._is_ready(ready=True):
            pass

    def _is_ready(self, ready: bool) -> bool:
        """Whether the group is ready; waits if this rank is, or wants to stop. Stopped."""
        while True:
            told: Sequence[float] | np.ndarray
            wants = self.signals.seen or self._late()
            if self.comm.size == 1:
                told = (wants, ready, False)
            else:
                heard = self._heard is None and self._pulse.take_part(self._flags())
                told = (wants, ready, heard)
            if self.group.size > 1:
                if not self._rounds.take_part(told, wait=ready or wants):
                    return False
                told = self._rounds.take()
            stop = bool(told[WANTS] > 0)
            if told[HEARD] == self.group.size:
                sums = self._pulse.take()
                if sums[[SIGNAL, DUE, TIME_UP, FAILED, MEET]].any():
                    self._heard = sums
                stop = stop or bool(sums[[SIGNAL, TIME_UP, FAILED]].any())
            if stop:
                raise Stopped
            if ready or not wants:  # else the round began before this rank wanted to
                return bool(told[READY] == self.group.size)

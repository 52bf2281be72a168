"""The training loop: runs turns until the work is done, a signal arrives, the time limit is reached, or a rank fails.

The work is a generator; each turn yields what it has finished. The ranks of a group run their turns together, and each group
proceeds at its own speed. What all ranks do together (a checkpoint, the end) they do when they see the same sums of their flags,
the pulse. The driver handles the timing of checkpoints, signals, the time limit and progress. A `Job` receives finished results:
files of a run, arrays of an estimator, scores of held-out rows.

    driver = Driver(comm, group, signals, options.time_limit, options.checkpoint_every)
    driver.run(solver.solve(labels, driver), job, log)  # raises Interrupted after a checkpoint

The driver is also the solver's `Stop`. Ranks process their slices at different speeds, so a rank must not leave a pass alone: the
ranks that share its rows would wait forever. Between slices the ranks of a group therefore exchange, without waiting, whether one
of them wants to stop. The sums of a round are the same on all of them, so they leave in the same round; ranks that have finished a
pass continue the rounds until all have. Flags of other groups arrive in the sums of the run's `RepeatedSum`, which continues
meanwhile.
"""

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
from hpcml.run.profile import Profile
from hpcml.run.stop import Stop
from hpcml.signals import StopSignals

SIGNAL, DUE, TIME_UP, FAILED, MEET, IDLE, DONE, SHARE = range(8)  # entries of a pulse
N_FLAGS = 8
WANTS, READY, HEARD = range(3)  # entries of a round within a group
IDLE_SECONDS = 0.002  # between polls of a rank without work

T = TypeVar("T")


class Job:
    """Receives the results of the work. The base class does nothing."""

    doing = "training"  # gerund for the error message of a failing rank
    title, unit = "labels", "label"  # for the progress bar, and one unit of it
    total: int | None = None  # units of all ranks; None: unknown
    saved = "checkpoint written"  # for the message about an interruption
    share_done = math.nan  # this rank's finished share of all work; NaN: use `n_done`

    @property
    def n_done(self) -> float:
        """Units that this rank has done; progress shows the sum over the ranks."""
        return 0.0

    def note(self, turns: int) -> str:
        return ""

    @property
    def meets(self) -> bool:
        """Whether this rank requests a `meet` of all ranks."""
        return False

    def keep(self, finished: Any) -> None:
        """Receive what a turn has finished. Collective over the group."""

    def save(self) -> None:
        """Write a checkpoint of results that are not on the disk yet. Collective over all ranks."""

    def meet(self) -> None:
        """Do what one of the ranks requested. Raises Stopped. Collective over all ranks."""

    def discard(self) -> None:
        """Remove files after an error before the first checkpoint. Collective over all ranks."""


class Driver(Stop):
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
        """`group`: ranks of a turn; `spent`: seconds used of the limit; `checkpoint_every`: seconds, None: automatic."""
        self.comm, self.group, self.signals = comm, group, signals or StopSignals()
        self.time_limit, self.checkpoint_every, self.spent = time_limit, checkpoint_every, spent
        self.long = slices.is_long(n_values, group.size)  # shorter passes are not interrupted
        self.before = 0.0  # seconds of earlier jobs of the same run
        self._pulse, self._rounds = mpi.RepeatedSum(comm, group, N_FLAGS), mpi.RepeatedSum(group, mpi.self_comm(), 3)
        self._heard: np.ndarray | None = None  # sums of a pulse that the loop has not processed
        self._job, self.profile = Job(), Profile()
        self._expected = HpcmlError if group.size > 1 else Exception  # errors that all ranks of a group raise
        self._failure: Exception | None = None
        self._idle = self._stopped = False
        self.began, self.began_cpu, self.pace = time.monotonic(), time.process_time(), Pace(checkpoint_every)

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self.began_cpu

    def _late(self) -> bool:
        return self.time_limit is not None and time.monotonic() - self.began + self.spent >= self.time_limit

    def look(self) -> None:
        if self.signals.seen or self._late():
            raise Stopped

    def _flags(self) -> tuple[float, ...]:
        signal = self.signals.seen
        due = self.comm.rank == 0 and self.pace.due  # rank 0's clock decides for all
        meets, late = self._job.meets and self._failure is None, self._late() and not signal
        return (signal, due, late, self._failure is not None, meets, self._idle, self._job.n_done, self._job.share_done)

    def run(self, turns: Generator[Any, None, None], job: Job, log: Log | None = None) -> None:
        """Run the work to its end. Collective.

        A turn yields results for the job, or None if nothing is left to do unless another rank has more. Raises, on all ranks, what
        a turn raises on any rank, and Interrupted after a signal or the time limit, when the job has saved.
        """
        self._job, n_turns, has_saved = job, 0, False
        self.began, self.began_cpu, self.pace = time.monotonic(), time.process_time(), Pace(self.checkpoint_every)
        try:
            with closing(turns), closing(Progress(log or Log(1), job.title, job.total)) as progress:
                while True:
                    has_worked = self._turn(turns)
                    n_turns += has_worked
                    if not has_worked and self.comm.size > 1:
                        with self.profile("wait"):
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
                        with self.pace.saving(), self.profile("write"):
                            job.save()
                        has_saved = True
                    if stop:
                        n_done = int(mpi.allreduce_sum(self.comm, np.array([job.n_done]))[0])
                        done = plural(n_done, job.unit) if job.total is None else f"{n_done} of {plural(job.total, job.unit)}"
                        raise Interrupted(f"{stop}: {job.saved}; continue with --resume ({done} done)")
                    if seen[MEET]:
                        try:
                            job.meet()
                        except Stopped:  # the next pulse contains the reason
                            self._stopped, self._idle = True, False
        except HpcmlError:
            if not has_saved:
                job.discard()
            raise
        finally:
            self._job = Job()  # break the reference cycle, which would keep mapped files open

    def _turn(self, turns: Generator[Any, None, None]) -> bool:
        if self._failure is not None or self._stopped:
            return False
        try:
            with self.profile("compute"):
                finished = next(turns, None)
            if finished:
                with self.profile("write"):
                    self._job.keep(finished)
        except Stopped:
            self._stopped, self._idle = True, False
            return False
        except CollectiveError:  # another rank of the group ends with an unexpected error, without further communication
            raise
        except self._expected as failure:  # other ranks learn of it by the pulse
            self._failure = failure
            return False
        self._idle = finished is None
        return not self._idle

    def poll(self) -> np.ndarray | None:
        """Return the sums of a complete pulse, else None; called between passes. Collective over the group."""
        if self._heard is None:
            return self._pulse.poll(self._flags())
        heard, self._heard = self._heard, None
        return heard

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield this rank's parts until all ranks are done, or raise Stopped on all. Collective over the group."""
        if not self.long:
            yield from parts
            return
        for part in parts:
            self._is_ready(ready=False)
            yield part
        while not self._is_ready(ready=True):
            pass

    def _is_ready(self, ready: bool) -> bool:
        """Return whether the group is ready; waits if this rank is ready or wants to stop. Raises Stopped."""
        while True:
            flags: Sequence[float] | np.ndarray
            wants = self.signals.seen or self._late()
            if self.comm.size == 1:
                flags = (wants, ready, False)
            else:
                heard = self._heard is None and self._pulse.contribute(self._flags())
                flags = (wants, ready, heard)
            if self.group.size > 1:
                if not self._rounds.contribute(flags, wait=ready or wants):
                    return False
                flags = self._rounds.pop()
            stop = bool(flags[WANTS] > 0)
            if flags[HEARD] == self.group.size:
                sums = self._pulse.pop()
                if sums[[SIGNAL, DUE, TIME_UP, FAILED, MEET]].any():
                    self._heard = sums
                stop = stop or bool(sums[[SIGNAL, TIME_UP, FAILED]].any())
            if stop:
                raise Stopped
            if ready or not wants:  # otherwise the round began before this rank wanted to stop
                return bool(flags[READY] == self.group.size)

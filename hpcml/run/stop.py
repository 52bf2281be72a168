"""Stopping long work: the flags that ranks look at between two slices of it.

Every rank goes through its slices at its own speed, so nobody may leave a pass alone: those with
whom it shares the rows would wait for it for ever. The ranks of a group tell one another between
slices, without waiting, whether one of them wants to stop. The sums of a round are the same for all
of them, so they leave in the same round; those that are done with a pass go on with the rounds
until all are. What goes on in other groups is in the sums of the run's `RepeatedSum`, which beats
in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np

from hpcml import mpi, slices
from hpcml.errors import Stopped

SIGNAL, DUE, TIME_UP, FAILED, MEET, FINISHED, DONE, SHARE = range(8)  # what a pulse carries
N_FLAGS = 8
WANTS, READY, HEARD = range(3)  # what the ranks of a group tell one another

T = TypeVar("T")


class Stop(Protocol):
    """What a solver asks whether to stop. Collective over the ranks that share the work."""

    @property
    def long(self) -> bool:
        """Whether a pass is long enough to be left."""

    @property
    def seconds(self) -> float:
        """That the work has taken so far, for the history."""

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts of this rank's work, until all ranks are done. Raises Stopped."""

    def look(self) -> None:
        """Raise Stopped if there is a reason to. Only for work that a rank does alone."""


class NeverStop:
    """For work that nothing ends."""

    long, seconds = False, 0.0

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts, one after the other."""
        return iter(parts)

    def look(self) -> None:
        """Nothing."""


NEVER = NeverStop()


class GroupStop:
    """Of a run over `comm`, in the rank group that shares the rows. Making one is local."""

    def __init__(
        self,
        comm: mpi.Comm,
        group: mpi.Comm,
        n_values: int,
        flags: Callable[[], tuple[float, ...]],
        wants: Callable[[], bool],
        elapsed: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`n_values`: of the group's rows; `flags`: for the pulse; `wants`: to stop."""
        self.comm, self.group = comm, group
        self.long = slices.is_long(n_values, group.size)  # else passes are too short to be left
        self._flags, self._wants, self._elapsed = flags, wants, elapsed
        self._pulse, self._rounds = mpi.RepeatedSum(comm, group, N_FLAGS), mpi.RepeatedSum(group, mpi.self_comm(), 3)
        self._heard: np.ndarray | None = None  # sums of the pulse that the run's loop has not seen

    @property
    def seconds(self) -> float:
        """That the work has taken so far."""
        return self._elapsed()

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
            self._look(ready=False)
            yield part
        while not self._look(ready=True):
            pass

    def look(self) -> None:
        """Raise Stopped if any rank has a reason to. For a group of one rank; local."""
        self._look(ready=True)

    def _look(self, ready: bool) -> bool:
        """Whether the group is ready; waits if this rank is, or wants to stop. Stopped."""
        while True:
            told: Sequence[float] | np.ndarray
            wants = self._wants()
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

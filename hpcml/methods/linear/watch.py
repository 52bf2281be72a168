"""How a run stops inside a pass: what the ranks look at between two slices of it.

Every rank goes through its slices at its own speed, so nobody may leave a pass alone: those with whom it shares the rows would wait
for it for ever. The ranks of a group tell one another between slices, without waiting, whether one of them wants to stop. The
sums of a round are the same for all of them, so they leave in the same round; those that are done with a pass go on with the rounds
until all are. What goes on in other groups is in the sums of the run's `RepeatedSum`, which beats in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from hpcml import mpi, slices

SIGNAL, DUE, TIME_UP, FAILED, FINISHED, DONE = range(6)  # what a pulse carries
WANTS, READY, HEARD = range(3)  # what the ranks of a group tell one another

T = TypeVar("T")


class Stopped(Exception):
    """The pass is abandoned, by all ranks of the group."""


class Unwatched:
    """For passes that nothing ends."""

    long = False

    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts, one after the other."""
        return iter(parts)


class Watch:
    """Of a run over `comm`, in the group of ranks that share the rows. Making one is local."""

    def __init__(
        self, comm: mpi.Comm, group: mpi.Comm, n_values: int, flags: Callable[[], tuple], wants: Callable[[], bool]
    ) -> None:
        """`n_values`: of the group's rows. `flags` are this rank's numbers for the pulse, `wants` whether it is to stop."""
        self.comm, self.group = comm, group
        self.long = n_values > slices.SLICE_VALUES * group.size  # else passes are too short to be left
        self._flags, self._wants = flags, wants
        self._pulse, self._rounds = mpi.RepeatedSum(comm, group, 6), mpi.RepeatedSum(group, mpi.self_comm(), 3)
        self._heard: np.ndarray | None = None  # sums of the pulse that the run's loop has not seen

    @mpi.collective
    def poll(self) -> np.ndarray | None:
        """Collective over the group, between passes. The pulse's sums, if a round is complete."""
        if self._heard is None:
            return self._pulse.poll(self._flags())
        heard, self._heard = self._heard, None
        return heard

    @mpi.collective
    def slices(self, parts: Iterable[T]) -> Iterator[T]:
        """Collective over the group. The parts of this rank's work, one after the other, until all ranks are done with theirs.

        Raises Stopped on all ranks or on none.
        """
        if not self.long:
            yield from parts
            return
        for part in parts:
            self._look(ready=False)
            yield part
        while not self._look(ready=True):
            pass

    def _look(self, ready: bool) -> bool:
        """Whether all ranks of the group are ready. Waits for the others only if this one is, or is to stop. Raises Stopped."""
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
                if sums[[SIGNAL, DUE, TIME_UP, FAILED]].any():
                    self._heard = sums
                stop = stop or bool(sums[[SIGNAL, TIME_UP, FAILED]].any())
            if stop:
                raise Stopped
            if ready or not wants:  # else the round began before this rank wanted to
                return told[READY] == self.group.size

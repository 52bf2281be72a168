"""MPI of one process without an MPI library: the part of mpi4py's module `MPI` that hpcml uses on one rank.

Collectives copy objects, as mpi4py does. There are no messages, for hpcml sends none from a rank to itself.
"""

from __future__ import annotations

import copy
import os
from typing import Any, NoReturn

import numpy as np

IN_PLACE = SUM = MAX = COMM_TYPE_SHARED = None
Exception = ()  # the errors of MPI: none


class SingleRequest:
    """A request, which is complete at once."""

    def Test(self) -> bool:
        """Return whether it is complete."""
        return True

    Wait = Test
    Waitall = staticmethod(all)


class SingleComm:
    """A communicator of one rank."""

    rank, size = 0, 1

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return a copy of the value."""
        return copy.deepcopy(value)

    allreduce = bcast

    def gather(self, value: Any, root: int = 0) -> list[Any]:
        """Return a copy of the value, in a list."""
        return [self.bcast(value)]

    allgather = gather

    def scatter(self, values: list[Any], root: int = 0) -> Any:
        """Return a copy of the only value."""
        return self.bcast(values[0])

    def Iallreduce(self, sent: Any, received: np.ndarray, op: Any = SUM) -> SingleRequest:
        """Copy `sent`, unless it is IN_PLACE."""
        if isinstance(sent, np.ndarray):
            received[...] = sent
        return SingleRequest()

    Allreduce = Iallreduce

    def Ibarrier(self) -> SingleRequest:
        """Return a request, for there is nothing to wait for."""
        return SingleRequest()

    Barrier = Free = Ibarrier

    def Dup(self, *_color_and_key: Any) -> SingleComm:
        """Return a communicator of this process."""
        return SingleComm()

    Split = Split_type = Dup

    def Abort(self, code: int) -> NoReturn:
        """End this process."""
        os._exit(code)


Comm, Request = SingleComm, SingleRequest
COMM_WORLD, COMM_SELF = SingleComm(), SingleComm()


def Is_initialized() -> bool:
    """Return whether MPI has started."""
    return False

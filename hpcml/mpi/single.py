"""MPI of one process without an MPI library: the part of mpi4py's module `MPI` that hpcml uses on one rank.

Collectives copy objects by pickling, as mpi4py does. There are no messages, for hpcml sends none from a rank to itself.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

IN_PLACE = SUM = MAX = COMM_TYPE_SHARED = None


class SingleError(RuntimeError):
    """What mpi4py would raise for an error of MPI; never raised."""


class SingleRequest:
    """A request, which is complete at once."""

    def Test(self) -> bool:
        """Return whether it is complete."""
        return True

    Wait = Test

    @staticmethod
    def Waitall(_requests: Sequence[SingleRequest]) -> bool:
        """Return that all are complete."""
        return True


class SingleComm:
    """A communicator of one rank."""

    rank, size = 0, 1

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return a copy of the value."""
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    allreduce = bcast

    def gather(self, value: Any, root: int = 0) -> list[Any]:
        """Return a copy of the value, in a list."""
        return [self.bcast(value)]

    allgather = gather

    def Allreduce(self, sent: Any, received: np.ndarray, op: Any = SUM) -> None:
        """Copy `sent`, unless it is IN_PLACE."""
        if isinstance(sent, np.ndarray):
            received[...] = sent

    def Iallreduce(self, sent: Any, received: np.ndarray, op: Any = SUM) -> SingleRequest:
        """Copy `sent`."""
        self.Allreduce(sent, received)
        return SingleRequest()

    def Barrier(self) -> None:
        """Return at once."""

    def Ibarrier(self) -> SingleRequest:
        """Return at once."""
        return SingleRequest()

    def Dup(self, *_color_and_key: Any) -> SingleComm:
        """Return a communicator of this process."""
        return SingleComm()

    Split = Split_type = Dup

    def Free(self) -> None:
        """Free nothing."""

    def Abort(self, code: int) -> NoReturn:
        """End this process."""
        os._exit(code)


Comm, Request, Exception = SingleComm, SingleRequest, SingleError  # under mpi4py's names
COMM_WORLD, COMM_SELF = SingleComm(), SingleComm()


def Is_initialized() -> bool:
    """Return that MPI does not run."""
    return False


def Get_library_version() -> str:
    """Return what stands in the place of the library's name."""
    return "no MPI library: one process"

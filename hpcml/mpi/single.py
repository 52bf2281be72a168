"""A single-process replacement for mpi4py's module `MPI`: the part that hpcml uses on one rank, without an MPI library.

Collectives copy objects, as mpi4py does. There are no messages, because hpcml sends none from a rank to itself.
"""

import copy
import os
from typing import Any, NoReturn

import numpy as np

IN_PLACE = SUM = MAX = COMM_TYPE_SHARED = None
Exception = ()  # MPI's exceptions: none


class SingleRequest:
    """A request that is complete at once."""

    def Test(self) -> bool:
        return True

    Wait = Test
    Waitall = staticmethod(all)


class SingleComm:
    rank, size = 0, 1

    def bcast(self, value: Any, root: int = 0) -> Any:
        return copy.deepcopy(value)

    allreduce = bcast

    def gather(self, value: Any, root: int = 0) -> list[Any]:
        return [self.bcast(value)]

    allgather = gather

    def scatter(self, values: list[Any], root: int = 0) -> Any:
        return self.bcast(values[0])

    def Iallreduce(self, sent: Any, received: np.ndarray, op: Any = SUM) -> SingleRequest:
        if isinstance(sent, np.ndarray):
            received[...] = sent
        return SingleRequest()

    Allreduce = Iallreduce

    def Ibarrier(self) -> SingleRequest:
        return SingleRequest()

    Barrier = Free = Ibarrier

    def Dup(self, *_color_and_key: Any) -> "SingleComm":
        return SingleComm()

    Split = Split_type = Dup

    def Abort(self, code: int) -> NoReturn:
        os._exit(code)


Comm, Request = SingleComm, SingleRequest
COMM_WORLD, COMM_SELF = SingleComm(), SingleComm()


def Is_initialized() -> bool:
    return False

"""Messages between ranks: synchronous exchanges, numbers sent to their owners, and a mailbox without waiting.

A message is a list of arrays, which mpi4py pickles; messages between two ranks arrive in the order in which they were sent.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from hpcml.mpi.binding import MPI
from hpcml.partition import offsets

_STEP, _LETTER = 1, 2  # tags
_END = None  # the last message of a sender

Arrays = list[np.ndarray]


def exchange_with(comm: MPI.Comm, parts: dict[int, Arrays]) -> dict[int, Arrays]:
    """Exchange messages with ranks that all name each other; large arrays are not copied. Collective over these ranks."""
    if not parts:
        return {}
    from mpi4py.util import pkl5  # imported here: needs an MPI library, which a single process may not have

    direct = pkl5.Comm(comm)
    requests = [direct.isend(arrays, rank, _STEP) for rank, arrays in parts.items()]
    received = {rank: direct.recv(source=rank, tag=_STEP) for rank in parts}
    pkl5.Request.waitall(requests)
    return received


def exchange(comm: MPI.Comm, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Send `parts[r]` to rank r; return what each rank sent, in rank order. Collective over `comm`."""
    received = exchange_with(comm, {rank: [part] for rank, part in enumerate(parts) if rank != comm.rank})
    received[comm.rank] = [parts[comm.rank]]
    return [received[rank][0] for rank in range(comm.size)]


class Routing:
    """Sends this rank's numbers to their `owners` (n, ranks), and returns answers to their positions."""

    def __init__(self, comm: MPI.Comm, owners: np.ndarray) -> None:
        self.comm, self.order = comm, np.argsort(owners, kind="stable")
        self.bounds = np.searchsorted(owners[self.order], np.arange(comm.size + 1))
        self.received: list[int] = []

    def send(self, values: np.ndarray) -> np.ndarray:
        """Send values[i] (n) to the owner of i; return the received values, by sender. Collective over `comm`."""
        values = values[self.order]
        parts = exchange(self.comm, [values[begin:end] for begin, end in pairwise(self.bounds.tolist())])
        self.received = [part.size for part in parts]
        return np.concatenate(parts)

    def answer(self, answers: np.ndarray) -> np.ndarray:
        """Answer the values received last; return the answers to this rank's values. Collective over `comm`."""
        ends = offsets(self.received).tolist()
        parts = exchange(self.comm, [answers[begin:end] for begin, end in pairwise(ends)])
        out = np.empty(self.order.size, answers.dtype)
        out[self.order] = np.concatenate(parts)
        return out


class Mailbox:
    """Messages between this rank and some others, none of which ever waits for another.

    Only the latest message to a rank is kept: it leaves when the previous one has arrived, and is created and copied then; with MPI
    versions below 4 it must be smaller than 2 GiB. Each named rank must name this one. All methods but `close` are local.
    """

    def __init__(self, comm: MPI.Comm, ranks: Iterable[int]) -> None:
        self.comm = comm
        self._leaving: dict[int, MPI.Request | None] = dict.fromkeys(ranks)
        self._arriving = dict(self._leaving)
        self._next: dict[int, Callable[[], Arrays]] = {}
        self._ended: set[int] = set()  # ranks whose last message has arrived

    def post(self, rank: int, write: Callable[[], Arrays]) -> None:
        """Send `write()` to a rank once the previous message has left; a later `post` replaces it."""
        self._next[rank] = write
        self._send(rank)

    def _send(self, rank: int) -> None:
        request = self._leaving[rank]
        if request is not None and not request.Test():
            return
        self._leaving[rank] = None
        if rank in self._next:
            self._leaving[rank] = self.comm.isend(self._next.pop(rank)(), rank, _LETTER)

    def collect(self) -> list[tuple[int, Arrays]]:
        letters = []
        for rank in self._leaving:
            self._send(rank)
            while (letter := self._receive(rank)) is not None:
                letters.append((rank, letter))
        return letters

    def _receive(self, rank: int) -> Arrays | None:
        if rank in self._ended:
            return None
        if self._arriving[rank] is None:
            message = self.comm.improbe(source=rank, tag=_LETTER)
            self._arriving[rank] = None if message is None else message.irecv()
        request = self._arriving[rank]
        is_complete, content = (False, None) if request is None else request.test()
        letter: Arrays | None = content
        if not is_complete:
            return None
        self._arriving[rank] = None
        if letter is _END:
            self._ended.add(rank)
            return None
        return letter

    def close(self) -> list[tuple[int, Arrays]]:
        """Drop waiting messages and return those that still arrive; none is in transit afterwards. Collective over the ranks."""
        self._next.clear()
        letters, open_to = [], set(self._leaving)
        while open_to or len(self._ended) < len(self._leaving):
            letters += self.collect()  # other ranks cannot finish before their messages have arrived
            for rank in [rank for rank in sorted(open_to) if self._leaving[rank] is None]:
                self._leaving[rank] = self.comm.isend(_END, rank, _LETTER)
                open_to.remove(rank)
        MPI.Request.Waitall([request for request in self._leaving.values() if request is not None])
        return letters

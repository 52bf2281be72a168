"""Messages between a rank and a few others: exchanged in step, or left in a mailbox.

A message is a list of arrays, which mpi4py pickles; between two ranks messages arrive in the order in which they were sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from hpcml.mpi.binding import MPI

_STEP, _LETTER = 1, 2  # tags
_END = None  # the letter that says that no other comes

Arrays = list[np.ndarray]


def exchange_with(comm: MPI.Comm, parts: dict[int, Arrays]) -> dict[int, Arrays]:
    """Collective over the ranks concerned, which all name each other. Exchange messages.

    The values of large arrays are sent as they lie in memory.
    """
    if not parts:
        return {}
    from mpi4py.util import pkl5  # which needs an MPI library, as a single process does not

    direct = pkl5.Comm(comm)
    requests = [direct.isend(arrays, rank, _STEP) for rank, arrays in parts.items()]
    received = {rank: direct.recv(source=rank, tag=_STEP) for rank in parts}
    pkl5.Request.waitall(requests)
    return received


def exchange(comm: MPI.Comm, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Collective over `comm`. Send `parts[r]` to rank r; return what each rank sent, in order."""
    received = exchange_with(comm, {rank: [part] for rank, part in enumerate(parts) if rank != comm.rank})
    received[comm.rank] = [parts[comm.rank]]
    return [received[rank][0] for rank in range(comm.size)]


class Mailbox:
    """Letters between this rank and some others, none of which ever waits for another.

    Only the latest letter to a rank is kept: it leaves when the one before has arrived. Its text is
    made, and copied, when it leaves; with an MPI older than version 4 it has less than 2 GiB. Each
    rank named must name this one. Making a mailbox, and all its methods but `close`, are local.
    """

    def __init__(self, comm: MPI.Comm, ranks: Iterable[int]) -> None:
        self.comm = comm
        self._leaving: dict[int, MPI.Request | None] = dict.fromkeys(ranks)
        self._arriving = dict(self._leaving)
        self._next: dict[int, Callable[[], Arrays]] = {}
        self._ended: set[int] = set()  # ranks of which no letter comes any more
        self._n_sent, self._n_received = Counter[int](), Counter[int]()

    def post(self, rank: int, write: Callable[[], Arrays]) -> None:
        """Send `write()` to a rank once the letter before has left; the latest one counts."""
        self._next[rank] = write
        self._send(rank)

    def _send(self, rank: int) -> None:
        request = self._leaving[rank]
        if request is not None and not request.Test():
            return
        self._leaving[rank] = None
        if rank in self._next:
            self._leaving[rank] = self.comm.isend(self._next.pop(rank)(), rank, _LETTER)
            self._n_sent[rank] += 1

    def collect(self) -> list[tuple[int, Arrays]]:
        """The letters that have arrived since, in order; also lets waiting ones leave."""
        letters = []
        for rank in self._leaving:
            self._send(rank)
            while (letter := self._receive(rank)) is not None:
                letters.append((rank, letter))
        return letters

    def _receive(self, rank: int) -> Arrays | None:
        """One complete letter of a rank, or None."""
        if rank in self._ended:
            return None
        if self._arriving[rank] is None:
            message = self.comm.improbe(source=rank, tag=_LETTER)
            self._arriving[rank] = None if message is None else message.irecv()
        request = self._arriving[rank]
        is_there, content = (False, None) if request is None else request.test()
        letter: Arrays | None = content
        if not is_there:
            return None
        self._arriving[rank] = None
        if letter is _END:
            self._ended.add(rank)
            return None
        self._n_received[rank] += 1
        return letter

    def close(self) -> list[tuple[int, Arrays]]:
        """Collective over the ranks concerned. End it: the letters that still arrived.

        Letters that have not left are dropped. Afterwards nothing is under way; what each rank has sent, the other has received.
        """
        self._next.clear()
        letters, open_to = [], set(self._leaving)
        while open_to or len(self._ended) < len(self._leaving):
            letters += self.collect()  # the others cannot end before what they sent has arrived
            for rank in [rank for rank in sorted(open_to) if self._leaving[rank] is None]:
                self._leaving[rank] = self.comm.isend(_END, rank, _LETTER)
                open_to.remove(rank)
        MPI.Request.Waitall([request for request in self._leaving.values() if request is not None])
        counts = {rank: [np.array([self._n_sent[rank]])] for rank in self._leaving}
        for rank, (sent,) in exchange_with(self.comm, counts).items():
            if int(sent[0]) != self._n_received[rank]:
                raise AssertionError(f"rank {rank} sent {int(sent[0])} letters, but {self._n_received[rank]} arrived")
        return letters

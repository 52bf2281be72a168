"""Messages between a rank and a few others: exchanged in step, or left in a mailbox.

A message is a list of flat arrays. It travels as one number, its size, then its bytes in chunks;
between two ranks messages arrive in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
from mpi4py import MPI

from hpcml.mpi.collectives import chunks
from hpcml.mpi.start import freed

_SIZE, _BYTES = 1, 2  # tags
_END = -1  # the size of a message that says: there is none to come
_TYPES = [np.dtype(name) for name in ("i4", "i8", "f4", "f8", "u1")]

Arrays = list[np.ndarray]


def packed(arrays: Arrays) -> np.ndarray:
    """Flat arrays as one of bytes: their number, each one's type and length, their values."""
    head = [len(arrays)]
    for array in arrays:
        head += [_TYPES.index(array.dtype), array.size]
    parts = [np.array(head, dtype=np.int64), *arrays]
    return np.concatenate([np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts])


def unpacked(message: np.ndarray) -> Arrays:
    """The arrays that `packed` packed, as copies (in the message they are not aligned)."""
    (n_arrays,) = message[:8].view(np.int64).tolist()
    begin = 8 * (1 + 2 * n_arrays)
    arrays = []
    for kind, size in message[8:begin].view(np.int64).reshape(n_arrays, 2).tolist():
        end = begin + size * _TYPES[kind].itemsize
        arrays.append(message[begin:end].copy().view(_TYPES[kind]))
        begin = end
    return arrays


def exchange_with(comm: MPI.Comm, parts: dict[int, Arrays]) -> dict[int, Arrays]:
    """Collective over the ranks concerned, which all name each other. Exchange messages."""
    messages = {rank: packed(arrays) for rank, arrays in parts.items()}
    sizes = {rank: (np.array([message.size]), np.zeros(1, dtype=np.int64)) for rank, message in messages.items()}
    requests = [comm.Irecv(received, rank, _SIZE) for rank, (_, received) in sizes.items()]
    requests += [comm.Isend(sent, rank, _SIZE) for rank, (sent, _) in sizes.items()]
    MPI.Request.Waitall(requests)
    received = {rank: np.empty(int(size[0]), dtype=np.uint8) for rank, (_, size) in sizes.items()}
    requests = [comm.Irecv(chunk, rank, _BYTES) for rank, buffer in received.items() for chunk in chunks(buffer)]
    requests += [comm.Isend(chunk, rank, _BYTES) for rank, message in messages.items() for chunk in chunks(message)]
    MPI.Request.Waitall(requests)
    return {rank: unpacked(buffer) for rank, buffer in received.items()}


class _Outgoing:
    """The message on its way to one rank, and the one that follows it."""

    def __init__(self) -> None:
        self.requests: list[MPI.Request] = []
        self.buffers: Arrays = []  # MPI reads them until the requests are complete
        self.next: Callable[[], Arrays] | None = None
        self.sent = 0


class _Incoming:
    """The message that is being received from one rank."""

    def __init__(self) -> None:
        self.size = np.zeros(1, dtype=np.int64)
        self.requests: list[MPI.Request] = []
        self.buffer: np.ndarray | None = None  # None: waiting for a size
        self.ended = False
        self.received = 0


class Mailbox:
    """Letters between this rank and some others, none of which ever waits for another.

    Only the latest letter to a rank is kept: it leaves when the one before has arrived. Its text is
    made when it leaves. Each rank named must name this one. Making a mailbox, and all its methods
    but `close`, are local.
    """

    def __init__(self, comm: MPI.Comm, ranks: Iterable[int]) -> None:
        self.comm = comm
        self._out = {rank: _Outgoing() for rank in ranks}
        self._in = {rank: _Incoming() for rank in self._out}
        for rank, incoming in self._in.items():
            incoming.requests = [comm.Irecv(incoming.size, rank, _SIZE)]

    def post(self, rank: int, write: Callable[[], Arrays]) -> None:
        """Send `write()` to a rank once the letter before has left; the latest one counts."""
        self._out[rank].next = write
        self._send(rank)

    def _send(self, rank: int) -> None:
        out = self._out[rank]
        if out.requests and not MPI.Request.Testall(out.requests):
            return
        out.requests, out.buffers = [], []
        if out.next is not None:
            message = packed(out.next())
            out.next = None
            self._begin(rank, message.size, message)
            out.sent += 1

    def _begin(self, rank: int, size: int, message: np.ndarray) -> None:
        out = self._out[rank]
        out.buffers = [np.array([size]), message]
        out.requests = [self.comm.Isend(out.buffers[0], rank, _SIZE)]
        out.requests += [self.comm.Isend(chunk, rank, _BYTES) for chunk in chunks(message)]

    def collect(self) -> list[tuple[int, Arrays]]:
        """The letters that have arrived since, in order; also lets waiting ones leave."""
        found = []
        for rank in self._out:
            self._send(rank)
            while (message := self._receive(rank)) is not None:
                found.append((rank, unpacked(message)))
        return found

    def _receive(self, rank: int) -> np.ndarray | None:
        """One complete letter of a rank, or None."""
        incoming = self._in[rank]
        if incoming.ended or not MPI.Request.Testall(incoming.requests):
            return None
        if incoming.buffer is None:
            size = int(incoming.size[0])
            if size == _END:
                incoming.ended, incoming.requests = True, []
                return None
            incoming.buffer = np.empty(size, dtype=np.uint8)
            incoming.requests = [self.comm.Irecv(chunk, rank, _BYTES) for chunk in chunks(incoming.buffer)]
            if not MPI.Request.Testall(incoming.requests):
                return None
        message, incoming.buffer = incoming.buffer, None
        incoming.received += 1
        incoming.requests = [self.comm.Irecv(incoming.size, rank, _SIZE)]
        return message

    def close(self) -> list[tuple[int, Arrays]]:
        """Collective over the ranks concerned. End it: the letters that still arrived.

        Letters that have not left are dropped. Afterwards nothing is under way; what each rank has
        sent, the other has received.
        """
        found, open_to = [], set(self._out)
        for out in self._out.values():
            out.next = None
        while open_to or not all(incoming.ended for incoming in self._in.values()):
            found += self.collect()  # the others cannot end before what they sent has arrived
            for rank in sorted(open_to):
                if MPI.Request.Testall(self._out[rank].requests):
                    self._begin(rank, _END, np.zeros(0, dtype=np.uint8))
                    open_to.remove(rank)
        for out in self._out.values():
            MPI.Request.Waitall(out.requests)
        counts = {rank: [np.array([out.sent])] for rank, out in self._out.items()}
        for rank, (sent,) in exchange_with(self.comm, counts).items():
            if int(sent[0]) != self._in[rank].received:
                raise AssertionError(f"rank {rank} sent {int(sent[0])} letters, but {self._in[rank].received} arrived")
        return found


@contextmanager
def torus(comm: MPI.Comm, width: int, height: int) -> Iterator[MPI.Comm]:
    """Collective over `comm`. A periodic Cartesian communicator if it has a rank for each node.

    Else `comm`. The ranks keep their numbers: rank y · width + x stands at (x, y).
    """
    if comm.size != width * height or comm.size == 1:
        yield comm
        return
    with freed(cast("MPI.Intracomm", comm).Create_cart((height, width), periods=(True, True), reorder=False)) as grid:
        yield grid

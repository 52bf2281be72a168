"""Collectives that keep ranks together: agreed errors, exact sums, messages of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hpcml.errors import CollectiveError, DataError, HpcmlError, is_out_of_memory, out_of_memory, reason_and_hint
from hpcml.mpi.binding import MPI
from hpcml.mpi.start import rested
from hpcml.partition import offsets

# No message is larger than this: far below MPI's 2 GiB limit, and it bounds the library's own temporary copies.
CHUNK_BYTES = 1 << 25
# Elements of a `stream_to_root` message travel pickled, one chunk at a time.
_END = None

T = TypeVar("T")


@contextmanager
def agreed(comm: MPI.Comm, doing: str, sleep: bool = False, in_groups: bool = False) -> Iterator[None]:
    """Rank-local work that may fail: all ranks succeed, or all raise one sentence.

    The body must contain no collective. The message of the lowest failing rank is raised on all. An operating-system error becomes
    a `DataError`; any other unexpected exception is re-raised where it happened and a `CollectiveError` elsewhere. With `sleep`,
    ranks that wait for the long work of another sleep instead of spinning. With `in_groups`, the body is collective over groups of
    the ranks, which agree on what they raise; an unexpected exception ends the program. Collective over `comm`.
    """
    error: Exception | None = None
    try:
        yield
    except HpcmlError as failure:
        error = failure
    except Exception as failure:
        if in_groups:
            raise
        error = failure  # the other ranks must know of any exception
        if is_out_of_memory(failure):
            error = DataError(out_of_memory(MPI.COMM_WORLD.rank, f"while {doing}", failure))
        elif isinstance(failure, OSError):
            reason, hint = reason_and_hint(failure)
            where = "" if failure.filename is None or str(failure.filename) in doing else f"{failure.filename}: "
            error = DataError(f"{where}{reason} while {doing}{hint}")
    if sleep:
        rested(comm.Ibarrier())
    first = int(-allreduce_max(comm, -(comm.size if error is None else comm.rank)))
    if first == comm.size:
        return
    known = error if isinstance(error, HpcmlError) else None
    shared, message = comm.bcast((known, str(error)), root=first)
    if error is not None and known is None:
        raise error
    raise shared or CollectiveError(f"rank {first} failed while {doing}: {message}")


groups_agreed = partial(agreed, doing="working in groups", in_groups=True)


def run_on_root(comm: MPI.Comm, doing: str, call: Callable[[], T], sleep: bool = False) -> T:
    """Return the result of `call()` on rank 0, on every rank; or raise its error on every rank.

    `doing` is a gerund for the error message; `sleep` as in `agreed`. Collective over `comm`.
    """
    result: Any = None
    with agreed(comm, doing, sleep):
        if comm.rank == 0:
            result = call()
    shared: T = comm.bcast(result)
    return shared


def allreduce_max(comm: MPI.Comm, value: float) -> float:
    """Collective over `comm`. The largest `value` (float64) of any rank.

    The first `comm.allreduce` would make a communicator of its own, and mpi4py holds Python's lock while
    it waits for the others there.
    """
    number = np.array([value], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, number, op=MPI.MAX)
    return float(number[0])


def agreed_any(comm: MPI.Comm, flag: bool) -> bool:
    """Collective over `comm`. True on all ranks if `flag` is true on any."""
    return bool(allreduce_max(comm, bool(flag)))


def chunks(flat: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive views of at most CHUNK_BYTES (at least one element) of a flat array."""
    step = max(1, CHUNK_BYTES // flat.itemsize)
    for begin in range(0, flat.size, step):
        yield flat[begin : begin + step]


def allreduce_sum(comm: MPI.Comm, buffer: np.ndarray, op: MPI.Op = MPI.SUM) -> np.ndarray:
    """Collective over `comm`. Sum (or `op`) a contiguous array, in place, in chunks."""
    if comm.size > 1:
        for chunk in chunks(buffer.reshape(-1)):
            comm.Allreduce(MPI.IN_PLACE, chunk, op=op)
    return buffer


allreduce_maxima = partial(allreduce_sum, op=MPI.MAX)


def exclusive_sum(comm: MPI.Comm, values: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Collective over `comm`. Of each value the sum over lower ranks, and over all (int64)."""
    table = np.array(comm.allgather([int(v) for v in values]), dtype=np.int64)
    return table[: comm.rank].sum(axis=0), table.sum(axis=0)


def bcast_array(comm: MPI.Comm, array: np.ndarray | None, root: int = 0) -> np.ndarray:
    """Collective over `comm`. The root's array on all ranks, sent in chunks."""
    shape, dtype = comm.bcast(None if array is None else (array.shape, array.dtype.str), root=root)
    out = np.ascontiguousarray(array) if comm.rank == root else np.empty(shape, dtype=dtype)
    if comm.size > 1:
        for chunk in chunks(out.reshape(-1).view(np.uint8)):
            comm.Bcast(chunk, root=root)
    return out


def allgather_arrays(comm: MPI.Comm, array: np.ndarray) -> list[np.ndarray]:
    """Collective over `comm`. The arrays of all ranks (any lengths), in rank order."""
    return [bcast_array(comm, array if comm.rank == root else None, root) for root in range(comm.size)]


def begin_reduce_scatter(comm: MPI.Comm, buffer: np.ndarray, own: np.ndarray, counts: list[int]) -> MPI.Request:
    """Collective over `comm`. Begin to sum flat `buffer`; rank r's `own` gets counts[r].

    Neither array may be touched before the request is complete.
    """
    return comm.Ireduce_scatter(buffer, own, counts, op=MPI.SUM)


def begin_allgather(comm: MPI.Comm, buffer: np.ndarray, counts: list[int]) -> MPI.Request:
    """Collective over `comm`. Begin to send every rank's counts[r] elements to all."""
    displacements = offsets(counts)[:-1].tolist()
    return comm.Iallgatherv(MPI.IN_PLACE, [buffer, (counts, displacements)])


class RepeatedSum:
    """Numbers that are summed over the ranks again and again while each goes on at its own speed.

    All ranks see the same sequence of sums, but not at the same time; so what all must do together (a checkpoint, the end) they do
    when they see the same sum. The ranks of a `group`, which go on together, see it at the same call.
    """

    def __init__(self, comm: MPI.Comm, group: MPI.Comm, size: int) -> None:
        self.comm, self.group = comm, group
        self._mine, self._sum = np.zeros(size), np.zeros(size)
        self._request: MPI.Request | None = None

    def poll(self, values: Sequence[float]) -> np.ndarray | None:
        """Collective over the group. Take part in the round with `values`, or in its wait.

        Returns the sums of a complete round, else None. A group of all ranks waits for them.
        """
        together = self.group.size == self.comm.size
        complete = self.take_part(values, wait=together)
        if self.group.size > 1 and not together:
            complete = not agreed_any(self.group, not complete)
        return self.take() if complete else None

    def take_part(self, values: Sequence[float] | np.ndarray, wait: bool = False) -> bool:
        """Take part as `poll`; whether the round is complete. Local without `wait`."""
        if self._request is None:
            self._mine[:] = values
            self._request = self.comm.Iallreduce(self._mine, self._sum, op=MPI.SUM)
        if wait:
            self._request.Wait()
        return self._request.Test()

    def take(self) -> np.ndarray:
        """The sums of a complete round. The ranks of a group take it at the same call."""
        self._request = None
        return self._sum.copy()


def stream_to_root(comm: MPI.Comm, chunks: Iterable[Any], consume: Callable[[Any], None]) -> None:
    """Collective over `comm`. Rank 0 calls `consume` on every rank's chunks, one at a time.

    An error in `consume`, or in making the chunks, is raised on all ranks after all senders have
    been drained, so that no rank waits forever.
    """
    error: Exception | None = None

    def take(chunk: Any) -> None:
        nonlocal error
        try:
            if error is None:
                consume(chunk)
        except Exception as failure:  # noqa: BLE001 - raised below, on all ranks
            error = failure

    try:
        for chunk in chunks:
            if comm.rank == 0:
                take(chunk)
            else:
                comm.ssend(chunk, dest=0)
    except Exception as failure:  # noqa: BLE001 - raised below, on all ranks
        error = error or failure
    if comm.rank > 0:
        comm.send(_END, dest=0)
    for source in range(1, comm.size if comm.rank == 0 else 1):
        while (chunk := comm.recv(source=source)) is not _END:
            take(chunk)
    with agreed(comm, "writing"):
        if error is not None:
            raise error

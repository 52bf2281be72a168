"""Collectives that keep ranks together: shared errors, sums, messages of bounded size.

`exact_sum` does not depend on the order of its addends: they are rounded to a grid on which every addition is exact.
If all partial sums of a set of numbers are multiples of a power of two, g, and smaller than 2^53 g, float64 adds them without
rounding, so neither order nor number of ranks can change a bit. One level keeps about 52 - log2(bound / value) bits of each addend;
for more bits, a second level sums what the first rounded off.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hpcml.errors import CollectiveError, DataError, HpcmlError, is_out_of_memory, out_of_memory, reason_and_hint
from hpcml.mpi.binding import MPI
from hpcml.mpi.start import wait_for_request
from hpcml.partition import offsets

# Largest message: far below MPI's limit of 2 GiB, and a bound on the library's temporary copies.
CHUNK_BYTES = 1 << 25
_END = None  # ends a `stream_to_root`, whose chunks are pickled messages

T = TypeVar("T")


@contextmanager
def agreed(comm: MPI.Comm, doing: str, sleep: bool = False, in_groups: bool = False) -> Iterator[None]:
    """Run rank-local work that may fail: all ranks succeed, or all raise one error. Collective over `comm`.

    The body must contain no collective. The error of the lowest failing rank is raised on all ranks. An operating-system error
    becomes a `DataError`; any other unexpected exception is re-raised where it happened and is a `CollectiveError` elsewhere. With
    `sleep`, ranks that wait for long work of another rank sleep instead of spinning. With `in_groups`, the body is collective over
    groups of the ranks, which agree on what they raise; an unexpected exception ends the program.
    """
    error: Exception | None = None
    try:
        yield
    except HpcmlError as failure:
        error = failure
    except Exception as failure:
        if in_groups:
            raise
        error = failure  # the other ranks must learn of any exception
        if is_out_of_memory(failure):
            error = DataError(out_of_memory(MPI.COMM_WORLD.rank, f"while {doing}", failure))
        elif isinstance(failure, OSError):
            reason, hint = reason_and_hint(failure)
            where = "" if failure.filename is None or str(failure.filename) in doing else f"{failure.filename}: "
            error = DataError(f"{where}{reason} while {doing}{hint}")
    if sleep:
        wait_for_request(comm.Ibarrier())
    first = int(-allreduce_max(comm, -(comm.size if error is None else comm.rank)))
    if first == comm.size:
        return
    expected = error if isinstance(error, HpcmlError) else None
    shared, message = comm.bcast((expected, str(error)), root=first)
    if error is not None and expected is None:
        raise error
    raise shared or CollectiveError(f"rank {first} failed while {doing}: {message}")


groups_agreed = partial(agreed, doing="working in groups", in_groups=True)


def run_on_root(comm: MPI.Comm, doing: str, call: Callable[[], T], sleep: bool = False) -> T:
    """Return the result of `call()` on rank 0 to every rank, or raise its error on all. Collective over `comm`."""
    result: Any = None
    with agreed(comm, doing, sleep):
        if comm.rank == 0:
            result = call()
    shared: T = comm.bcast(result)
    return shared


def allreduce_max(comm: MPI.Comm, value: float) -> float:
    """Return the largest `value`. The first `comm.allreduce` would hold Python's lock while waiting. Collective over `comm`."""
    number = np.array([value], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, number, op=MPI.MAX)
    return float(number[0])


def agreed_any(comm: MPI.Comm, flag: bool) -> bool:
    return bool(allreduce_max(comm, bool(flag)))


def chunks(flat: np.ndarray) -> Iterator[np.ndarray]:
    step = max(1, CHUNK_BYTES // flat.itemsize)
    for begin in range(0, flat.size, step):
        yield flat[begin : begin + step]


def allreduce_sum(comm: MPI.Comm, buffer: np.ndarray, op: "MPI.Op" = MPI.SUM) -> np.ndarray:
    """Sum (or `op`) a contiguous array in place, in chunks. Collective over `comm`."""
    if comm.size > 1:
        for chunk in chunks(buffer.reshape(-1)):
            comm.Allreduce(MPI.IN_PLACE, chunk, op=op)
    return buffer


allreduce_maxima = partial(allreduce_sum, op=MPI.MAX)


def exclusive_sum(comm: MPI.Comm, values: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each value, its sum over lower ranks and over all ranks (int64). Collective over `comm`."""
    table = np.array(comm.allgather([int(v) for v in values]), dtype=np.int64)
    return table[: comm.rank].sum(axis=0), table.sum(axis=0)


def grid(bound: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Return (shift, spacing) for sums of magnitudes up to `bound`: `(x + shift) - shift` rounds to multiples of spacing."""
    exponent = np.frexp(np.maximum(bound, 2.0**-900))[1] + 1  # bound < 2^(exponent - 1)
    return np.ldexp(1.5, exponent), np.ldexp(1.0, exponent - 52)


# Many sums share few grids: level k is for sums of absolute values below 2^(2 k - 128).
SHIFT_OF_LEVEL = np.array([grid(2.0 ** (2 * level - 129))[0] for level in range(256)])


def grid_levels(bounds: np.ndarray) -> np.ndarray:
    """Return the level (uint8) in SHIFT_OF_LEVEL for sums whose absolute values total at most `bounds` (the same on all ranks)."""
    exponents = np.frexp(bounds)[1]  # bounds < 2^exponents
    halves: np.ndarray = np.clip((exponents + 129) // 2, 0, 255)
    return halves.astype(np.uint8)


def lies_on_grid(shift: float, smallest: float) -> bool:
    """Return whether each float32 of magnitude `smallest` or more is on the grid of `shift`."""
    spacing = shift / 1.5 * 2.0**-52
    return spacing <= 2.0 ** (math.frexp(smallest)[1] - 24)


def exact_sum(comm: MPI.Comm, values: np.ndarray, bound: float, n_global: int) -> float:
    """Return the sum of `n_global` values, of magnitudes up to `bound` in total: always the same bits. Collective."""
    shift, spacing = grid(bound)
    high = (values + shift) - shift
    shift_low, _ = grid(n_global * spacing)
    low = ((values - high) + shift_low) - shift_low
    sums = allreduce_sum(comm, np.array([high.sum(), low.sum()]))
    return float(sums[0] + sums[1])


def bcast_array(comm: MPI.Comm, array: np.ndarray | None, root: int = 0) -> np.ndarray:
    """Return the root's array on all ranks, sent in chunks. Collective over `comm`."""
    shape, dtype = comm.bcast(None if array is None else (array.shape, array.dtype.str), root=root)
    out = np.ascontiguousarray(array) if comm.rank == root else np.empty(shape, dtype=dtype)
    if comm.size > 1:
        for chunk in chunks(out.reshape(-1).view(np.uint8)):
            comm.Bcast(chunk, root=root)
    return out


def allgather_arrays(comm: MPI.Comm, array: np.ndarray) -> list[np.ndarray]:
    """Return the arrays of all ranks (any lengths) in rank order. Collective over `comm`."""
    return [bcast_array(comm, array if comm.rank == root else None, root) for root in range(comm.size)]


def begin_reduce_scatter(comm: MPI.Comm, buffer: np.ndarray, own: np.ndarray, counts: list[int]) -> MPI.Request:
    """Start summing flat `buffer`; rank r's `own` gets counts[r] elements. Do not access either before the request is complete."""
    return comm.Ireduce_scatter(buffer, own, counts, op=MPI.SUM)


def begin_allgather(comm: MPI.Comm, buffer: np.ndarray, counts: list[int]) -> MPI.Request:
    displacements = offsets(counts)[:-1].tolist()
    return comm.Iallgatherv(MPI.IN_PLACE, [buffer, (counts, displacements)])


class RepeatedSum:
    """Numbers that are summed over the ranks repeatedly while each rank proceeds at its own speed.

    All ranks see the same sequence of sums, but at different times, so what all ranks do together (a checkpoint, the end) they do
    when they see the same sum. The ranks of a `group`, which proceed together, see it at the same call.
    """

    def __init__(self, comm: MPI.Comm, group: MPI.Comm, size: int) -> None:
        self.comm, self.group = comm, group
        self._own, self._sum = np.zeros(size), np.zeros(size)
        self._request: MPI.Request | None = None

    def poll(self, values: Sequence[float]) -> np.ndarray | None:
        """Contribute `values` to a new round; return the sums of a complete round, else None. Collective over the group."""
        is_group_of_all = self.group.size == self.comm.size
        complete = self.contribute(values, wait=is_group_of_all)
        if self.group.size > 1 and not is_group_of_all:
            complete = not agreed_any(self.group, not complete)
        return self.pop() if complete else None

    def contribute(self, values: Sequence[float] | np.ndarray, wait: bool = False) -> bool:
        """Contribute to a new round as `poll` does; return whether the round is complete. Local without `wait`."""
        if self._request is None:
            self._own[:] = values
            self._request = self.comm.Iallreduce(self._own, self._sum, op=MPI.SUM)
        if wait:
            self._request.Wait()
        return self._request.Test()

    def pop(self) -> np.ndarray:
        """Return the sums of a complete round. The ranks of a group must call it at the same point."""
        self._request = None
        return self._sum.copy()


def stream_to_root(comm: MPI.Comm, chunks: Iterable[Any], consume: Callable[[Any], None]) -> None:
    """Call `consume` on rank 0 for all chunks; after an error the senders are drained. Collective over `comm`."""
    error: Exception | None = None

    def handle(chunk: Any) -> None:
        nonlocal error
        try:
            if error is None:
                consume(chunk)
        except Exception as failure:  # noqa: BLE001 - raised below, on all ranks
            error = failure

    try:
        for chunk in chunks:
            if comm.rank == 0:
                handle(chunk)
            else:
                comm.ssend(chunk, dest=0)
    except Exception as failure:  # noqa: BLE001 - raised below, on all ranks
        error = error or failure
    if comm.rank > 0:
        comm.send(_END, dest=0)
    for source in range(1, comm.size if comm.rank == 0 else 1):
        while (chunk := comm.recv(source=source)) is not _END:
            handle(chunk)
    with agreed(comm, "writing"):
        if error is not None:
            raise error

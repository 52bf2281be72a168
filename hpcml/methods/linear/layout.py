"""How a run is laid out: which ranks share the rows, how many labels share a pass, which rows are read in every pass."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard
from hpcml.data.shared_rows import private_bytes
from hpcml.errors import ConfigError, OptionError
from hpcml.log import Log
from hpcml.methods.linear.objective import PRECISIONS
from hpcml.methods.linear.options import LinearOptions
from hpcml.mpi.memory import OWN_BYTES, memory_of_node, memory_per_rank, return_freed_memory, room_per_rank

if TYPE_CHECKING:
    from hpcml.methods.linear.load import LabelProblem

Needs = Callable[[int, int, int, int, int, int], int]  # bytes: see `bytes_per_rank`
LANES = 16  # labels that share a pass: one cache line of float32 weights
LABELS_PER_GROUP = 4  # fewer do not pay for passes over all rows: more groups send less, but each reads all its rows for them
VALUE_BYTES = 8  # a column and a value
PROGRAM_BYTES = 1 << 25  # of a rank's share of memory, for the pages of the program itself and the orders of the rows
SMALLEST_CHUNK = 1 << 16  # values
GOOD_CHUNK = 1 << 20  # values: with these, as many passes were measured as with the largest chunks
FEATURE_BYTES, COLUMN_BYTES, ROW_BYTES, ENTRY_BYTES = 12, 36, 60, 48  # of tables while rows are loaded; an entry: a row's label
READING_BYTES = 1 << 22  # of the system's cache, for rows that are on their way into memory


class Sharding(Enum):
    """The effect of dividing the rows among ranks on a method's models."""

    EXACT = "the same bits"
    INEXACT = "the same model within its tolerance"
    NONE = "it needs all rows on every rank"


def bytes_per_rank(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes for a rank's rows and their states (twice), weights, subgradient, best weights."""
    rows = (8 * n_values + (8 + 2 * n_lanes) * n_rows) // shards
    own = (8 if shards > 1 else 0) + weight_bytes  # the part of the columns that the rank steps
    return rows + n_lanes * n_columns * (weight_bytes + 8) + n_lanes * n_columns * own // shards


def check_loading(comm: mpi.Comm, shard: Shard, shards: int, n_labels: int, options: LinearOptions, needs: Needs) -> int:
    """Collective over `comm`. Return the bytes that a rank needs to load rows and train one label.

    Raises ConfigError if there is no room for them: the system would kill the ranks.
    """
    own = shard.y_indptr[shard.rows + 1] - shard.y_indptr[shard.rows]
    mine = int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())
    _, (values, entries) = mpi.exclusive_sum(comm, [mine, int(own.sum())])
    shared = min(shard.n_features, int(values) // 2)  # features that two rows have, at most
    n_columns, size = min(shard.n_features, shared + shard.n_global) + 1, PRECISIONS[options.precision].itemsize
    loading = (
        FEATURE_BYTES * shard.n_features
        + COLUMN_BYTES * shared
        + (ROW_BYTES * shard.n_global + ENTRY_BYTES * int(entries)) // shards
    )
    lanes = max(1, min(options.labels_per_pass or 1, n_labels))
    needed = max(loading, needs(0, shard.n_global, n_columns, lanes, shards, size))
    left = memory_per_rank(comm, OWN_BYTES)
    if needed > left:
        raise ConfigError(
            f"memory is too short: beside {OWN_BYTES / 1e6:.0f} MB of the program a rank needs {needed / 1e6:,.0f} MB, even with "
            f"its rows on the disk, but there are {left / 1e6:,.0f} MB; give the job more memory, or fewer ranks on a node"
        )
    return needed


def choose_shards(
    comm: mpi.Comm, dataset: DataFile, shard: Shard, n_labels: int, options: LinearOptions, sharding: Sharding
) -> int:
    """Collective over `comm`. Return how many ranks divide the rows; groups of those divide the labels.

    As few as memory allows, if there are enough labels for every group. Raises ConfigError.
    """
    divisors = [s for s in range(1, comm.size + 1) if comm.size % s == 0]
    if options.ranks_per_group is not None:
        if options.ranks_per_group not in divisors:
            wanted = f"expected a divisor of the number of ranks, {comm.size}"
            raise OptionError("ranks_per_group", options.ranks_per_group, wanted)
        return options.ranks_per_group
    if sharding is not Sharding.EXACT:
        return 1
    mine = int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())
    _, total = mpi.exclusive_sum(comm, [mine])
    values = int(total[0])
    n_columns = min(dataset.n_features, values)
    return fewest_shards(comm.size, (values, shard.n_global, n_columns), n_labels, options, room_per_rank(comm))


def fewest_shards(n_ranks: int, sizes: tuple[int, int, int], n_labels: int, options: LinearOptions, room: float) -> int:
    """The fewest ranks with `room` for (values, rows, columns) and labels enough; or all."""
    lanes, size = min(options.labels_per_pass or LANES, n_labels), PRECISIONS[options.precision].itemsize
    for shards in (s for s in range(1, n_ranks + 1) if n_ranks % s == 0):
        if bytes_per_rank(*sizes, lanes, shards, size) <= room and n_ranks // shards <= max(1, n_labels // LABELS_PER_GROUP):
            return shards
    return n_ranks


def labels_of_group(waiting: np.ndarray, n_positive: np.ndarray, number: int, n_groups: int) -> np.ndarray:
    """The waiting labels that group `number` trains; the costly ones are dealt out first."""
    return waiting[np.argsort(-n_positive[waiting], kind="stable")][number::n_groups]


def lanes_that_fit(
    sizes: tuple[int, int, int], shards: int, options: LinearOptions, room: float, needs: Needs = bytes_per_rank, most: int = LANES
) -> int:
    """Return how many labels share a pass over rows of these sizes (values, rows, columns): as the user says, else what fits.

    `room` is what a rank may take and `needs` what it will. The values of mapped rows need no room.
    """
    size = PRECISIONS[options.precision].itemsize
    fits = (n for n in (LANES, 8, 4, 2) if n <= most and needs(*sizes, n, shards, size) <= room)
    return options.labels_per_pass or next(fits, 1)


def plan_streaming(
    comm: mpi.Comm, problem: LabelProblem, options: LinearOptions, n_lanes: int, before: int, log: Log
) -> tuple[int, int, tuple[int, int]]:
    """Collective over `comm`. Return how many labels share a pass, and how rows are read from the disk where memory is short.

    Fewer labels than `n_lanes` if that is better than small chunks (`fewer_lanes`), unless the user said how many. Then values in a
    chunk by which the model differs, or 0. Where a run is continued, chunks are no larger than they were `before`; 0: it had none.
    Then values in a streamed row slice and how many stay in memory; (0, 0) if memory holds all rows. The model does not depend on
    these.
    """
    rows, method = problem.rows, problem.method
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):  # a node with one rank may have rows of its own
        return n_lanes, 0, (0, 0)
    return_freed_memory()
    mb = VALUE_BYTES / 1e6

    def needed(n: int) -> int:  # bytes of a rank beside the rows, if n labels share a pass
        return method.memory(0, rows.n_global, rows.n_columns, n, 1, PRECISIONS[options.precision].itemsize)

    def chunk_for(n: int, largest: int) -> int:
        return chunk_values(comm, rows, needed(n), largest)

    most = int(mpi.allreduce_max(comm, n_lanes))  # ranks with few labels left ask for fewer
    chunk = chunk_for(most, method.chunk)
    if before:
        chunk = min(chunk or before, before)
    elif chunk and not options.labels_per_pass:
        most, chunk = fewer_lanes(most, lambda n: chunk_for(n, rows.data.size), lambda n: chunk_for(n, method.chunk))
        n_lanes = min(most, n_lanes)
    if chunk:
        log(
            f"warning: memory is short, so the rows ({mb * rows.data.size:,.0f} MB) are read from the disk in every pass, "
            f"{chunk:,} values at a time; the model differs, within the tolerance, from one made with more memory: give the job "
            "more, or fewer ranks on a node"
        )
    most = int(mpi.allreduce_max(comm, n_lanes))
    kept = kept_values(comm, rows, needed(most), chunk or method.chunk)
    if kept is None:
        return n_lanes, chunk, (chunk, 0)
    if not chunk:
        log(
            f"a rank has room for {mb * (method.chunk + kept):,.0f} MB of the rows ({mb * rows.data.size:,.0f} MB): others are "
            "read from the disk where they are needed; the model is the same"
        )
    return n_lanes, chunk, (chunk or method.chunk, kept)


def chunk_values(comm: mpi.Comm, rows: CompactRows, needed: int, largest: int) -> int:
    """Collective over `comm`. Return the values in a chunk of streamed rows; 0 if memory holds one of `largest` values.

    Rows are visited at random in a chunk, and every rank of a node may be in another. Without room for the chunks beside what the
    ranks have and will need (`needed` bytes each), every visit would wait for the disk.
    """
    room, whole = _room_for_rows(comm, rows, needed)
    if min(whole, largest * VALUE_BYTES) <= room:
        return 0
    values = max(SMALLEST_CHUNK, int(room) // (2 * VALUE_BYTES))  # the other half is for reading them, and for what is kept
    return min(1 << (values.bit_length() - 1), largest)


def fewer_lanes(most: int, of_all: Callable[[int], int], of_chunks: Callable[[int], int]) -> tuple[int, int]:
    """Collective as `chunk_values` is. Return how many labels share a pass, at most `most`, and the values in a chunk, else 0.

    By their number, `of_all` is 0 if memory holds all rows, and `of_chunks` is the values of a chunk, 0 for the usual number. Half
    as many labels take nearly twice the time; streamed rows take less, unless chunks are smaller than `GOOD_CHUNK`.
    """
    numbers = [most, *(n for n in (8, 4, 2, 1) if n < most)]
    for n in numbers[:2]:
        if not of_all(n):
            return n, 0
    for n in numbers[:3]:
        if not 0 < (chunk := of_chunks(n)) < GOOD_CHUNK:
            return n, chunk
    return next(((n, 0) for n in numbers if not of_all(n)), (most, of_chunks(most)))


def kept_values(comm: mpi.Comm, rows: CompactRows, needed: int, chunk: int) -> int | None:
    """Collective over `comm`. Return how many values of mapped rows have room beside a chunk of them; None if memory holds all."""
    room, whole = _room_for_rows(comm, rows, needed)
    if whole <= room:
        return None
    return max(0, int(room) - VALUE_BYTES * min(chunk, rows.data.size) - READING_BYTES) // VALUE_BYTES


def _room_for_rows(comm: mpi.Comm, rows: CompactRows, needed: int) -> tuple[float, float]:
    """Collective over `comm`. Bytes left beside those needed, and this rank's part of the rows."""
    ranks = mpi.ranks_on_node(comm)
    room = memory_of_node() / ranks - private_bytes() - needed - PROGRAM_BYTES
    room = -mpi.allreduce_max(comm, -room)
    sharing = -mpi.allreduce_max(comm, -ranks)  # on the node where fewest hold the rows in memory; all ranks decide alike
    return room, rows.data.size * VALUE_BYTES / sharing

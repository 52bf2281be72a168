"""Layout of a run: which ranks share the rows, how many labels share a pass, and which rows are streamed from disk."""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
from hpcml.mpi.memory import OWN_BYTES, memory_per_rank, node_memory, return_freed_memory, room_per_rank

if TYPE_CHECKING:
    from hpcml.methods.linear.load import LabelProblem

MemoryModel = Callable[[int, int, int, int, int, int], int]  # arguments of `bytes_per_rank`
LANES = 16  # labels that share a pass: one cache line of float32 weights
# Minimum labels per group: more groups communicate less, but each reads all its rows in every pass.
LABELS_PER_GROUP = 4
VALUE_BYTES = 8  # column and value
PROGRAM_BYTES = 1 << 25  # per rank, for the program and row orders
SMALLEST_CHUNK = 1 << 16  # values
# Chunks of this many values need as many passes as the largest chunks (measured).
GOOD_CHUNK = 1 << 20
# Tables used while loading, per feature, column, row, and label occurrence.
FEATURE_BYTES, COLUMN_BYTES, ROW_BYTES, ENTRY_BYTES = 12, 36, 60, 48
READING_BYTES = 1 << 22  # page cache for rows being read


class Sharding(Enum):
    EXACT = "the same bits"
    INEXACT = "the same model within its tolerance"
    NONE = "every rank needs all rows"


def bytes_per_rank(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Return bytes for a rank's rows and row states (twice), weights, subgradient and best weights."""
    rows = (8 * n_values + (8 + 2 * n_lanes) * n_rows) // shards
    own = (8 if shards > 1 else 0) + weight_bytes  # the rank's own columns
    return rows + n_lanes * n_columns * (weight_bytes + 8) + n_lanes * n_columns * own // shards


def check_loading(comm: mpi.Comm, shard: Shard, shards: int, n_labels: int, options: LinearOptions, memory: MemoryModel) -> int:
    """Return the bytes that a rank needs to load rows and train one label. Collective; raises ConfigError if memory is small."""
    n_entries = int((shard.y_indptr[shard.rows + 1] - shard.y_indptr[shard.rows]).sum())
    n_values = int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())
    _, (values, entries) = mpi.exclusive_sum(comm, [n_values, n_entries])
    shared = min(shard.n_features, int(values) // 2)  # upper bound for features of several rows
    n_columns, size = min(shard.n_features, shared + shard.n_global) + 1, PRECISIONS[options.precision].itemsize
    loading = (
        FEATURE_BYTES * shard.n_features
        + COLUMN_BYTES * shared
        + (ROW_BYTES * shard.n_global + ENTRY_BYTES * int(entries)) // shards
    )
    lanes = max(1, min(options.labels_per_pass or 1, n_labels))
    needed = max(loading, memory(0, shard.n_global, n_columns, lanes, shards, size))
    available = memory_per_rank(comm, OWN_BYTES)
    if needed > available:
        raise ConfigError(
            f"not enough memory: each rank needs {needed / 1e6:,.0f} MB with its rows on disk (plus {OWN_BYTES / 1e6:.0f} MB for "
            f"the program), but has {available / 1e6:,.0f} MB; request more memory or start fewer ranks per node"
        )
    return needed


def choose_shards(
    comm: mpi.Comm, dataset: DataFile, shard: Shard, n_labels: int, options: LinearOptions, sharding: Sharding
) -> int:
    """Return the smallest number of ranks that memory allows and that leaves enough labels per group. Collective."""
    divisors = [s for s in range(1, comm.size + 1) if comm.size % s == 0]
    if options.ranks_per_group is not None:
        if options.ranks_per_group not in divisors:
            expected = f"expected a divisor of the number of ranks, {comm.size}"
            raise OptionError("ranks_per_group", options.ranks_per_group, expected)
        return options.ranks_per_group
    if sharding is not Sharding.EXACT:
        return 1
    _, (n_values,) = mpi.exclusive_sum(comm, [int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())])
    sizes = int(n_values), shard.n_global, min(dataset.n_features, int(n_values))
    return fewest_shards(comm.size, sizes, n_labels, options, room_per_rank(comm))


def fewest_shards(n_ranks: int, sizes: tuple[int, int, int], n_labels: int, options: LinearOptions, room: float) -> int:
    """Return the smallest number of ranks with `room` bytes each for (values, rows, columns) and enough labels per group."""
    lanes, size = min(options.labels_per_pass or LANES, n_labels), PRECISIONS[options.precision].itemsize
    for shards in (s for s in range(1, n_ranks + 1) if n_ranks % s == 0):
        if bytes_per_rank(*sizes, lanes, shards, size) <= room and n_ranks // shards <= max(1, n_labels // LABELS_PER_GROUP):
            return shards
    return n_ranks


def labels_of_group(
    waiting: np.ndarray, n_positive: np.ndarray, number: int, n_groups: int, key_of: Callable[[int], Hashable] = int
) -> np.ndarray:
    """Return the labels of a rank group by descending number of positive rows; one group gets all labels with the same key.

    Labels are dealt to the groups forwards and backwards in turn, so that none always gets the larger one. Largest over mean
    seconds, from those of the 28,544 labels of debian_depends, on 16, 32 and 64 ranks: 1.037, 1.081 and 1.095; always forwards
    1.041, 1.106 and 1.205.
    """
    order, numbers = waiting[np.argsort(-n_positive[waiting], kind="stable")], dict[Hashable, int]()
    keys = np.array([numbers.setdefault(key_of(label), len(numbers)) for label in order.tolist()], np.int64)
    turn, place = np.divmod(keys, n_groups)
    return order[np.where(turn % 2 == 0, place, n_groups - 1 - place) == number]


def lanes_that_fit(
    sizes: tuple[int, int, int],
    shards: int,
    options: LinearOptions,
    room: float,
    memory: MemoryModel = bytes_per_rank,
    most: int = LANES,
) -> int:
    """Return --labels-per-pass, or how many labels fit into `room` bytes with (values, rows, columns)."""
    size = PRECISIONS[options.precision].itemsize
    fits = (n for n in (LANES, 8, 4, 2) if n <= most and memory(*sizes, n, shards, size) <= room)
    return options.labels_per_pass or next(fits, 1)


def plan_streaming(
    comm: mpi.Comm, problem: LabelProblem, options: LinearOptions, n_lanes: int, before: int, log: Log
) -> tuple[int, int, tuple[int, int]]:
    """Choose lanes and streaming when memory is small. Collective over `comm`.

    Return the labels per pass, the values per chunk (0: not streamed), and the values per streamed slice and cached values ((0, 0):
    memory holds all rows). The model depends only on the chunk; a resumed run uses chunks no larger than `before`.
    """
    rows, method = problem.rows, problem.method
    if not (method.chunk and mpi.agreed_any(comm, rows.mapped)):  # a node with one rank may have rows of its own
        return n_lanes, 0, (0, 0)
    return_freed_memory()
    mb = VALUE_BYTES / 1e6

    def needed(n: int) -> int:  # bytes per rank without the rows, for n lanes
        return method.memory(0, rows.n_global, rows.n_columns, n, 1, PRECISIONS[options.precision].itemsize)

    def chunk_for(n: int, largest: int) -> int:
        return chunk_values(comm, rows, needed(n), largest)

    most = int(mpi.allreduce_max(comm, n_lanes))  # ranks with few labels left need fewer
    chunk = chunk_for(most, method.chunk)
    if before:
        chunk = min(chunk or before, before)
    elif chunk and not options.labels_per_pass:
        most, chunk = fewer_lanes(most, lambda n: chunk_for(n, rows.data.size), lambda n: chunk_for(n, method.chunk))
        n_lanes = min(most, n_lanes)
    if chunk:
        log(
            f"warning: not enough memory for the rows ({mb * rows.data.size:,.0f} MB): each pass reads them from disk in chunks of "
            f"{chunk:,} values; the result is within the tolerance of a run with more memory"
        )
    most = int(mpi.allreduce_max(comm, n_lanes))
    n_cached = kept_values(comm, rows, needed(most), chunk or method.chunk)
    if n_cached is None:
        return n_lanes, chunk, (chunk, 0)
    if not chunk:
        log(
            f"memory for {mb * (method.chunk + n_cached):,.0f} of {mb * rows.data.size:,.0f} MB of rows per rank: the others are "
            "read from disk when needed; the result is the same"
        )
    return n_lanes, chunk, (chunk or method.chunk, n_cached)


def chunk_values(comm: mpi.Comm, rows: CompactRows, needed: int, largest: int) -> int:
    """Return the values per chunk of streamed rows, or 0 if memory holds a chunk of `largest` values. Collective over `comm`.

    Every rank of a node may be in a different chunk; without memory for all these chunks, every visit would wait for the disk.
    """
    room, whole = _room_for_rows(comm, rows, needed)
    if min(whole, largest * VALUE_BYTES) <= room:
        return 0
    values = max(SMALLEST_CHUNK, int(room) // (2 * VALUE_BYTES))  # the other half is for reading and caching
    return min(1 << (values.bit_length() - 1), largest)


def fewer_lanes(most: int, of_all: Callable[[int], int], of_chunks: Callable[[int], int]) -> tuple[int, int]:
    """Return the labels per pass, at most `most`, and the values per chunk (0: not streamed). Collective as `chunk_values`.

    Half as many lanes take nearly twice the time; streaming costs less unless chunks are smaller than GOOD_CHUNK.
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
    """Return how many values of mapped rows can be cached besides a chunk, or None if memory holds all. Collective over `comm`."""
    room, whole = _room_for_rows(comm, rows, needed)
    if whole <= room:
        return None
    return max(0, int(room) - VALUE_BYTES * min(chunk, rows.data.size) - READING_BYTES) // VALUE_BYTES


def _room_for_rows(comm: mpi.Comm, rows: CompactRows, needed: int) -> tuple[float, float]:
    ranks = mpi.ranks_on_node(comm)
    room = node_memory() / ranks - private_bytes() - needed - PROGRAM_BYTES
    room = -mpi.allreduce_max(comm, -room)
    sharing = -mpi.allreduce_max(comm, -ranks)  # smallest number of ranks per node, so that all ranks decide alike
    return room, rows.data.size * VALUE_BYTES / sharing

"""Rows in unnamed files in TMPDIR, which ranks map, so that there may be more rows than memory.

Methods that need all rows on every rank share one copy among the ranks of a node; each rank writes a part of it. Ranks of other
methods put their own rows there if these would take too much memory.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows
from hpcml.data.shard import Shard
from hpcml.errors import file_error
from hpcml.mpi.memory import OWN_BYTES, memory_per_rank, process_bytes, room_per_rank
from hpcml.partition import offsets
from hpcml.slices import StopCheck, no_stop_check

_VALUE_BYTES = 8  # column and value


def shared_array(node: mpi.Comm, size: int, dtype: type) -> np.ndarray:
    path, folder = None, tempfile.gettempdir()
    try:
        with mpi.agreed(node, f"making room for the rows in {folder}"):
            if node.rank == 0:
                descriptor, name = tempfile.mkstemp(prefix="hpcml-rows-")
                path = Path(name)
                try:
                    os.posix_fallocate(descriptor, 0, max(1, size * np.dtype(dtype).itemsize))
                except OSError as error:
                    raise file_error(folder, "write", error) from None
                finally:
                    os.close(descriptor)
        name = node.bcast(str(path))
        with mpi.agreed(node, f"opening {name}"):
            array = np.memmap(name, dtype, "r+", shape=(max(1, size),))[:size]
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
    return array.view(np.ndarray)


def private_bytes() -> int:
    return process_bytes("RssAnon")


def node_rows(
    node: mpi.Comm, comm: mpi.Comm, shard: Shard, bias: bool, check_stop: StopCheck = no_stop_check, fold: bool = True
) -> tuple[CompactRows, ColumnMap]:
    """Return all rows for each rank of a node, on `comm`. Raises DataError, and as `check_stop`. Collective over `node`."""
    _, (n_values,) = mpi.exclusive_sum(node, [shard.nnz])
    if node.size == 1 and _VALUE_BYTES * int(n_values) <= room_per_rank(node) // 2:
        return compact_rows(node, shard, bias, check_stop=check_stop, fold=fold)
    shared_arrays: list[np.ndarray] = []

    def allocate(n_values: int) -> tuple[np.ndarray, np.ndarray]:
        (first,), (total,) = mpi.exclusive_sum(node, [n_values])
        shared_arrays.extend(shared_array(node, int(total), dtype) for dtype in (np.int32, np.float32))
        indices, data = (array[int(first) : int(first) + n_values] for array in shared_arrays)
        return indices, data

    rows, columns = compact_rows(node, shard, bias, allocate, check_stop, fold)
    sizes = np.concatenate(mpi.allgather_arrays(node, np.diff(rows.indptr)))
    label_indptr = offsets(rows.n_positive)
    label_rows = shared_array(node, int(label_indptr[-1]), np.int64)
    counts = np.diff(rows.label_indptr)
    n_before, _ = mpi.exclusive_sum(node, counts)
    positions = np.repeat(label_indptr[:-1] + n_before - rows.label_indptr[:-1], counts) + np.arange(rows.label_rows.size)
    label_rows[positions] = rows.first + rows.label_rows
    node.Barrier()
    shared: dict[str, Any] = dict(zip(("indices", "data"), shared_arrays, strict=True))
    shared |= {"label_indptr": label_indptr, "label_rows": label_rows}
    return replace(rows, comm=comm, mapped=True, first=0, indptr=offsets(sizes), **shared), columns


def load_rank_rows(
    comm: mpi.Comm, shard: Shard, bias: bool, needed: int, check_stop: StopCheck = no_stop_check, fold: bool = True
) -> tuple[CompactRows, ColumnMap]:
    """Return this rank's rows, in files if memory, less `needed` bytes, is short. Raises DataError. Collective over `comm`."""
    n_values = shard.nnz + bias * shard.n_local
    if not mpi.agreed_any(comm, min(room_per_rank(comm), memory_per_rank(comm, OWN_BYTES) - needed) < _VALUE_BYTES * n_values):
        return compact_rows(comm, shard, bias, check_stop=check_stop, fold=fold)

    def allocate(n_values: int) -> tuple[np.ndarray, np.ndarray]:
        with mpi.agreed(comm, "making room for the rows"):
            return shared_array(mpi.self_comm(), n_values, np.int32), shared_array(mpi.self_comm(), n_values, np.float32)

    rows, columns = compact_rows(comm, shard, bias, allocate, check_stop, fold)
    return replace(rows, mapped=True), columns

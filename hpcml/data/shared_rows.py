"""Rows in files without a name (in TMPDIR), which ranks map: there may be more than memory has.

Methods that need all rows on every rank have one copy for all ranks of a node, of which each makes
a part. Other methods' ranks put their own rows there where these would take too much memory.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi, slices
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows
from hpcml.data.shard import Shard
from hpcml.errors import file_error
from hpcml.mpi.limits import bytes_of_process
from hpcml.mpi.memory import OWN_BYTES, memory_per_rank, room_per_rank
from hpcml.partition import offsets

_VALUE_BYTES = 8  # a column and a value


def shared_array(node: mpi.Comm, size: int, dtype: type) -> np.ndarray:
    """Collective over `node`. Zeros (size) that its ranks share. Raises DataError (no room)."""
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
    """Bytes of memory of this process alone, 0 where the system does not tell. Local."""
    return bytes_of_process("RssAnon")


def node_rows(
    node: mpi.Comm, comm: mpi.Comm, shard: Shard, bias: bool, look: slices.Look = slices.never_stop, fold: bool = True
) -> tuple[CompactRows, ColumnMap]:
    """Collective over `node`, the ranks of a node. All rows for each; `comm` is its own.

    `shard` is this rank's part of the split among `node`. Raises DataError, too, if there is
    nothing to train on, and what `look` does.
    """
    _, (n_values,) = mpi.exclusive_sum(node, [shard.nnz])
    if node.size == 1 and _VALUE_BYTES * int(n_values) <= room_per_rank(node) // 2:
        return compact_rows(node, shard, bias, look=look, fold=fold)
    whole: list[np.ndarray] = []

    def room(n_values: int) -> tuple[np.ndarray, np.ndarray]:
        (first,), (total,) = mpi.exclusive_sum(node, [n_values])
        whole.extend(shared_array(node, int(total), dtype) for dtype in (np.int32, np.float32))
        indices, data = (array[int(first) : int(first) + n_values] for array in whole)
        return indices, data

    rows, columns = compact_rows(node, shard, bias, room, look, fold)
    sizes = np.concatenate(mpi.allgather_arrays(node, np.diff(rows.indptr)))
    label_indptr = offsets(rows.n_positive)
    label_rows = shared_array(node, int(label_indptr[-1]), np.int64)
    counts = np.diff(rows.label_indptr)
    before, _ = mpi.exclusive_sum(node, counts)
    places = np.repeat(label_indptr[:-1] + before - rows.label_indptr[:-1], counts) + np.arange(rows.label_rows.size)
    label_rows[places] = rows.first + rows.label_rows
    node.Barrier()
    shared: dict[str, Any] = {"indices": whole[0], "data": whole[1], "label_indptr": label_indptr, "label_rows": label_rows}
    return replace(rows, comm=comm, mapped=True, first=0, indptr=offsets(sizes), **shared), columns


def own_rows(
    comm: mpi.Comm, shard: Shard, bias: bool, needed: int, look: slices.Look = slices.never_stop, fold: bool = True
) -> tuple[CompactRows, ColumnMap]:
    """Collective over `comm`, which divides the rows. In files if they would take much memory:

    Half of a rank's, or what the `needed` bytes leave. Raises DataError, too, if there is
    nothing to train on or no room on the disk, and what `look` does.
    """
    mine = shard.nnz + bias * shard.n_local
    if not mpi.agreed_any(comm, min(room_per_rank(comm), memory_per_rank(comm, OWN_BYTES) - needed) < _VALUE_BYTES * mine):
        return compact_rows(comm, shard, bias, look=look, fold=fold)

    def room(n_values: int) -> tuple[np.ndarray, np.ndarray]:
        with mpi.agreed(comm, "making room for the rows"):
            return shared_array(mpi.self_comm(), n_values, np.int32), shared_array(mpi.self_comm(), n_values, np.float32)

    rows, columns = compact_rows(comm, shard, bias, room, look, fold)
    return replace(rows, mapped=True), columns

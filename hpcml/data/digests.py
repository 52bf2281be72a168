"""Digests of a split's rows and of each label's: whether datasets agree, only one in memory."""

from __future__ import annotations

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.shard import Shard

N_WORDS = 2  # of 64 bits in a digest


@mpi.collective
def digests(comm: mpi.Comm, shard: Shard) -> tuple[bytes, list[bytes]]:
    """Collective over `comm`. Digests of the rows of a split, and of each label's positive rows.

    Sums modulo 2^64 of hashes of each value with its place, so the number of ranks does not matter.
    """
    found = np.zeros((1 + shard.n_labels, N_WORDS), np.uint64)
    with np.errstate(over="ignore"):
        for some in slices.row_slices(shard.n_local, shard.nnz):
            rows, sizes, places = _entries(shard.indptr, shard.rows[some])
            of_row = np.repeat(shard.first_local + some.start + np.arange(rows.size), sizes)
            stored = np.ascontiguousarray(shard.data[places], dtype=np.float32).view(np.uint32)
            for word in range(N_WORDS):
                key = rng.bits(word, "row of a value", of_row) ^ rng.bits(word, "feature of a value", shard.indices[places])
                found[0, word] += rng.bits(word, "value", key ^ rng.bits(word, "bits of a value", stored)).sum(dtype=np.uint64)
        rows, sizes, places = _entries(shard.y_indptr, shard.rows)
        of_row = np.repeat(shard.first_local + np.arange(rows.size), sizes)
        for word in range(N_WORDS):
            np.add.at(found[1:, word], shard.y_indices[places], rng.bits(word, "row of a label", of_row))
        mpi.allreduce_sum(comm, found.view(np.int64))
    return found[0].tobytes() + str(shard.n_global).encode(), [each.tobytes() for each in found[1:]]


def _entries(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, how many entries each has, and where these are."""
    sizes = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(sizes)
    return rows, sizes, np.arange(ends[-1] if ends.size else 0) + np.repeat(indptr[rows] - (ends - sizes), sizes)

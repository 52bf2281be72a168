"""Numbers that go to the ranks that answer for them, and rows from the ranks that have them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.partition import offsets


class Routing:
    """Where each number of this rank goes; answers come back to their places."""

    def __init__(self, comm: mpi.Comm, owners: np.ndarray) -> None:
        """`owners` (n): the rank that each number goes to."""
        self.comm, self.order = comm, np.argsort(owners, kind="stable")
        self.bounds = np.searchsorted(owners[self.order], np.arange(comm.size + 1))
        self.received: list[int] = []

    @mpi.collective
    def send(self, values: np.ndarray) -> np.ndarray:
        """Collective over the ranks. Send values[i] (n) to the owner of i; what came, by sender."""
        values = values[self.order]
        parts = mpi.exchange(self.comm, [values[begin:end] for begin, end in pairwise(self.bounds.tolist())])
        self.received = [part.size for part in parts]
        return np.concatenate(parts)

    @mpi.collective
    def answer(self, answers: np.ndarray) -> np.ndarray:
        """Collective over the ranks. Answer what came last; the answers to this rank's numbers."""
        ends = offsets(self.received).tolist()
        parts = mpi.exchange(self.comm, [answers[begin:end] for begin, end in pairwise(ends)])
        out = np.empty(self.order.size, answers.dtype)
        out[self.order] = np.concatenate(parts)
        return out


class SharedRows:
    """The rows of a split on all ranks, by their positions in it."""

    @mpi.collective
    def __init__(self, comm: mpi.Comm, shard: Shard) -> None:
        """Collective over `comm`."""
        self.comm, self.shard = comm, shard
        self.bounds = offsets(comm.allgather(shard.n_local))

    def owners(self, positions: np.ndarray) -> np.ndarray:
        """The rank that has each row."""
        return np.searchsorted(self.bounds, positions, "right") - 1

    def local(self, positions: np.ndarray) -> np.ndarray:
        """Where rows of this rank are in its slab."""
        return self.shard.rows[positions - self.shard.first_local]

    @mpi.collective
    def fetch(self, positions: np.ndarray, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collective over the ranks. Rows at ascending positions of the slabs' CSR arrays."""
        routing = Routing(self.comm, self.owners(positions))
        asked = routing.send(positions)
        with mpi.agreed(self.comm, "reading rows that are compared"):
            places = self.local(asked)
            sizes = indptr[places + 1] - indptr[places]
            ends = offsets(sizes)
            values = indices[np.arange(ends[-1]) + np.repeat(indptr[places] - ends[:-1], sizes)]
        starts = ends[offsets(routing.received)].tolist()
        parts = mpi.exchange(self.comm, [values[begin:end] for begin, end in pairwise(starts)])  # owners ascend as rows do
        return offsets(routing.answer(sizes)), np.concatenate(parts)

"""Numbers that go to the ranks that answer for them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hpcml.mpi.messages import exchange
from hpcml.mpi.start import Comm
from hpcml.partition import offsets


class Routing:
    """Where each number of this rank goes; answers come back to their places."""

    def __init__(self, comm: Comm, owners: np.ndarray) -> None:
        """`owners` (n): the rank that each number goes to."""
        self.comm, self.order = comm, np.argsort(owners, kind="stable")
        self.bounds = np.searchsorted(owners[self.order], np.arange(comm.size + 1))
        self.received: list[int] = []

    def send(self, values: np.ndarray) -> np.ndarray:
        """Collective over the ranks. Send values[i] (n) to the owner of i; what came, by sender."""
        values = values[self.order]
        parts = exchange(self.comm, [values[begin:end] for begin, end in pairwise(self.bounds.tolist())])
        self.received = [part.size for part in parts]
        return np.concatenate(parts)

    def answer(self, answers: np.ndarray) -> np.ndarray:
        """Collective over the ranks. Answer what came last; the answers to this rank's numbers."""
        ends = offsets(self.received).tolist()
        parts = exchange(self.comm, [answers[begin:end] for begin, end in pairwise(ends)])
        out = np.empty(self.order.size, answers.dtype)
        out[self.order] = np.concatenate(parts)
        return out

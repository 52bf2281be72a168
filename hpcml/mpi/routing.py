"""Sending of numbers to the ranks that own them, and of answers back."""

from itertools import pairwise

import numpy as np

from hpcml.mpi.messages import exchange
from hpcml.mpi.start import Comm
from hpcml.partition import offsets


class Routing:
    """Sends this rank's numbers to their `owners` (n, ranks), and returns answers to their positions."""

    def __init__(self, comm: Comm, owners: np.ndarray) -> None:
        self.comm, self.order = comm, np.argsort(owners, kind="stable")
        self.bounds = np.searchsorted(owners[self.order], np.arange(comm.size + 1))
        self.received: list[int] = []

    def send(self, values: np.ndarray) -> np.ndarray:
        """Send values[i] (n) to the owner of i; return the received values, by sender. Collective over `comm`."""
        values = values[self.order]
        parts = exchange(self.comm, [values[begin:end] for begin, end in pairwise(self.bounds.tolist())])
        self.received = [part.size for part in parts]
        return np.concatenate(parts)

    def answer(self, answers: np.ndarray) -> np.ndarray:
        """Answer the values received last; return the answers to this rank's values. Collective over `comm`."""
        ends = offsets(self.received).tolist()
        parts = exchange(self.comm, [answers[begin:end] for begin, end in pairwise(ends)])
        out = np.empty(self.order.size, answers.dtype)
        out[self.order] = np.concatenate(parts)
        return out

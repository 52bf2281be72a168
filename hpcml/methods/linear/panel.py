"""A panel: up to 16 labels that share passes over the rows, and steps along their subgradients.

A panel owns the reduction: a method calls `Objective.evaluate` and never sees MPI. All ranks of
`rows.comm` hold all weights of a panel, since their rows may need any; but each steps only its own
range of columns: the subgradient travels by Reduce_scatter, the new weights by Allgather.
"""

from __future__ import annotations

import math

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.methods.linear import block_kernels as blocks
from hpcml.methods.linear import panel_kernels as kernels
from hpcml.methods.linear.objective import Objective, aligned


class Panel:
    """The weights of labels in training; labels[lane] is a label's number in the data, or −1."""

    def __init__(self, objective: Objective, width: int) -> None:
        """Local. Raises MemoryError."""
        self.objective, self.width = objective, width
        rows, comm = objective.rows, objective.comm
        self.own = slice(int(objective.bounds[comm.rank]) * width, int(objective.bounds[comm.rank + 1]) * width)
        self.counts = (np.diff(objective.bounds) * width).tolist()
        self.w = aligned(rows.n_columns * width, objective.weight_type)
        self.g = aligned(rows.n_columns * width, np.float64)
        self.best = aligned(self.counts[comm.rank], objective.weight_type)
        self.g_own = self.g if comm.size == 1 else aligned(self.counts[comm.rank], np.float64)
        self.state = np.full(rows.n_local * width, kernels.IDLE)
        self.labels = np.full(width, -1, dtype=np.int64)
        self.keys, self.steps = np.zeros(width, np.uint64), np.zeros(width, np.int64)
        self.w_sq = np.zeros(width)
        self.sums = np.zeros((4, width))
        kept = objective.dormant and slices.is_long(int(rows.counts.sum(dtype=np.int64)), comm.size)
        self._before = np.empty_like(self.state) if kept else None  # `state` before the pass, of the first `_n_taken` rows
        self._n_taken = 0
        self.requests: list = []

    @property
    def active(self) -> np.ndarray:
        """The lanes that hold a label."""
        return np.flatnonzero(self.labels >= 0)

    def lane(self, array: np.ndarray, lane: int) -> np.ndarray:
        """One lane of a flat array, as a view."""
        return array.reshape(-1, self.width)[:, lane]

    def enter(self, lane: int, label: int) -> None:
        """Let a label begin at w = 0 with every row active. Local, on all ranks."""
        self.wait_for_weights()
        self.labels[lane], self.steps[lane], self.w_sq[lane] = label, 0, 0.0
        self.keys[lane] = rng.bits(self.objective.seed, "dormant rows", np.array([label]))[0]
        for array in (self.w, self.best):
            self.lane(array, lane)[:] = 0.0
        self.lane(self.state, lane)[:] = kernels.ACTIVE
        self.lane(self.state, lane)[self.objective.rows.rows_of(label)] |= kernels.POSITIVE

    def leave(self, lane: int) -> None:
        """Make a lane idle. Local, on all ranks."""
        self.wait_for_weights()
        self.labels[lane], self.w_sq[lane] = -1, 0.0
        self.lane(self.w, lane)[:] = 0.0
        self.lane(self.state, lane)[:] = kernels.IDLE

    def clear(self) -> None:
        """Begin a pass. Local."""
        self.g[:] = 0.0
        self.sums[:] = 0.0
        self._n_taken = 0
        self._shifts = self.objective.loss_shifts(self.w_sq, self.labels)

    def run(self, first: int, last: int) -> None:
        """Add rows first .. last − 1 to the subgradient and the sums. Local."""
        here, objective = slice(first * self.width, last * self.width), self.objective
        if self._before is not None:
            self._before[here], self._n_taken = self.state[here], last
        arrays = kernels.PanelArrays(self.w, self.state[here], self.keys, self.steps, self._shifts, self.g, self.sums)
        rows = objective.rows
        some = kernels.RowRange(rows.indptr[first : last + 1], rows.indices, rows.data, rows.first + first)
        objective.panel_pass(some, arrays, objective.rule)

    def rewind(self) -> None:
        """Put the rows' bytes back to what they were before a pass that is abandoned. Local."""
        if self._before is not None:
            here = slice(0, self._n_taken * self.width)
            self.state[here] = self._before[here]

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Collective, after `Objective.evaluate`. f and ‖g‖² (L,) each; `sums` count rows.

        Raises NonFiniteError, on all ranks, when one is not finite.
        """
        objective, comm = self.objective, self.objective.comm
        if comm.size > 1:
            with objective.profile("wait"):
                self.wait_for_weights()
            with objective.profile("communicate"):
                mpi.allreduce_sum(comm, self.sums)
        with objective.profile("compute"):
            scale = 1.0 / objective.rows.n_global
            chunks = blocks.gradient_squares(self.w[self.own], self.g_own, self.width, objective.lam, scale)
        with objective.profile("communicate"):
            grad_sq = self.total(chunks)
        f = 0.5 * objective.lam * self.w_sq + self.mean_losses()
        active = self.labels >= 0
        objective.check_finite(np.where(active, f, 0.0), "objective", self.labels)
        objective.check_finite(np.where(active, grad_sq, 0.0), "gradient", self.labels)
        return f, grad_sq

    def mean_losses(self) -> np.ndarray:
        """(1/m) Σ ℓ per lane (L,), after `gather`. Local."""
        return (self.sums[kernels.HIGH] + self.sums[kernels.LOW]) / self.objective.rows.n_global

    def total(self, chunks: np.ndarray) -> np.ndarray:
        """Collective. The sum over all ranks' chunks, in the order of the columns."""
        parts = [chunks] if self.objective.comm.size == 1 else mpi.allgather_arrays(self.objective.comm, chunks)
        whole = np.concatenate(parts)
        return np.add.accumulate(whole, axis=0)[-1]  # add.reduce takes the chunks in another order if there is but one lane

    def step(self, eta: np.ndarray, radius: float = math.inf) -> None:
        """Collective. w −= η g, projected on the ball of this radius; a step of every label."""
        with self.objective.profile("compute"):
            lam, scale = self.objective.lam, 1.0 / self.objective.rows.n_global
            chunks = blocks.step(self.w[self.own], self.g_own, self.width, eta, lam, scale)
        with self.objective.profile("communicate"):
            self.w_sq = self.total(chunks)
            if (self.w_sq > radius * radius).any():
                factors = np.minimum(1.0, radius / np.sqrt(np.maximum(self.w_sq, 1e-300)))
                own = self.w[self.own].reshape(-1, self.width)
                np.multiply(own, factors, out=own, casting="same_kind")
                self.measure()
            self._send_weights()
        self.steps += 1

    def replace(self, weights: dict[int, np.ndarray]) -> None:
        """Collective. Give lanes other weights (own columns); a step of every label."""
        with self.objective.profile("compute"):
            for lane, w in weights.items():
                self.lane(self.w[self.own], lane)[:] = w
        with self.objective.profile("communicate"):
            self.measure()
            self._send_weights()
        self.steps += 1

    def _send_weights(self) -> None:
        """Collective. Begin to send the weights of own columns to all ranks."""
        if self.objective.comm.size > 1:
            self.requests = [mpi.begin_allgather(self.objective.comm, self.w, self.counts)]

    def measure(self) -> None:
        """Collective. Find ‖w‖² of weights that were put in."""
        self.w_sq = self.total(blocks.gradient_squares(self.w[self.own], self.g_own, self.width, 1.0, 0.0))

    def keep(self, lanes: np.ndarray) -> None:
        """Remember the weights of the lanes with lanes[l] as the best so far. Local."""
        if lanes.any():
            blocks.copy_lanes(self.w[self.own], self.width, lanes, self.best)

    def wait_for_weights(self) -> None:
        """Collective. Until what was begun to be sent has arrived."""
        for request in self.requests:
            request.Wait()
        self.requests = []

    def whole(self, lane: int, array: np.ndarray) -> np.ndarray:
        """Collective. One lane (n_columns) of `best`, or of `w`, on all ranks."""
        if array is self.w:
            self.wait_for_weights()
            return self.lane(self.w, lane).copy()
        own = self.lane(array, lane).copy()
        return own if self.objective.comm.size == 1 else np.concatenate(mpi.allgather_arrays(self.objective.comm, own))

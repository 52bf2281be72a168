"""The regularised empirical risk of a block of labels over all ranks' rows: value, subgradient, and steps along it.

`f_l(w) = λ/2 ‖w‖² + (1/m) Σ_i ℓ(y_il (w · x_i))` (SPEC: PROBE 2012, equation 1). The objective owns the reduction: a solver calls
`evaluate` and never sees MPI. Losses and subgradients are summed exactly, so all ranks get the same bits on any number of ranks.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from hpcml import mpi, rng
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.kernels import blocks, fused
from hpcml.losses import LOSSES

FLAGS = 3  # numbers that travel with every reduction: signal, checkpoint due, time is up
BLOCK_BYTES = 1 << 25  # choose B so that a block of weights (d × B doubles) stays about this small
MAX_BLOCK = 32
CHUNK = 1 << 16  # features at a time where a whole temporary vector would be a waste


def block_size(n_features: int, n_labels: int) -> int:
    """How many labels share a pass: as many as keep W (d × B doubles) near the caches, from 1 to 32; never depends on ranks."""
    fitting = BLOCK_BYTES // (8 * max(1, n_features))
    size = max([b for b in (1, 4, 8, 16, MAX_BLOCK) if b <= fitting], default=1)
    return max(1, min(size, n_labels))


def parse_lambda(text: str, scale: float, n_rows: int) -> float:
    """λ from `X/m`, `X/NUMBER` or `NUMBER`; X = (mean ‖x_i‖)² over the training rows (`scale`), m their number.

    Raises ConfigError.
    """
    try:
        if text.startswith("X/"):
            value = scale / (n_rows if text[2:] == "m" else float(text[2:]))
        else:
            value = float(text)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"--lambda {text}: expected X/m, X/NUMBER or a number above 0")
    return value


class BlockObjective:
    """The objectives of up to B labels at once. `slots` (B) holds the label in each lane, −1 for an idle lane."""

    def __init__(self, comm: mpi.Comm, shard: Shard, loss: str, lam: str, bias: bool, n_lanes: int) -> None:
        """Collective over `comm`: one pass over the rows for their norms.

        Raises ConfigError for a bad λ and DataError if there are no rows to train on.
        """
        self.comm, self.shard, self.loss, self.bias = comm, shard, LOSSES[loss], bias
        self.n_rows = shard.n_global
        self.n_weights = shard.n_features + bias
        self._measure_rows()
        self.lam = parse_lambda(lam, self.scale, self.n_rows)
        self.slots = np.full(n_lanes, -1, dtype=np.int64)
        # One buffer, so that loss, subgradient and flags are reduced together: G (d × B), sums (3 × B), flags.
        with mpi.agreed(comm, "making room for the weights"):
            self._buffer = np.zeros(self.n_weights * n_lanes + 3 * n_lanes + FLAGS)
        self.grad = self._buffer[: self.n_weights * n_lanes].reshape(self.n_weights, n_lanes)
        self._sums = self._buffer[self.grad.size : -FLAGS].reshape(3, n_lanes)
        self.flags = self._buffer[-FLAGS:]
        self._choose_grids()

    @mpi.collective
    def _measure_rows(self) -> None:
        """Collective. X = (mean ‖x_i‖)², the largest norm and value: all that the bounds of the exact sums need."""
        shard = self.shard
        if self.n_rows == 0:
            raise DataError("there are no rows to train on; choose another --split")
        squares = np.empty(shard.n_local)
        fused.row_squares(shard.indptr, shard.data, shard.rows, squares)
        norms = np.sqrt(squares)
        self.max_norm = mpi.allreduce_max(self.comm, float(norms.max(initial=0.0)))
        mean_norm = mpi.exact_sum(self.comm, norms, self.max_norm * self.n_rows, self.n_rows) / self.n_rows
        self.scale = mean_norm**2
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise DataError(f"the training rows have no usable features (their mean norm is {mean_norm}); check the data")
        self.max_norm = math.sqrt(self.max_norm**2 + self.bias)

    @mpi.collective
    def fingerprint(self) -> str:
        """Collective. What a continued run must have in common with its beginning: rows, label sets, norms and λ."""
        shard = self.shard
        rows = rng.bits(0, "row", shard.first_row + shard.rows)
        pairs = np.repeat(np.arange(shard.y_indptr.size - 1), np.diff(shard.y_indptr))
        mine = np.isin(pairs, shard.rows)
        labels = rng.bits(1, "label", (shard.first_row + pairs[mine]) * shard.n_labels + shard.y_indices[mine])
        with np.errstate(over="ignore"):  # sums modulo 2^64 do not know the order
            sums = np.array([rows.sum(dtype=np.uint64), labels.sum(dtype=np.uint64)], dtype=np.uint64).view(np.int64)
        mpi.allreduce_sum(self.comm, sums)
        return hashlib.sha256(f"{sums.tolist()} {self.scale!r} {self.max_norm!r} {self.lam!r}".encode()).hexdigest()

    @mpi.collective
    def _choose_grids(self) -> None:
        """Collective. The grid of each weight's sum of slopes: `one_shift` for all if that is fine enough, else by `levels`.

        With it, `exact`: whether the addends, being ± a float32 as in the data, lie on it without rounding.
        """
        shard, n = self.shard, self.n_weights
        counts = self._buffer[:n].view(np.int64)  # the room of the subgradient, not in use yet
        with mpi.agreed(self.comm, "making room for the weights"):
            largest, smallest = np.zeros(n, dtype=np.float32), np.full(1, np.inf, dtype=np.float32)
            self.levels = np.empty(n, dtype=np.uint8)
            fused.column_extremes(shard.indptr, shard.indices, shard.data, shard.rows, largest, counts, smallest)
        if self.bias:
            largest[-1], counts[-1] = 1.0, shard.n_local
        mpi.allreduce_maxima(self.comm, largest)
        mpi.allreduce_sum(self.comm, counts)
        for some in (slice(begin, begin + CHUNK) for begin in range(0, n, CHUNK)):
            self.levels[some] = mpi.grid_levels(self.loss.slope_bound * counts[some] * largest[some].astype(np.float64))
        counts[:] = 0
        self.one_shift = mpi.shared_shift(self.levels, largest)
        least = -mpi.allreduce_max(self.comm, -float(smallest[0]))
        self.exact = self.loss.unit_slopes and mpi.lies_on_grid(self.one_shift, least)

    def evaluate(self, W: np.ndarray, w_sq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Collective. One pass over the rows: (f, violators), each (B,); the summed subgradient of the losses is in `grad`.

        `W` is (d, B), `w_sq` (B,) its squared column norms. `flags` set before are summed over the ranks with the rest.
        Raises NonFiniteError, on all ranks, when a value is not finite.
        """
        self._buffer[:-FLAGS] = 0.0
        self.run_kernel(W, w_sq, self.shard.rows)
        mpi.allreduce_sum(self.comm, self._buffer)
        f = 0.5 * self.lam * w_sq + (self._sums[0] + self._sums[1]) / self.n_rows
        self._check_finite(f, "objective")
        return f, self._sums[2]

    def _check_finite(self, values: np.ndarray, what: str) -> None:
        """Raise NonFiniteError naming the first lane's label whose value is not finite. The same on all ranks."""
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            label = int(self.slots[bad[0]])
            raise NonFiniteError(f"the {what} of label number {label} is not finite; scale the data or choose another --lambda")

    def run_kernel(self, W: np.ndarray, w_sq: np.ndarray, rows: np.ndarray) -> None:
        """Add `rows` (positions in this rank's slab) to `grad` and the sums. Local."""
        shard = self.shard
        slot_of_label = np.full(shard.n_labels, -1, dtype=np.int64)
        active = np.flatnonzero(self.slots >= 0)
        slot_of_label[self.slots[active]] = active
        negative = np.where(self.slots >= 0, -1.0, 0.0)
        fused.fused_pass(
            *(shard.indptr, shard.indices, shard.data, rows, shard.y_indptr, shard.y_indices, slot_of_label, negative),
            *(W, int(self.bias), self.loss.code, int(self.exact), self.one_shift, self.levels, mpi.SHIFT_OF_LEVEL),
            *(self._loss_shifts(w_sq), self.grad, self._sums),
        )

    def _loss_shifts(self, w_sq: np.ndarray) -> np.ndarray:
        """The grids (2, B) of the losses' two levels, from ℓ(z) ≤ ℓ(0) + slope_bound ‖w‖ max ‖x‖."""
        shifts = np.empty((2, w_sq.size))
        bounds = self.loss.value_at_zero + self.loss.slope_bound * np.sqrt(w_sq) * self.max_norm
        self._check_finite(bounds, "objective")
        for lane, bound in enumerate(bounds.tolist()):
            shifts[0, lane], spacing = mpi.grid(bound * self.n_rows)
            shifts[1, lane], _ = mpi.grid(spacing * self.n_rows)
        return shifts

    def gradient_squares(self, W: np.ndarray) -> np.ndarray:
        """‖g‖² per lane (B,) for g = λ W + grad / m. Raises NonFiniteError, on all ranks, when one is not finite."""
        out = np.empty(W.shape[1])
        blocks.gradient_squares(W, self.grad, self.lam, 1.0 / self.n_rows, out)
        self._check_finite(out, "gradient")
        return out

    def step(self, W: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """W −= eta g per lane, in place; returns the new squared norms (B,)."""
        out = np.empty(W.shape[1])
        blocks.step(W, self.grad, eta, self.lam, 1.0 / self.n_rows, out)
        return out

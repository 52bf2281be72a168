"""The regularised empirical risk of many labels over all ranks' rows: values and subgradients.

`f_l(w) = λ/2 ‖w‖² + (1/m) Σ_i ℓ(y_il (w · x_i))` (Smith, Kim & Wilbur 2012, equation 1). Losses and subgradients are summed
exactly, so the bits depend neither on the number of ranks nor on which labels share a panel.

A panel owns the reduction: a method calls `Objective.evaluate` and never sees MPI. All ranks of `rows.comm` hold all weights of a
panel, because their rows may need any; each rank updates only its own range of columns. Subgradients are exchanged by
Reduce_scatter and new weights by Allgather.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Self

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.compact import CompactRows
from hpcml.data.headings import Headings
from hpcml.errors import NonFiniteError, OptionError
from hpcml.kernels.lanes import WIDTHS
from hpcml.losses import load_loss
from hpcml.methods.linear import panel_kernels as kernels
from hpcml.methods.linear.options import SMALLEST_LAMBDA, LinearOptions
from hpcml.mpi.memory import ask_for
from hpcml.partition import even_bounds
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

CACHE_LINE = 64
PRECISIONS: dict[str, np.dtype[Any]] = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}
ROWS_BYTES = 1 << 21  # rows that are used for all panels while they are in the cache


def parse_lambda(text: str, scale: float, n_rows: float, smallest: float = SMALLEST_LAMBDA) -> float:
    """Return λ from `X/m`, `0.1X/m`, `X/NUMBER`, `NUMBER/m` or `NUMBER`; `scale` is X = (mean ‖x_i‖)². Raises ConfigError."""
    try:
        number, slash, rows = text.partition("/")
        value = scale * float(number[:-1] or 1) if slash and number.endswith("X") else float(number)
        if slash:
            value /= n_rows if rows == "m" else float(rows)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not (math.isfinite(value) and value >= smallest):
        above = "above" if smallest else "of at least"
        raise OptionError("lam", text, f"expected X/m, 0.1X/m, X/NUMBER, NUMBER/m or a number {above} 0")
    return value


def aligned(size: int, dtype: np.dtype | type) -> np.ndarray:
    """Return a flat array of zeros that starts at a cache line."""
    dtype = np.dtype(dtype)
    raw = np.empty(size * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
    raw[:] = 0
    skip = -raw.ctypes.data % CACHE_LINE
    return raw[skip : skip + size * dtype.itemsize].view(dtype)


def panel_widths(n_labels: int, precision: str) -> list[int]:
    """Return the widths of panels for these labels, with as few cache lines of weights as possible."""
    widest = CACHE_LINE // PRECISIONS[precision].itemsize
    widths = []
    while n_labels > 0:
        widths.append(min(w for w in WIDTHS if w >= min(n_labels, widest)))
        n_labels -= widths[-1]
    return widths


class Risk:
    """Problem data shared by the labels of a run: rows, λ, and the type of the weights."""

    dormant = False  # rows may be skipped
    shares_columns = True  # features that occur in one row may be folded into a column
    n_parts = 1  # weight vectors per label

    def __init__(self, rows: CompactRows, options: LinearOptions, profile: Profile) -> None:
        self.rows, self.comm, self.profile = rows, rows.comm, profile
        self.about: dict[str, Any] = {}  # further attributes of the model
        self.headings: Headings | None = None  # columns of labels that are also features
        self.chunk_values = 0  # values per chunk of streamed rows; 0: not streamed
        self.kept_values = 0  # cached values of streamed rows
        self.positive_weights: np.ndarray | None = None  # (n_labels) multiplies the option positive_weight
        self.negative_weight = 1.0
        self.lam = parse_lambda(options.lam, rows.scale, rows.total_weight, options.smallest_lambda)
        self.seed, self.weight_type = options.seed, PRECISIONS[options.precision]

    def at(self, options: LinearOptions) -> Self:
        """Return the same rows with other options. Raises ConfigError for an invalid λ."""
        other = type(self)(self.rows, options, self.profile)
        other.headings = self.headings
        other.chunk_values, other.kept_values = self.chunk_values, self.kept_values
        return other

    def slices(self, parts: Iterable[slice] | None = None) -> Iterator[slice]:
        """Yield this rank's rows (or `parts`) slice by slice; mapped rows are prefetched one part ahead."""
        rows = self.rows
        parts = list(slices.row_slices(rows.n_local, rows.data.size) if parts is None else parts)
        for part, following in zip(parts, [*parts[1:], slice(0, 0)], strict=False):  # a rank may have no rows
            if rows.mapped:
                values = slice(rows.indptr[following.start], rows.indptr[following.stop])
                ask_for(rows.indices[values], rows.data[values])
            yield part

    def row_width(self, n_columns: int) -> int:
        return n_columns

    def prepare(self, node: mpi.Comm) -> None:
        """Prepare what else the method needs of the rows. Collective over `node`, the ranks that loaded them."""

    def describe(self, options: LinearOptions) -> dict[str, Any]:
        about = {"loss": options.loss, "lambda": self.lam, "epsilon": options.epsilon, "dormant": self.dormant}
        about = about | {"positive_weight": options.positive_weight} if options.losses else {}
        return about | ({} if options.scale in (None, "none") else {"scale": options.scale})

    def start_from(self, comm: mpi.Comm, names: list[str], origin: dict[str, object]) -> None:
        """Open the initial model, if any, and compare it with `origin`. Collective; raises ConfigError or DataError."""

    def warning(self) -> str:
        """Return a warning to print before training, or ""."""
        return ""

    def check_finite(self, values: np.ndarray, what: str, labels: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            label = int(labels[bad[0]])
            raise NonFiniteError(f"the {what} of label number {label} is not finite; scale the data or choose another λ")


class Objective(Risk):
    """Adds the loss and the grids of the exact sums."""

    def __init__(self, rows: CompactRows, options: LinearOptions, profile: Profile) -> None:
        super().__init__(rows, options, profile)
        self.loss, self.dormant = load_loss(options.loss), options.dormant
        self.panel_pass, self.loss_pass = kernels.passes_of(options.loss)
        bounds = self.loss.SLOPE_BOUND * rows.counts * rows.largest.astype(np.float64)
        self.levels = mpi.grid_levels(bounds)
        coarsest = float(mpi.SHIFT_OF_LEVEL[int(self.levels.max(initial=0))])
        # No rounding is needed if all addends, ± a float32 of the data, are multiples of one grid.
        rounded = not (self.loss.HAS_UNIT_SLOPES and mpi.lies_on_grid(coarsest, rows.smallest))
        self.rule = kernels.PassRule(int(self.dormant), int(rounded), self.levels, mpi.SHIFT_OF_LEVEL)
        values = np.arange(1, 8 * rows.data.size // ROWS_BYTES + 1) * (ROWS_BYTES // 8)
        ends = np.unique(np.concatenate([[0], np.searchsorted(rows.indptr, values), [rows.n_local]]))
        self.row_ranges = list(pairwise(ends.tolist()))  # of about ROWS_BYTES each
        n_chunks = -(-rows.n_columns // kernels.CHUNK)
        self.bounds = np.minimum(even_bounds(n_chunks, self.comm.size) * kernels.CHUNK, rows.n_columns)  # columns of each rank

    def evaluate(self, panels: list[Panel], stop: Stop = NEVER) -> None:
        """Make one pass over the rows for all panels; `Panel.gather` returns the results. Collective; raises Stopped."""
        if self.comm.size > 1:
            for panel in panels:
                with self.profile("wait"):
                    panel.wait_for_weights()
                with self.profile("compute"):
                    panel.clear()
                    for part in stop.slices(self.slices()):
                        panel.run(part.start, part.stop)
                with self.profile("communicate"):
                    panel.requests = [mpi.begin_reduce_scatter(self.comm, panel.g, panel.g_own, panel.counts)]
            return
        with self.profile("compute"):
            for panel in panels:
                panel.clear()
            together = max(1, slices.SLICE_VALUES // (ROWS_BYTES // 8))
            ranges = [self.row_ranges[begin : begin + together] for begin in range(0, len(self.row_ranges), together)]
            parts = [slice(part[0][0], part[-1][1]) for part in ranges]
            for group, _ in stop.slices(zip(ranges, self.slices(parts), strict=True)):
                for first, last in group:
                    for panel in panels:
                        panel.run(first, last)

    def loss_shifts(self, w_sq: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the two grids of the losses (2, L), from ℓ(z) ≤ ℓ(0) + SLOPE_BOUND ‖w‖ max ‖x‖."""
        bounds = self.loss.VALUE_AT_ZERO + self.loss.SLOPE_BOUND * np.sqrt(w_sq) * self.rows.max_norm
        self.check_finite(bounds, "objective", labels)
        high, spacing = mpi.grid(bounds * self.rows.n_global)
        low, _ = mpi.grid(spacing * self.rows.n_global)
        return np.stack([high, low])

    def value(self, w: np.ndarray, label: int, stop: Stop = NEVER) -> float:
        """Return f(w) of a label over all rows in float64; w (n_columns). Collective; raises Stopped."""
        w, label_number, rows = w.astype(np.float64), np.array([label]), self.rows
        w_sq = np.array([np.square(w).sum()])
        state = np.full(rows.n_local, kernels.ACTIVE)
        state[rows.rows_of(label)] |= kernels.POSITIVE
        sums, shifts = np.zeros((4, 1)), self.loss_shifts(w_sq, label_number)
        for part in stop.slices(self.slices()):
            indptr = rows.indptr[part.start : part.stop + 1]
            self.loss_pass(indptr, rows.indices, rows.data, w, state[part], shifts, sums)
        mpi.allreduce_sum(self.comm, sums)
        return float(0.5 * self.lam * w_sq[0] + (sums[kernels.HIGH, 0] + sums[kernels.LOW, 0]) / self.rows.n_global)


class Panel:
    """Up to 16 labels that share passes over the rows; labels[lane] is a number in the data, or −1."""

    def __init__(self, objective: Objective, width: int) -> None:
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
        can_rewind = objective.dormant and slices.is_long(int(rows.counts.sum(dtype=np.int64)), comm.size)
        self._before = np.empty_like(self.state) if can_rewind else None  # `state` of the first `_n_saved` rows before the pass
        self._n_saved = 0
        self.requests: list = []

    @property
    def active(self) -> np.ndarray:
        return np.flatnonzero(self.labels >= 0)

    def lane(self, array: np.ndarray, lane: int) -> np.ndarray:
        return array.reshape(-1, self.width)[:, lane]

    def assign(self, lane: int, label: int) -> None:
        """Put a label into a lane, with w = 0 and all rows active. Called on all ranks."""
        self.wait_for_weights()
        self.labels[lane], self.steps[lane], self.w_sq[lane] = label, 0, 0.0
        self.keys[lane] = rng.bits(self.objective.seed, "dormant rows", np.array([label]))[0]
        for array in (self.w, self.best):
            self.lane(array, lane)[:] = 0.0
        self.lane(self.state, lane)[:] = kernels.ACTIVE
        self.lane(self.state, lane)[self.objective.rows.rows_of(label)] |= kernels.POSITIVE

    def release(self, lane: int) -> None:
        self.wait_for_weights()
        self.labels[lane], self.w_sq[lane] = -1, 0.0
        self.lane(self.w, lane)[:] = 0.0
        self.lane(self.state, lane)[:] = kernels.IDLE

    def clear(self) -> None:
        self.g[:] = 0.0
        self.sums[:] = 0.0
        self._n_saved = 0
        self._shifts = self.objective.loss_shifts(self.w_sq, self.labels)

    def run(self, first: int, last: int) -> None:
        pairs, objective = slice(first * self.width, last * self.width), self.objective
        if self._before is not None:
            self._before[pairs], self._n_saved = self.state[pairs], last
        arrays = kernels.PanelArrays(self.w, self.state[pairs], self.keys, self.steps, self._shifts, self.g, self.sums)
        rows = objective.rows
        row_range = kernels.RowRange(rows.indptr[first : last + 1], rows.indices, rows.data, rows.first + first)
        objective.panel_pass(row_range, arrays, objective.rule)

    def rewind(self) -> None:
        if self._before is not None:
            pairs = slice(0, self._n_saved * self.width)
            self.state[pairs] = self._before[pairs]

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return f and ‖g‖² (L,) each after `Objective.evaluate`. Collective; raises NonFiniteError on all ranks."""
        objective, comm = self.objective, self.objective.comm
        if comm.size > 1:
            with objective.profile("wait"):
                self.wait_for_weights()
            with objective.profile("communicate"):
                mpi.allreduce_sum(comm, self.sums)
        with objective.profile("compute"):
            scale = 1.0 / objective.rows.n_global
            chunks = kernels.gradient_squares(self.w[self.own], self.g_own, self.width, objective.lam, scale)
        with objective.profile("communicate"):
            grad_sq = self.total(chunks)
        f = 0.5 * objective.lam * self.w_sq + self.mean_losses()
        active = self.labels >= 0
        objective.check_finite(np.where(active, f, 0.0), "objective", self.labels)
        objective.check_finite(np.where(active, grad_sq, 0.0), "gradient", self.labels)
        return f, grad_sq

    def mean_losses(self) -> np.ndarray:
        return (self.sums[kernels.HIGH] + self.sums[kernels.LOW]) / self.objective.rows.n_global

    def total(self, chunks: np.ndarray) -> np.ndarray:
        """Return the sum over all ranks' chunks, in the order of the columns. Collective."""
        parts = [chunks] if self.objective.comm.size == 1 else mpi.allgather_arrays(self.objective.comm, chunks)
        whole = np.concatenate(parts)
        return np.add.accumulate(whole, axis=0)[-1]  # add.reduce sums in another order if there is one lane

    def step(self, eta: np.ndarray, radius: float = math.inf) -> None:
        """w −= η g, projected onto the ball of this radius; counts a step of every label. Collective."""
        with self.objective.profile("compute"):
            lam, scale = self.objective.lam, 1.0 / self.objective.rows.n_global
            chunks = kernels.step(self.w[self.own], self.g_own, self.width, eta, lam, scale)
        with self.objective.profile("communicate"):
            self.w_sq = self.total(chunks)
            if (self.w_sq > radius * radius).any():
                factors = np.minimum(1.0, radius / np.sqrt(np.maximum(self.w_sq, 1e-300)))
                own = self.w[self.own].reshape(-1, self.width)
                np.multiply(own, factors, out=own, casting="same_kind")
                self.update_norms()
            self._send_weights()
        self.steps += 1

    def set_weights(self, weights: dict[int, np.ndarray]) -> None:
        """Set the weights of lanes (own columns); counts a step of every label. Collective."""
        with self.objective.profile("compute"):
            for lane, w in weights.items():
                self.lane(self.w[self.own], lane)[:] = w
        with self.objective.profile("communicate"):
            self.update_norms()
            self._send_weights()
        self.steps += 1

    def _send_weights(self) -> None:
        if self.objective.comm.size > 1:
            self.requests = [mpi.begin_allgather(self.objective.comm, self.w, self.counts)]

    def update_norms(self) -> None:
        self.w_sq = self.total(kernels.gradient_squares(self.w[self.own], self.g_own, self.width, 1.0, 0.0))

    def store_best(self, lanes: np.ndarray) -> None:
        if lanes.any():
            kernels.copy_lanes(self.w[self.own], self.width, lanes, self.best)

    def wait_for_weights(self) -> None:
        for request in self.requests:
            request.Wait()
        self.requests = []

    def gather_weights(self, lane: int, array: np.ndarray) -> np.ndarray:
        """Return one lane (n_columns) of `best` or `w` on all ranks. Collective."""
        if array is self.w:
            self.wait_for_weights()
            return self.lane(self.w, lane).copy()
        own = self.lane(array, lane).copy()
        return own if self.objective.comm.size == 1 else np.concatenate(mpi.allgather_arrays(self.objective.comm, own))

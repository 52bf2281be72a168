"""The regularised empirical risk of many labels over all ranks' rows: values, subgradients, and
steps along them.

`f_l(w) = λ/2 ‖w‖² + (1/m) Σ_i ℓ(y_il (w · x_i))` (Smith, Kim & Wilbur 2012, equation 1). A `Panel`
holds the weights of up to 16 labels that share passes over the rows; it owns the reduction: a
method calls `Objective.evaluate` and never sees MPI. Losses and subgradients are summed exactly, so
the bits depend neither on the number of ranks nor on which labels share a panel.

All ranks of `rows.comm` hold all weights of a panel, since their rows may need any; but each steps
only its own range of columns: the subgradient travels by Reduce_scatter, the new weights by
Allgather.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.compact import CompactRows
from hpcml.data.headings import Headings
from hpcml.errors import ConfigError, NonFiniteError
from hpcml.kernels.lanes import WIDTHS
from hpcml.methods.linear import block_kernels as blocks
from hpcml.methods.linear import panel_kernels as kernels
from hpcml.methods.linear import plane_kernels as planes
from hpcml.methods.linear.losses import LOSSES
from hpcml.methods.linear.options import SMALLEST_LAMBDA, LinearOptions
from hpcml.mpi.memory import ask_for
from hpcml.partition import even_bounds
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER, Stop

CACHE_LINE = 64
PRECISIONS: dict[str, np.dtype[Any]] = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}
ROWS_BYTES = 1 << 21  # rows that pass through all panels before the next ones are fetched


def parse_lambda(text: str, scale: float, n_rows: float, smallest: float = SMALLEST_LAMBDA) -> float:
    """λ from `X/m`, `0.1X/m`, `X/NUMBER`, `NUMBER/m` or `NUMBER`: X = (mean ‖x_i‖)² over the
    training rows (`scale`), m their number.

    Raises ConfigError.
    """
    try:
        number, slash, rows = text.partition("/")
        value = scale * float(number[:-1] or 1) if slash and number.endswith("X") else float(number)
        if slash:
            value /= n_rows if rows == "m" else float(rows)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not (math.isfinite(value) and value >= smallest):
        raise ConfigError(
            f"--lambda {text}: expected X/m, 0.1X/m, X/NUMBER, NUMBER/m or a number {'above' if smallest else 'of at least'} 0"
        )
    return value


def aligned(size: int, dtype: np.dtype | type) -> np.ndarray:
    """A flat array of zeros that begins at a cache line; in large pages, if the system has them,
    since numpy asks for those.
    """
    dtype = np.dtype(dtype)
    raw = np.empty(size * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
    raw[:] = 0
    skip = -raw.ctypes.data % CACHE_LINE
    return raw[skip : skip + size * dtype.itemsize].view(dtype)


def panel_widths(n_labels: int, precision: str) -> list[int]:
    """The widths of the panels that hold `n_labels` labels: as few cache lines of weights as
    possible, never more lanes than 16.
    """
    widest = CACHE_LINE // PRECISIONS[precision].itemsize
    widths = []
    while n_labels > 0:
        widths.append(min(w for w in WIDTHS if w >= min(n_labels, widest)))
        n_labels -= widths[-1]
    return widths


def row_ranges(rows: CompactRows) -> list[tuple[int, int]]:
    """Consecutive ranges of this rank's rows, of about ROWS_BYTES each."""
    values = np.arange(1, 8 * rows.data.size // ROWS_BYTES + 1) * (ROWS_BYTES // 8)
    bounds = np.unique(np.concatenate([[0], np.searchsorted(rows.indptr, values), [rows.n_local]]))
    return [(int(a), int(b)) for a, b in pairwise(bounds)]


class Risk:
    """The part of the objective that all labels of a run share, whatever the method: the rows,
    λ, the type of the weights.
    """

    dormant = False  # may rows be skipped?
    shares_columns = True  # may features that one row has share a column?

    def __init__(self, rows: CompactRows, options: LinearOptions, profile: Profile) -> None:
        """Raises ConfigError for a bad λ. The same on all ranks of `rows.comm`."""
        self.rows, self.comm, self.profile = rows, rows.comm, profile
        self.about: dict[str, Any] = {}  # what else the model says of its objective, or of what its scores are made of
        self.headings: Headings | None = None  # the columns of the rows' own labels, where these are features, too
        self.chunk_values = 0  # of rows that are streamed; 0: memory holds them
        self.kept_values = 0  # of rows that are streamed: how many stay in memory between passes
        self.positive_weights: np.ndarray | None = None  # (n_labels) of rows with the label, times the option's
        self.negative_weight = 1.0  # of rows without
        self.lam = parse_lambda(options.lam, rows.scale, rows.total_weight, options.smallest_lambda)
        self.seed, self.weight_type = options.seed, PRECISIONS[options.precision]

    def at(self, options: LinearOptions) -> Self:
        """The same rows with other options. Raises ConfigError for a bad λ."""
        other = type(self)(self.rows, options, self.profile)
        other.headings = self.headings
        other.chunk_values, other.kept_values = self.chunk_values, self.kept_values
        return other

    def streamed(self, chunk_values: int, kept_values: int) -> Self:
        """The same, of rows that are read from the disk so many values at a time, of which so
        many stay in memory. Local.
        """
        other = copy(self)
        other.chunk_values, other.kept_values = chunk_values, kept_values
        return other

    def row_width(self, n_columns: int) -> int:
        """How many numbers a label has in the model, if it is sparse; a weight for each column,
        or more.
        """
        return n_columns

    @mpi.collective
    def prepare(self, node: mpi.Comm) -> None:
        """Collective over `node`, the ranks that have loaded the rows together: what else the
        method needs of them.
        """

    @mpi.collective
    def start_from(self, comm: mpi.Comm, names: list[str], origin: dict[str, object]) -> None:
        """Collective over `comm`, the ranks of the run: an earlier model of these labels, if the
        options name one.

        `origin` is what it must have in common with the run's rows. Raises ConfigError or
        DataError.
        """

    def warning(self) -> str:
        """A warning before training begins; none if "". Local; the same on all ranks of
        `rows.comm`.
        """
        return ""

    def check_finite(self, values: np.ndarray, what: str, labels: np.ndarray) -> None:
        """Raise NonFiniteError naming the first lane's label whose value is not finite. The same
        on all ranks.
        """
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            label = int(labels[bad[0]])
            raise NonFiniteError(f"the {what} of label number {label} is not finite; scale the data or choose another --lambda")


class Objective(Risk):
    """The objectives of all labels: also the loss, and the grids of the exact sums."""

    def __init__(self, rows: CompactRows, options: LinearOptions, profile: Profile) -> None:
        super().__init__(rows, options, profile)
        self.loss, self.dormant = LOSSES[options.loss], options.dormant
        bounds = self.loss.slope_bound * rows.counts * rows.largest.astype(np.float64)
        self.levels = mpi.grid_levels(bounds)
        coarsest = float(mpi.SHIFT_OF_LEVEL[int(self.levels.max(initial=0))])
        # Are all addends, ± a float32 of the data, multiples of one grid, so that nothing has to be rounded?
        self.rounded = not (self.loss.unit_slopes and mpi.lies_on_grid(coarsest, rows.smallest))
        self.row_ranges = row_ranges(rows)
        n_chunks = -(-rows.n_columns // blocks.CHUNK)
        self.bounds = np.minimum(even_bounds(n_chunks, self.comm.size) * blocks.CHUNK, rows.n_columns)  # columns of each rank

    def warm_up(self) -> None:
        """Compile the kernels for these types. Local."""
        rows, none, sums = self.rows, np.zeros(0, np.uint8), np.zeros((4, 1))
        w, g, out, one = np.zeros(0, self.weight_type), np.zeros(0), np.zeros((0, 1)), np.zeros(1)
        self._run(w, 0, 0, none, np.zeros(1, np.uint64), np.zeros(1, np.int64), False, np.zeros((2, 1)), g, sums)
        kernels.loss_pass(rows.indptr, rows.indices, rows.data, g, none, self.loss.code, np.zeros((2, 1)), sums)
        blocks.gradient_squares(w, g, 1, 0.0, 0.0, out)
        blocks.step(w, g, 1, one, 0.0, 0.0, out)
        blocks.copy_lanes(w, 1, one > 0, w)
        planes.products(w.reshape(1, 0), w, np.zeros((0, 2)))
        planes.combine(w.reshape(1, 0), one, w)

    @mpi.collective
    def evaluate(self, panels: list[Panel], stop: Stop = NEVER) -> None:
        """Collective. One pass over the rows for all panels; then `Panel.gather` gives each one's
        result.

        On several ranks, a panel's subgradient travels while the next panel's pass goes on. Raises
        Stopped, on all ranks.
        """
        if self.comm.size > 1:
            for panel in panels:
                with self.profile("wait"):
                    panel.wait_for_weights()
                with self.profile("compute"):
                    panel.clear()
                    for some in stop.slices(self._read_ahead(self._slices(stop))):
                        panel.run(some.start, some.stop)
                with self.profile("communicate"):
                    panel.send()
            return
        with self.profile("compute"):
            for panel in panels:
                panel.clear()
            together = max(1, slices.SLICE_VALUES // (ROWS_BYTES // 8))
            ranges = [self.row_ranges[begin : begin + together] for begin in range(0, len(self.row_ranges), together)]
            parts = [slice(some[0][0], some[-1][1]) for some in ranges]
            for group, _ in stop.slices(zip(ranges, self._read_ahead(parts), strict=True)):
                for first, last in group:  # in the caches for all panels
                    for panel in panels:
                        panel.run(first, last)

    def _slices(self, stop: Stop) -> list[slice]:
        """This rank's rows in slices; one slice if none is looked for."""
        n_rows = self.rows.n_local
        return list(slices.row_slices(n_rows, self.rows.data.size)) if stop.long else [slice(0, n_rows)]

    def _read_ahead(self, parts: list[slice]) -> Iterator[slice]:
        """These parts of this rank's rows, one after the other; rows that are mapped are asked
        for one part ahead. Local.
        """
        rows = self.rows
        for some, after in zip(parts, [*parts[1:], slice(0, 0)], strict=True):
            if rows.mapped:
                values = slice(rows.indptr[after.start], rows.indptr[after.stop])
                ask_for(rows.indices[values], rows.data[values])
            yield some

    def _run(self, w, first, last, state, keys, steps, dormant, shifts, g, sums):  # noqa: ANN001 - the kernel's
        """The kernel on rows first .. last − 1 with these arrays. Local."""
        rows, lanes = self.rows, steps.size
        kernels.panel_pass(
            *(rows.indptr[first : last + 1], rows.indices, rows.data, rows.first + first, w, keys, steps, int(dormant)),
            *(
                state[first * lanes : last * lanes],
                self.loss.code,
                int(self.rounded),
                self.levels,
                mpi.SHIFT_OF_LEVEL,
                shifts,
                g,
                sums,
            ),
        )

    def loss_shifts(self, w_sq: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The grids (2, L) of the losses' two levels, from ℓ(z) ≤ ℓ(0) + slope_bound ‖w‖ max
        ‖x‖.
        """
        bounds = self.loss.value_at_zero + self.loss.slope_bound * np.sqrt(w_sq) * self.rows.max_norm
        self.check_finite(bounds, "objective", labels)
        high, spacing = mpi.grid(bounds * self.rows.n_global)
        low, _ = mpi.grid(spacing * self.rows.n_global)
        return np.stack([high, low])

    @mpi.collective
    def value(self, w: np.ndarray, label: int, stop: Stop = NEVER) -> float:
        """Collective. f(w) of one label over all rows, dormant or not, in float64; w
        (n_columns). Raises Stopped, on all ranks.
        """
        w, one, rows = w.astype(np.float64), np.array([label]), self.rows
        w_sq = np.array([np.square(w).sum()])
        state = np.full(rows.n_local, kernels.ACTIVE)
        state[rows.rows_of(label)] |= kernels.POSITIVE
        sums, shifts = np.zeros((4, 1)), self.loss_shifts(w_sq, one)
        for some in stop.slices(self._read_ahead(self._slices(stop))):
            indptr = rows.indptr[some.start : some.stop + 1]
            kernels.loss_pass(indptr, rows.indices, rows.data, w, state[some], self.loss.code, shifts, sums)
        mpi.allreduce_sum(self.comm, sums)
        return float(0.5 * self.lam * w_sq[0] + (sums[kernels.HIGH, 0] + sums[kernels.LOW, 0]) / self.rows.n_global)


class Panel:
    """The weights of `width` labels in training ("lanes"); `labels[lane]` is a label's number in
    the data, −1 if idle.
    """

    def __init__(self, objective: Objective, width: int, n_rows: int | None = None) -> None:
        """Local. Raises MemoryError."""
        self.objective, self.width = objective, width
        rows, comm = objective.rows, objective.comm
        n_rows = rows.n_local if n_rows is None else n_rows
        self.own = slice(int(objective.bounds[comm.rank]) * width, int(objective.bounds[comm.rank + 1]) * width)
        self.counts = (np.diff(objective.bounds) * width).tolist()
        self.w = aligned(rows.n_columns * width, objective.weight_type)
        self.g = aligned(rows.n_columns * width, np.float64)
        self.best = aligned(self.counts[comm.rank], objective.weight_type)
        self._g_own = self.g if comm.size == 1 else aligned(self.counts[comm.rank], np.float64)
        self.state = np.full(n_rows * width, kernels.IDLE)
        self.labels = np.full(width, -1, dtype=np.int64)
        self.keys, self.steps = np.zeros(width, np.uint64), np.zeros(width, np.int64)
        self.w_sq = np.zeros(width)
        self.sums = np.zeros((4, width))
        kept = objective.dormant and slices.is_long(int(rows.counts.sum(dtype=np.int64)), comm.size)
        self._before = np.empty_like(self.state) if kept else None  # `state` before the pass, of the first `_n_taken` rows
        self._n_taken = 0
        self._requests: list = []

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
        shifts = self._shifts if last > first else np.zeros((2, self.width))
        state, dormant = self.state, self.objective.dormant
        if self._before is not None:
            here = slice(first * self.width, last * self.width)
            self._before[here], self._n_taken = state[here], last
        self.objective._run(self.w, first, last, state, self.keys, self.steps, dormant, shifts, self.g, self.sums)

    def rewind(self) -> None:
        """Put the rows' bytes back to what they were before a pass that is abandoned. Local."""
        if self._before is not None:
            here = slice(0, self._n_taken * self.width)
            self.state[here] = self._before[here]

    @mpi.collective
    def send(self) -> None:
        """Collective. Begin the reduction."""
        self._requests = [mpi.begin_reduce_scatter(self.objective.comm, self.g, self._g_own, self.counts)]

    @mpi.collective
    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Collective, after `Objective.evaluate`. f and ‖g‖² per lane, each (L,); `sums` hold the
        counts of rows.

        Raises NonFiniteError, on all ranks, when one is not finite.
        """
        objective, comm = self.objective, self.objective.comm
        if comm.size > 1:
            with objective.profile("wait"):
                self.wait_for_weights()
            with objective.profile("communicate"):
                mpi.allreduce_sum(comm, self.sums)
        with objective.profile("compute"):
            chunks = self.squares()
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

    def slopes(self, lane: int) -> np.ndarray:
        """Σ ∂ℓ of one lane, own columns, after `gather`, as a view: the subgradient without its
        λ w and 1/m. Local.
        """
        return self.lane(self._g_own, lane)

    def squares(self) -> np.ndarray:
        """‖g‖² per chunk of own columns and lane, for g = λ w + Σ ∂ℓ / m. Local."""
        out = np.empty((self._n_chunks(), self.width))
        objective = self.objective
        blocks.gradient_squares(self.w[self.own], self._g_own, self.width, objective.lam, 1.0 / objective.rows.n_global, out)
        return out

    def _n_chunks(self) -> int:
        """The number of chunks of own columns."""
        return -(-(self.own.stop - self.own.start) // (blocks.CHUNK * self.width))

    @mpi.collective
    def total(self, chunks: np.ndarray) -> np.ndarray:
        """Collective. The sum over all ranks' chunks, in the order of the columns: the same bits
        on any number of ranks.
        """
        parts = [chunks] if self.objective.comm.size == 1 else mpi.allgather_arrays(self.objective.comm, chunks)
        whole = np.concatenate(parts)
        return np.add.accumulate(whole, axis=0)[-1]  # add.reduce takes the chunks in another order if there is but one lane

    @mpi.collective
    def step(self, eta: np.ndarray, radius: float = math.inf) -> None:
        """Collective. w −= η g in every lane, then a projection on the ball of this radius;
        counts a step of every label.
        """
        with self.objective.profile("compute"):
            chunks = self.sweep(eta)
        with self.objective.profile("communicate"):
            self.w_sq = self.total(chunks)
            if (self.w_sq > radius**2).any():
                factors = np.minimum(1.0, radius / np.sqrt(np.maximum(self.w_sq, 1e-300)))
                own = self.w[self.own].reshape(-1, self.width)
                np.multiply(own, factors, out=own, casting="same_kind")
                self.w_sq = self.total(self._norms())
            self._share()
        self.steps += 1

    @mpi.collective
    def _share(self) -> None:
        """Collective. Begin to send the weights of own columns to all ranks."""
        if self.objective.comm.size > 1:
            self._requests = [mpi.begin_allgather(self.objective.comm, self.w, self.counts)]

    @mpi.collective
    def replace(self, weights: dict[int, np.ndarray]) -> None:
        """Collective. Give lanes other weights, own columns of each; counts a step of every
        label.
        """
        with self.objective.profile("compute"):
            for lane, w in weights.items():
                self.lane(self.w[self.own], lane)[:] = w
        with self.objective.profile("communicate"):
            self.measure()
            self._share()
        self.steps += 1

    def sweep(self, eta: np.ndarray) -> np.ndarray:
        """Step own columns; ‖w‖² per chunk of them and lane. Local."""
        out = np.empty((self._n_chunks(), self.width))
        objective = self.objective
        blocks.step(self.w[self.own], self._g_own, self.width, eta, objective.lam, 1.0 / objective.rows.n_global, out)
        return out

    @mpi.collective
    def measure(self) -> None:
        """Collective. Find ‖w‖² of weights that were put in."""
        self.w_sq = self.total(self._norms())

    def _norms(self) -> np.ndarray:
        """‖w‖² per chunk of own columns and lane. Local."""
        out = np.empty((self._n_chunks(), self.width))
        blocks.gradient_squares(self.w[self.own], self._g_own, self.width, 1.0, 0.0, out)
        return out

    def keep(self, lanes: np.ndarray) -> None:
        """Remember the weights of the lanes with lanes[l] as the best so far. Local."""
        if lanes.any():
            blocks.copy_lanes(self.w[self.own], self.width, lanes, self.best)

    @mpi.collective
    def wait_for_weights(self) -> None:
        """Collective. Until what was begun to be sent has arrived."""
        for request in self._requests:
            request.Wait()
        self._requests = []

    @mpi.collective
    def whole(self, lane: int, array: np.ndarray) -> np.ndarray:
        """Collective. One lane (n_columns) of `best`, or of `w`, on all ranks."""
        if array is self.w:
            self.wait_for_weights()
            return self.lane(self.w, lane).copy()
        own = self.lane(array, lane).copy()
        return own if self.objective.comm.size == 1 else np.concatenate(mpi.allgather_arrays(self.objective.comm, own))

"""Dual coordinate descent for many labels at once: hinge and squared hinge, certified by the duality gap.

LIBLINEAR's algorithm (Hsieh et al. 2008, Algorithm 1 with shrinking, and its stopping rule) minimises ½‖w‖² + Σ C_i ℓ, which with
C_i = c_i / (λ m) is f(w) / λ for rows of weight c_i. Here it runs for the labels of a panel at once (`kernels.dual`), all of which
begin together. Three things differ:
- A label begins with the solution of the label that no row has, which it differs from by its positive rows.
- Rows that a label has set aside are looked at again in one pass at the end, in float64 and with the weights as they are saved:
  the gradients tell whether it is done, and the same pass gives the objective and the gap. A label that is not done goes on.
- On several ranks that share the rows, each takes the steps of its own rows, and their sum is applied after every pass (CoCoA+,
  Ma et al. 2015, with its safe σ′ = number of ranks and γ = 1).

A label's path depends on the label, the rows and the seed, not on which labels share its panel.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from hpcml import mpi, rng
from hpcml.config import BALANCED, TrainOptions, parse_weight
from hpcml.convex.block import CONVERGED, STEP_LIMIT, Finished
from hpcml.convex.objective import Risk, aligned, panel_widths
from hpcml.errors import NonFiniteError
from hpcml.kernels import dual as kernels
from hpcml.losses import DUAL_LOSSES

INNER = 0.5  # of the tolerance: what the rows that are still looked at must come to before all rows are
NULL = 0.1  # of the tolerance: for the label that no row has, from which the others begin
CHUNK_VALUES = 1 << 24  # rows of so many values are taken in random order before the next ones
ORDER_BYTES = 1 << 28  # of random orders that are kept for the next panels
HALF = 8  # lanes that are certified together: a cache line of float64
LIMITS = {"single": 1e36, "double": 1e150}  # of C, 1/C and ‖x‖²: so that neither overflows, nor in float64 their squares
NOBODY = -1  # the label that no row has


@dataclass
class Lane:
    """A label in training; `label` is its place among the labels of the run."""

    label: int
    tolerance: float
    steps: int = 0
    visited: float = 0.0  # rows, over all steps
    ready: bool = False  # its active rows have converged; all rows are to be looked at
    done: bool = False
    history: list[tuple[float, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Start:
    """Where labels begin: weights (d) and duals (n) of the label that no row has."""

    w: np.ndarray
    alpha: np.ndarray


class Costs:
    """C and the diagonal of the dual (2 rows: positive, negative), per label, in float64."""

    def __init__(self, risk: Risk, options: TrainOptions) -> None:
        self.base = 1.0 / (risk.lam * risk.rows.n_global)
        self.precision, self.limit = options.precision, LIMITS[options.precision]
        self.loss, self.weight, self.rows = DUAL_LOSSES[options.loss], options.positive_weight, risk.rows

    def of(self, label: int) -> np.ndarray:
        """C of positive and negative rows (2) of a label's number in the data. Raises NonFiniteError if they are beyond LIMITS."""
        weight, n_positive = 1.0, int(self.rows.n_positive[label])
        if label != NOBODY:
            weight = (self.rows.n_global - n_positive) / n_positive if self.weight == BALANCED else parse_weight(self.weight)
        costs = np.array([self.base * weight, self.base])
        if not (1 / self.limit <= costs.min() and costs.max() <= self.limit):
            raise NonFiniteError(
                f"the cost of a row, its weight / (λ m), is {costs.min():.3g} or {costs.max():.3g}, beyond {self.precision} "
                "precision; scale the data, or choose another --lambda or --positive-weight"
            )
        return costs


class DualPanel:
    """Labels that are trained together, from their beginning to their end. Collective over `risk.comm` where it says so."""

    def __init__(self, block: DualBlock, places: list[int], start: Start | None) -> None:
        """Local, but for labels that begin with a start. `places` of labels, or [NOBODY]. Raises MemoryError."""
        risk, self.block = block.risk, block
        rows, dtype = risk.rows, risk.weight_type
        self.risk, self.lanes = risk, [Lane(place, block.tolerance) for place in places]
        (width,) = panel_widths(len(places), block.options.precision)
        self.width, self.numbers = width, [NOBODY if place == NOBODY else int(block.labels[place]) for place in places]
        self.w, self.alpha = aligned(rows.n_columns * width, dtype), aligned(rows.n_local * width, dtype)
        self.positive, self.active = np.zeros(rows.n_local, np.uint16), np.zeros(rows.n_local, np.uint16)
        self.rules, self.gradients = aligned(kernels.N_RULES * width, dtype), aligned(2 * width, dtype)
        self.counts, self._rows = aligned(2 * width, np.int64), np.empty(rows.n_local, np.int64)
        self.costs = np.ones((2, width))
        for lane, number in enumerate(self.numbers):
            self.costs[:, lane] = block.costs.of(number)
            if number != NOBODY:
                self.positive[rows.rows_of(number)] |= np.uint16(1 << lane)
        rules = self.rules.reshape(kernels.N_RULES, width)
        rules[kernels.TOP_POSITIVE : kernels.TOP_NEGATIVE + 1] = block.costs.loss.top(self.costs, dtype)
        rules[kernels.DIAGONAL_POSITIVE : kernels.DIAGONAL_NEGATIVE + 1] = block.costs.loss.diagonal(self.costs)
        rules[kernels.SIGMA] = risk.comm.size
        self.sweep = self.round = 0
        if start is not None:
            self._depart(start)
        for lane in range(len(places)):
            self.active |= np.uint16(1 << lane)
            self._keep_all(lane)

    def _depart(self, start: Start) -> None:
        """Collective. Begin with the solution of the label that no row has, its positive rows put back to 0."""
        rows = self.risk.rows
        self.w.reshape(-1, self.width)[:] = start.w[:, None]
        self.alpha.reshape(-1, self.width)[:] = start.alpha[:, None]
        before = self._before()
        for lane, number in enumerate(self.numbers):
            arrays = (rows.indptr, rows.indices, rows.data, rows.rows_of(number))
            kernels.depart(*arrays, start.alpha, self.alpha, self.w, self.width, lane)
        self._share(before, 1.0)

    def _keep_all(self, lane: int) -> None:
        """Let a lane set no row aside in the next pass. Local."""
        rules = self.rules.reshape(-1, self.width)
        rules[kernels.HIGHEST, lane], rules[kernels.LOWEST, lane] = math.inf, -math.inf

    def _before(self) -> np.ndarray | None:
        """A copy of the weights, if other ranks change them as well. Local."""
        return self.w.copy() if self.risk.comm.size > 1 else None

    @mpi.collective
    def _share(self, before: np.ndarray | None, sigma: float) -> None:
        """Collective. The weights `before` and what every rank has added to them, `sigma` times too much."""
        if before is not None:
            self.w -= before
            self.w /= sigma
            with self.risk.profile("communicate"):
                mpi.allreduce_sum(self.risk.comm, self.w)
            self.w += before

    @property
    def training(self) -> list[int]:
        """The lanes whose active rows have not converged."""
        return [number for number, lane in enumerate(self.lanes) if not lane.ready]

    @mpi.collective
    def epoch(self, seconds: float) -> None:
        """Collective. One pass over the active rows; decides which lanes are ready."""
        rows, risk, width = self.risk.rows, self.risk, self.width
        order = self.block.order(self.round, self.sweep)
        self.sweep += 1
        self.gradients[:], self.counts[:] = 0.0, 0  # 0 is in every range, whichever rows other lanes look at
        with risk.profile("compute"):
            before = self._before()
            kernels.epoch(
                *(rows.indptr, rows.indices.reshape(1, -1), rows.data.reshape(1, -1), order, self.block.norms),
                *(self.w, self.alpha, self.positive, self.active),
                *(self.rules, self.gradients, self.counts, self._rows, width),
            )
        self._share(before, risk.comm.size)
        most, least = self.gradients[:width].astype(np.float64), self.gradients[width:].astype(np.float64)
        active, moved = self.counts.reshape(2, width)
        if risk.comm.size > 1:
            with risk.profile("communicate"):
                most, least = mpi.allreduce_maxima(risk.comm, most), -mpi.allreduce_maxima(risk.comm, -least)
                mpi.allreduce_sum(risk.comm, self.counts)
        highest, lowest = self.rules.reshape(-1, width)[kernels.HIGHEST], self.rules.reshape(-1, width)[kernels.LOWEST]
        for number in self.training:
            lane, violation = self.lanes[number], float(most[number] - least[number])
            lane.steps += 1
            lane.visited += float(active[number])
            line = (lane.steps, math.nan, math.nan, 0, math.nan, violation, active[number], moved[number], seconds)
            lane.history.append(line)
            highest[number] = most[number] if most[number] > 0 else math.inf
            lowest[number] = least[number] if least[number] < 0 else -math.inf
            if violation <= INNER * lane.tolerance or lane.steps >= self.block.max_steps:
                lane.ready = True
                self.active &= np.uint16(~(1 << number) & 0xFFFF)

    @mpi.collective
    def certify(self) -> list[Finished]:
        """Collective. Look at all rows in float64 for lanes that are ready; those that are done leave, the others go on."""
        rows, risk, block, width = self.risk.rows, self.risk, self.block, self.width
        csr, finished = (rows.indptr, rows.indices, rows.data), []
        with risk.profile("finish"):
            dual_squares, squares = self._combine()
            sums, near = np.zeros((kernels.N_SUMS, width)), np.zeros(rows.n_local, np.uint16)
            kernels.certify(*csr, self.w, self.alpha, self.positive, self.rules, near, sums.reshape(-1), width, block.tolerance)
            if risk.comm.size > 1:
                extremes = mpi.allreduce_maxima(risk.comm, sums[[kernels.MOST, kernels.LEAST]] * [[1.0], [-1.0]])
                mpi.allreduce_sum(risk.comm, sums)
                sums[kernels.MOST], sums[kernels.LEAST] = extremes[0], -extremes[1]
        loss, violations = block.costs.loss, sums[kernels.MOST] - sums[kernels.LEAST]
        short, short_squared, alpha_squared = (
            sums[row : row + 2] for row in (kernels.SHORT, kernels.SHORT_SQUARED, kernels.ALPHA_SQUARED)
        )
        primal = 0.5 * squares + loss.losses(self.costs, short, short_squared)
        bound = sums[kernels.ALPHA] - 0.5 * dual_squares - loss.penalty(self.costs, alpha_squared)
        gaps = np.maximum(0.0, primal - bound) / np.maximum(primal, 1e-300)
        for number, lane in enumerate(self.lanes):
            if lane.done:
                continue
            f, gap = risk.lam * float(primal[number]), float(gaps[number])
            risk.check_finite(np.array([f]), "objective", np.array([self.numbers[number]]))
            lane.done = bool(violations[number] <= lane.tolerance and gap <= block.max_gap)
            if lane.done or lane.steps >= block.max_steps:
                finished.append(self._finish(number, CONVERGED if lane.done else STEP_LIMIT, f, gap, float(violations[number])))
                continue
            lane.ready = False
            if violations[number] <= lane.tolerance:
                lane.tolerance /= 2
            self.active |= near & np.uint16(1 << number)
            self._keep_all(number)
        self.round, self.sweep = self.round + 1, 0
        return finished

    @mpi.collective
    def _combine(self) -> tuple[np.ndarray, np.ndarray]:
        """Collective. w = Σ alpha y x of the lanes that are ready, made anew; ‖w‖² in float64, and rounded as it is saved."""
        rows, risk, half = self.risk.rows, self.risk, min(self.width, HALF)
        squares, v = np.zeros((2, self.width)), aligned(rows.n_columns * half, np.float64)
        for first in range(0, self.width, half):
            kernels.combine(rows.indptr, rows.indices, rows.data, self.alpha, self.positive, self.width, first, half, v)
            if risk.comm.size > 1:
                mpi.allreduce_sum(risk.comm, v)
            sums = np.zeros(2 * half)
            kernels.keep(v, half, self.w, self.width, first, sums)
            squares[:, first : first + half] = sums.reshape(2, half)
        return squares[0], squares[1]

    def _finish(self, number: int, status: int, f: float, gap: float, violation: float) -> Finished:
        """What a label leaves with. Local."""
        lane = self.lanes[number]
        lane.done = True
        last = lane.history[-1]
        lane.history[-1] = (lane.steps, f, *last[2:5], violation, *last[6:])
        w, share = self.w.reshape(-1, self.width)[:, number].copy(), lane.visited / (lane.steps * self.risk.rows.n_global)
        return Finished(lane.label, w, f, status, lane.steps, share, lane.history, gap)


class DualBlock:
    """The labels of a group of ranks (`convex.run.Block`). A panel that is not done is not in a checkpoint: it begins anew."""

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: TrainOptions, max_steps: int) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError."""
        self.risk, self.labels, self.options, self.max_steps = risk, labels, options, max_steps
        self.tolerance = options.dual_tol
        self.max_gap = math.inf if options.max_gap is None else options.max_gap
        self.n_lanes = min(n_lanes, panel_widths(16, options.precision)[0])
        self.costs = Costs(risk, options)
        rows = risk.rows
        self.norms = np.empty(rows.n_local, risk.weight_type)
        if not risk.comm.size * rows.max_norm**2 <= LIMITS[options.precision]:
            raise NonFiniteError(f"a row's norm is {rows.max_norm:.3g}, beyond {options.precision} precision; scale the data")
        kernels.norms(rows.indptr, rows.data, self.norms)
        cuts = np.searchsorted(rows.indptr, np.arange(0, rows.data.size + 1, CHUNK_VALUES)[1:])
        self.bounds = np.unique(np.concatenate([[0], cuts, [rows.n_local]]))
        self.orders: dict[tuple[int, int], np.ndarray] = {}
        self.waiting: deque[int] = deque()
        self.lanes: dict = {}
        self.panel: DualPanel | None = None
        self.start: Start | None = None

    @property
    def busy(self) -> bool:
        """Whether there is anything left to train."""
        return self.panel is not None or bool(self.waiting)

    def fill(self) -> None:
        """Nothing: labels begin together when those before have left."""

    @mpi.collective
    def settle(self) -> None:
        """Nothing is ever on its way."""

    def order(self, number: int, sweep: int) -> np.ndarray:
        """The order of the rows of a pass, a function of the seed, the round and the pass. Local."""
        if (number, sweep) not in self.orders:
            rows = self.risk.rows
            key = rng.bits(self.options.seed, "order of rows", np.array([number << 32 | sweep]))[0]
            found = np.empty(rows.n_local, np.int32)
            kernels.shuffle(found, self.bounds, np.empty(self.bounds.size - 1, np.int64), key)
            if (len(self.orders) + 1) * found.nbytes > ORDER_BYTES:
                return found
            self.orders[number, sweep] = found
        return self.orders[number, sweep]

    def warm_up(self) -> None:
        """Compile the kernels for these types. Local."""
        rows, dtype, width = self.risk.rows, self.risk.weight_type, 1
        csr, none = (rows.indptr[:1], rows.indices[:0], rows.data[:0]), np.zeros(0, dtype)
        some, bits, doubles = aligned(kernels.N_RULES, dtype), np.zeros(0, np.uint16), np.zeros(0)
        csr_2d, flat = (rows.indptr[:1], rows.indices[:0].reshape(1, -1), rows.data[:0].reshape(1, -1)), np.zeros(2, np.int64)
        order = np.zeros(0, np.int32)
        kernels.shuffle(order, flat, np.zeros(1, np.int64), np.uint64(0))
        kernels.epoch(*csr_2d, order, none, none, none, bits, bits, some, some, flat, flat, width)
        kernels.combine(*csr, none, bits, 1, 0, 1, doubles)
        kernels.certify(*csr, none, none, bits, some, bits, np.zeros(kernels.N_SUMS), 1, 0.0)
        kernels.keep(doubles, 1, none, 1, 0, np.zeros(2))
        kernels.depart(*csr, flat[:0], none, none, none, 1, 0)

    @mpi.collective
    def turn(self, seconds: float) -> list[Finished]:
        """Collective over the group. One pass over the active rows of a panel; the labels that are done."""
        if self.start is None:
            self.start = self._solve_nobody()
        if self.panel is None:
            places = [self.waiting.popleft() for _ in range(min(self.n_lanes, len(self.waiting)))]
            with self.risk.profile("compute"):
                self.panel = DualPanel(self, places, self.start)
        self.panel.epoch(seconds)
        if self.panel.training:
            return []
        finished = self.panel.certify()
        if not self.panel.training:
            self.panel = None
        return finished

    @mpi.collective
    def _solve_nobody(self) -> Start:
        """Collective. What labels begin with."""
        panel = DualPanel(self, [NOBODY], None)
        panel.lanes[0].tolerance = NULL * self.tolerance / INNER
        while panel.training:
            panel.epoch(0.0)
        return Start(panel.w, panel.alpha)


def dual(risk: Risk, labels: np.ndarray, n_lanes: int, options: TrainOptions, max_steps: int) -> DualBlock:
    """Dual coordinate descent. Raises MemoryError."""
    return DualBlock(risk, labels, n_lanes, options, max_steps)

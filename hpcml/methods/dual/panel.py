"""Labels that share passes of dual coordinate descent over the rows: their state, their weights and duals, and one pass.

Hinges: `alpha` holds the duals α. Logistic: it holds u = log(α / (C − α)). No α is at a bound then, so every row has a dual, and no
row is set aside.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.errors import NonFiniteError
from hpcml.kernels import elementwise
from hpcml.kernels.lanes import certify, duals, epoch
from hpcml.losses import load_loss
from hpcml.methods.dual import kernels
from hpcml.methods.dual.chunks import CHUNK_VALUES, Chunk, RowChunks, Wanted
from hpcml.methods.dual.options import BALANCED, DualOptions, parse_weight
from hpcml.methods.linear.objective import Risk, aligned, panel_widths
from hpcml.methods.linear.solver import Support
from hpcml.run.stop import NEVER, Stop

LIMITS = {"single": 1e36, "double": 1e150}  # of C, 1/C and ‖x‖²: so that neither overflows, nor in float64 their squares
NO_POSITIVES = -1  # the number of a label without positive rows
# CLOSE = 0: 19 passes instead of 14 on generated rows, squared hinge; 0.1: 14 instead of 25 with the hinge, whose mean gap is then
# 0.64 % instead of 0.12 %.
CLOSE = 0.01  # of the tolerance: a gap, as a share of the objective, that is small enough whatever the gradients are
QUIET = 8.0  # logistic: units in the last place of 1 + |u|; a smaller gradient is an error of rounding

# Choosing the rows of a pass reads a flag of every row: at 300,000 rows of 12 values, up to a third of the time of a full pass.
LEAST_ROWS = 1 / 16  # of all rows: what a pass over few rows, or a look at all rows for 16 labels, counts as at least

# By `python -m launch.lab bench panels`, as for the constants of `dual`: IGNORED = 0.1 has gaps of 1.2 % instead of 0.8 % on
# MeSH, 0 takes 26 passes instead of 25 on generated rows. IGNORED_SQUARED = 0.001: gap 0.02 % instead of 0.05 %, small beside
# what the tolerance admits, for more rows that change the weights.
IGNORED = 0.001  # of the tolerance: projected gradients up to it, such as differ from 0 by rounding, cause no step
IGNORED_SQUARED = 0.1  # the same for the squared hinge, where the gap grows with their squares only
CACHE_BYTES = 1 << 21  # of weights that need not be asked for ahead
HALF = 8  # lanes whose weights are made in float64 together: a cache line
ORDER_BYTES = 1 << 28  # of random orders that are kept for the next panels
U_OF_ZERO = -45.0  # u of a dual that is as good as 0


@dataclass(frozen=True)
class State:
    """Weights (d) and duals (n) of a label, and which rows (n) it looks at."""

    w: np.ndarray
    alpha: np.ndarray
    active: np.ndarray | None = None  # None: all
    cost: float = math.nan  # C of the negative rows, of a label without positive rows


@dataclass
class Training:
    """A label in training; `label` is its place among the labels of the run, `number` its number in the data."""

    label: int
    number: int
    tolerance: float
    steps: int = 0
    visited: float = 0.0  # rows, over all steps
    spent: float = 0.0  # rows that count against --max-steps
    ready: bool = False  # no further pass in this round: all rows are to be judged
    resting: bool = False  # its support vectors have converged; it waits for a pass over all rows
    moved: bool = False  # in this round
    exact: bool = False  # no gradient is too small for a step
    gap: float = math.inf  # at the end of the round before
    state: State | None = None  # between two rounds
    best_primal: float = math.inf  # the least objective so far, divided by λ
    best_weights: Any = None  # its weights
    best_support: Support | None = None  # if the sink needs it
    best_bound: float = 0.0  # the largest dual objective so far
    history: list[tuple[float, ...]] = field(default_factory=list)

    def keep_best(self, primal: float, bound: float, copy: Callable[[], tuple[Any, Support | None]]) -> None:
        """Keep the weights and their support if their objective is the least so far, and the bound if it is the largest."""
        self.best_bound = max(self.best_bound, bound)
        if primal < self.best_primal:
            self.best_primal, (self.best_weights, self.best_support) = primal, copy()

    @property
    def best_gap(self) -> float:
        """The gap of the best weights by the best bound, divided by their objective."""
        return max(0.0, self.best_primal - self.best_bound) / max(self.best_primal, 1e-300)

    def record(self, violation: float, active: float, moved: float, seconds: float, least: float = 0.0, passes: int = 1) -> float:
        """Count passes, each as `least` rows or more, and return the range of the last one's gradients as a float."""
        self.steps += passes
        self.visited += float(active)
        self.spent += max(float(active), least)
        self.moved |= bool(moved)
        self.history.append((self.steps, math.nan, math.nan, 0, math.nan, float(violation), active, moved, seconds))
        return float(violation)


def support_of(rows: np.ndarray, alpha: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> Support:
    """Return the support with the duals `alpha` of `rows`, which have the label where `positive`, and their weights."""
    return Support(rows, np.where(positive, 1.0, -1.0) * weights.astype(np.float64) * alpha)


Label = TypeVar("Label", bound=Training)


def in_rounds(
    labels: Sequence[int], make: Callable[[int], Label], n_lanes: int, most_between: float
) -> Iterator[tuple[int, list[Label], list[Label]]]:
    """Yield the number of a round, the labels that go through it together, and a list to put those into that need another round.

    They are labels of one round, if they fill the lanes or if `most_between` wait between two rounds; else new ones, made from
    their places `labels`; else as many as there are.
    """
    waiting, between = deque(labels), dict[int, list[Label]]()
    while waiting or between:
        number = max(between, key=lambda number: len(between[number]), default=0)
        full = number and len(between[number]) >= n_lanes
        if waiting and not full and sum(map(len, between.values())) < most_between:
            number, lanes = 0, [make(waiting.popleft()) for _ in range(min(n_lanes, len(waiting)))]
        else:
            found = between.pop(number)
            lanes = found[:n_lanes]
            if found[n_lanes:]:
                between[number] = found[n_lanes:]
        unfinished = list[Label]()
        yield number, lanes, unfinished
        if unfinished:
            between.setdefault(number + 1, []).extend(unfinished)


class DualPanel:
    """Labels that share passes over the rows, one in each lane: weights, duals and passes.

    Collective over `risk.comm` where it says so. What a pass is for, and when it is enough, is said in `dual`.
    """

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError, NonFiniteError."""
        self.risk, self.labels, self.options, rows = risk, labels, options, risk.rows
        self.stop: Stop = NEVER  # of the labels that are being trained
        self.n_lanes = min(n_lanes, panel_widths(16, options.precision)[0])
        self.loss, self.is_logistic = load_loss(options.loss), options.loss == "logistic"
        self.is_squared = not self.is_logistic and self.loss.DUAL_CURVATURE > 0
        self.ignored = IGNORED_SQUARED if self.is_squared else IGNORED  # of the tolerance
        self.no_dual = U_OF_ZERO if self.is_logistic else 0.0
        self.norms = np.empty((rows.n_local, 2), risk.weight_type)
        largest_step = rows.largest_step
        self.largest = max(1.0, risk.comm.size * largest_step) if self.is_logistic else 1.0  # by which costs are multiplied
        if not risk.comm.size * largest_step <= LIMITS[options.precision]:
            norm = math.sqrt(largest_step)
            raise NonFiniteError(f"a row's norm is {norm:.3g}, beyond {options.precision} precision; scale the data")
        kernels.norms(rows.indptr, rows.data, rows.weights if rows.weights is not None else np.zeros(0), self.norms)
        self.rows = RowChunks(rows, risk.chunk_values or CHUNK_VALUES, risk.kept_values if risk.chunk_values else None)
        self._looked_at = np.empty(rows.n_local, np.int32)
        self.order_bytes = 0 if risk.chunk_values else ORDER_BYTES
        self.orders: dict[tuple[int, int], np.ndarray] = {}
        (self.width,) = panel_widths(self.n_lanes, options.precision)
        self.doubles = aligned(rows.n_columns * min(self.width, HALF), np.float64)  # room for weights in float64
        self.scores = aligned(rows.n_local * self.width, np.float64)  # room for the certificate's
        for label in labels[(rows.n_positive[labels] > 0) & (rows.n_positive[labels] < rows.n_global)].tolist():
            self.costs_of(label)  # an error now, not after hours
        self.lanes: list[Training] = []

    def costs_of(self, label: int, weight: float | None = None, lam: float | None = None) -> np.ndarray:
        """Return C of the positive and the negative rows (2) of weight 1, in float64, of a label's number in the data.

        `weight` and `lam` take the place of the label's weight of positive rows and of λ. Raises NonFiniteError beyond LIMITS.
        """
        risk, rows, limit = self.risk, self.risk.rows, LIMITS[self.options.precision]
        if weight is None:
            weight = 1.0
            if label != NO_POSITIVES:
                asked, positive = self.options.positive_weight, rows.weight_of(label)
                weight = (rows.total_weight - positive) / positive if asked == BALANCED else parse_weight(asked)
                weight *= 1.0 if risk.positive_weights is None else float(risk.positive_weights[label])
        base = float(risk.negative_weight / ((risk.lam if lam is None else lam) * rows.total_weight))
        costs = np.array([base * weight, base])
        if not (1 / limit <= costs.min() and costs.max() * self.largest <= limit):
            raise NonFiniteError(
                f"the cost of a row, its weight / (λ m), is {costs.min():.3g} or {costs.max():.3g}, "
                f"beyond {self.options.precision} precision; scale the data, or choose another λ or weight of positive rows"
            )
        return costs

    def rules(self, costs: np.ndarray, ignored: Sequence[float]) -> np.ndarray:
        """Return the rules (N_RULES, lanes) of the kernels, by C of positive and of negative rows (2, lanes) and the projected
        gradients that cause no step; no row is set aside.
        """
        dtype = self.risk.weight_type
        rules = np.zeros((epoch.N_RULES, costs.shape[1]), dtype)
        rules[epoch.SIGMA] = self.risk.comm.size
        if self.is_logistic:
            rules[epoch.COST_POSITIVE : epoch.COST_NEGATIVE + 1] = costs
            rules[epoch.QUIET] = QUIET * np.finfo(dtype).eps
            return rules
        top = self.loss.DUAL_TOP * costs
        rounded = top.astype(dtype)
        rules[epoch.TOP_POSITIVE : epoch.TOP_NEGATIVE + 1] = np.where(rounded > top, np.nextafter(rounded, dtype.type(0)), rounded)
        rules[epoch.DIAGONAL_POSITIVE : epoch.DIAGONAL_NEGATIVE + 1] = self.loss.DUAL_CURVATURE / costs
        rules[epoch.IGNORED, : len(ignored)] = ignored
        rules[epoch.HIGHEST], rules[epoch.LOWEST] = math.inf, -math.inf
        return rules

    def set_costs(self, costs: list[np.ndarray]) -> None:
        """Minimise with these C of positive and negative rows (2), lane by lane. Local."""
        self.costs = np.ones((2, self.width))
        self.costs[:, : len(costs)] = np.transpose(costs)
        ignored = [0.0 if label.exact else self.ignored * label.tolerance for label in self.lanes]
        self.rules_of_lanes[:] = self.rules(self.costs, ignored).reshape(-1)

    def losses(self, costs: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Σ C ℓ of a hinge (lanes), the same with moved intercepts, and what the loss takes off the dual objective, by the
        `sums` of `hinge_certify`.
        """
        first = certify.SHORT_SQUARED if self.is_squared else certify.SHORT
        moved = first + certify.MOVED_SHORT - certify.SHORT
        penalty = self.loss.DUAL_CURVATURE / costs * sums[certify.ALPHA_SQUARED : certify.ALPHA_SQUARED + 2]
        before, after = ((costs * sums[row : row + 2]).sum(axis=0) for row in (first, moved))
        return before, after, 0.5 * penalty.sum(axis=0)

    def begin(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        """Collective for labels that begin. Let labels take the lanes, in round `number` as they left the round before.

        `costs` (2, each) are C of positive and negative rows; `start` is the solution of the label without positive rows, with
        which labels begin, if there is one. Raises MemoryError.
        """
        self.lanes, self.round, self.all_lanes = lanes, number, np.uint16((1 << len(lanes)) - 1)  # a bit for each lane with a label
        rows, dtype = self.risk.rows, self.risk.weight_type
        (self.width,) = panel_widths(len(lanes), self.options.precision)
        width = self.width
        self.w = self.alpha = np.zeros(0, dtype)  # those before make room
        self.w, self.alpha = aligned(rows.n_columns * width, dtype), aligned(rows.n_local * width, dtype)
        self.positive, self.active = np.zeros(rows.n_local, np.uint16), np.zeros(rows.n_local, np.uint16)
        self.gradients, self.counts = aligned(2 * width, dtype), aligned(2 * width, np.int64)
        for lane, label in enumerate(lanes):
            if label.number != NO_POSITIVES:
                self.positive[rows.rows_of(label.number)] |= np.uint16(1 << lane)
        self.rules_of_lanes = aligned(epoch.N_RULES * width, dtype)
        self.set_costs(costs)
        self.rows.forget()
        if number > 0:
            for lane, label in enumerate(lanes):
                self.w.reshape(-1, width)[:, lane] = label.state.w
                self.alpha.reshape(-1, width)[:, lane] = label.state.alpha
                self.active |= label.state.active.astype(np.uint16) << np.uint16(lane)
                label.state = None
            return
        if start is None:
            self.alpha[:], self.active[:] = self.no_dual, self.all_lanes
            return
        # The common start, with the duals of each label's positive rows put back to 0.
        self.w.reshape(-1, width)[:], self.alpha.reshape(-1, width)[:] = start.w[:, None], start.alpha[:, None]
        alpha = start.alpha
        if self.is_logistic:
            duals.duals(start.alpha, start.cost, alpha := np.empty_like(start.alpha))
        before = self.w.copy() if rows.comm.size > 1 else self.w
        for (own, csr), lane, some in self.stop.slices(self._positive_rows()):
            state = self.w, self.alpha[own.start * width : own.stop * width]
            kernels.remove_duals(csr, some, self.norms[own], alpha[own], self.no_dual, state, width, lane)
        self._share(before, 1.0)
        self.support(slice(0, rows.n_local), self.active)
        self.active |= self.positive

    def _positive_rows(self) -> Iterator[tuple[Chunk, int, np.ndarray]]:
        """Yield the positive rows of each lane in slices: a chunk, the lane, and rows counted from the first of the chunk."""
        rows = self.risk.rows
        step, order = slices.rows_in_slice(rows.n_local, rows.data.size), np.arange(rows.n_local, dtype=np.int32)

        def wanted(own: slice) -> np.ndarray:
            return self.support(own) | self.positive[own]

        for chunk, _ in self.rows.chunks(order, wanted, wanted):
            for lane, label in enumerate(self.lanes):
                some = rows.rows_of(label.number)
                first, last = np.searchsorted(some, (chunk.own.start, chunk.own.stop)).tolist()
                for begin in range(first, last, step):
                    yield chunk, lane, some[begin : min(begin + step, last)] - chunk.own.start

    def order(self, number: int, sweep: int) -> np.ndarray:
        """The order of the rows of a pass, a function of the seed, the round and the pass. Local."""
        if (number, sweep) not in self.orders:
            key = rng.bits(self.options.seed, "order of rows", np.array([number << 32 | sweep]))[0]
            found, bounds = np.empty(self.risk.rows.n_local, np.int32), self.rows.bounds
            kernels.shuffle(found, bounds, np.empty(bounds.size - 1, np.int64), key)
            if (len(self.orders) + 1) * found.nbytes > self.order_bytes:
                return found
            self.orders[number, sweep] = found
        return self.orders[number, sweep]

    def set_aside(self, beyond_last: bool = True) -> None:
        """From now on, set rows aside whose gradients lie beyond those of the last pass, or none. Local."""
        most, least = self.gradients.reshape(2, self.width)
        rules = self.rules_of_lanes.reshape(epoch.N_RULES, self.width)
        rules[epoch.HIGHEST] = np.where(beyond_last & (most > 0), most, math.inf)
        rules[epoch.LOWEST] = np.where(beyond_last & (least < 0), least, -math.inf)

    def support(self, own: slice, bits: np.ndarray | None = None) -> np.ndarray:
        """Return a bit for each dual of these rows that is not 0 (uint16, in `bits` if it is given). Local."""
        bits = np.empty(own.stop - own.start, np.uint16) if bits is None else bits
        if self.is_logistic:
            bits[:] = self.all_lanes
        else:
            duals.support(self.alpha[own.start * self.width : own.stop * self.width], self.width, len(self.lanes), bits)
        return bits

    def support_of_lane(self, lane: int) -> Support:
        """Return the support of the label in a lane. Local."""
        alpha, bit = self.alpha.reshape(-1, self.width)[:, lane], np.uint16(1 << lane)
        rows = np.arange(alpha.size) if self.is_logistic else np.flatnonzero(alpha)
        alpha, positive = alpha[rows].astype(np.float64), (self.positive[rows] & bit) != 0
        if self.is_logistic:
            alpha = elementwise.sigmoid(alpha) * np.where(positive, *self.costs[:, lane])
        return support_of(rows, alpha, positive, self.norms[rows, 1])

    def visit(self, number: int, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Collective. Make one pass over the active rows, in the order with this number; after a `full` one, others will be active.

        Return, of each lane, the range of the projected gradients, float64, and how many rows it had active, and moved.
        """
        risk, width = self.risk, self.width
        order = self.order(self.round, number)
        if full:
            self.rows.forget()

        def kept(own: slice) -> np.ndarray:
            return self.support(own) if full else self.support(own) | self.active[own]

        kernel = epoch.logistic_epoch if self.is_logistic else epoch.hinge_epoch
        self.gradients[:], self.counts[:] = 0.0, 0  # 0 is in every range, whichever rows other lanes look at
        with risk.profile("compute"):
            before = self.w.copy() if risk.comm.size > 1 else self.w
            for (own, csr), some in self.stop.slices(self._visits(order, kept)):
                state, bits = (self.w, self.alpha[own.start * width : own.stop * width]), (self.positive[own], self.active[own])
                tables = self.rules_of_lanes, self.gradients, self.counts
                kernel(csr, some, self.norms[own], state, bits, tables, width, self.w.nbytes > CACHE_BYTES)
        self._share(before, risk.comm.size)
        if risk.comm.size > 1:
            with risk.profile("communicate"):
                self.gradients[width:] *= -1
                mpi.allreduce_maxima(risk.comm, self.gradients)
                self.gradients[width:] *= -1
                mpi.allreduce_sum(risk.comm, self.counts)
        most, least = self.gradients.reshape(2, width).astype(np.float64)
        active, moved = self.counts.reshape(2, width)
        return most - least, active, moved

    def _visits(self, order: np.ndarray, kept: Wanted) -> Iterator[tuple[Chunk, np.ndarray]]:
        """Yield the active rows in this order, slice by slice: a chunk, and rows of it. `kept`: see `RowChunks.chunks`."""
        step = slices.rows_in_slice(self.risk.rows.n_local, self.risk.rows.data.size)
        for chunk, some in self.rows.chunks(order, lambda own: self.active[own], kept):
            n = kernels.looked_at(some, self.active, self._looked_at)
            found, first_row = self._looked_at[:n], chunk.own.start
            found = found - first_row if first_row else found
            for first in range(0, n, step):
                yield chunk, found[first : first + step]

    def _share(self, before: np.ndarray, sigma: float) -> None:
        """Collective. Add to the weights `before` what every rank has added to them, `sigma` times too much."""
        if self.risk.comm.size > 1:
            self.w -= before
            self.w /= sigma
            with self.risk.profile("communicate"):
                mpi.allreduce_sum(self.risk.comm, self.w)
            self.w += before

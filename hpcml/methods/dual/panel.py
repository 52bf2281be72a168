"""A panel of labels that share passes of dual coordinate descent: state, weights, duals, and one pass.

Hinge losses: `alpha` holds the duals α. Logistic loss: `alpha` holds u = log(α / (C − α)); no α reaches a bound, so every row has a
dual and no row is shrunk.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import certify, combine, epoch
from hpcml.losses import load_loss
from hpcml.methods.dual import kernels
from hpcml.methods.dual.chunks import CHUNK_VALUES, Chunk, RowChunks, RowFilter
from hpcml.methods.dual.options import BALANCED, DualOptions, parse_weight
from hpcml.methods.linear.objective import Risk, aligned, panel_widths
from hpcml.run.stop import NEVER, Stop

# Limits of C, 1/C and ‖x‖²: neither they nor, in float64, their squares overflow.
LIMITS = {"single": 1e36, "double": 1e150}
EMPTY_LABEL = -1  # number of the label without positive rows
# A label with a relative gap below this share of the tolerance is done, whatever its gradients. 0: 19 passes instead of 14 on
# generated rows, squared hinge; 0.1: 14 instead of 25 with the hinge, whose mean gap is then 0.64 % instead of 0.12 %.
ACCEPTED_GAP = 0.01
# Logistic: gradients below this number of units in the last place of 1 + |u| are rounding errors.
QUIET = 8.0
# Smallest cost of a pass, as a share of all rows: selecting its rows reads a flag of every row, up to a third of the time of a full
# pass at 300,000 rows of 12 values.
LEAST_ROWS = 1 / 16
# Projected gradients up to this share of the tolerance cause no step. Measured by `python -m launch.lab bench panels`: 0.1 has gaps
# of 1.2 % instead of 0.8 % on MeSH, 0 takes 26 passes instead of 25 on generated rows.
IGNORED_GRADIENT = 0.001
# Squared hinge: the gap grows only with the squares of the gradients. 0.001: gap 0.02 % instead of 0.05 %, both small compared with
# the tolerance, but more rows change the weights.
IGNORED_GRADIENT_SQUARED = 0.1
CACHE_BYTES = 1 << 21  # weights above this size are prefetched
HALF = 8  # lanes per float64 cache line
ORDER_BYTES = 1 << 28  # memory for row orders that later panels reuse
U_OF_ZERO = -45.0  # u of a dual that is practically 0


@dataclass(frozen=True)
class State:
    """Weights (d), duals (n) and active rows (n) of a label between rounds."""

    w: np.ndarray
    alpha: np.ndarray
    active: np.ndarray | None = None  # None: all rows
    cost: float = math.nan  # C of the negative rows (common start only)


@dataclass
class Training:
    label: int  # index in the run
    number: int  # number in the data
    tolerance: float
    steps: int = 0
    visited: float = 0.0  # rows, over all steps
    spent: float = 0.0  # rows that count against --max-steps
    round_done: bool = False  # no further pass before the certificate
    awaits_full_pass: bool = False  # the support vectors have converged
    any_dual_changed: bool = False  # in this round
    ignores_none: bool = False  # every non-zero gradient causes a step
    gap: float = math.inf  # at the end of the previous round
    state: State | None = None  # between two rounds
    best_primal: float = math.inf  # smallest objective / λ
    best_weights: Any = None
    best_bound: float = 0.0  # largest dual objective
    history: list[tuple[float, ...]] = field(default_factory=list)

    def keep_best(self, primal: float, bound: float, copy: Callable[[], Any]) -> None:
        """Store the weights if their objective is the smallest so far, and the bound if it is the largest."""
        self.best_bound = max(self.best_bound, bound)
        if primal < self.best_primal:
            self.best_primal, self.best_weights = primal, copy()

    @property
    def best_gap(self) -> float:
        return max(0.0, self.best_primal - self.best_bound) / max(self.best_primal, 1e-300)

    def record(self, violation: float, active: float, moved: float, seconds: float, least: float = 0.0, passes: int = 1) -> float:
        """Count passes, each as at least `least` rows, and return the last gradient range as a float."""
        self.steps += passes
        self.visited += float(active)
        self.spent += max(float(active), least)
        self.any_dual_changed |= bool(moved)
        self.history.append((self.steps, math.nan, math.nan, 0, math.nan, float(violation), active, moved, seconds))
        return float(violation)


Label = TypeVar("Label", bound=Training)


def iterate_rounds(
    labels: Sequence[int], make: Callable[[int], Label], n_lanes: int, most_between: float
) -> Iterator[tuple[int, list[Label], list[Label]]]:
    """Yield a round's number, its labels, and a list that receives the labels that need another round.

    A later round starts when its labels fill the lanes or `most_between` labels wait between rounds.
    """
    waiting, between = deque(labels), dict[int, list[Label]]()
    while waiting or between:
        number = max(between, key=lambda number: len(between[number]), default=0)
        full = number and len(between[number]) >= n_lanes
        if waiting and not full and sum(map(len, between.values())) < most_between:
            number, lanes = 0, [make(waiting.popleft()) for _ in range(min(n_lanes, len(waiting)))]
        else:
            group = between.pop(number)
            lanes = group[:n_lanes]
            if group[n_lanes:]:
                between[number] = group[n_lanes:]
        unfinished = list[Label]()
        yield number, lanes, unfinished
        if unfinished:
            between.setdefault(number + 1, []).extend(unfinished)


class DualPanel:
    """Labels that share passes over the rows, one per lane: weights, duals and passes. `dual` decides which passes to make."""

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        """Allocate for `labels`, numbers in the data. Raises MemoryError, NonFiniteError."""
        self.risk, self.labels, self.options, rows = risk, labels, options, risk.rows
        self.stop: Stop = NEVER
        self.n_lanes = min(n_lanes, panel_widths(16, options.precision)[0])
        self.loss, self.is_logistic = load_loss(options.loss), options.loss == "logistic"
        self.is_squared = not self.is_logistic and self.loss.DUAL_CURVATURE > 0
        self.ignored = IGNORED_GRADIENT_SQUARED if self.is_squared else IGNORED_GRADIENT
        self.no_dual = U_OF_ZERO if self.is_logistic else 0.0
        self.norms = np.empty((rows.n_local, 2), risk.weight_type)
        largest_step = rows.largest_step
        self.largest = max(1.0, risk.comm.size * largest_step) if self.is_logistic else 1.0
        if not risk.comm.size * largest_step <= LIMITS[options.precision]:
            norm = math.sqrt(largest_step)
            raise NonFiniteError(f"a row has norm {norm:.3g}, which overflows {options.precision} precision; scale the data")
        kernels.norms(rows.indptr, rows.data, rows.weights if rows.weights is not None else np.zeros(0), self.norms)
        self.rows = RowChunks(rows, risk.chunk_values or CHUNK_VALUES, risk.kept_values if risk.chunk_values else None)
        self._costs: dict[tuple[float, float], np.ndarray] = {}  # most labels have the same
        self._selected = np.empty(rows.n_local, np.int32)
        self.order_bytes = 0 if risk.chunk_values else ORDER_BYTES
        self.orders: dict[tuple[int, int], np.ndarray] = {}
        (self.width,) = panel_widths(self.n_lanes, options.precision)
        self.doubles = aligned(rows.n_columns * min(self.width, HALF), np.float64)  # weights of half a panel
        self.scores = aligned(rows.n_local * self.width, np.float64)  # of the certificate
        for label in labels[(rows.n_positive[labels] > 0) & (rows.n_positive[labels] < rows.n_global)].tolist():
            self.costs_of(label)  # raises an error now instead of after hours
        self.lanes: list[Training] = []

    def costs_of(self, label: int, weight: float | None = None, lam: float | None = None) -> np.ndarray:
        """Return C (2, float64) of a label's positive and negative rows of weight 1. Raises NonFiniteError beyond LIMITS."""
        risk, rows, limit = self.risk, self.risk.rows, LIMITS[self.options.precision]
        if weight is None:
            weight = 1.0
            if label != EMPTY_LABEL:
                option, positive = self.options.positive_weight, rows.label_weight(label)
                weight = (rows.total_weight - positive) / positive if option == BALANCED else parse_weight(option)
                weight *= 1.0 if risk.positive_weights is None else float(risk.positive_weights[label])
        base = float(risk.negative_weight / ((risk.lam if lam is None else lam) * rows.total_weight))
        if (base, weight) in self._costs:
            return self._costs[base, weight]
        costs = np.array([base * weight, base])
        if not (1 / limit <= costs.min() and costs.max() * self.largest <= limit):
            raise NonFiniteError(
                f"the cost of a row, weight / (λ m), is {costs.min():.3g} or {costs.max():.3g}, which {self.options.precision} "
                "precision cannot represent; scale the data, or choose another λ or weight of positive rows"
            )
        self._costs[base, weight] = costs
        return costs

    def rules(self, costs: np.ndarray, ignored: Sequence[float]) -> np.ndarray:
        """Return the rules (N_RULES, lanes) of the kernels for costs (2, lanes) and ignored gradients; shrinking is off."""
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
        self.costs = np.ones((2, self.width))
        self.costs[:, : len(costs)] = np.transpose(costs)
        ignored = [0.0 if label.ignores_none else self.ignored * label.tolerance for label in self.lanes]
        self.rules_of_lanes[:] = self.rules(self.costs, ignored).reshape(-1)

    def losses(self, costs: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Σ C ℓ (lanes), the same with moved intercepts, and the quadratic part of the dual, from `hinge_certify`."""
        first = certify.SLACK_SQUARED if self.is_squared else certify.SLACK
        moved = first + certify.MOVED_SLACK - certify.SLACK
        penalty = self.loss.DUAL_CURVATURE / costs * sums[certify.ALPHA_SQUARED : certify.ALPHA_SQUARED + 2]
        before, after = ((costs * sums[row : row + 2]).sum(axis=0) for row in (first, moved))
        return before, after, 0.5 * penalty.sum(axis=0)

    def load_labels(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        """Put labels into the lanes: from `start` in round 0, from their own state later. Collective; raises MemoryError."""
        self.lanes, self.round, self.all_lanes = lanes, number, np.uint16((1 << len(lanes)) - 1)  # one bit per label
        rows, dtype = self.risk.rows, self.risk.weight_type
        (self.width,) = panel_widths(len(lanes), self.options.precision)
        width = self.width
        self.w = self.alpha = np.zeros(0, dtype)  # frees the arrays of the previous panel
        self.w, self.alpha = aligned(rows.n_columns * width, dtype), aligned(rows.n_local * width, dtype)
        self.positive, self.active = np.zeros(rows.n_local, np.uint16), np.zeros(rows.n_local, np.uint16)
        self.gradients, self.counts = aligned(2 * width, dtype), aligned(2 * width, np.int64)
        for lane, label in enumerate(lanes):
            if label.number != EMPTY_LABEL:
                self.positive[rows.rows_of(label.number)] |= np.uint16(1 << lane)
        self.rules_of_lanes = aligned(epoch.N_RULES * width, dtype)
        self.set_costs(costs)
        self.rows.clear_cache()
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
        # The common start, with the duals of each label's positive rows reset to 0.
        self.w.reshape(-1, width)[:], self.alpha.reshape(-1, width)[:] = start.w[:, None], start.alpha[:, None]
        alpha = start.alpha
        if self.is_logistic:
            combine.duals(start.alpha, start.cost, alpha := np.empty_like(start.alpha))
        before = self.w.copy() if rows.comm.size > 1 else self.w
        for (part, csr), lane, positives in self.stop.slices(self._positive_rows()):
            state = self.w, self.alpha[part.start * width : part.stop * width]
            kernels.remove_duals(csr, positives, self.norms[part], alpha[part], self.no_dual, state, width, lane)
        self._sum_changes(before, 1.0)
        self.support(slice(0, rows.n_local), self.active)
        self.active |= self.positive

    def _positive_rows(self) -> Iterator[tuple[Chunk, int, np.ndarray]]:
        """Yield the positive rows of each lane in slices: chunk, lane, and row numbers within the chunk."""
        rows = self.risk.rows
        step, order = slices.rows_in_slice(rows.n_local, rows.data.size), np.arange(rows.n_local, dtype=np.int32)

        def is_needed(part: slice) -> np.ndarray:
            return self.support(part) | self.positive[part]

        for chunk, _ in self.rows.chunks(order, is_needed, is_needed):
            for lane, label in enumerate(self.lanes):
                positives = rows.rows_of(label.number)
                first, last = np.searchsorted(positives, (chunk.rows.start, chunk.rows.stop)).tolist()
                for begin in range(first, last, step):
                    yield chunk, lane, positives[begin : min(begin + step, last)] - chunk.rows.start

    def order(self, number: int, sweep: int) -> np.ndarray:
        if (number, sweep) not in self.orders:
            key = rng.bits(self.options.seed, "order of rows", np.array([number << 32 | sweep]))[0]
            order, bounds = np.empty(self.risk.rows.n_local, np.int32), self.rows.bounds
            kernels.shuffle(order, bounds, np.empty(bounds.size - 1, np.int64), key)
            if (len(self.orders) + 1) * order.nbytes > self.order_bytes:
                return order
            self.orders[number, sweep] = order
        return self.orders[number, sweep]

    def update_shrinking(self, enabled: bool = True) -> None:
        """Shrink rows whose gradients lie outside the range of the last pass, or disable shrinking."""
        most, least = self.gradients.reshape(2, self.width)
        rules = self.rules_of_lanes.reshape(epoch.N_RULES, self.width)
        rules[epoch.HIGHEST] = np.where(enabled & (most > 0), most, math.inf)
        rules[epoch.LOWEST] = np.where(enabled & (least < 0), least, -math.inf)

    def support(self, part: slice, bits: np.ndarray | None = None) -> np.ndarray:
        """Return one bit (uint16) per row of a slice and lane with a non-zero dual."""
        bits = np.empty(part.stop - part.start, np.uint16) if bits is None else bits
        if self.is_logistic:
            bits[:] = self.all_lanes
        else:
            combine.support(self.alpha[part.start * self.width : part.stop * self.width], self.width, len(self.lanes), bits)
        return bits

    def run_pass(self, number: int, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make a pass over the active rows. Return the gradient range, active and moved rows per lane. Collective.

        A `full` pass discards cached rows, because other rows become active after it.
        """
        risk, width = self.risk, self.width
        order = self.order(self.round, number)
        if full:
            self.rows.clear_cache()

        def to_cache(part: slice) -> np.ndarray:
            return self.support(part) if full else self.support(part) | self.active[part]

        kernel = epoch.logistic_epoch if self.is_logistic else epoch.hinge_epoch
        self.gradients[:], self.counts[:] = 0.0, 0  # every range includes 0
        with risk.profile("compute"):
            before = self.w.copy() if risk.comm.size > 1 else self.w
            for (part, csr), active in self.stop.slices(self._active_rows(order, to_cache)):
                state, bits = (self.w, self.alpha[part.start * width : part.stop * width]), (self.positive[part], self.active[part])
                tables = self.rules_of_lanes, self.gradients, self.counts
                kernel(csr, active, self.norms[part], state, bits, tables, width, self.w.nbytes > CACHE_BYTES)
        self._sum_changes(before, risk.comm.size)
        if risk.comm.size > 1:
            with risk.profile("communicate"):
                self.gradients[width:] *= -1
                mpi.allreduce_maxima(risk.comm, self.gradients)
                self.gradients[width:] *= -1
                mpi.allreduce_sum(risk.comm, self.counts)
        most, least = self.gradients.reshape(2, width).astype(np.float64)
        active, moved = self.counts.reshape(2, width)
        return most - least, active, moved

    def _active_rows(self, order: np.ndarray, to_cache: RowFilter) -> Iterator[tuple[Chunk, np.ndarray]]:
        step = slices.rows_in_slice(self.risk.rows.n_local, self.risk.rows.data.size)
        for chunk, chunk_order in self.rows.chunks(order, lambda part: self.active[part], to_cache):
            n = kernels.select_active(chunk_order, self.active, self._selected)
            active = self._selected[:n] - chunk.rows.start if chunk.rows.start else self._selected[:n]
            for first in range(0, n, step):
                yield chunk, active[first : first + step]

    def _sum_changes(self, before: np.ndarray, sigma: float) -> None:
        """Set the weights to `before` plus the changes of all ranks, divided by `sigma`. Collective."""
        if self.risk.comm.size > 1:
            self.w -= before
            self.w /= sigma
            with self.risk.profile("communicate"):
                mpi.allreduce_sum(self.risk.comm, self.w)
            self.w += before

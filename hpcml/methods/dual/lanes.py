"""Labels that share passes of dual coordinate descent over the rows, and their certificate.

Hinges: `alpha` holds the duals α. Logistic: it holds u = log(α / (C − α)). No α is at a bound then, so every row has a dual, and no
row is set aside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import certify, combine, duals, epoch
from hpcml.methods.dual import kernels
from hpcml.methods.dual.chunks import CHUNK_VALUES, AllRows, Chunk, StreamedRows, Wanted
from hpcml.methods.dual.label import LIMITS, NO_POSITIVES, Costs, State, Training, crossing
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.objective import Risk, aligned, panel_widths
from hpcml.run.stop import NEVER, Stop

# By `python -m launch.lab bench panels`, as for the constants of `dual`: IGNORED = 0.1 has gaps of 1.2 % instead of 0.8 % on
# MeSH, 0 takes 26 passes instead of 25 on generated rows. IGNORED_SQUARED = 0.001: gap 0.02 % instead of 0.05 %, small beside
# what the tolerance admits, for more rows that change the weights.
IGNORED = 0.001  # of the tolerance: projected gradients up to it, such as differ from 0 by rounding, cause no step
IGNORED_SQUARED = 0.1  # the same for the squared hinge, where the gap grows with their squares only
MOVES = np.sort(
    np.outer([-1, 1], np.ldexp(0.001, np.arange(7))), axis=None
)  # of an intercept; not 0: hinges have their kinks there
CACHE_BYTES = 1 << 21  # of weights that need not be asked for ahead
HALF = 8  # lanes whose weights are made in float64 together: a cache line
ORDER_BYTES = 1 << 28  # of random orders that are kept for the next panels
U_OF_ZERO = -45.0  # u of a dual that is as good as 0


class DualPanel:
    """Labels that share passes over the rows, one in each lane: weights and duals, passes, and the
    certificate at the end.

    Collective over `risk.comm` where it says so. What a pass is for, and when it is enough, is said
    in `dual`.
    """

    def __init__(self, risk: Risk, labels: np.ndarray, n_lanes: int, options: DualOptions) -> None:
        """`labels` are the numbers in the data of all labels of the run. Raises MemoryError,
        NonFiniteError.
        """
        self.risk, self.labels, self.options = risk, labels, options
        self.stop: Stop = NEVER  # of the labels that are being trained
        self.n_lanes = min(n_lanes, panel_widths(16, options.precision)[0])
        self.cost_of = Costs(risk, options)
        self.ignored = IGNORED_SQUARED if self.cost_of.is_squared else IGNORED  # of the tolerance
        self.is_logistic = self.cost_of.is_logistic
        self.no_dual = U_OF_ZERO if self.is_logistic else 0.0
        rows = risk.rows
        self.norms = np.empty((rows.n_local, 2), risk.weight_type)
        if not risk.comm.size * rows.largest_step <= LIMITS[options.precision]:
            norm = math.sqrt(rows.largest_step)
            raise NonFiniteError(f"a row's norm is {norm:.3g}, beyond {options.precision} precision; scale the data")
        kernels.norms(rows.indptr, rows.data, rows.weights if rows.weights is not None else np.zeros(0), self.norms)
        self.rows = AllRows(rows, CHUNK_VALUES)
        if risk.chunk_values:
            self.rows = StreamedRows(rows, risk.chunk_values, risk.kept_values)
        self._looked_at = np.empty(rows.n_local, np.int32)
        self.order_bytes = 0 if risk.chunk_values else ORDER_BYTES
        self.orders: dict[tuple[int, int], np.ndarray] = {}
        (self.width,) = panel_widths(self.n_lanes, options.precision)
        self.doubles = aligned(rows.n_columns * min(self.width, HALF), np.float64)  # room for weights in float64
        self.scores = aligned(rows.n_local * self.width, np.float64)  # room for the certificate's
        for label in labels[(rows.n_positive[labels] > 0) & (rows.n_positive[labels] < rows.n_global)].tolist():
            self.cost_of(label)  # an error now, not after hours
        self.lanes: list[Training] = []

    def begin(self, lanes: list[Training], costs: list[np.ndarray], start: State | None = None, number: int = 0) -> None:
        """Collective for labels that begin. Let labels take the lanes, those that do so for the
        `number`-th time as they left.

        `costs` (2, each) are C of positive and negative rows; `start` is the solution of the label
        that no row has, if there is one. Raises MemoryError.
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
        self.rules = aligned(epoch.N_RULES * width, dtype)
        self.set_costs(costs)
        self.rows.begin()
        if number > 0:
            for lane, label in enumerate(lanes):
                self.w.reshape(-1, width)[:, lane] = label.state.w
                self.alpha.reshape(-1, width)[:, lane] = label.state.alpha
                self.active |= label.state.active.astype(np.uint16) << np.uint16(lane)
                label.state = None
        elif start is None:
            self.alpha[:], self.active[:] = self.no_dual, self.all_lanes
        else:
            self._start_from(start)
            self.look_at_support(self.all_lanes)
            self.active |= self.positive

    def order(self, number: int, sweep: int) -> np.ndarray:
        """The order of the rows of a pass, a function of the seed, the round and the pass.
        Local.
        """
        if (number, sweep) not in self.orders:
            rows = self.risk.rows
            key = rng.bits(self.options.seed, "order of rows", np.array([number << 32 | sweep]))[0]
            found = np.empty(rows.n_local, np.int32)
            bounds = self.rows.bounds
            kernels.shuffle(found, bounds, np.empty(bounds.size - 1, np.int64), key)
            if (len(self.orders) + 1) * found.nbytes > self.order_bytes:
                return found
            self.orders[number, sweep] = found
        return self.orders[number, sweep]

    def _visits(self, order: np.ndarray, kept: Wanted) -> Iterator[tuple[Chunk, np.ndarray]]:
        """The active rows in this order, slice by slice: a chunk, and rows of it. `kept`: see
        `StreamedRows`.
        """
        rows = self.risk.rows
        step = slices.rows_in_slice(rows.n_local, rows.data.size)
        for chunk, some in self.rows.chunks(order, lambda own: self.active[own] != 0, kept):
            n = kernels.looked_at(some, self.active, self._looked_at)
            found, first_row = self._looked_at[:n], chunk.own.start
            found = found - first_row if first_row else found
            for first in range(0, n, step):
                yield chunk, found[first : first + step]

    def set_costs(self, costs: list[np.ndarray]) -> None:
        """Minimise with these C of positive and negative rows (2), lane by lane. Local."""
        self.costs = np.ones((2, self.width))
        self.costs[:, : len(costs)] = np.transpose(costs)
        ignored = [0.0 if label.exact else self.ignored * label.tolerance for label in self.lanes]
        self.rules[:] = self.cost_of.rules(self.costs, ignored).reshape(-1)

    def set_aside(self, beyond_last: bool = True) -> None:
        """From now on, set rows aside whose gradients lie beyond those of the last pass, or none. Local."""
        most, least = self.gradients.reshape(2, self.width)
        rules = self.rules.reshape(epoch.N_RULES, self.width)
        rules[epoch.HIGHEST] = np.where(beyond_last & (most > 0), most, math.inf)
        rules[epoch.LOWEST] = np.where(beyond_last & (least < 0), least, -math.inf)

    def look_at_support(self, lanes: np.uint16) -> None:
        """Look at the rows whose duals are not 0, in these lanes (bits). Local."""
        self._write_support(slice(0, self.active.size), self.active)
        self.active &= lanes

    def _start_from(self, start: State) -> None:
        """Collective. Begin with the solution of the label that no row has, its positive rows
        put back to 0.
        """
        rows, alpha = self.risk.rows, start.alpha
        if self.is_logistic:
            duals.duals(start.alpha, start.cost, alpha := np.empty_like(start.alpha))
        self.w.reshape(-1, self.width)[:] = start.w[:, None]
        self.alpha.reshape(-1, self.width)[:] = start.alpha[:, None]
        before, wanted = self.w.copy() if rows.comm.size > 1 else self.w, lambda own: self._support(own) | (self.positive[own] != 0)
        parts = (
            (chunk, lane, some)
            for chunk, _ in self.rows.chunks(np.arange(rows.n_local, dtype=np.int32), wanted, wanted)
            for lane, label in enumerate(self.lanes)
            for some in self._positive_rows(label.number, chunk.own)
        )
        for (own, csr), lane, some in self.stop.slices(parts):
            state = self.w, self.alpha[own.start * self.width : own.stop * self.width]
            kernels.remove_duals(csr, some, self.norms[own], alpha[own], self.no_dual, state, self.width, lane)
        self._share(before, 1.0)

    def _positive_rows(self, label: int, own: slice) -> Iterator[np.ndarray]:
        """Those of this rank's rows `own` that have a label, counted from the first of them, in
        slices.
        """
        rows = self.risk.rows
        some, step = rows.rows_of(label), slices.rows_in_slice(rows.n_local, rows.data.size)
        first, last = np.searchsorted(some, (own.start, own.stop)).tolist()
        for begin in range(first, last, step):
            yield some[begin : min(begin + step, last)] - own.start

    def _support(self, own: slice) -> np.ndarray:
        """Of which of these rows (bool) any dual is not 0."""
        self._write_support(own, bits := np.empty(own.stop - own.start, np.uint16))
        return bits != 0

    def _write_support(self, own: slice, bits: np.ndarray) -> None:
        """Write a bit for each dual of these rows that is not 0."""
        if self.is_logistic:
            bits[:] = self.all_lanes
        else:
            duals.support(self.alpha[own.start * self.width : own.stop * self.width], self.width, len(self.lanes), bits)

    def slices(self, needed: Wanted | None = None) -> Iterator[tuple[slice, tuple[np.ndarray, np.ndarray, np.ndarray], slice]]:
        """Collective. This rank's rows slice by slice: which, CSR arrays that have at least those
        that are `needed` (default: all), their places among the duals. Raises Stopped.
        """
        for some, csr in self.stop.slices(self.rows.slices(needed)):
            yield some, csr, slice(some.start * self.width, some.stop * self.width)

    def row_slices(self) -> Iterator[tuple[slice, slice]]:
        """Collective. As `slices`, without the arrays, which nobody need read."""
        rows = self.risk.rows
        for some in self.stop.slices(slices.row_slices(rows.n_local, rows.data.size)):
            yield some, slice(some.start * self.width, some.stop * self.width)

    def _share(self, before: np.ndarray, sigma: float) -> None:
        """Collective. The weights `before` and what every rank has added to them, `sigma` times
        too much.
        """
        if self.risk.comm.size > 1:
            self.w -= before
            self.w /= sigma
            with self.risk.profile("communicate"):
                mpi.allreduce_sum(self.risk.comm, self.w)
            self.w += before

    def visit(self, number: int, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Collective. One pass over the active rows, in the order with this number; after a `full`
        one, others will be active. Of each lane: the range of the projected gradients, float64, and
        how many rows it had active, and moved.
        """
        risk, width = self.risk, self.width
        order = self.order(self.round, number)
        if full:
            self.rows.begin()

        def kept(own: slice) -> np.ndarray:
            return self._support(own) if full else self._support(own) | (self.active[own] != 0)

        kernel = epoch.logistic_epoch if self.is_logistic else epoch.hinge_epoch
        self.gradients[:], self.counts[:] = 0.0, 0  # 0 is in every range, whichever rows other lanes look at
        with risk.profile("compute"):
            before = self.w.copy() if risk.comm.size > 1 else self.w
            for (own, csr), some in self.stop.slices(self._visits(order, kept)):
                state, bits = (self.w, self.alpha[own.start * width : own.stop * width]), (self.positive[own], self.active[own])
                tables = self.rules, self.gradients, self.counts
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

    def judge(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Collective. Look at all rows, in float64: the primal objective and a bound below its
        minimum (width each), divided by λ; the violations (width); `near` (n) has a bit for every
        lane that a row may still move; by how much to move the intercepts.
        """
        risk = self.risk
        with risk.profile("finish"):
            dual_squares, squares = self._combine()
            scores = self.scores[: risk.rows.n_local * self.width]
            for _, csr, places in self.slices():
                kernels.scores(*csr, self.w, scores[places], self.width, self.w.nbytes > CACHE_BYTES)
            own = self.w.reshape(-1, self.width)[-1].astype(np.float64) if risk.rows.bias else np.zeros(self.width)
            shifts = self._shifts(scores, own) if risk.rows.bias and not self.is_logistic else np.zeros(self.width)
            sums, near = np.zeros((certify.N_SUMS, self.width)), np.zeros(risk.rows.n_local, np.uint16)
            tables, within = (self.rules, self.costs.reshape(-1), shifts), self.options.dual_tol
            kernel = certify.logistic_certify if self.is_logistic else certify.hinge_certify
            for some, places in self.row_slices():
                state = scores[places], self.alpha[places]
                kernel(state, self.positive[some], self.norms[some], tables, near[some], sums.reshape(-1), self.width, within)
            extremes = sums[[certify.WORST]] if self.is_logistic else sums[[certify.MOST, certify.LEAST]] * [[1.0], [-1.0]]
            if risk.comm.size > 1:
                extremes = mpi.allreduce_maxima(risk.comm, extremes)
                mpi.allreduce_sum(risk.comm, sums)
        violations = extremes.sum(axis=0)
        if self.is_logistic:
            return 0.5 * squares + sums[certify.LOSSES], sums[certify.ENTROPY] - 0.5 * dual_squares, violations, near, shifts
        before, after, penalty = self.cost_of.losses(self.costs, sums)
        primal, moved = 0.5 * squares + before, 0.5 * (squares + shifts * (shifts + 2 * own)) + after
        shifts = np.where(moved < primal, shifts, 0.0)
        return np.minimum(moved, primal), sums[certify.ALPHA] - 0.5 * dual_squares - penalty, violations, near, shifts

    def weights_of(self, lane: int, shift: float, copy: bool) -> np.ndarray:
        """Return the weights of a lane with its intercept moved by `shift`; without `copy` they are those of the panel."""
        w = self.w.reshape(-1, self.width)[:, lane]
        w = w.copy() if copy else w
        if shift:
            w[-1] += shift
        return w

    def _shifts(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Collective. By how much (float64, one per lane) to move the intercepts `own` so that the
        objectives become less.

        Their slopes at `MOVES` bracket the minimum, in which they are taken as linear.
        """
        risk, width = self.risk, self.width
        slopes = np.zeros((MOVES.size, width))
        costs, squared = self.costs.reshape(-1), self.cost_of.is_squared
        for some, places in self.row_slices():
            certify.slopes(scores[places], self.positive[some], self.norms[some], costs, squared, MOVES, slopes.reshape(-1), width)
        mpi.allreduce_sum(risk.comm, slopes)
        slopes += MOVES[:, None] + own
        shifts = np.array([crossing(MOVES, slope) for slope in slopes.T])  # slopes do not fall; beyond them, the last move
        return (own + shifts).astype(risk.weight_type).astype(np.float64) - own

    def _combine(self) -> tuple[np.ndarray, np.ndarray]:
        """Collective. w = Σ alpha y x of all lanes, made anew; ‖w‖² in float64, and rounded as
        it is saved.
        """
        rows, risk, half = self.risk.rows, self.risk, min(self.width, HALF)
        squares, v = np.zeros((2, self.width)), self.doubles[: rows.n_columns * half]
        kernel = combine.logistic_combine if self.is_logistic else combine.hinge_combine
        for first in range(0, self.width, half):
            v[:] = 0.0
            for some, csr, places in self.slices(self._support):
                arrays = (self.norms[some], self.alpha[places], self.positive[some])
                kernel(csr, *arrays, self.costs, first, v.reshape(-1, half))
            if risk.comm.size > 1:
                mpi.allreduce_sum(risk.comm, v)
            sums = np.zeros(2 * half)
            combine.keep(v, half, self.w, self.width, first, sums)
            squares[:, first : first + half] = sums.reshape(2, half)
        return squares[0], squares[1]

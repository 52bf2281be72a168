"""The labels of a panel on their way through a round of dual coordinate descent: hinge and squared hinge. See `dual`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hpcml import mpi, slices
from hpcml.errors import NonFiniteError
from hpcml.kernels.lanes import certify, combine, epoch
from hpcml.kernels.lanes.duals import support
from hpcml.methods.dual import kernels
from hpcml.methods.dual.chunks import Wanted
from hpcml.methods.dual.options import BALANCED, DualOptions, parse_weight
from hpcml.methods.linear.block import CONVERGED, STEP_LIMIT, Finished
from hpcml.methods.linear.losses import DUAL_LOSSES
from hpcml.methods.linear.objective import Risk, aligned, panel_widths

if TYPE_CHECKING:
    from hpcml.methods.dual.dual import DualBlock

# The constants of a round, measured by `launch/bench/panels.py` with the hinge and tolerance 0.1: the largest gap of the 150th to
# 165th labels of MeSH, and the passes of the 16 most frequent labels of 100,000 generated rows (`convert synthetic text`).
# A pass has the gradients at each visit; the certificate has those at the last weights, which may be larger: so less is asked.
# INNER = 0.3: gap 0.5 % instead of 0.8 % on MeSH, 26 passes instead of 25 on generated rows; 1: 2.5 %, and 20 passes.
INNER = 0.6  # of the tolerance: what a pass over all rows, or those that are still looked at, must come to
# REST = 0.25: the same gaps and passes; 1: gap 1.2 % on MeSH, 20 passes on generated rows.
REST = 0.5  # of the tolerance: what the support vectors must come to before all rows are looked at
# IGNORED = 0.1 has gaps of 1.2 % on MeSH, 0 takes 26 passes instead of 25. IGNORED_SQUARED = 0.001: gap 0.02 % instead of
# 0.05 %, small beside what the tolerance admits, for more rows that change the weights.
IGNORED = 0.001  # of the tolerance: projected gradients up to it, such as differ from 0 by rounding, cause no step
IGNORED_SQUARED = 0.1  # the same for the squared hinge, where the gap grows with their squares only
# CLOSE = 0: 19 passes instead of 14 on generated rows, squared hinge; 0.1: 14 instead of 25 with the hinge, whose mean gap is then
# 0.64 % instead of 0.12 %.
CLOSE = 0.01  # of the tolerance: a gap, as a share of the objective, that is small enough whatever the gradients are
# Generated rows, squared hinge: 14 passes; with FULL_PASSES = 2 19, for more labels need a second round, and 20 with 8; with
# SUPPORT_PASSES = 1 18, and 23 with 4. FULL_PASSES = 2 and SUPPORT_PASSES = 1 have gaps of 2.1 % and 1.7 % on MeSH.
SUPPORT_PASSES, FULL_PASSES = 2, 4  # in the first round: before each pass over all rows, and how many of these
MOVES = np.sort(np.outer([-1, 1], 0.001 * 2.0 ** np.arange(7)), axis=None)  # of an intercept; not 0: there hinges have their kinks
CACHE_BYTES = 1 << 21  # of weights that need not be asked for ahead
HALF = 8  # lanes whose weights are made in float64 together: a cache line
# SWEEPS = 3: 21 passes instead of 25 on generated rows, but a mean gap of 0.19 % instead of 0.12 %; 30: the same as 10.
SWEEPS = 10  # half as many as in the second round; every further one has twice as many as the one before
LIMITS = {"single": 1e36, "double": 1e150}  # of C, 1/C and ‖x‖²: so that neither overflows, nor in float64 their squares
NO_POSITIVES = -1  # the label that no row has


@dataclass(frozen=True)
class State:
    """Weights (d) and duals (n) of a label, and which rows (n) it looks at."""

    w: np.ndarray
    alpha: np.ndarray
    active: np.ndarray | None = None  # None: all


@dataclass
class Training:
    """A label in training; `label` is its place among the labels of the run, `number` its number in the data."""

    label: int
    number: int
    tolerance: float
    steps: int = 0
    visited: float = 0.0  # rows, over all steps
    ready: bool = False  # it has converged; all rows are to be looked at
    resting: bool = False  # its support vectors have converged; it waits for a pass over all rows
    moved: bool = False  # in this round
    exact: bool = False  # no gradient is too small for a step
    gap: float = math.inf  # at the end of the round before
    state: State | None = None  # between two rounds
    history: list[tuple[float, ...]] = field(default_factory=list)

    def record(self, violation: float, active: float, moved: float, seconds: float) -> float:
        """Count a pass: the range of its gradients, which is returned, and how many rows it looked at and moved. Local."""
        self.steps += 1
        self.visited += float(active)
        self.moved |= bool(moved)
        self.history.append((self.steps, math.nan, math.nan, 0, math.nan, float(violation), active, moved, seconds))
        return float(violation)


class Costs:
    """C and the diagonal of the dual (2 rows: positive, negative), per label, in float64."""

    def __init__(self, risk: Risk, options: DualOptions) -> None:
        self.base = 1.0 / (risk.lam * risk.rows.n_global)
        self.precision, self.limit = options.precision, LIMITS[options.precision]
        self.loss, self.weight, self.rows = DUAL_LOSSES[options.loss], options.positive_weight, risk.rows
        self.largest = max(1.0, risk.comm.size * risk.rows.max_norm**2) if self.loss.entropic else 1.0

    def of(self, label: int) -> np.ndarray:
        """C of positive and negative rows (2) of a label's number in the data. Raises NonFiniteError if they are beyond LIMITS."""
        weight, n_positive = 1.0, int(self.rows.n_positive[label])
        if label != NO_POSITIVES:
            weight = (self.rows.n_global - n_positive) / n_positive if self.weight == BALANCED else parse_weight(self.weight)
        return self.checked(np.array([self.base * weight, self.base]))

    def checked(self, costs: np.ndarray) -> np.ndarray:
        """These C of positive and negative rows (2). Raises NonFiniteError if they are beyond LIMITS."""
        if not (1 / self.limit <= costs.min() and costs.max() * self.largest <= self.limit):
            raise NonFiniteError(
                f"the cost of a row, its weight / (λ m), is {costs.min():.3g} or {costs.max():.3g}, beyond {self.precision} "
                "precision; scale the data, or choose another --lambda or --positive-weight"
            )
        return costs


class DualPanel:
    """Labels that go through a round together, one in each lane. Collective over `risk.comm` where it says so."""

    visit_rows: ClassVar[Any] = staticmethod(epoch.hinge_epoch)
    combine_rows: ClassVar[Any] = staticmethod(combine.hinge_combine)
    certify_rows: ClassVar[Any] = staticmethod(certify.hinge_certify)

    @mpi.collective
    def __init__(self, block: DualBlock, lanes: list[Training], number: int = 0) -> None:
        """Collective for labels that begin. `number` counts the rounds of each label from 0. Raises MemoryError."""
        self.block, self.lanes, self.round = block, lanes, number
        self.risk, rows, dtype = block.risk, block.risk.rows, block.risk.weight_type
        (self.width,) = panel_widths(len(lanes), block.options.precision)
        width = self.width
        self.w, self.alpha = aligned(rows.n_columns * width, dtype), aligned(rows.n_local * width, dtype)
        self.positive, self.active = np.zeros(rows.n_local, np.uint16), np.zeros(rows.n_local, np.uint16)
        self.gradients, self.counts = aligned(2 * width, dtype), aligned(2 * width, np.int64)
        self.full = 0  # passes over all rows
        self.support = 0  # passes over the support vectors since then
        for lane, label in enumerate(lanes):
            if label.number != NO_POSITIVES:
                self.positive[rows.rows_of(label.number)] |= np.uint16(1 << lane)
        self.rules = aligned(epoch.N_RULES * width, dtype)
        self.set_costs([block.costs.of(label.number) for label in lanes])
        block.rows.begin()
        if number > 0:
            self.restore()
        elif block.start is None:
            self.active[:] = (1 << len(lanes)) - 1
            self.support = SUPPORT_PASSES
        else:
            self.start_from(block.start)
            support(self.alpha, width, len(lanes), self.active)
            self.active |= self.positive

    def set_costs(self, costs: list[np.ndarray]) -> None:
        """Minimise with these C of positive and negative rows (2), lane by lane. Local."""
        self.costs = np.ones((2, self.width))
        self.costs[:, : len(costs)] = np.transpose(costs)
        loss, rules = self.block.costs.loss, self.rules.reshape(epoch.N_RULES, self.width)
        rules[epoch.TOP_POSITIVE : epoch.TOP_NEGATIVE + 1] = loss.top(self.costs, self.rules.dtype)
        rules[epoch.DIAGONAL_POSITIVE : epoch.DIAGONAL_NEGATIVE + 1] = loss.diagonal(self.costs)
        rules[epoch.SIGMA] = self.risk.comm.size
        share = IGNORED_SQUARED if loss.squared else IGNORED
        rules[epoch.IGNORED, : len(self.lanes)] = [0.0 if label.exact else share * label.tolerance for label in self.lanes]
        self.look_at_all()

    def look_at_all(self) -> None:
        """Let no gradient be so far from a bound that its row is set aside. Local."""
        rules = self.rules.reshape(epoch.N_RULES, self.width)
        rules[epoch.HIGHEST], rules[epoch.LOWEST] = math.inf, -math.inf

    def set_aside(self) -> None:
        """From now on, set rows aside whose gradients lie beyond those of the last pass. Local."""
        most, least = self.gradients.reshape(2, self.width)
        rules = self.rules.reshape(epoch.N_RULES, self.width)
        rules[epoch.HIGHEST], rules[epoch.LOWEST] = np.where(most > 0, most, math.inf), np.where(least < 0, least, -math.inf)

    def raise_costs(self, costs: list[np.ndarray], ratio: float) -> None:
        """Go on with the same duals and weights at C that are `ratio` ≥ 1 times as high in every lane. Local."""
        self.set_costs(costs)

    def look_at_support(self) -> None:
        """Look at the rows whose duals are not 0. Local."""
        support(self.alpha, self.width, len(self.lanes), self.active)

    def at_rest(self, label: Training, violation: float, gap: float) -> bool:
        """Whether what is left, at the end of a round, is beyond the precision of the numbers. Local."""
        return label.exact and not label.moved

    def tightened(self, label: Training, gap: float) -> float:
        """The tolerance for a label that has converged, but whose gap is too large. Local."""
        return label.tolerance / 2

    def restore(self) -> None:
        """Put the labels' states into the lanes. Local."""
        for lane, label in enumerate(self.lanes):
            self.w.reshape(-1, self.width)[:, lane] = label.state.w
            self.alpha.reshape(-1, self.width)[:, lane] = label.state.alpha
            self.active |= label.state.active.astype(np.uint16) << np.uint16(lane)
            label.state = None

    @mpi.collective
    def start_from(self, start: State) -> None:
        """Collective. Begin with the solution of the label that no row has, its positive rows put back to 0."""
        rows = self.risk.rows
        self.w.reshape(-1, self.width)[:] = start.w[:, None]
        self.alpha.reshape(-1, self.width)[:] = start.alpha[:, None]
        before, wanted = self._before(), lambda own: self._support(own) | (self.positive[own] != 0)
        parts = (
            (chunk, lane, some)
            for chunk, _ in self.block.rows.chunks(np.arange(rows.n_local, dtype=np.int32), wanted, wanted)
            for lane, label in enumerate(self.lanes)
            for some in self._positive_rows(label.number, chunk.own)
        )
        for (own, csr), lane, some in self.risk.watch.slices(parts):
            places = slice(own.start * self.width, own.stop * self.width)
            kernels.depart(*csr, some, start.alpha[own], self.alpha[places], self.w, self.width, lane)
        self._share(before, 1.0)

    @property
    def _ahead(self) -> bool:
        """Whether weights are worth being asked for ahead. Local."""
        return self.w.nbytes > CACHE_BYTES

    def _positive_rows(self, label: int, own: slice) -> Iterator[np.ndarray]:
        """Those of this rank's rows `own` that have a label, counted from the first of them, in slices. Local."""
        rows = self.risk.rows
        some, step = rows.rows_of(label), slices.rows_in_slice(rows.n_local, rows.data.size)
        first, last = np.searchsorted(some, (own.start, own.stop)).tolist()
        for begin in range(first, last, step):
            yield some[begin : min(begin + step, last)] - own.start

    def _support(self, own: slice) -> np.ndarray:
        """Of which of these rows (bool) any dual is not 0. Local."""
        bits = np.empty(own.stop - own.start, np.uint16)
        support(self.alpha[own.start * self.width : own.stop * self.width], self.width, len(self.lanes), bits)
        return bits != 0

    @mpi.collective
    def _slices(self, needed: Wanted | None = None) -> Iterator[tuple[slice, tuple[np.ndarray, np.ndarray, np.ndarray], slice]]:
        """Collective. This rank's rows slice by slice: which, CSR arrays that have at least those that are `needed` (default: all),
        their places among the duals. Raises Stopped.
        """
        for some, csr in self.risk.watch.slices(self.block.rows.slices(needed)):
            yield some, csr, slice(some.start * self.width, some.stop * self.width)

    @mpi.collective
    def _row_slices(self) -> Iterator[tuple[slice, slice]]:
        """Collective. As `_slices`, without the arrays, which nobody need read."""
        rows = self.risk.rows
        for some in self.risk.watch.slices(slices.row_slices(rows.n_local, rows.data.size)):
            yield some, slice(some.start * self.width, some.stop * self.width)

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
    def goes_on(self) -> bool:
        """Whether the round does: not when all lanes are ready, nor for ever, so that those that remain can share a panel."""
        if all(label.ready for label in self.lanes):
            return False
        if self.round > 0:
            return self.support < SWEEPS << self.round
        return self.full < FULL_PASSES or self.support < SUPPORT_PASSES

    @mpi.collective
    def epoch(self, seconds: float) -> None:
        """Collective. One pass, over all rows or over the rows that matter to each lane; decides which lanes are ready."""
        full = self.round == 0 and self.support == SUPPORT_PASSES
        if full:
            self.full, self.support = self.full + 1, 0
            self.active[:] = sum(1 << lane for lane, label in enumerate(self.lanes) if not label.ready)
            self.look_at_all()
            number = self.full
        else:
            self.support += 1
            number = self.support << 8 | self.full  # no other pass of the round has this one
        violations, active, moved = self.visit(number, full)
        for lane, label in enumerate(self.lanes):
            if label.ready or (label.resting and not full):
                continue
            violation = label.record(violations[lane], active[lane], moved[lane], seconds)
            label.ready = label.steps >= self.block.max_steps
            label.ready |= (full or self.round > 0) and violation <= INNER * label.tolerance
            label.resting = not full and violation <= REST * label.tolerance
        if full:
            support(self.alpha, self.width, len(self.lanes), self.active)
        else:
            self.set_aside()
        goes_on = sum(1 << lane for lane, label in enumerate(self.lanes) if not (label.ready or label.resting))
        self.active &= np.uint16(goes_on)
        if self.round == 0 and not goes_on:
            self.support = SUPPORT_PASSES

    @mpi.collective
    def visit(self, number: int, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Collective. One pass over the active rows, in the order with this number; after a `full` one, others will be active. Of
        each lane: the range of the projected gradients, float64, and how many rows it had active, and moved.
        """
        risk, width = self.risk, self.width
        order = self.block.order(self.round, number)
        if full:
            self.block.rows.begin()

        def kept(own: slice) -> np.ndarray:
            return self._support(own) if full else self._support(own) | (self.active[own] != 0)

        self.gradients[:], self.counts[:] = 0.0, 0  # 0 is in every range, whichever rows other lanes look at
        with risk.profile("compute"):
            before = self._before()
            for (own, csr), some in risk.watch.slices(self.block.visits(order, self.active, kept)):
                places = slice(own.start * width, own.stop * width)
                self.visit_rows(
                    *(*csr, some, self.block.norms[own]),
                    *(self.w, self.alpha[places], self.positive[own], self.active[own]),
                    *(self.rules, self.gradients, self.counts, width, self._ahead),
                )
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

    @mpi.collective
    def _judge(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Collective. Look at all rows, in float64: the primal objective and a bound below its minimum (width each), divided by λ;
        the violations (width); `near` (n) has a bit for every lane that a row may still move; by how much to move the intercepts.
        """
        risk, block = self.risk, self.block
        with risk.profile("finish"):
            dual_squares, squares = self._combine()
            scores = self._scores()
            shifts = self._shifts(scores)
            sums, near = self._certify_rows(scores, shifts, block.tolerance)
            if risk.comm.size > 1:
                extremes = mpi.allreduce_maxima(risk.comm, sums[[certify.MOST, certify.LEAST]] * [[1.0], [-1.0]])
                mpi.allreduce_sum(risk.comm, sums)
                sums[certify.MOST], sums[certify.LEAST] = extremes[0], -extremes[1]
        loss, violations = block.costs.loss, sums[certify.MOST] - sums[certify.LEAST]
        primal = 0.5 * squares + self._losses(sums, certify.SHORT)
        moved = 0.5 * (squares + shifts * (shifts + 2 * self._intercepts())) + self._losses(sums, certify.MOVED_SHORT)
        shifts = np.where(moved < primal, shifts, 0.0)
        primal, alpha_squared = np.minimum(moved, primal), sums[certify.ALPHA_SQUARED : certify.ALPHA_SQUARED + 2]
        bound = sums[certify.ALPHA] - 0.5 * dual_squares - loss.penalty(self.costs, alpha_squared)
        return primal, bound, violations, near, shifts

    @mpi.collective
    def _scores(self) -> np.ndarray:
        """Collective. The scores (n_local width, flat) of this rank's rows, in float64. Raises Stopped."""
        scores = self.block.scores[: self.risk.rows.n_local * self.width]
        for _, csr, places in self._slices():
            kernels.scores(*csr, self.w, scores[places], self.width, self._ahead)
        return scores

    @mpi.collective
    def _certify_rows(self, scores: np.ndarray, shifts: np.ndarray, within: float) -> tuple[np.ndarray, np.ndarray]:
        """Collective. This rank's `sums` (N_SUMS, width) and `near` (n_local), as `certify` has them. Raises Stopped."""
        sums, near = np.zeros((certify.N_SUMS, self.width)), np.zeros(self.risk.rows.n_local, np.uint16)
        costs = self.costs.reshape(-1)
        for some, places in self._row_slices():
            arrays = (scores[places], self.alpha[places], self.positive[some], self.rules, costs, shifts, near[some])
            self.certify_rows(*arrays, sums.reshape(-1), self.width, within)
        return sums, near

    @mpi.collective
    def certify(self) -> tuple[list[Finished], list[Training]]:
        """Collective. The end of the round: judge the weights. The labels that are done, and those that are not."""
        rows, risk, block, width = self.risk.rows, self.risk, self.block, self.width
        finished, others = [], []
        primal, bound, violations, near, shifts = self._judge()
        gaps = np.maximum(0.0, primal - bound) / np.maximum(primal, 1e-300)
        weights = self.w.reshape(-1, width).T
        for lane, label in enumerate(self.lanes):
            f, gap, violation = risk.lam * float(primal[lane]), float(gaps[lane]), float(violations[lane])
            risk.check_finite(np.array([f]), "objective", np.array([label.number]))
            converged = violation <= label.tolerance or gap <= CLOSE * label.tolerance
            still = self.at_rest(label, violation, gap)
            if (converged and gap <= block.max_gap) or label.steps >= block.max_steps or still:
                if shifts[lane]:
                    self.w.reshape(-1, width)[-1, lane] += shifts[lane]
                last, share = label.history[-1], label.visited / (label.steps * rows.n_global)
                label.history[-1] = (label.steps, f, *last[2:5], violation, *last[6:])
                status = CONVERGED if converged and gap <= block.max_gap else STEP_LIMIT
                finished.append(Finished(label.label, weights[lane], f, status, label.steps, share, label.history, gap))
                continue
            if converged:
                label.tolerance = self.tightened(label, gap)
            label.exact, label.gap = not label.moved, gap
            label.ready = label.resting = label.moved = False
            alpha = self.alpha.reshape(-1, width)[:, lane].copy()
            label.state = State(weights[lane].copy(), alpha, ((self.active | near) & np.uint16(1 << lane)) != 0)
            others.append(label)
        return finished, others

    def _losses(self, sums: np.ndarray, row: int) -> np.ndarray:
        """Σ C ℓ of the lanes (float64), from a certificate's sums: with the intercepts as they are, or moved. Local."""
        short, squared = sums[row : row + 2], sums[row + certify.SHORT_SQUARED :][:2]
        return self.block.costs.loss.losses(self.costs, short, squared)

    def _intercepts(self) -> np.ndarray:
        """The lanes' weights of the constant feature in float64, 0 without. Local."""
        return self.w.reshape(-1, self.width)[-1].astype(np.float64) if self.risk.rows.bias else np.zeros(self.width)

    @mpi.collective
    def _shifts(self, scores: np.ndarray) -> np.ndarray:
        """Collective. By how much (float64, one per lane) to move the intercepts so that the objectives become less.

        Their slopes at `MOVES` bracket the minimum, in which they are taken as linear.
        """
        risk, width = self.risk, self.width
        if not risk.rows.bias:
            return np.zeros(width)
        own, slopes = self._intercepts(), np.zeros((MOVES.size, width))
        costs, squared = self.costs.reshape(-1), self.block.costs.loss.squared
        for some, places in self._row_slices():
            kernels.slopes(scores[places], self.positive[some], costs, squared, MOVES, slopes.reshape(-1))
        mpi.allreduce_sum(risk.comm, slopes)
        slopes += MOVES[:, None] + own
        shifts = np.array([np.interp(0.0, slope, MOVES) for slope in slopes.T])  # slopes do not fall; beyond them, the last move
        return (own + shifts).astype(risk.weight_type).astype(np.float64) - own

    @mpi.collective
    def _combine(self) -> tuple[np.ndarray, np.ndarray]:
        """Collective. w = Σ alpha y x of all lanes, made anew; ‖w‖² in float64, and rounded as it is saved."""
        rows, risk, half = self.risk.rows, self.risk, min(self.width, HALF)
        squares, v = np.zeros((2, self.width)), self.block.exact[: rows.n_columns * half]
        costs = self.costs.reshape(-1)
        for first in range(0, self.width, half):
            v[:] = 0.0
            for some, csr, places in self._slices(self._support):
                self.combine_rows(*csr, self.alpha[places], self.positive[some], costs, self.width, first, half, v)
            if risk.comm.size > 1:
                mpi.allreduce_sum(risk.comm, v)
            sums = np.zeros(2 * half)
            combine.keep(v, half, self.w, self.width, first, sums)
            squares[:, first : first + half] = sums.reshape(2, half)
        return squares[0], squares[1]

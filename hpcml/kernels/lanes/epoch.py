"""Dual coordinate descent for the labels of a panel: the visit of a row, and a pass over rows.

A row's margins in all lanes take one sweep over its non-zeros, the lanes' steps a few vector instructions, and a second sweep adds
the steps to the weights if any dual changed. Each row has one bit per lane that says whether it is active.

Hinge and squared hinge (Hsieh et al. 2008, Algorithm 1): a dual α has bounds, and the gradient of its coordinate is margin − 1 +
diagonal · α. Logistic (Yu, Huang & Lin 2011): the dual of ½‖w‖² + Σ C log(1 + exp(−margin)) is −½‖Σ y α x‖² + Σ C H(α / C), with
the entropy H in nats and 0 < α < C. Stored is u = log(α / (C − α)), which has full precision at both ends. Its gradient is margin +
u.

A step of the logistic loss minimises the dual along α: with a = σ(u) and κ = C ‖x‖², it finds the root u of margin + κ (σ(u) − a) +
u. This function increases at least as fast as u and has its inflection at u = 0. So Newton's method, kept on the side of 0 where
the root lies, never steps further than the gradient and converges monotonically after the first iteration.

A row of weight s counts as s rows. Its dual is stored divided by s: gradient, bounds and diagonal are then those of a row of weight
1, with s ‖x‖² instead of ‖x‖², and a step adds s times as much to the weights.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from hpcml.kernels import njit
from hpcml.kernels.lanes.elementary import sigmoid
from hpcml.kernels.lanes.products import prefetch, prefetch_row, score, use_values
from hpcml.kernels.lanes.write import I64, Array, Lanes, by_width

HINGE, LOGISTIC = range(2)  # both hinges have the same instructions and differ in their rules
# Rows of `rules`: bound of a dual and the loss's part of the diagonal, for positive and negative rows; gradients beyond which a
# dual at its bound is shrunk; CoCoA+'s σ′; projected gradients up to which no step is made.
TOP_POSITIVE, TOP_NEGATIVE, DIAGONAL_POSITIVE, DIAGONAL_NEGATIVE, HIGHEST, LOWEST, SIGMA, IGNORED, N_RULES = range(9)
# Rows of `rules` for the logistic loss, besides SIGMA: C of positive and negative rows; a gradient up to QUIET (1 + |u|) causes no
# step.
COST_POSITIVE, COST_NEGATIVE, QUIET = range(3)
MAXIMUM, MINIMUM = range(2)  # rows of `gradients`
ACTIVE, MOVED = range(2)  # rows of `counts`
SUMS = 4  # independent sums of a margin
Arrays = tuple[Array, ...]
NEWTON = 50  # maximum iterations; one or two are typical
REMAINDER = 0.1  # share of the gradient that a step may leave


class Row:
    """Emits the parts of a visit of row i that all losses share; the arrays are those of `epoch`."""

    def __init__(self, lanes: Lanes, csr: Arrays, i: ir.Value, norms: Array, state: Arrays, bits: Arrays, tables: Arrays) -> None:
        self.lanes, self.builder, (indptr, indices, data) = lanes, lanes.builder, csr
        self.values = indices, data
        self.w, self.duals = state
        self.rules, self.gradients, self.counts = tables
        self.span, self.at = (indptr.index(i), indptr.index(lanes.builder.add(i, I64(1)))), lanes.builder.mul(i, I64(lanes.count))
        self.norm, self.weight = (norms.line(i).one(I64(column)) for column in range(2))
        self.is_positive, self.is_active = (lanes.flags(array.one(i)) for array in bits)
        self.zero, self.one, self.minus_one = (lanes.constant(value) for value in (0.0, 1.0, -1.0))
        self.sign = self.builder.select(self.is_positive, self.one, self.minus_one)
        parts = score(lanes, self.values, self.span, self.w, SUMS)
        self.score = self.builder.fadd(self.builder.fadd(*parts[:2]), self.builder.fadd(*parts[2:]))

    def rule(self, row: int) -> ir.Value:
        return self.rules.lanes(I64(row * self.lanes.count))

    def by_sign(self, positive: int, negative: int) -> ir.Value:
        return self.builder.select(self.is_positive, self.rule(positive), self.rule(negative))

    def extreme(self, row: int, values: ir.Value) -> None:
        position = I64(row * self.lanes.count)
        pick = self.lanes.larger if row == MAXIMUM else self.lanes.smaller
        self.gradients.put(position, pick(self.gradients.lanes(position), values))

    def tally(self, row: int, flags: ir.Value) -> None:
        position, builder = I64(row * self.lanes.count), self.builder
        counted = builder.zext(flags, ir.VectorType(I64, self.lanes.count))
        self.counts.put(position, builder.add(self.counts.lanes(position), counted))

    def add(self, step: ir.Value) -> None:
        """Add the lanes' multiples of the row, times its weight, to the weights."""
        builder, lanes, w = self.builder, self.lanes, self.w
        step = builder.fmul(step, lanes.splat(self.weight))

        def put(index: ir.Value, value: ir.Value, _: int) -> None:
            position = builder.mul(index, I64(lanes.count))
            w.put(position, lanes.fma(lanes.splat(value), step, w.lanes(position)))

        use_values(lanes, self.values, self.span, SUMS, put)


def _hinge_step(row: Row) -> ir.Value:
    """Emit the step of both hinges; return the lanes that remain active."""
    lanes, builder = row.lanes, row.builder
    top, diagonal = row.by_sign(TOP_POSITIVE, TOP_NEGATIVE), row.by_sign(DIAGONAL_POSITIVE, DIAGONAL_NEGATIVE)
    a = row.duals.lanes(row.at)
    gradient = lanes.fma(diagonal, a, lanes.fma(row.sign, row.score, row.minus_one))
    at_zero, at_top = builder.fcmp_ordered("==", a, row.zero), builder.fcmp_ordered("==", a, top)
    shrunk = builder.or_(
        builder.and_(at_zero, builder.fcmp_ordered(">", gradient, row.rule(HIGHEST))),
        builder.and_(at_top, builder.fcmp_ordered("<", gradient, row.rule(LOWEST))),
    )
    live = builder.and_(row.is_active, builder.not_(shrunk))
    projected = builder.select(live, project(lanes, gradient, at_zero, at_top), row.zero)
    row.extreme(MAXIMUM, projected)
    row.extreme(MINIMUM, projected)
    sigma = row.rule(SIGMA)
    moved = builder.fsub(a, builder.fdiv(gradient, lanes.fma(sigma, lanes.splat(row.norm), diagonal)))
    moved = lanes.smaller(top, lanes.larger(row.zero, moved))
    size = lanes.call("fabs", projected)
    moved = builder.select(builder.fcmp_ordered(">", size, row.rule(IGNORED)), moved, a)
    moves = builder.fcmp_ordered("!=", moved, a)
    row.tally(ACTIVE, row.is_active)
    with builder.if_then(lanes.any(moves)):
        row.tally(MOVED, moves)
        row.duals.put(row.at, moved)
        row.add(builder.fmul(sigma, builder.fmul(row.sign, builder.fsub(moved, a))))
    return lanes.number(live)


def project(lanes: Lanes, gradient: ir.Value, at_zero: ir.Value, at_top: ir.Value) -> ir.Value:
    """Emit the projected gradient: a dual at 0 can only grow, one at its bound only fall."""
    zero = lanes.constant(0.0)
    projected = lanes.builder.select(at_top, lanes.larger(zero, gradient), gradient)
    return lanes.builder.select(at_zero, lanes.smaller(zero, gradient), projected)


def _logistic_step(row: Row) -> ir.Value:
    """Emit the step of the logistic loss; return the active lanes, which do not change."""
    lanes, builder = row.lanes, row.builder
    u, margin = row.duals.lanes(row.at), builder.fmul(row.sign, row.score)
    gradient = builder.fadd(margin, u)
    size, quiet = lanes.call("fabs", gradient), row.rule(QUIET)
    row.extreme(MAXIMUM, builder.select(row.is_active, size, row.zero))
    limit = lanes.fma(quiet, lanes.call("fabs", u), quiet)
    moves = builder.and_(row.is_active, builder.fcmp_unordered(">", size, limit))  # NaN propagates, to be reported
    row.tally(ACTIVE, row.is_active)
    with builder.if_then(lanes.any(moves)):
        row.tally(MOVED, moves)
        weight = builder.fmul(row.rule(SIGMA), row.by_sign(COST_POSITIVE, COST_NEGATIVE))
        moved, change = _minimise(lanes, u, margin, gradient, builder.fmul(weight, lanes.splat(row.norm)), moves)
        row.duals.put(row.at, moved)
        row.add(builder.fmul(builder.fmul(row.sign, weight), change))
    return lanes.number(row.is_active)


def _minimise(
    lanes: Lanes, u: ir.Value, margin: ir.Value, gradient: ir.Value, curvature: ir.Value, moves: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Emit the root v of margin + curvature (σ(v) − σ(u)) + v in moving lanes (u in others), and σ(v) − σ(u)."""
    builder, zero, one = lanes.builder, lanes.constant(0.0), lanes.constant(1.0)
    a, slope = sigmoid(lanes, u)
    at_zero = lanes.fma(curvature, builder.fsub(lanes.constant(0.5), a), margin)
    is_below = builder.fcmp_ordered(">", at_zero, zero)
    limit = builder.fmul(lanes.call("fabs", gradient), lanes.constant(REMAINDER))
    states = [lanes.variable(value) for value in (u, zero, slope, gradient, moves)]
    with cgutils.for_range(builder, I64(NEWTON)) as loop:
        v, _, slope, rest, running = (builder.load(state) for state in states)
        with builder.if_then(builder.not_(lanes.any(running)), likely=False):
            loop.do_break()
        new = builder.fsub(v, builder.fdiv(rest, lanes.fma(curvature, slope, one)))
        new = builder.select(is_below, lanes.smaller(zero, new), lanes.larger(zero, new))
        new = builder.select(running, new, v)
        b, slope = sigmoid(lanes, new)
        change = builder.select(moves, builder.fsub(b, a), zero)
        rest = builder.fadd(lanes.fma(curvature, change, margin), new)
        running = builder.and_(running, builder.fcmp_ordered(">", lanes.call("fabs", rest), limit))
        for state, value in zip(states, (new, change, slope, rest, running), strict=True):
            builder.store(value, state)
    return builder.load(states[0]), builder.load(states[1])


def _visit_of(step):
    """Return a function that makes the step of every active lane for row i. It returns the lanes that remain active, as bits."""

    @by_width(types.int64, of=2)
    def visit(lanes, csr, i, norms, state, bits, tables):
        return step(Row(lanes, csr, i, norms, state, bits, tables))

    return visit


_visit_hinge, _visit_logistic = _visit_of(_hinge_step), _visit_of(_logistic_step)


def _epoch_of(loss):
    @njit
    def epoch(csr, rows, norms, state, bits, tables, lanes, ahead):
        """Visit `rows` of `csr` (indptr, indices, data) in this order; `norms` (n, 2) are s ‖x_i‖² and the weight s of all rows.

        `state`: weights (d lanes) and duals (n lanes); `tables`: rules (N_RULES, lanes), gradients and counts (2, lanes), all flat;
        `bits`: lanes in which a row is positive, and active (n, uint16). `ahead` prefetches weights, which helps if these do not
        fit the L2 cache.
        """
        (indptr, indices, data), (w, duals), (positive, active), n = csr, state, bits, rows.size
        for r in range(n):
            if r + 6 < n:
                prefetch(indptr, rows[r + 6], 1)
            if r + 3 < n:
                far = rows[r + 3]
                prefetch_row(indices, data, indptr[far], indptr[far + 1])
                prefetch(duals, np.int64(far) * lanes, 1)
                prefetch(norms, 2 * np.int64(far), 1)
                prefetch(positive, far, 1)
                prefetch(active, far, 1)
            if ahead and r + 1 < n:
                near = rows[r + 1]
                for k in range(indptr[near], indptr[near + 1]):
                    prefetch(w, np.int64(indices[k]) * lanes, 2)
            if loss == LOGISTIC:
                active[rows[r]] = _visit_logistic(csr, rows[r], norms, state, bits, tables, lanes)
            else:
                active[rows[r]] = _visit_hinge(csr, rows[r], norms, state, bits, tables, lanes)

    return epoch


hinge_epoch, logistic_epoch = _epoch_of(HINGE), _epoch_of(LOGISTIC)

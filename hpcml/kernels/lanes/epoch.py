"""Dual coordinate descent for the labels of a panel at once: the visit of a row, and a pass over
rows.

A row's margins with all lanes take one sweep over its non-zeros, the lanes' steps a few vector
instructions, and a second sweep adds them to the weights if any lane moved. Which rows a lane still
looks at is a bit of its own.

Hinge and squared hinge (Hsieh et al. 2008, Algorithm 1): a dual α has bounds, and the gradient of
its coordinate is margin − 1 + diagonal · α. Logistic (Yu, Huang & Lin 2011): the dual of ½‖w‖² + Σ
C log(1 + exp(−margin)) is −½‖Σ y α x‖² + Σ C H(α / C), with the entropy H in nats and 0 < α < C.
What is kept of a dual is u = log(α / (C − α)), which has both ends in full precision. Its gradient
is margin + u.

A step of the logistic loss minimises the dual along α. With a = σ(u) and κ = C ‖x‖² it finds the u
where margin + κ (σ(u) − a) + u = 0. This function rises at least as fast as u, and bends at u = 0
only. So Newton's method, kept on the side of 0 where the root lies, goes no further than the
gradient, and comes nearer with every iteration but the first.

A row of weight s counts as s rows. What is kept is its dual divided by s: then the gradient, the
bounds and the diagonal are those of a row of weight 1, with s ‖x‖² in place of ‖x‖², and what a
step adds to the weights is s times as much.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from hpcml.kernels import njit
from hpcml.kernels.lanes.elementary import sigmoid
from hpcml.kernels.lanes.products import ask, ask_row, score, use_values
from hpcml.kernels.lanes.write import I64, Array, Lanes, by_width

HINGE, LOGISTIC = range(2)  # both hinges have the same instructions: their rules differ
# Rows of `rules`: the bound of a dual and what the loss adds to the diagonal, for positive and negative rows; the projected
# gradients beyond which a dual at its bound is set aside; what the step of a row does to the weights of this rank (CoCoA+'s σ′);
# the size that a projected gradient must be beyond for a step.
TOP_POSITIVE, TOP_NEGATIVE, DIAGONAL_POSITIVE, DIAGONAL_NEGATIVE, HIGHEST, LOWEST, SIGMA, IGNORED, N_RULES = range(9)
# The same of the logistic loss, besides SIGMA: C of positive and negative rows; a gradient of at most so much times 1 + |u| moves
# nothing.
COST_POSITIVE, COST_NEGATIVE, QUIET = range(3)
MAXIMUM, MINIMUM = range(2)  # rows of `gradients`
ACTIVE, MOVED = range(2)  # rows of `counts`
SUMS = 4  # independent sums of a margin
Arrays = tuple[Array, ...]
NEWTON = 50  # iterations at most; one or two are the rule
REMAINDER = 0.1  # of the gradient that a step may leave


class Row:
    """Writes what the visit of row i has in common for all losses; the arrays are those of
    `epoch`.
    """

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
        """A row of `rules`."""
        return self.rules.lanes(I64(row * self.lanes.count))

    def by_sign(self, positive: int, negative: int) -> ir.Value:
        """A row of `rules` for lanes that the row is positive for, another one for others."""
        return self.builder.select(self.is_positive, self.rule(positive), self.rule(negative))

    def extreme(self, row: int, values: ir.Value) -> None:
        """Bring the largest, or the least, of the gradients up to date."""
        place = I64(row * self.lanes.count)
        pick = self.lanes.larger if row == MAXIMUM else self.lanes.smaller
        self.gradients.put(place, pick(self.gradients.lanes(place), values))

    def tally(self, row: int, flags: ir.Value) -> None:
        """Count lanes."""
        place, builder = I64(row * self.lanes.count), self.builder
        counted = builder.zext(flags, ir.VectorType(I64, self.lanes.count))
        self.counts.put(place, builder.add(self.counts.lanes(place), counted))

    def add(self, step: ir.Value) -> None:
        """Add the lanes' multiples of the row, times its weight, to the weights."""
        builder, lanes, w = self.builder, self.lanes, self.w
        step = builder.fmul(step, lanes.splat(self.weight))

        def put(index: ir.Value, value: ir.Value, _: int) -> None:
            place = builder.mul(index, I64(lanes.count))
            w.put(place, lanes.fma(lanes.splat(value), step, w.lanes(place)))

        use_values(lanes, self.values, self.span, SUMS, put)


def _hinge_step(row: Row) -> ir.Value:
    """The step of both hinges; the lanes that look at the row any more."""
    lanes, builder = row.lanes, row.builder
    top, diagonal = row.by_sign(TOP_POSITIVE, TOP_NEGATIVE), row.by_sign(DIAGONAL_POSITIVE, DIAGONAL_NEGATIVE)
    a = row.duals.lanes(row.at)
    gradient = lanes.fma(diagonal, a, lanes.fma(row.sign, row.score, row.minus_one))
    at_zero, at_top = builder.fcmp_ordered("==", a, row.zero), builder.fcmp_ordered("==", a, top)
    aside = builder.or_(
        builder.and_(at_zero, builder.fcmp_ordered(">", gradient, row.rule(HIGHEST))),
        builder.and_(at_top, builder.fcmp_ordered("<", gradient, row.rule(LOWEST))),
    )
    live = builder.and_(row.is_active, builder.not_(aside))
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
    """The gradient where the dual can follow it, else 0: a dual at 0 can only grow, one at its
    bound only fall.
    """
    zero = lanes.constant(0.0)
    projected = lanes.builder.select(at_top, lanes.larger(zero, gradient), gradient)
    return lanes.builder.select(at_zero, lanes.smaller(zero, gradient), projected)


def _logistic_step(row: Row) -> ir.Value:
    """The step of the logistic loss; the lanes that look at the row any more, which are as
    before.
    """
    lanes, builder = row.lanes, row.builder
    u, margin = row.duals.lanes(row.at), builder.fmul(row.sign, row.score)
    gradient = builder.fadd(margin, u)
    size, quiet = lanes.call("fabs", gradient), row.rule(QUIET)
    row.extreme(MAXIMUM, builder.select(row.is_active, size, row.zero))
    enough = lanes.fma(quiet, lanes.call("fabs", u), quiet)
    moves = builder.and_(row.is_active, builder.fcmp_unordered(">", size, enough))  # what is not a number goes on, to be found
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
    """The root of margin + curvature (σ(v) − σ(u)) + v in the lanes that move, u in others; and
    σ there less σ(u).
    """
    builder, zero, one = lanes.builder, lanes.constant(0.0), lanes.constant(1.0)
    a, slope = sigmoid(lanes, u)
    at_zero = lanes.fma(curvature, builder.fsub(lanes.constant(0.5), a), margin)
    is_below = builder.fcmp_ordered(">", at_zero, zero)
    enough = builder.fmul(lanes.call("fabs", gradient), lanes.constant(REMAINDER))
    states = [lanes.variable(value) for value in (u, zero, slope, gradient, moves)]
    with cgutils.for_range(builder, I64(NEWTON)) as loop:
        v, _, slope, rest, here = (builder.load(state) for state in states)
        with builder.if_then(builder.not_(lanes.any(here)), likely=False):
            loop.do_break()
        new = builder.fsub(v, builder.fdiv(rest, lanes.fma(curvature, slope, one)))
        new = builder.select(is_below, lanes.smaller(zero, new), lanes.larger(zero, new))
        new = builder.select(here, new, v)
        b, slope = sigmoid(lanes, new)
        change = builder.select(moves, builder.fsub(b, a), zero)
        rest = builder.fadd(lanes.fma(curvature, change, margin), new)
        here = builder.and_(here, builder.fcmp_ordered(">", lanes.call("fabs", rest), enough))
        for state, value in zip(states, (new, change, slope, rest, here), strict=True):
            builder.store(value, state)
    return builder.load(states[0]), builder.load(states[1])


def _visit_of(step):
    """A function that takes row i through the step of every active lane.

    It returns the lanes that look at the row any more, as bits, and brings the gradients' extremes
    and the counts of active and moved lanes up to date.
    """

    @by_width(types.int64, of=2)
    def visit(lanes, csr, i, norms, state, bits, tables):
        return step(Row(lanes, csr, i, norms, state, bits, tables))

    return visit


_visit_hinge, _visit_logistic = _visit_of(_hinge_step), _visit_of(_logistic_step)


def _epoch_of(loss):
    """The pass of a loss (HINGE, LOGISTIC)."""

    @njit
    def epoch(csr, rows, norms, state, bits, tables, lanes, ahead):
        """Visit `rows` of `csr` (indptr, indices, data), in this order; `norms` (n, 2) are
        s ‖x_i‖² and s of all rows, of weight s.

        `state`: weights (d lanes) and duals (n lanes); `tables`: rules (N_RULES, lanes), gradients
        (2, lanes) and counts (2, lanes), all flat, float32 or float64; `bits`: which lanes a row is
        positive for and active in (n each), uint16. What a row needs is asked for while rows before
        it are at work; with `ahead` its weights are, too: worth while if they do not fit the
        second-level cache.
        """
        (indptr, indices, data), (w, duals), (positive, active), n = csr, state, bits, rows.size
        for r in range(n):
            if r + 6 < n:
                ask(indptr, rows[r + 6], 1)
            if r + 3 < n:
                far = rows[r + 3]
                ask_row(indices, data, indptr[far], indptr[far + 1])
                ask(duals, np.int64(far) * lanes, 1)
                ask(norms, 2 * np.int64(far), 1)
                ask(positive, far, 1)
                ask(active, far, 1)
            if ahead and r + 1 < n:
                near = rows[r + 1]
                for k in range(indptr[near], indptr[near + 1]):
                    ask(w, np.int64(indices[k]) * lanes, 2)
            if loss == LOGISTIC:
                active[rows[r]] = _visit_logistic(csr, rows[r], norms, state, bits, tables, lanes)
            else:
                active[rows[r]] = _visit_hinge(csr, rows[r], norms, state, bits, tables, lanes)

    return epoch


hinge_epoch, logistic_epoch = _epoch_of(HINGE), _epoch_of(LOGISTIC)

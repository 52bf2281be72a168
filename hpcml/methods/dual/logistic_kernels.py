"""Dual coordinate descent for logistic regression, for the labels of a panel ("lanes") at once (Yu, Huang & Lin 2011).

The dual of ½‖w‖² + Σ C log(1 + exp(−margin)) is −½‖Σ y α x‖² + Σ C H(α / C), with the entropy H in nats and 0 < α < C. What is
kept of a dual is u = log(α / (C − α)), in float32 or float64, which has both ends in full precision. Its gradient is margin + u.

A row's step minimises the dual along α. With a = σ(u) and κ = C ‖x‖² it finds the u where margin + κ (σ(u) − a) + u = 0. This
function rises at least as fast as u, and bends at u = 0 only. So Newton's method, kept on the side of 0 where the root lies, goes
no further than the gradient, and comes nearer with every iteration but the first. All is done as in `kernels`: what happens in a
lane depends on nothing in the others.
"""

import numpy as np
from llvmlite import ir

from hpcml.kernels import njit
from hpcml.kernels.logistic import VectorMath
from hpcml.kernels.vector import _load, _splat, _store, _vector_at, ask, cgutils, intrinsic, types
from hpcml.methods.dual.visit_kernels import ACTIVE, MAXIMUM, MOVED, SIGMA, _Visit

# Rows of `rules`, besides SIGMA: C of positive and negative rows; a gradient of at most so much times 1 + |u| moves nothing.
COST_POSITIVE, COST_NEGATIVE, QUIET = range(3)
NEWTON = 50  # iterations at most; one or two are the rule
REMAINDER = 0.1  # of the gradient that a step may leave


class _LogisticVisit(_Visit):
    """Writes the instructions for one row."""

    def write(self):
        """The whole visit."""
        builder, score = self.builder, self.score()
        math = VectorMath(builder, self.element, self.count)
        is_positive, is_active = self.lanes_of(self.positive), self.lanes_of(self.active)
        sign = builder.select(is_positive, self.one, self.minus_one)
        place = _vector_at(builder, self.ap, self.at, self.vector)
        u = _load(builder, place, self.element)
        margin = builder.fmul(sign, score)
        gradient = builder.fadd(margin, u)
        size, quiet = math.call("fabs", gradient), self.rule(QUIET)
        self.gather(MAXIMUM, builder.select(is_active, size, self.zero), self.larger)
        enough = math.call("fma", quiet, math.call("fabs", u), quiet)
        moves = builder.and_(is_active, builder.fcmp_unordered(">", size, enough))  # what is not a number goes on, to be found
        self.tally(ACTIVE, is_active)
        with builder.if_then(self.any(moves)):
            self.tally(MOVED, moves)
            cost = builder.select(is_positive, self.rule(COST_POSITIVE), self.rule(COST_NEGATIVE))
            weight = builder.fmul(self.rule(SIGMA), cost)
            curvature = builder.fmul(weight, _splat(builder, self.norm, self.vector))
            moved, change = self.minimise(math, u, margin, gradient, curvature, moves)
            _store(builder, moved, place, self.element)
            self.add_row(builder.fmul(builder.fmul(sign, weight), change))

    def any(self, lanes):
        """Whether some lane is set."""
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(lanes, self.bits), ir.Constant(self.bits, 0))

    def minimise(self, math, u, margin, gradient, curvature, moves):
        """The root of margin + curvature (σ(v) − σ(u)) + v in the lanes that move, u in others; and σ there less σ(u)."""
        builder = self.builder
        a, slope = math.sigmoid(u)
        at_zero = math.call("fma", curvature, builder.fsub(math.constant(0.5), a), margin)
        is_below = builder.fcmp_ordered(">", at_zero, self.zero)
        enough = builder.fmul(math.call("fabs", gradient), math.constant(REMAINDER))
        begin = (u, self.zero, slope, gradient, moves)
        states = [cgutils.alloca_once(builder, value.type) for value in begin]
        for state, value in zip(states, begin, strict=True):
            builder.store(value, state)
        with cgutils.for_range(builder, ir.Constant(ir.IntType(64), NEWTON)) as loop:
            v, _, slope, rest, here = (builder.load(state) for state in states)
            with builder.if_then(builder.not_(self.any(here)), likely=False):
                loop.do_break()
            new = builder.fsub(v, builder.fdiv(rest, math.call("fma", curvature, slope, self.one)))
            new = builder.select(is_below, math.call("minnum", new, self.zero), math.call("maxnum", new, self.zero))
            new = builder.select(here, new, v)
            b, slope = math.sigmoid(new)
            change = builder.select(moves, builder.fsub(b, a), self.zero)
            rest = builder.fadd(math.call("fma", curvature, change, margin), new)
            here = builder.and_(here, builder.fcmp_ordered(">", math.call("fabs", rest), enough))
            for state, value in zip(states, (new, change, slope, rest, here), strict=True):
                builder.store(value, state)
        return builder.load(states[0]), builder.load(states[1])


@intrinsic(prefer_literal=True)
def _visit(typing, indices, data, begin, end, w, u, at, norm, positive, active, rules, gradients, counts, lanes):
    """Take a row (its non-zeros begin .. end − 1, its duals from u[at]) through the step of every active lane."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    i64 = types.int64
    signature = types.void(indices, data, i64, i64, w, u, i64, w.dtype, i64, i64, rules, gradients, counts, lanes)

    def emit(context, builder, signature, args):
        _LogisticVisit(context, builder, signature, args, lanes.literal_value).write()
        return context.get_dummy_value()

    return signature, emit


@njit
def epoch(indptr, indices, data, rows, norms, w, u, positive, active, rules, gradients, counts, lanes, ahead):
    """Visit `rows`, in this order: as `kernels.epoch`, but no row is set aside, and `gradients` holds the largest |gradient|."""
    n = rows.size
    for r in range(n):
        i = rows[r]
        begin, end = indptr[i], indptr[i + 1]
        if r + 3 < n:
            far = rows[r + 3]
            for k in range(indptr[far], indptr[far + 1], 16):
                ask(indices, k, 1)
                ask(data, k, 1)
        if ahead and r + 1 < n:
            near = rows[r + 1]
            for k in range(indptr[near], indptr[near + 1]):
                ask(w, np.int64(indices[k]) * lanes, 2)
        at, p, a = i * lanes, positive[i], active[i]
        if lanes == 16:
            _visit(indices, data, begin, end, w, u, at, norms[i], p, a, rules, gradients, counts, 16)
        elif lanes == 8:
            _visit(indices, data, begin, end, w, u, at, norms[i], p, a, rules, gradients, counts, 8)
        elif lanes == 4:
            _visit(indices, data, begin, end, w, u, at, norms[i], p, a, rules, gradients, counts, 4)
        elif lanes == 2:
            _visit(indices, data, begin, end, w, u, at, norms[i], p, a, rules, gradients, counts, 2)
        else:
            _visit(indices, data, begin, end, w, u, at, norms[i], p, a, rules, gradients, counts, 1)

"""What is found from the duals of logistic regression besides their steps: the weights, the certificate, duals at other costs.

Duals are kept as u = log(α / (C − α)) (see `logistic_kernels`); `costs` (2 width, flat, float64) are C of positive rows, then of
negative ones.
"""

import numpy as np
from llvmlite import ir

from hpcml.kernels import njit
from hpcml.kernels.logistic import VectorMath
from hpcml.kernels.vector import I64, _array, _load, _splat, _store, _vector_at, add_lines, dot_rows, intrinsic, types
from hpcml.methods.dual.kernels import TILE

LOSSES, ENTROPY, WORST, N_SUMS = range(4)  # rows of `sums`
DOUBLE = ir.DoubleType()


class _Row:
    """Writes what a row's lanes have in common: their duals in float64, which of them are positive, their costs."""

    def __init__(self, builder, pointer, at, positive, costs, first, width, count):
        self.builder, self.count = builder, count
        self.math = VectorMath(builder, DOUBLE, count)
        self.doubles, stored = self.math.vector, pointer.type.pointee
        u = _load(builder, _vector_at(builder, pointer, at, ir.VectorType(stored, count)), stored)
        self.u = u if stored == DOUBLE else builder.fpext(u, self.doubles)
        bits = builder.trunc(positive, ir.IntType(count))
        self.is_positive = builder.bitcast(bits, ir.VectorType(ir.IntType(1), count))
        places = (first, builder.add(first, width))
        self.cost = builder.select(self.is_positive, *(self.at(costs, place) for place in places))

    def at(self, pointer, place):
        """The lanes' numbers from that place on."""
        return _load(self.builder, _vector_at(self.builder, pointer, place, self.doubles), DOUBLE)

    def signed(self, value):
        """`value` of positive rows, −`value` of negative ones."""
        return self.builder.select(self.is_positive, value, self.builder.fneg(value))


@intrinsic(prefer_literal=True)
def _slopes(typing, u, at, positive, costs, first, width, slopes, place, lanes):
    """slopes[place + l] = y α of the dual u[at + l], l < lanes, with y by the bits of `positive` and C from costs[first + l]."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    i64 = types.int64
    signature = types.void(u, i64, i64, costs, i64, i64, slopes, i64, lanes)

    def emit(context, builder, signature, args):
        (up, _), (cp, _), (sp, _) = (_array(context, builder, signature, args, n) for n in (0, 3, 6))
        row = _Row(builder, up, args[1], args[2], cp, args[4], args[5], lanes.literal_value)
        alpha = builder.fmul(row.cost, row.math.sigmoid(row.u)[0])
        _store(builder, row.signed(alpha), _vector_at(builder, sp, args[7], row.doubles), DOUBLE)
        return context.get_dummy_value()

    return signature, emit


@njit
def combine(indptr, indices, data, u, positive, costs, width, first, lanes, v):
    """v[j lanes + l] += Σ_i α y x_ij, in float64, of the lanes first .. first + lanes − 1 of a panel of `width`; lanes ≤ 8."""
    slopes, starts = np.empty(TILE * lanes), np.arange(0, TILE * lanes, lanes)
    none, shifts = np.zeros(1, np.uint8), np.zeros(1)
    for tile in range(0, positive.size, TILE):
        here = min(TILE, positive.size - tile)
        for r in range(here):
            at, flags, place = (tile + r) * width + first, np.int64(positive[tile + r]) >> first, r * lanes
            if lanes == 8:
                _slopes(u, at, flags, costs, first, width, slopes, place, 8)
            elif lanes == 4:
                _slopes(u, at, flags, costs, first, width, slopes, place, 4)
            elif lanes == 2:
                _slopes(u, at, flags, costs, first, width, slopes, place, 2)
            else:
                _slopes(u, at, flags, costs, first, width, slopes, place, 1)
        add_lines(indptr, indices, data, tile, starts[:here], slopes, none, shifts, v, lanes, False)


@intrinsic(prefer_literal=True)
def _judge(typing, z, place, u, at, positive, costs, sums, lanes):
    """Add a row, of scores z[place + l] (float64) and duals u[at + l], to `sums`. See `certify`."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    i64 = types.int64
    signature = types.void(z, i64, u, i64, i64, costs, sums, lanes)
    count = lanes.literal_value

    def emit(context, builder, signature, args):
        (zp, _), (up, _), (cp, _), (sp, _) = (_array(context, builder, signature, args, n) for n in (0, 2, 5, 6))
        row = _Row(builder, up, args[3], args[4], cp, I64(0), I64(count), count)
        math, u = row.math, row.u
        margin = row.signed(row.at(zp, args[1]))

        def gather(number, value, pick=builder.fadd):
            pointer = _vector_at(builder, sp, I64(number * count), row.doubles)
            _store(builder, pick(_load(builder, pointer, DOUBLE), value), pointer, DOUBLE)

        gather(LOSSES, builder.fmul(row.cost, math.softplus(builder.fneg(margin))))
        entropy = builder.fsub(math.softplus(u), builder.fmul(math.sigmoid(u)[0], u))
        gather(ENTROPY, builder.fmul(row.cost, entropy))
        gather(WORST, math.call("fabs", builder.fadd(margin, u)), lambda x, y: math.call("maxnum", x, y))
        return context.get_dummy_value()

    return signature, emit


@njit
def certify(indptr, indices, data, w, u, positive, costs, sums, lanes):
    """Add to `sums` (N_SUMS lanes, flat) what the certificate of a panel's weights w (d lanes) needs, in float64.

    Σ C log(1 + exp(−margin)), Σ C H(α / C), and the largest |margin + u|.
    """
    z, rows = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, positive.size, TILE):
        here = min(TILE, positive.size - tile)
        dot_rows(indptr, indices, data, tile, rows[:here], w, z, lanes)
        for r in range(here):
            i = tile + r
            place, at, flags = r * lanes, i * lanes, positive[i]
            if lanes == 16:
                _judge(z, place, u, at, flags, costs, sums, 16)
            elif lanes == 8:
                _judge(z, place, u, at, flags, costs, sums, 8)
            elif lanes == 4:
                _judge(z, place, u, at, flags, costs, sums, 4)
            elif lanes == 2:
                _judge(z, place, u, at, flags, costs, sums, 2)
            else:
                _judge(z, place, u, at, flags, costs, sums, 1)


@intrinsic(prefer_literal=True)
def _dual(typing, u, at, cost, out):
    """out[at] = C σ(u[at])."""
    signature = types.void(u, types.int64, types.float64, out)

    def emit(context, builder, signature, args):
        (up, _), (op, _) = (_array(context, builder, signature, args, n) for n in (0, 3))
        row = _Alone(builder, up, args[1])
        row.store(builder.fmul(_splat(builder, args[2], row.math.vector), row.math.sigmoid(row.u)[0]), op)
        return context.get_dummy_value()

    return signature, emit


@intrinsic(prefer_literal=True)
def _divided(typing, u, at, below, shift):
    """u[at] = −below − log(1 + exp(shift − u[at]))."""
    signature = types.void(u, types.int64, types.float64, types.float64)

    def emit(context, builder, signature, args):
        up, _ = _array(context, builder, signature, args, 0)
        row = _Alone(builder, up, args[1])
        below, shift = (_splat(builder, value, row.math.vector) for value in args[2:])
        log = row.math.softplus(builder.fsub(shift, row.u))
        row.store(builder.fneg(builder.fadd(below, log)), up)
        return context.get_dummy_value()

    return signature, emit


class _Alone:
    """Writes what is done with one dual, in float64."""

    def __init__(self, builder, pointer, at):
        self.builder, self.place, self.math = builder, at, VectorMath(builder, DOUBLE, 1)
        self.stored = pointer.type.pointee
        u = _load(builder, _vector_at(builder, pointer, at, ir.VectorType(self.stored, 1)), self.stored)
        self.u = u if self.stored == DOUBLE else builder.fpext(u, self.math.vector)

    def store(self, value, pointer):
        """Put a number where the dual stands in an array of the same type."""
        narrow = ir.VectorType(self.stored, 1)
        value = value if self.stored == DOUBLE else self.builder.fptrunc(value, narrow)
        _store(self.builder, value, _vector_at(self.builder, pointer, self.place, narrow), self.stored)


@njit
def duals(u, cost, out):
    """out[i] = α of u[i], at the cost C."""
    for i in range(u.size):
        _dual(u, i, cost, out)


@njit
def divide(u, ratio):
    """Make of every u that of the same α at a cost `ratio` > 1 times as high.

    σ(v) = σ(u) / r gives v = −log(r − 1 + r exp(−u)) = −log(r − 1) − log(1 + exp(−u + log(r / (r − 1)))).
    """
    below = np.log(ratio - 1.0)
    shift = np.log(ratio) - below
    for i in range(u.size):
        _divided(u, i, below, shift)

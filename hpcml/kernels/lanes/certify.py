"""The sums of a panel's certificate in float64: losses, terms of the dual objective, gradients."""

import numpy as np
from numba import types

from hpcml.kernels import njit
from hpcml.kernels.lanes.elementary import sigmoid, softplus
from hpcml.kernels.lanes.epoch import DIAGONAL_POSITIVE, HINGE, LOGISTIC, TOP_POSITIVE, project
from hpcml.kernels.lanes.write import I64, by_width

# Rows of `sums` for hinges: positive rows, and negative rows in the next row; from ALPHA on, all rows.
SLACK, SLACK_SQUARED, MOVED_SLACK, MOVED_SLACK_SQUARED, ALPHA_SQUARED = range(0, 10, 2)
ALPHA, MOST, LEAST, N_SUMS = range(10, 14)
LOSSES, ENTROPY, WORST = range(3)  # rows of `sums` for the logistic loss


@by_width(types.int64)
def _add_hinge(lanes, state, at, positive, weight, tables, sums, within):
    """Add a row with scores z[at + l] and duals alpha[at + l] to `sums`; return its bits of `near`."""
    (z, alpha), (rules, _, shifts) = state, tables
    builder, zero, count = lanes.builder, lanes.constant(0.0), lanes.count
    is_positive, weight, within = lanes.flags(positive), lanes.splat(weight), lanes.splat(within)

    def gather(row, value, pick=builder.fadd):
        sums.put(I64(row * count), pick(sums.lanes(I64(row * count)), value))

    def sides(row, value):
        value = builder.fmul(weight, value)
        gather(row, builder.select(is_positive, value, zero))
        gather(row + 1, builder.select(is_positive, zero, value))

    def rule(row):
        both = (lanes.widened(rules.lanes(I64(each * count))) for each in (row, row + 1))
        return builder.select(is_positive, *both)

    a, top, diagonal = lanes.widened(alpha.lanes(at)), rule(TOP_POSITIVE), rule(DIAGONAL_POSITIVE)
    past = builder.fsub(lanes.signed(is_positive, z.lanes(at)), lanes.constant(1.0))  # margin − 1
    moved = builder.fadd(past, lanes.signed(is_positive, shifts.lanes(I64(0))))
    for row, missing in ((SLACK, past), (MOVED_SLACK, moved)):
        short = lanes.larger(zero, builder.fneg(missing))
        sides(row, short)
        sides(row + SLACK_SQUARED, builder.fmul(short, short))
    sides(ALPHA_SQUARED, builder.fmul(a, a))
    gather(ALPHA, builder.fmul(weight, a))
    gradient = builder.fadd(past, builder.fmul(diagonal, a))
    at_zero, at_top = builder.fcmp_ordered("==", a, zero), builder.fcmp_ordered("==", a, top)
    projected = project(lanes, gradient, at_zero, at_top)
    gather(MOST, projected, lanes.larger)
    gather(LEAST, projected, lanes.smaller)
    far = builder.or_(
        builder.and_(at_zero, builder.fcmp_ordered(">", gradient, within)),
        builder.and_(at_top, builder.fcmp_ordered("<", gradient, builder.fneg(within))),
    )
    return lanes.number(builder.not_(far))


@by_width(types.int64)
def _add_logistic(lanes, state, at, positive, weight, tables, sums, within):
    """`_add_hinge` for the duals u = log(α / (C − α)): every row may change."""
    (z, u), (_, costs, _) = state, tables
    builder, count, is_positive = lanes.builder, lanes.count, lanes.flags(positive)
    cost = builder.select(is_positive, costs.lanes(I64(0)), costs.lanes(I64(count)))
    cost = builder.fmul(cost, lanes.splat(weight))
    u, margin = lanes.widened(u.lanes(at)), lanes.signed(is_positive, z.lanes(at))

    def gather(row, value, pick=builder.fadd):
        sums.put(I64(row * count), pick(sums.lanes(I64(row * count)), value))

    gather(LOSSES, builder.fmul(cost, softplus(lanes, builder.fneg(margin))))
    entropy = builder.fsub(softplus(lanes, u), builder.fmul(sigmoid(lanes, u)[0], u))
    gather(ENTROPY, builder.fmul(cost, entropy))
    gather(WORST, lanes.call("fabs", builder.fadd(margin, u)), lanes.larger)
    return I64((1 << count) - 1)


def _certify_of(loss):
    @njit
    def certify(state, positive, norms, tables, near, sums, lanes, within):
        """Add the sums of a panel's certificate to `sums` (N_SUMS lanes, flat); rows count with their weights norms[i, 1].

        `state`: float64 scores and duals (n lanes each, flat); `tables`: rules, costs (2 lanes) and shifts (lanes). Hinges: for
        positive and for negative rows Σ (1 − margin)₊ and Σ (1 − margin)₊², the same with shifted scores, and Σ α²; Σ α; extremes
        of the projected gradient. Logistic: Σ C log(1 + exp(−margin)), Σ C H(α / C), and max |margin + u|. `near` (n) gets a bit
        for every lane in which the row may still change: its dual is not at a bound, or the gradient is within `within` of
        releasing it.
        """
        for i in range(positive.size):
            if loss == LOGISTIC:
                near[i] = _add_logistic(state, i * lanes, positive[i], norms[i, 1], tables, sums, within, lanes)
            else:
                near[i] = _add_hinge(state, i * lanes, positive[i], norms[i, 1], tables, sums, within, lanes)

    return certify


hinge_certify, logistic_certify = _certify_of(HINGE), _certify_of(LOGISTIC)


@by_width()
def _add_slopes(lanes, scores, at, positive, weight, costs, squared, moves, n_moves, sums):
    builder, zero, one, is_positive = lanes.builder, lanes.constant(0.0), lanes.constant(1.0), lanes.flags(positive)
    cost = builder.select(is_positive, costs.lanes(I64(0)), builder.fneg(costs.lanes(I64(lanes.count))))
    own, z = builder.fmul(lanes.splat(weight), cost), scores.lanes(at)
    squares = builder.icmp_signed("!=", squared, I64(0))
    with lanes.rows(I64(0), n_moves) as (g, _):
        margin = lanes.signed(is_positive, builder.fadd(z, lanes.splat(moves.one(g))))
        short = lanes.larger(zero, builder.fsub(one, margin))
        slope = builder.select(builder.fcmp_ordered(">", short, zero), own, zero)
        slope = builder.select(squares, builder.fmul(builder.fmul(own, lanes.constant(2.0)), short), slope)
        position = builder.mul(g, I64(lanes.count))
        sums.put(position, builder.fsub(sums.lanes(position), slope))


@njit
def slopes(scores, positive, norms, costs, squared, moves, sums, lanes):
    """sums[g lanes + l] += slope of Σ C ℓ (hinge, or `squared`) in the intercept of lane l moved by moves[g]; costs (2 lanes)."""
    for i in range(positive.size):
        _add_slopes(scores, i * lanes, positive[i], norms[i, 1], costs, np.int64(squared), moves, moves.size, sums, lanes)

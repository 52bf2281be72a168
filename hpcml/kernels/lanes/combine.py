"""Weights of a panel recomputed from its duals, in float64; non-zero duals, and logistic duals as α or at another cost."""

import numpy as np
from numba import types

from hpcml.kernels import elementary, njit
from hpcml.kernels.lanes.elementary import sigmoid, softplus
from hpcml.kernels.lanes.epoch import HINGE, LOGISTIC
from hpcml.kernels.lanes.products import TILE, add_lines
from hpcml.kernels.lanes.write import I64, by_width


@by_width(types.int64, widths=(1, 2, 4, 8))
def _signed(lanes, alpha, at, positive, weight, slopes, position):
    """slopes[position + l] = y weight alpha[at + l], y by the bits of `positive`. Return the bits of non-zero lanes."""
    a = lanes.widened(alpha.lanes(at))
    slopes.put(position, lanes.builder.fmul(lanes.signed(lanes.flags(positive), a), lanes.splat(weight)))
    return lanes.number(lanes.builder.fcmp_ordered("!=", a, lanes.constant(0.0)))


@by_width(types.int64, widths=(1, 2, 4, 8))
def _signed_logistic(lanes, u, at, positive, weight, slopes, position, costs):
    """`_signed` for α = C σ(u[at + l]), with C = costs[l], or costs[lanes + l] for negative rows."""
    builder, is_positive = lanes.builder, lanes.flags(positive)
    cost = builder.select(is_positive, costs.lanes(I64(0)), costs.lanes(I64(lanes.count)))
    alpha = builder.fmul(cost, sigmoid(lanes, lanes.widened(u.lanes(at)))[0])
    slopes.put(position, builder.fmul(lanes.signed(is_positive, alpha), lanes.splat(weight)))
    return I64(1)


def _combine_of(loss):
    @njit
    def combine(csr, norms, duals, positive, costs, first, v):
        """v[j lanes + l] (d, lanes ≤ 8) += Σ_i s α y x_ij in float64, for lanes first … of a panel; norms[i, 1] = s, `costs` (2,
        width).
        """
        width, lanes, v = costs.shape[1], v.shape[1], v.reshape(-1)
        slopes, starts = np.empty(TILE * lanes), np.empty(TILE, np.int64)
        costs, no_grids = costs[:, first : first + lanes].copy().reshape(-1), (np.zeros(1, np.uint8), np.zeros(1))
        for tile in range(0, positive.size, TILE):
            n = 0
            for i in range(tile, min(tile + TILE, positive.size)):
                at, flags, position = i * width + first, np.int64(positive[i]) >> first, (i - tile) * lanes
                if loss == LOGISTIC:
                    nonzero = _signed_logistic(duals, at, flags, norms[i, 1], slopes, position, costs, lanes)
                else:
                    nonzero = _signed(duals, at, flags, norms[i, 1], slopes, position, lanes)
                if nonzero:
                    starts[n] = position
                    n += 1
            add_lines(csr, tile, starts[:n], slopes, v, lanes, no_grids, False)

    return combine


hinge_combine, logistic_combine = _combine_of(HINGE), _combine_of(LOGISTIC)


@by_width(widths=(1, 2, 4, 8))
def _write_line(lanes, v, at, w, to, sums):
    """w[to + l] = v[at + l] rounded to w's type; sums[l] += v[at + l]², sums[lanes + l] += w[to + l]²."""
    builder, exact = lanes.builder, v.lanes(at)
    narrow = lanes.of(w.element).widened(exact)
    w.put(to, narrow)
    for row, value in enumerate((exact, lanes.widened(narrow))):
        position = I64(row * lanes.count)
        sums.put(position, builder.fadd(sums.lanes(position), builder.fmul(value, value)))


@njit
def write_rounded(v, lanes, w, width, first, sums):
    """Write v (d lanes, float64) to the lanes from `first` on of w (d width); sums (2 lanes): Σ v², and Σ w² after rounding."""
    sums[:] = 0.0
    for j in range(v.size // lanes):
        _write_line(v, j * lanes, w, j * width + first, sums, lanes)


@by_width(types.int64, of=0)
def _not_zero(lanes, values, at):
    """A bit for each of values[at] … values[at + lanes − 1] that is not 0."""
    return lanes.number(lanes.builder.fcmp_unordered("!=", values.lanes(at), lanes.constant(0.0)))


@njit
def support(alpha, width, lanes, active):
    """Set the bits of `active` (n) for lanes < `lanes` of a panel of `width` with a non-zero dual."""
    all_lanes = (1 << lanes) - 1
    for i in range(active.size):
        active[i] = _not_zero(alpha, i * width, width) & all_lanes


@by_width()
def _dual(lanes, u, at, cost, out):
    alpha = lanes.builder.fmul(lanes.splat(cost), sigmoid(lanes, lanes.widened(u.lanes(at)))[0])
    out.put(at, lanes.of(out.element).widened(alpha))


@by_width()
def _divided(lanes, u, at, below, shift):
    """u[at] = −below − log(1 + exp(shift − u[at]))."""
    builder = lanes.builder
    log = softplus(lanes, builder.fsub(lanes.splat(shift), lanes.widened(u.lanes(at))))
    u.put(at, lanes.of(u.element).widened(builder.fneg(builder.fadd(lanes.splat(below), log))))


@njit
def duals(u, cost, out):
    for i in range(u.size):
        _dual(u, i, cost, out, 1)


@njit
def divide(u, ratio):
    """Replace every u by that of the same α at a cost `ratio` > 1 times as high: v = −log(r − 1 + r exp(−u))."""
    below = elementary.log(ratio - 1.0)
    shift = elementary.log(ratio) - below
    for i in range(u.size):
        _divided(u, i, below, shift, 1)

"""Non-zero duals, and logistic duals as α or at another cost."""

from __future__ import annotations

from numba import types

from hpcml.kernels import elementary, njit
from hpcml.kernels.lanes.elementary import sigmoid, softplus
from hpcml.kernels.lanes.write import by_width


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
    """out[i] = α of u[i] at cost C."""
    for i in range(u.size):
        _dual(u, i, cost, out, 1)


@njit
def divide(u, ratio):
    """Change every u to that of the same α at a cost `ratio` > 1 times as high.

    σ(v) = σ(u) / r gives v = −log(r − 1 + r exp(−u)) = −log(r − 1) − log(1 + exp(−u + log(r / (r − 1)))).
    """
    below = elementary.log(ratio - 1.0)
    shift = elementary.log(ratio) - below
    for i in range(u.size):
        _divided(u, i, below, shift, 1)

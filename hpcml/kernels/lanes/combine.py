"""Weights of a panel recomputed from its duals, in float64."""

from __future__ import annotations

import numpy as np
from numba import types

from hpcml.kernels import njit
from hpcml.kernels.lanes.elementary import sigmoid
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
        """v[j lanes + l] += Σ_i s α y x_ij in float64, for lanes first … first + lanes − 1 of a panel; lanes ≤ 8.

        `csr` is (indptr, indices, data); norms[i, 1] are the weights s of the rows; `duals` (n width) and `costs` (2, width: C of
        positive, then of negative rows) are the panel's; v (d, lanes).
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

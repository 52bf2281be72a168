"""Row loops of Newton's method in float64, and a Cholesky solver.

`costs` (n) is s C for positive rows and −s C for negative rows.
"""

import math

import numpy as np

from hpcml.kernels import njit
from hpcml.losses import hinge, logistic, squared_hinge

SQUARED, HINGE, LOGISTIC = range(3)


@njit(forceinline=True)
def loss_at(margin, loss, width):
    """Return ℓ, ℓ′ and ℓ″ at a margin; the hinge is a parabola between 1 − width and 1."""
    if loss == LOGISTIC:
        return logistic.at(margin)
    return squared_hinge.at(margin) if loss == SQUARED else hinge.smoothed_at(margin, width)


@njit
def add_rows(csr, z, costs, loss, width, gradient, second):
    """Add −v to `gradient` (d), and H − I to the lower triangle of `second`; return the linear and quadratic parts of the dual."""
    (indptr, indices, data), linear, quadratic = csr, 0.0, 0.0
    for i in range(z.size):
        sign, cost = (1.0 if costs[i] > 0 else -1.0), abs(costs[i])
        margin = sign * z[i]
        height, slope, curvature = loss_at(margin, loss, width)
        if slope < 0:
            linear += cost * (height - margin * slope if loss == LOGISTIC else -slope)
            quadratic += cost * height if loss == SQUARED else 0.0
            for k in range(indptr[i], indptr[i + 1]):
                x, j = cost * np.float64(data[k]), indices[k]
                gradient[j] += sign * slope * x
                if curvature > 0:
                    for other in range(indptr[i], indptr[i + 1]):
                        if indices[other] <= j:
                            second[j, indices[other]] += curvature * x * np.float64(data[other])
    return linear, quadratic


@njit
def scores(csr, w, z):
    indptr, indices, data = csr
    for i in range(z.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * w[indices[k]]
        z[i] = total


@njit
def losses(z, along, step, costs, loss, width):
    """Return Σ s C ℓ at scores z + step · along."""
    total = 0.0
    for i in range(z.size):
        sign = 1.0 if costs[i] > 0 else -1.0
        total += abs(costs[i]) * loss_at(sign * (z[i] + step * along[i]), loss, width)[0]
    return total


@njit
def solve(second, x, least):
    """Replace x (d) by y with `second` · y = x, by Cholesky factorisation of the scaled matrix; overwrites the lower triangle."""
    d = x.size
    scale = 1.0 / np.sqrt(np.diag(second))
    for j in range(d):
        for k in range(j + 1):
            total = second[j, k] * scale[j] * scale[k]
            for m in range(k):
                total -= second[j, m] * second[k, m]
            second[j, k] = math.sqrt(max(total, least)) if k == j else total / second[k, k]
    for j in range(d):
        total = x[j] * scale[j]
        for k in range(j):
            total -= second[j, k] * x[k]
        x[j] = total / second[j, j]
    for j in range(d - 1, -1, -1):
        total = x[j]
        for k in range(j + 1, d):
            total -= second[k, j] * x[k]
        x[j] = total / second[j, j]
    x *= scale

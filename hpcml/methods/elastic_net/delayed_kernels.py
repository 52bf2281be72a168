"""Steps of stochastic gradient descent with delayed regularisation, for 16 lanes (labels that share each row).

`w` (16 n_columns) holds the lanes' weights of each column, up to date to some step. A step moves a weight by the gradient and then
regularises it: sgn(w)·[|w| − ηλ₁]₊ / (1 + ηλ₂) (FoBoS), or sgn(w)·[(1 − ηλ₂)|w| − ηλ₁]₊ (truncated gradient).

With one rate for all columns, `seen` (n_columns × 2) holds 1/Φ and B of the step to which a column is up to date, which avoids a
table look-up. With AdaGrad, `psi` holds this step. Sums and slopes have the type of w.
"""

import math
from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import expm1, log1p
from hpcml.kernels.lanes.products import add_line, dot_row, prefetch, shrink
from hpcml.methods.elastic_net.certifier_kernels import loss_at

LANES = 16
# Rate of the intercept relative to the weights: every row moves it, a weight only the rows with its feature.
INTERCEPT = 0.1
# Below these a few terms of the series are exact in float64.
SMALL_RATE, SMALL_SHRINK = 1e-3, 1e-2


class DelayedLanes(NamedTuple):
    positive: np.ndarray  # (m) bit l: row i has the label of lane l
    w: np.ndarray
    b: np.ndarray  # (16) intercepts
    squared: bool  # loss; otherwise logistic


class SharedRates(NamedTuple):
    """Rates of steps shared by all columns, and the tables derived from them."""

    etas: np.ndarray  # (steps)
    phi: np.ndarray  # (steps + 1) Φ before each step and after the last
    beta: np.ndarray  # (steps + 1) B likewise


class OwnRates(NamedTuple):
    """AdaGrad's rates α / √(1 + Σ g²) per column and lane."""

    alpha: float
    of_weights: np.ndarray  # like w
    b_squares: np.ndarray  # (16) 1 + Σ g² of the intercepts
    psi: np.ndarray  # (n_columns)


class Shrinkage(NamedTuple):
    l1: float
    l2: float
    truncated: bool  # truncated gradient; otherwise FoBoS


@njit
def slopes(z, lanes, i, g):
    """g[l] = ℓ′ of lane l in row i, at score z[l] + b[l]."""
    b, positive = lanes.b, lanes.positive[i]
    for lane in range(z.size):
        g[lane] = loss_at(b[lane] + z[lane], 2.0 * ((positive >> lane) & 1) - 1.0, lanes.squared)[1]


@njit
def prefetch_weights(rows, i, w):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        prefetch(w, np.int64(rows.indices[p]) * LANES, 1)


@njit
def tables(rates, l2, truncated):
    etas, phi, beta = rates
    phi[0], beta[0] = 1.0, 0.0
    for t in range(etas.size):
        phi[t + 1] = phi[t] * (1.0 - etas[t] * l2) if truncated else phi[t] / (1.0 + etas[t] * l2)
        beta[t + 1] = beta[t] + etas[t] / (phi[t + 1] if truncated else phi[t])


@njit
def sweep_tables(order, rows, lanes, seen, rates, first, l1):
    """Make a step for each row in `order`: steps first, first + 1, … since the tables started."""
    _, indices, data = rows
    etas, phi, beta = rates
    w, b = lanes.w, lanes.b
    z, g, moves = np.empty(LANES, w.dtype), np.empty(LANES), np.empty(LANES, w.dtype)
    for s in range(order.size):
        i, k = order[s], first + s
        begin, end = rows.indptr[i], rows.indptr[i + 1]
        if s + 1 < order.size:
            prefetch_weights(rows, order[s + 1], w)
        inverse, by = 1.0 / phi[k], phi[k] * l1
        for p in range(begin, end):
            j = indices[p]
            shrink(w, np.int64(j) * LANES, phi[k] * seen[j, 0], by * (beta[k] - seen[j, 1]), LANES)
            seen[j, 0], seen[j, 1] = inverse, beta[k]
        dot_row((indices, data), (begin, end), w, z, 0, LANES)
        slopes(z, lanes, i, g)
        for lane in range(LANES):
            b[lane] -= INTERCEPT * etas[k] * g[lane]
            moves[lane] = -etas[k] * g[lane]
        add_line((indices, data), (begin, end), moves, 0, w, (0, LANES), LANES)


@njit
def flush_tables(w, seen, phi, beta, l1):
    """Bring all columns up to date to the end of the tables, step 0 of the next ones."""
    for j in range(seen.shape[0]):
        shrink(w, j * LANES, phi * seen[j, 0], phi * l1 * (beta - seen[j, 1]), LANES)
        seen[j, 0], seen[j, 1] = 1.0, 0.0


@njit
def update_column(w, rates, alpha, n, shrinkage):
    """Apply n regularisation steps to a column's lanes at constant rates (at most alpha), in closed form.

    w| becomes ρⁿ|w| − (λ₁/λ₂)(1 − ρⁿ) with ρ = 1/(1 + ηλ₂) or 1 − ηλ₂, or |w| − nηλ₁ if λ₂ = 0.
    """
    l1, l2, truncated = shrinkage
    real = w.dtype.type
    sign = real(-1.0 if truncated else 1.0)
    if l2 == 0.0:
        by = real(n * l1)
        for lane in range(w.size):
            w[lane] = math.copysign(max(abs(w[lane]) - by * rates[lane], real(0.0)), w[lane])
    elif alpha * l2 <= SMALL_RATE and n * alpha * l2 <= SMALL_SHRINK:
        ratio, steps, one, strength = real(l1 / l2), sign * real(n), real(1.0), sign * real(l2)
        c2, c3, c4, c5, c6 = real(1 / 2), real(1 / 3), real(1 / 4), real(1 / 5), real(1 / 6)
        for lane in range(w.size):
            e, size = strength * rates[lane], abs(w[lane])
            u = steps * e * (one - e * (c2 - e * (c3 - e * (c4 - e * c5))))  # n |log ρ|
            lost = u * (one - u * c2 * (one - u * c3 * (one - u * c4 * (one - u * c5 * (one - u * c6)))))
            w[lane] = math.copysign(max(size - lost * (size + ratio), real(0.0)), w[lane])
    else:
        for lane in range(w.size):
            lost = -expm1(-n * sign * log1p(sign * rates[lane] * l2))
            w[lane] = math.copysign(max(abs(w[lane]) * (1.0 - lost) - lost * (l1 / l2), 0.0), w[lane])


@njit
def add_adagrad(w, rates, x, g, scale):
    """Add the new squared gradients to a column's rates (`scale`: 1/α²), then move its weights."""
    for lane in range(w.size):
        move = x * g[lane]
        r = rates[lane]
        r = r / np.sqrt(w.dtype.type(1.0) + move * move * (r * r * scale))
        rates[lane] = r
        w[lane] -= r * move


@njit
def sweep_adagrad(order, rows, lanes, rates, first, shrinkage):
    """`sweep_tables` with one rate per column and lane."""
    _, indices, data = rows
    alpha, of_weights, b_squares, psi = rates
    w, b = lanes.w, lanes.b
    real = w.dtype.type
    z, g, narrow = np.empty(LANES, w.dtype), np.empty(LANES), np.empty(LANES, w.dtype)
    scale = real(1.0 / (alpha * alpha))
    for s in range(order.size):
        i, k = order[s], first + s
        begin, end = rows.indptr[i], rows.indptr[i + 1]
        if s + 1 < order.size:
            prefetch_weights(rows, order[s + 1], w)
        for p in range(begin, end):
            at = np.int64(indices[p]) * LANES
            update_column(w[at : at + LANES], of_weights[at : at + LANES], alpha, k - psi[indices[p]], shrinkage)
            psi[indices[p]] = k
        dot_row((indices, data), (begin, end), w, z, 0, LANES)
        slopes(z, lanes, i, g)
        for lane in range(LANES):
            b_squares[lane] += g[lane] * g[lane]
            b[lane] -= alpha * g[lane] / math.sqrt(b_squares[lane])
            narrow[lane] = g[lane]
        for p in range(begin, end):
            at = np.int64(indices[p]) * LANES
            add_adagrad(w[at : at + LANES], of_weights[at : at + LANES], real(data[p]), narrow, scale)


@njit
def flush_adagrad(w, rates, now, shrinkage):
    """Bring all columns up to date to step `now`, step 0 of the next pass."""
    psi = rates.psi
    for j in range(psi.size):
        at = j * LANES
        update_column(w[at : at + LANES], rates.of_weights[at : at + LANES], rates.alpha, now - psi[j], shrinkage)
        psi[j] = 0

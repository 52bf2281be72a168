"""Passes of dual coordinate ascent for one label, row by row."""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.losses import logistic
from hpcml.methods.elastic_net.certifier_kernels import soft_threshold

# Maximum Newton iterations for the dual of a row; one or two are typical.
NEWTON = 8
# Share of the row's violation that ends these iterations.
REMAINDER = 1e-3
# Minimum share of a row's squared norm in its step size. With 1, the bound of the theory, labels of 290 to 10,000 rows of 35,000
# take 2 to 4 times as long at λ₁ = 0.1N/m, and the same at 0.01N/m; with 0.2 up to 1.5 times.
LEAST = 0.05
# Proximal weight σ of the intercept; 10 took up to four times the passes for labels of 20 to 300 rows.
PROXIMAL = 1.0


class Duals(NamedTuple):
    """Arrays by row: y = ±1; α = −ℓ′; log(|α| / (1 − |α|)) for the logistic loss; ‖x‖²."""

    signs: np.ndarray
    values: np.ndarray
    logits: np.ndarray
    squares: np.ndarray


@njit
def squares_of(rows, squares):
    for i in range(squares.size):
        total = 0.0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.values[k] * rows.values[k]
        squares[i] = total


@njit
def _score(indices, values, v, l1):
    """Return x · soft(v) and Σ x² over its non-zero features, the derivative of the score in v."""
    a = b = p = q = 0.0
    whole = indices.size // 2 * 2
    for k in range(0, whole, 2):
        s = soft_threshold(v[np.uint32(indices[k])], l1)
        t = soft_threshold(v[np.uint32(indices[k + 1])], l1)
        a += values[k] * s
        b += values[k + 1] * t
        p += values[k] * values[k] * (s != 0.0)
        q += values[k + 1] * values[k + 1] * (t != 0.0)
    for k in range(whole, indices.size):
        s = soft_threshold(v[np.uint32(indices[k])], l1)
        a += values[k] * s
        p += values[k] * values[k] * (s != 0.0)
    return a + b, p + q


@njit
def _add(indices, values, by, v):
    for k in range(indices.size):
        v[np.uint32(indices[k])] += by * values[k]


@njit
def logit_step(u, margin, a, q):
    """Return the root u of u + margin + q (σ(u) − a), an increasing function, by Newton's method in a bracket."""
    low, high = -margin - q * (1.0 - a), -margin + q * a
    tolerance = REMAINDER * abs(u + margin) + 1e-12
    u = min(max(u, low), high)
    for _ in range(NEWTON):
        _, slope, curvature = logistic.at(-u)  # −σ(u), σ′(u)
        g = u + margin - q * (slope + a)
        if abs(g) <= tolerance:
            break
        if g > 0:
            high = u
        else:
            low = u
        u -= g / (1.0 + q * curvature)
        if not low < u < high:
            u = 0.5 * (low + high)
    return u


@njit
def ascend(rows, order, duals, v, b, strengths, squared):
    """Visit rows: set α of each to its optimum and update v = Σ α x and the intercept b. Return b. Weights are soft(v, Λ₁) / Λ₂."""
    signs, alphas, logits, squares = duals
    l1, l2 = strengths
    for at in range(order.size):
        i = order[at]
        indices, values = rows.indices[rows.indptr[i] : rows.indptr[i + 1]], rows.values[rows.indptr[i] : rows.indptr[i + 1]]
        score, curvature = _score(indices, values, v, l1)
        z, q = score / l2 + b, max(curvature, LEAST * squares[i]) / l2 + 1.0 / PROXIMAL
        if squared:
            change = (signs[i] - z - alphas[i]) / (1.0 + q)
        else:
            a = abs(alphas[i])
            logits[i] = logit_step(logits[i], signs[i] * z, a, q)
            change = -signs[i] * (logistic.at(-logits[i])[1] + a)
        alphas[i] += change
        b += change / PROXIMAL
        _add(indices, values, change, v)
    return b

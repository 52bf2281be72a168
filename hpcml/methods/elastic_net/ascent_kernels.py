"""Compiled passes of dual coordinate ascent for one label, row after row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit

NEWTON = 8  # iterations for the dual of a row at most; one or two are the rule
REMAINDER = 1e-3  # of the row's violation that they may leave
PROXIMAL = 1.0  # σ: what holds the intercept back; 10 took up to four times the passes for labels of 20 to 300 rows


class Duals(NamedTuple):
    """Of each row: y = ±1; α = −ℓ′, and log(|α| / (1 − |α|)) of the logistic loss; ‖x‖²."""

    signs: np.ndarray
    values: np.ndarray
    logits: np.ndarray
    squares: np.ndarray


@njit
def squares_of(rows, squares):
    """‖x‖² of each row."""
    for i in range(squares.size):
        total = 0.0
        for k in range(rows.indptr[i], rows.indptr[i + 1]):
            total += rows.values[k] * rows.values[k]
        squares[i] = total


@njit
def _shrunk(v, l1):
    """The number moved towards 0 by l1, and not beyond; without a branch."""
    return v - min(max(v, -l1), l1)


@njit
def _score(indices, values, v, l1):
    """x · soft(v), in four sums."""
    a = b = c = d = 0.0
    whole = indices.size // 4 * 4
    for k in range(0, whole, 4):
        a += values[k] * _shrunk(v[np.uint32(indices[k])], l1)
        b += values[k + 1] * _shrunk(v[np.uint32(indices[k + 1])], l1)
        c += values[k + 2] * _shrunk(v[np.uint32(indices[k + 2])], l1)
        d += values[k + 3] * _shrunk(v[np.uint32(indices[k + 3])], l1)
    for k in range(whole, indices.size):
        a += values[k] * _shrunk(v[np.uint32(indices[k])], l1)
    return (a + b) + (c + d)


@njit
def _add(indices, values, by, v):
    """Add by · x to v."""
    for k in range(indices.size):
        v[np.uint32(indices[k])] += by * values[k]


@njit
def sigmoid(u):
    """1 / (1 + exp(−u)), and its derivative."""
    e = math.exp(-abs(u))
    small = e / (1.0 + e)
    return (1.0 - small if u > 0 else small), small / (1.0 + e)


@njit
def logit_step(u, margin, a, q):
    """The u with u + margin + q (σ(u) − a) = 0, which rises in u: Newton's steps in a bracket."""
    low, high = -margin - q * (1.0 - a), -margin + q * a
    enough = REMAINDER * abs(u + margin) + 1e-12
    u = min(max(u, low), high)
    for _ in range(NEWTON):
        p, slope = sigmoid(u)
        g = u + margin + q * (p - a)
        if abs(g) <= enough:
            break
        if g > 0:
            high = u
        else:
            low = u
        u -= g / (1.0 + q * slope)
        if not low < u < high:
            u = 0.5 * (low + high)
    return u


@njit
def ascend(rows, order, duals, v, b, strengths, squared):
    """Visit rows: α of each becomes the best one, and v = Σ α x and the intercept b follow.

    The weights are soft(v, Λ₁) / Λ₂. Returns b.
    """
    signs, alphas, logits, squares = duals
    l1, l2 = strengths
    for at in range(order.size):
        i = order[at]
        indices, values = rows.indices[rows.indptr[i] : rows.indptr[i + 1]], rows.values[rows.indptr[i] : rows.indptr[i + 1]]
        z, q = _score(indices, values, v, l1) / l2 + b, squares[i] / l2 + 1.0 / PROXIMAL
        if squared:
            change = (signs[i] - z - alphas[i]) / (1.0 + q)
        else:
            a = abs(alphas[i])
            logits[i] = logit_step(logits[i], signs[i] * z, a, q)
            change = signs[i] * (sigmoid(logits[i])[0] - a)
        alphas[i] += change
        b += change / PROXIMAL
        _add(indices, values, change, v)
    return b

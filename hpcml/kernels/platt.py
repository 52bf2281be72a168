"""Sigmoids fitted to weighted points by Newton's method, with a normal prior."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, softplus

_STEPS = 100  # largest number of steps of Newton's method


@njit
def _loss(x, weights, targets, slope, offset):
    """Σ w (log(1 + e^z) − t z), z = slope x + offset."""
    total = 0.0
    for i in range(x.size):
        z = slope * x[i] + offset
        total += weights[i] * (softplus(z) - targets[i] * z)
    return total


@njit
def _derivatives(x, weights, targets, slope, offset, out):
    """out (5) = first and second derivatives of `_loss` by slope, offset, slope², slope · offset, offset²."""
    out[:] = 0.0
    for i in range(x.size):
        z = slope * x[i] + offset
        e = exp(-abs(z))
        p = (1.0 if z >= 0.0 else e) / (1.0 + e)
        r, v = weights[i] * (p - targets[i]), weights[i] * e / ((1.0 + e) * (1.0 + e))
        out[0] += r * x[i]
        out[1] += r
        out[2] += v * x[i] * x[i]
        out[3] += v * x[i]
        out[4] += v


@njit
def _prior(q, slope, offset):
    """½ (θ − θ₀)ᵀ Q (θ − θ₀); q (5) = θ₀ and the three distinct entries of Q."""
    a, b = slope - q[0], offset - q[1]
    return 0.5 * (q[2] * a * a + 2.0 * q[3] * a * b + q[4] * b * b)


@njit
def _newton(x, weights, targets, q, flat, out):
    """Minimise `_loss` + `_prior` by Newton's method with step halving; with `flat` the slope is fixed."""
    d = np.empty(5)
    f = _loss(x, weights, targets, out[0], out[1]) + _prior(q, out[0], out[1])
    for _ in range(_STEPS):
        _derivatives(x, weights, targets, out[0], out[1], d)
        a, b = out[0] - q[0], out[1] - q[1]
        g0, g1 = d[0] + q[2] * a + q[3] * b, d[1] + q[3] * a + q[4] * b
        h0, h1, h2 = (d[2] + q[2]) * (1.0 + 1e-10) + 1e-12, d[3] + q[3], (d[4] + q[4]) * (1.0 + 1e-10) + 1e-12
        determinant = h0 * h2 - h1 * h1
        s0, s1 = -(h2 * g0 - h1 * g1) / determinant, -(h0 * g1 - h1 * g0) / determinant
        if flat:
            s0, s1 = 0.0, -g1 / h2
        fall, step, moved = g0 * s0 + g1 * s1, 1.0, False
        while step > 1e-10:
            a, b = out[0] + step * s0, out[1] + step * s1
            new = _loss(x, weights, targets, a, b) + _prior(q, a, b)
            if new <= f + 1e-4 * step * fall:
                moved = new < f
                out[0], out[1], f = a, b, new
                break
            step *= 0.5
        if not moved or -fall <= 1e-12 * (1.0 + abs(f)):
            break


@njit
def fit_sigmoid(x, weights, targets, q, out):
    """out (2) = the slope ≥ 0 and the offset that minimise Σ w (log(1 + e^z) − t z) + prior.

    x, weights, targets (n); q (5): mean of the prior and its precision (slope², slope · offset, offset²).
    """
    out[0], out[1] = q[0], q[1]
    _newton(x, weights, targets, q, False, out)
    if out[0] < 0.0:
        out[0] = 0.0
        _newton(x, weights, targets, q, True, out)


@njit
def curvature(x, weights, slope, offset, out):
    """out (3) = second derivatives of `_loss` by slope², slope · offset, offset²."""
    d = np.empty(5)
    _derivatives(x, weights, weights, slope, offset, d)
    out[:] = d[2:]


@njit
def fit_labels(indptr, x, weights, targets, priors, out):
    """Apply `fit_sigmoid` to the points indptr[l]..indptr[l + 1] of each label l; priors (L, 5), out (L, 2)."""
    for label in range(out.shape[0]):
        a, b = indptr[label], indptr[label + 1]
        fit_sigmoid(x[a:b], weights[a:b], targets[a:b], priors[label], out[label])

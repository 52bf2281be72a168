"""Compiled passes of `hpcml.evaluation.decision`: scores into places, F1 along a grid, sigmoids."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, sigmoid, softplus

OFFSETS = 1 << 16  # steps in which the way from one place to the next is measured
_STEPS = 100  # of Newton's method, at most


@njit
def tally(scores, values, starts, top, count, equal, offset):
    """Add scores (n) to the last ascending `values` (K) not above them; values[0] is above none.

    `starts` (S) has the place of S equal steps from values[0] to values[K − 1]. Adds to count,
    equal (scores that are the value itself) and offset (the way to the next value, in OFFSETS
    steps), each K int64; raises top (K) to the largest score.
    """
    last = values.size - 1
    low, width = values[0], values[last] - values[0]
    scale = starts.size / width if width > 0.0 else 0.0
    for k in range(scores.size):
        score = np.float64(scores[k])
        place = starts[min(np.int64((score - low) * scale), starts.size - 1)]
        while place > 0 and values[place] > score:
            place -= 1
        while place < last and values[place + 1] <= score:
            place += 1
        count[place] += 1
        top[place] = max(top[place], score)
        if score == values[place]:
            equal[place] += 1
        elif place < last:
            offset[place] += np.int64((score - values[place]) / (values[place + 1] - values[place]) * OFFSETS)


@njit
def _add_f1(values, positive, negative, positive_offset, equal, grid, out):
    """out[g] += F1 at grid[g]; in a place scores lie evenly, positives at its value if all do."""
    last, hits, others, n_positive = values.size - 1, 0.0, 0.0, 0.0
    exact = True
    for i in range(values.size):
        n_positive += positive[i]
        exact = exact and positive_offset[i] == 0.0
    place = last + 1
    for g in range(grid.size - 1, -1, -1):
        while place > 0 and values[place - 1] >= grid[g]:
            place -= 1
            hits += positive[place]
            others += negative[place]
        some_hits, some_others = hits, others
        if 0 < place <= last:
            share = (values[place] - grid[g]) / (values[place] - values[place - 1])
            some_others += share * (negative[place - 1] - equal[place - 1])
            if not exact:
                some_hits += share * positive[place - 1]
        out[g] += 2.0 * some_hits / (some_hits + some_others + n_positive)


@njit
def add_f1(indptr, values, positive, negative, positive_offset, equal, groups, grid, out):
    """out[groups[l], g] += F1 of label l, of places indptr[l]..indptr[l + 1], at grid[g]."""
    for label in range(groups.size):
        a, b = indptr[label], indptr[label + 1]
        if groups[label] >= 0:
            some = (values[a:b], positive[a:b], negative[a:b], positive_offset[a:b], equal[a:b])
            _add_f1(*some, grid, out[groups[label]])


@njit
def add_mass(x, weights, groups, edges, mass, moment):
    """mass[g, k] += weights[i], moment[g, k] += weights[i] x[i]; x[i] in bin k of the edges."""
    for i in range(x.size):
        if groups[i] >= 0 and weights[i] > 0:
            k = min(max(np.searchsorted(edges, x[i], "right") - 1, 0), mass.shape[1] - 1)
            mass[groups[i], k] += weights[i]
            moment[groups[i], k] += weights[i] * x[i]


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
    """out (5): `_loss`'s derivatives by slope, offset, slope², slope · offset, offset²."""
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
    """½ (θ − θ₀)ᵀ Q (θ − θ₀); q (5) = θ₀, then Q's three numbers."""
    a, b = slope - q[0], offset - q[1]
    return 0.5 * (q[2] * a * a + 2.0 * q[3] * a * b + q[4] * b * b)


@njit
def _newton(x, weights, targets, q, flat, out):
    """Minimise `_loss` + `_prior` by Newton's method with step halving; `flat` holds the slope."""
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
    """The slope ≥ 0 and offset (out, 2) with the least Σ w (log(1 + e^z) − t z) + prior.

    x, weights, targets (n); q (5): the prior's mean, and its precision (slope², slope · offset,
    offset²); out begins at the mean.
    """
    out[0], out[1] = q[0], q[1]
    _newton(x, weights, targets, q, False, out)
    if out[0] < 0.0:
        out[0] = 0.0
        _newton(x, weights, targets, q, True, out)


@njit
def curvature(x, weights, slope, offset, out):
    """out (3): the second derivatives of `_loss` (slope², slope · offset, offset²)."""
    d = np.empty(5)
    _derivatives(x, weights, weights, slope, offset, d)
    out[:] = d[2:]


@njit
def fit_labels(indptr, x, weights, targets, priors, out):
    """`fit_sigmoid` of points indptr[l]..indptr[l + 1] of label l; priors (L, 5), out (L, 2)."""
    for label in range(out.shape[0]):
        a, b = indptr[label], indptr[label + 1]
        fit_sigmoid(x[a:b], weights[a:b], targets[a:b], priors[label], out[label])


@njit
def sigmoids(scores, slope, offset, out):
    """out[i, l] = 1 / (1 + exp(−slope[l] scores[i, l] − offset[l])); (n, B), may be one array."""
    for i in range(scores.shape[0]):
        for lane in range(scores.shape[1]):
            out[i, lane] = sigmoid(slope[lane] * scores[i, lane] + offset[lane])


@njit
def tally_probabilities(probabilities, bits, squares, sums):
    """squares (B)[l] += p², sums (B, bins)[l, bin of p] += p (n, B), in int64 units of 2^−bits."""
    one, bins = np.float64(np.int64(1) << np.int64(bits)), sums.shape[1]
    for i in range(probabilities.shape[0]):
        for lane in range(probabilities.shape[1]):
            p = probabilities[i, lane]
            squares[lane] += np.int64(np.rint(p * p * one))
            sums[lane, min(np.int64(p * bins), bins - 1)] += np.int64(np.rint(p * one))

"""Kernels of `hpcml.evaluation.decision`: counts of scores between points, F1 on a grid, sigmoids."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import exp, sigmoid, softplus

OFFSETS = 1 << 16  # steps between two points in which offsets are measured
_STEPS = 100  # largest number of steps of Newton's method


@njit
def tally(scores, values, starts, top, count, equal, offset):
    """Count scores (n) at the last of the ascending `values` (K) that is not above them; no score is below values[0].

    `starts` (S) has the index of that value for S equal steps from values[0] to values[K − 1]. Adds to count, equal (scores equal
    to the value) and offset (distance towards the next value, in OFFSETS steps), each (K) int64; raises top (K) to the largest
    score.
    """
    last = values.size - 1
    low, width = values[0], values[last] - values[0]
    scale = starts.size / width if width > 0.0 else 0.0
    for k in range(scores.size):
        score = np.float64(scores[k])
        point = starts[min(np.int64((score - low) * scale), starts.size - 1)]
        while point > 0 and values[point] > score:
            point -= 1
        while point < last and values[point + 1] <= score:
            point += 1
        count[point] += 1
        top[point] = max(top[point], score)
        if score == values[point]:
            equal[point] += 1
        elif point < last:
            offset[point] += np.int64((score - values[point]) / (values[point + 1] - values[point]) * OFFSETS)


@njit
def _add_f1(values, positive, negative, positive_offset, equal, grid, out):
    """out[g] += F1 at grid[g]; scores are uniform between points; positives are at the points if all their offsets are 0."""
    last, hits, others, n_positive = values.size - 1, 0.0, 0.0, 0.0
    exact = True
    for i in range(values.size):
        n_positive += positive[i]
        exact = exact and positive_offset[i] == 0.0
    point = last + 1
    for g in range(grid.size - 1, -1, -1):
        while point > 0 and values[point - 1] >= grid[g]:
            point -= 1
            hits += positive[point]
            others += negative[point]
        interpolated_hits, interpolated_others = hits, others
        if 0 < point <= last:
            share = (values[point] - grid[g]) / (values[point] - values[point - 1])
            interpolated_others += share * (negative[point - 1] - equal[point - 1])
            if not exact:
                interpolated_hits += share * positive[point - 1]
        out[g] += 2.0 * interpolated_hits / (interpolated_hits + interpolated_others + n_positive)


@njit
def add_f1(indptr, values, positive, negative, positive_offset, equal, groups, grid, out):
    """out[groups[l], g] += F1 of label l, with the points indptr[l]..indptr[l + 1], at grid[g]."""
    for label in range(groups.size):
        a, b = indptr[label], indptr[label + 1]
        if groups[label] >= 0:
            points = (values[a:b], positive[a:b], negative[a:b], positive_offset[a:b], equal[a:b])
            _add_f1(*points, grid, out[groups[label]])


@njit
def add_mass(x, weights, groups, edges, mass, moment):
    """mass[g, k] += weights[i] and moment[g, k] += weights[i] x[i] for x[i] in bin k of the edges."""
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


@njit
def sigmoids(scores, slope, offset, out):
    """out[i, l] = 1 / (1 + exp(−slope[l] scores[i, l] − offset[l])); (n, B); out may be scores."""
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

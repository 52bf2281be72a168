"""Kernels of `hpcml.evaluation.decision`: counts of scores between points, F1 on a grid, probabilities."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import sigmoid

OFFSETS = 1 << 16  # steps between two points in which offsets are measured


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

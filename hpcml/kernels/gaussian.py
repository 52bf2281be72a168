"""One Gaussian for each feature (d) and class (K), and the mass P(v | c) of the cell of width δ around a value v.

Values are rounded to multiples of δ. Columns are those of a CSC matrix (`indptr, rows, data`); values that are not stored are 0.
"""

import math
from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import erfc, log

_ROOT_HALF = math.sqrt(0.5)


class Gaussians(NamedTuple):
    """The Gaussians of d features in K classes."""

    precisions: np.ndarray  # (d) δ
    means: np.ndarray  # (d, K)
    deviations: np.ndarray  # (d, K)
    floor: float  # minimum P


@njit
def _rounded(value, precision):
    return np.rint(value / precision) * precision if precision > 0 else value


@njit
def mean_and_spread(indptr, rows, data, labels, weights, totals, precisions, means, deviations):
    """Mean and standard deviation (d, K) of rounded values, initialised to 0; totals (K): weights of the classes."""
    n_classes = totals.size
    for j in range(precisions.size):
        stored = np.zeros(n_classes)
        for k in range(indptr[j], indptr[j + 1]):
            c, weight = labels[rows[k]], weights[rows[k]]
            means[j, c] += weight * _rounded(data[k], precisions[j])
            stored[c] += weight
        for c in range(n_classes):
            means[j, c] /= totals[c] if totals[c] > 0 else 1.0
        missing = indptr[j + 1] - indptr[j] < labels.size
        for k in range(indptr[j], indptr[j + 1]):
            c = labels[rows[k]]
            deviations[j, c] += weights[rows[k]] * (_rounded(data[k], precisions[j]) - means[j, c]) ** 2
        for c in range(n_classes):
            zeros = max(totals[c] - stored[c], 0.0) if missing else 0.0
            squares = deviations[j, c] + zeros * means[j, c] ** 2
            deviations[j, c] = math.sqrt(squares / (totals[c] if totals[c] > 0 else 1.0))


@njit(forceinline=True)
def below(x):
    """Φ(x)."""
    return 0.5 * erfc(-x * _ROOT_HALF)


@njit(forceinline=True)
def _mass(gaussians, j, c, rounded):
    """P(v | c) = max(Φ((v − μ + δ/2)/σ) − Φ((v − μ − δ/2)/σ), floor) for a rounded value v."""
    away, half = rounded - gaussians.means[j, c], gaussians.precisions[j] / 2
    deviation = gaussians.deviations[j, c]
    return max(below((away + half) / deviation) - below((away - half) / deviation), gaussians.floor)


@njit
def log_zeros(gaussians, out):
    """out[j, c] = log P(0 | c)."""
    for j in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[j, c] = log(_mass(gaussians, j, c, 0.0))


@njit
def _logs(gaussians, j, c, values, out):
    """out[i] = log P(values[i] | c)."""
    for i in range(values.size):
        out[i] = log(_mass(gaussians, j, c, values[i]))


@njit
def add_dense(gaussians, X, out):
    """out[i, c] += Σ_j log P(X[i, j] | c), in the order of j; X (n, d), out (n, K).

    If the rows have far more values than there are multiples of δ between their extremes, each multiple is computed once.
    """
    n = X.shape[0]
    steps, logs = np.empty(n), np.empty(n)
    for j in range(X.shape[1]):
        precision = gaussians.precisions[j]
        unit = precision if precision > 0 else 1.0
        first, last = np.inf, -np.inf
        for i in range(n):
            steps[i] = np.rint(np.float64(X[i, j]) / unit) if precision > 0 else np.float64(X[i, j])
            first, last = min(first, steps[i]), max(last, steps[i])
        tabulated = precision > 0 and n > 0 and 2.0 * (last - first + 1.0) <= n
        values = (first + np.arange(last - first + 1.0)) * unit if tabulated else steps * unit
        for c in range(out.shape[1]):
            _logs(gaussians, j, c, values, logs)
            for i in range(n):
                out[i, c] += logs[np.intp(steps[i] - first) if tabulated else i]


@njit
def add_sparse(gaussians, zeros, indptr, indices, data, out):
    """out[i, c] += Σ log P(x_j | c) − zeros[j, c] over the stored x_j; zeros from `log_zeros`."""
    for i in range(out.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            value = _rounded(np.float64(data[k]), gaussians.precisions[j])
            for c in range(out.shape[1]):
                out[i, c] += log(_mass(gaussians, j, c, value)) - zeros[j, c]

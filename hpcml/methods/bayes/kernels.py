"""Counting features of rows, the weights that follow from the counts, and scores."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import log


@njit
def count(indptr, indices, rows, counts, columns):
    """Add the features of `rows` to counts (d, int64), write features counted for the first time to `columns`; their number."""
    n_columns = 0
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            if counts[j] == 0:
                columns[n_columns] = j
                n_columns += 1
            counts[j] += 1
    return n_columns


@njit
def log_odds(positive, negative, n_positive, n_negative, smoothing, w, absent):
    """w = log[p (1 − q) / (q (1 − p))] and absent = log[(1 − p) / (1 − q)] of features.

    `positive` and `negative` (k) are the weights of the rows with a feature, out of `n_positive` and `n_negative`;
    p = (positive + smoothing) / (n_positive + 2 smoothing), q likewise.
    """
    for j in range(w.size):
        a, b = positive[j] + smoothing, negative[j] + smoothing
        c, d = n_positive - positive[j] + smoothing, n_negative - negative[j] + smoothing
        w[j] = log((a * d) / (b * c))
        absent[j] = log((c / (n_positive + 2.0 * smoothing)) / (d / (n_negative + 2.0 * smoothing)))


@njit
def pool(values, weights, ends):
    """Isotonic least-squares fit of `values` with `weights` (pool adjacent violators, Ayer et al. 1955), in place.

    Block b of equal fitted values is stored as values[b]; it covers the inputs up to ends[b], exclusive. All arrays (n); `weights`
    is overwritten. Returns the number of blocks.
    """
    n_blocks = 0
    for i in range(values.size):
        value, weight = values[i], weights[i]
        while n_blocks and values[n_blocks - 1] >= value:
            n_blocks -= 1
            whole = weights[n_blocks] + weight
            value, weight = (weights[n_blocks] * values[n_blocks] + weight * value) / whole, whole
        values[n_blocks], weights[n_blocks], ends[n_blocks] = value, weight, i + 1
        n_blocks += 1
    return n_blocks


@njit
def add_weights(indptr, indices, rows, weights, sums):
    """sums[j] += weights[i] (d) for every feature of row rows[i]."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            sums[np.uint64(indices[k])] += weights[i]


@njit
def score(indptr, indices, rows, w, out):
    """out[i] = Σ w[j] over the features of row rows[i], in the order of `hpcml predict`."""
    for i in range(rows.size):
        total = 0.0
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            total += w[np.uint64(indices[k])]
        out[i] = total

"""Kernels of `hpcml.leave_one_out.decide`: isotonic regression, and the search for thresholds."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import sigmoid


@njit
def isotonic_steps(rows, positives, steps):
    """steps[:, :n] = rows, positives and Σ cell · rows of the steps of the isotonic regression of positives / rows. Return n.

    Neighbouring cells are pooled until the share of positives increases. Numbers are whole, and their products exact.
    """
    n = 0
    for c in range(rows.size):
        if rows[c] > 0:
            steps[0, n], steps[1, n], steps[2, n] = rows[c], positives[c], c * rows[c]
            n += 1
            while n > 1 and steps[1, n - 2] * steps[0, n - 1] >= steps[1, n - 1] * steps[0, n - 2]:
                steps[:, n - 2] += steps[:, n - 1]
                n -= 1
    return n


@njit
def best_cells(counts, groups, around, weights, lowest, curves, sigmoids, best):
    """best[l] = the lowest predicted cell of label l.

    `counts` are indptr, cells and n_rows. F1 is expected for the label's rows and weights[g] around[g] (n_cells), g = groups[l]; of
    equal F1 the highest cell is taken, and `lowest` is never predicted.
    """
    indptr, cells, n_rows = counts
    n_cells = around.shape[1]
    own, p = np.empty(n_cells), np.empty(n_cells)
    for label in range(best.size):
        g, positives = groups[label], 0.0
        own[:] = 0.0
        for k in range(indptr[label], indptr[label + 1]):
            own[max(np.int64(cells[k]), lowest)] += n_rows[k]
        for c in range(lowest, n_cells):
            p[c] = sigmoid(sigmoids[label, 0] * curves[g, c] + sigmoids[label, 1])
            positives += p[c] * (own[c] + weights[g] * around[g, c])
        hits = predicted = top = 0.0
        best[label] = n_cells - 1
        for c in range(n_cells - 1, lowest - 1, -1):
            hits += p[c] * (own[c] + weights[g] * around[g, c])
            predicted += own[c] + weights[g] * around[g, c]
            if c > lowest and 2.0 * hits > top * (predicted + positives):
                top = 2.0 * hits / (predicted + positives)
                best[label] = c

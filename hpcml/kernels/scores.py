"""Scores of linear models: x · w + bias, summed over a row's non-zeros in order, starting from 0.

A model stores the weight of feature j for label l as W[l, columns[j]] · factors[j]. `score_rows` uses expanded weights of a block
of labels (`expand_weights`), `score_rows_by_column` the non-zero weights by column (`model.scoring.transpose_weights`), and
`score_pairs` computes each weight when needed. Except for additions of 0, all do the same double-precision operations in the same
order for a (row, label) pair, so the bits do not depend on the block of labels or the other rows. Indices are not checked;
`hpcml.model.linear` has checked them.
"""

import numpy as np

from hpcml.kernels import njit

_NEAR = 1 << 12  # features per block, to stay in the caches


@njit
def _expand_row(w, columns, factors, out):
    for j in range(columns.size):
        out[j] = np.float64(w[np.uint64(columns[j])]) * np.float64(factors[j])


@njit
def expand_weights(W, labels, columns, factors, Wt):
    """Wt[j, l] (d, B) = W[labels[l], columns[j]] factors[j]; W (L, c), columns, factors (d)."""
    for begin in range(0, columns.size, _NEAR):
        end = min(begin + _NEAR, columns.size)
        for lane in range(labels.size):
            w = W[np.uint64(labels[lane])]
            _expand_row(w, columns[begin:end], factors[begin:end], Wt[begin:end, lane])


@njit
def _add_scaled(x, w, out):
    for lane in range(out.size):
        out[lane] += x * w[lane]


@njit
def _score_row(indices, data, begin, end, Wt, bias, out):
    """out[l] = Σ data[k] Wt[indices[k], l] over begin ≤ k < end, + bias[l]."""
    out[:] = 0.0
    for k in range(np.uint64(begin), np.uint64(end)):
        _add_scaled(np.float64(data[k]), Wt[np.uint64(indices[k])], out)
    for lane in range(out.size):
        out[lane] += bias[lane]


@njit
def score_rows(indptr, indices, data, rows, Wt, bias, out):
    """out[i, l] (n, B) = score of row rows[i] for label l; Wt (d, B), bias (B)."""
    for i in range(rows.size):
        row = np.uint64(rows[i])
        _score_row(indices, data, indptr[row], indptr[row + np.uint64(1)], Wt, bias, out[i])


@njit
def add_column(x, factor, lanes, weights, out):
    """out[lanes[p]] += x (weights[p] factor)."""
    for p in range(lanes.size):
        out[np.uint64(lanes[p])] += x * (np.float64(weights[p]) * factor)


@njit
def score_row_by_column(csr, row, model, divisor, out):
    """out[l] (B) = score of a row for label l, divided by `divisor`; return the first label whose score is NaN, or −1.

    `model` is (by_column, columns, factors, bias); by_column is (begins, lanes, weights) of the columns.
    """
    (indptr, indices, data), ((begins, lanes, weights), columns, factors, bias), n_nan = csr, model, 0
    out[:] = 0.0
    for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        j = np.uint64(indices[k])
        first, last = begins[np.uint64(columns[j])], begins[np.uint64(columns[j]) + np.uint64(1)]
        if first < last:
            add_column(np.float64(data[k]), np.float64(factors[j]), lanes[first:last], weights[first:last], out)
    for lane in range(out.size):
        out[lane] = (out[lane] + bias[lane]) / divisor
        n_nan += np.isnan(out[lane])
    return -1 if n_nan == 0 else np.isnan(out).argmax()


@njit
def score_rows_by_column(csr, rows, model, divisors, out):
    """`score_row_by_column` of row rows[i], divided by divisors[i], to out[i]; return the first such label, or −1."""
    bad = -1
    for i in range(rows.size):
        nan_label = score_row_by_column(csr, rows[i], model, divisors[i], out[i])
        bad = nan_label if bad < 0 else bad
    return bad


@njit
def fill_frequent(by_column, places, table):
    """table[places[c], l] (f, B) = weight of lane l in column c; columns with places[c] < 0 are skipped."""
    begins, lanes, weights = by_column
    table[:] = 0
    for column in range(places.size):
        if places[column] >= 0:
            for p in range(begins[column], begins[column + 1]):
                table[places[column], lanes[p]] = weights[p]


@njit
def _add_frequent(x, factor, weights, out):
    for lane in range(out.size):
        out[lane] += x * (np.float64(weights[lane]) * factor)


@njit
def score_block_by_column(csr, rows, model, divisors, out):
    """`score_rows_by_column` with frequent columns in a table; by_column is (begins, lanes, weights, places, table)."""
    (indptr, indices, data), ((begins, lanes, weights, places, table), columns, factors, bias) = csr, model
    for i in range(rows.size):
        scores, row = out[i], np.uint64(rows[i])
        scores[:] = 0.0
        for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + np.uint64(1)])):
            j = np.uint64(indices[k])
            column = np.uint64(columns[j])
            first, last = begins[column], begins[column + np.uint64(1)]
            if places[column] >= 0:
                _add_frequent(np.float64(data[k]), np.float64(factors[j]), table[np.uint64(places[column])], scores)
            elif first < last:
                add_column(np.float64(data[k]), np.float64(factors[j]), lanes[first:last], weights[first:last], scores)
        for lane in range(scores.size):
            scores[lane] = (scores[lane] + bias[lane]) / divisors[i]


@njit
def _score_pair(indices, data, begin, end, w, columns, factors, bias):
    """Σ data[k] (w[columns[j]] factors[j]) with j = indices[k] over begin ≤ k < end, + bias."""
    total = 0.0
    for k in range(np.uint64(begin), np.uint64(end)):
        j = np.uint64(indices[k])
        total += np.float64(data[k]) * (np.float64(w[np.uint64(columns[j])]) * np.float64(factors[j]))
    return total + bias


@njit
def score_pairs(indptr, indices, data, rows, labels, W, tables, bias, out):
    """out[p] = score of row rows[p] for label labels[p]; W (L, c), tables: columns, factors (d)."""
    for p in range(rows.size):
        row, label = np.uint64(rows[p]), np.uint64(labels[p])
        begin, end = indptr[row], indptr[row + np.uint64(1)]
        out[p] = _score_pair(indices, data, begin, end, W[label], *tables, bias[label])


@njit
def sum_rows(indptr, indices, data, rows, factors, out):
    """out[i] = 1 + Σ row rows[i] where factors[j] ≠ 0. Return the number of rows before the first negative value."""
    for i in range(rows.size):
        out[i] = 0.0
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            if data[k] < 0.0:
                return i
            if factors[np.uint64(indices[k])] != 0.0:
                out[i] += np.float64(data[k])
        out[i] += 1.0
    return rows.size

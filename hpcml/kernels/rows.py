"""Passes over CSR rows before training: feature statistics, row sizes, compact copies."""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit

FOLDED = -1  # in `column_of`: a feature of one training row only
ABSENT = -2  # in `column_of`: a feature of no training row
FREQUENT = 4096  # leading columns whose weights of 16 labels fit the L2 cache


class Columns(NamedTuple):
    of: np.ndarray  # (n_features): a column, FOLDED or ABSENT
    fold: np.ndarray  # (n): the column of a row's folded features, or −1
    fold_norm: np.ndarray  # (n): norm of these features
    bias: int  # the column of the constant feature, or −1


@njit
def column_extremes(indptr, indices, data, rows, largest, counts, smallest):
    """Over x_ij ≠ 0 of `rows`: largest[j] = max |x_ij|, counts[j] += 1, and smallest[0] = min |x_ij|."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j, size = np.uint64(indices[k]), abs(data[k])
            largest[j] = max(largest[j], size)
            if size != 0.0:
                counts[j] += 1
                smallest[0] = min(smallest[0], size)


@njit
def add_moments(indptr, indices, data, rows, factors, grid, sums):
    """sums[0, j] += z and sums[1, j] += z² over `rows`, for z = x_ij factors[j], |z| ≤ 1, as int64 multiples of 1/grid."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            z = np.float64(data[k]) * factors[j]
            sums[0, j] += np.int64(np.rint(z * grid))
            sums[1, j] += np.int64(np.rint(z * z * grid))


@njit
def row_sizes(indptr, indices, data, rows, column_of, sizes, squares, folded):
    """Per row: number of values with a column, Σ x² of all values, and Σ x² of FOLDED features."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            column, x = column_of[np.uint64(indices[k])], np.float64(data[k])
            squares[i] += x * x
            if column >= 0 and x != 0.0:
                sizes[i] += 1
            elif column == FOLDED:
                folded[i] += x * x


@njit
def compact(indptr, indices, data, rows, columns, out_indptr, out_indices, out_data):
    """Copy `rows` to out_indptr[0] and following, the FREQUENT first columns first; FOLDED features of a row become one value."""
    column_of, fold_column, fold_norm, bias_column = columns
    at = out_indptr[0]
    for i in range(rows.size):
        for frequent in (True, False):
            for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
                column = column_of[np.uint64(indices[k])]
                if column >= 0 and (column < FREQUENT) == frequent and data[k] != 0.0:
                    out_indices[at], out_data[at] = column, data[k]
                    at += 1
        if fold_column[i] >= 0:
            out_indices[at], out_data[at] = fold_column[i], fold_norm[i]
            at += 1
        if bias_column >= 0:
            out_indices[at], out_data[at] = bias_column, 1.0
            at += 1
        out_indptr[i + 1] = at


@njit
def fold_factors(indptr, indices, data, rows, columns, out, factors):
    """out[j], factors[j] = column of the row and x_ij over its norm, for FOLDED features of `rows`."""
    column_of, fold_column, fold_norm, _ = columns
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            if column_of[j] == FOLDED:
                out[j], factors[j] = fold_column[i], np.float64(data[k]) / np.float64(fold_norm[i])


@njit
def count_features(indptr, indices, data, rows, out):
    """out[j] += number of `rows` with a non-zero feature j."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            if data[k] != 0:
                out[np.uint64(indices[k])] += 1


@njit
def count_labels(y_indptr, y_indices, rows, out):
    """out[l] += number of `rows` with label l."""
    for i in range(rows.size):
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            out[np.uint64(y_indices[k])] += 1


@njit
def transpose(begins, ends, indices, data, first, positions, out_rows, out_data, positive=False):
    """Write the entries begins[i] ≤ k < ends[i] of every row i by column: i to out_rows, data[k] to out_data (both may be None).

    positions[c − first] (int64), the next position of column c, is advanced; below 0 the column is skipped, with `positive` also
    data ≤ 0.
    """
    for i in range(begins.size):
        for k in range(np.uint64(begins[i]), np.uint64(ends[i])):
            c = np.uint64(indices[k] - first)  # wraps to a huge number for columns before `first`
            if c >= np.uint64(positions.size) or positions[c] < 0:
                continue
            position = np.uint64(positions[c])
            if data is not None:
                if positive and not data[k] > 0.0:
                    continue
                out_data[position] = data[k]
            out_rows[position] = i
            positions[c] += 1


@njit
def first_at_least(values, begin, end, key):
    """Return the smallest i in [begin, end) with values[i] ≥ key, or `end`; `values` are ascending."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[np.uint64(middle)] < key:
            begin = middle + 1
        else:
            end = middle
    return begin

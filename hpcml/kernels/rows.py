"""Passes over CSR rows before training: what the features hold, how long the rows are, and the
compact copy of the rows.
"""

import numpy as np

from hpcml.kernels import njit

FOLDED = -1  # in `column_of`: a feature that only one training row has
ABSENT = -2  # in `column_of`: a feature that no training row has


@njit
def column_extremes(indptr, indices, data, rows, largest, counts, smallest):
    """largest[j] = max |x_ij| and counts[j] += 1 over the values x_ij ≠ 0 of `rows`; smallest[0]
    = the least |x_ij| of all.
    """
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j, size = np.uint64(indices[k]), abs(data[k])
            largest[j] = max(largest[j], size)
            if size != 0.0:
                counts[j] += 1
                smallest[0] = min(smallest[0], size)


@njit
def row_sizes(indptr, indices, data, rows, column_of, sizes, squares, folded):
    """For each row: how many values have a column, Σ x² over all its values, and over those of
    `FOLDED` features.
    """
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            column, x = column_of[np.uint64(indices[k])], np.float64(data[k])
            squares[i] += x * x
            if column >= 0 and x != 0.0:
                sizes[i] += 1
            elif column == FOLDED:
                folded[i] += x * x


@njit
def compact(indptr, indices, data, rows, column_of, fold_column, fold_norm, bias_column, out_indptr, out_indices, out_data):
    """Copy `rows` to where out_indptr[0] says, with columns for features.

    The FOLDED ones of a row become one value in fold_column[i], if that is ≥ 0.
    """
    at = out_indptr[0]
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            column = column_of[np.uint64(indices[k])]
            if column >= 0 and data[k] != 0.0:
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
def fold_factors(indptr, indices, data, rows, column_of, fold_column, fold_norm, columns, factors):
    """columns[j], factors[j] of the FOLDED features of `rows`: the row's column, and x_ij over
    its norm there.
    """
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            if column_of[j] == FOLDED:
                columns[j], factors[j] = fold_column[i], np.float64(data[k]) / np.float64(fold_norm[i])


@njit
def count_features(indptr, indices, data, rows, out):
    """out[j] += the number of `rows` in which feature j is not 0."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            if data[k] != 0:
                out[np.uint64(indices[k])] += 1


@njit
def rows_by_label(y_indptr, y_indices, rows, place, out):
    """Put each of `rows` into `out` for every label that it has: for label l at place[l], which
    is moved on.
    """
    for i in range(rows.size):
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            label = np.uint64(y_indices[k])
            out[place[label]] = rows[i]
            place[label] += 1


@njit
def count_labels(y_indptr, y_indices, rows, out):
    """out[l] += the number of `rows` that have label l."""
    for i in range(rows.size):
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            out[np.uint64(y_indices[k])] += 1

"""Passes over CSR rows before training: what features hold, how long rows are, compact copies."""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit

FOLDED = -1  # in `column_of`: a feature that only one training row has
ABSENT = -2  # in `column_of`: a feature that no training row has
FREQUENT = 4096  # first columns: so many weights of 16 labels stay in the second-level cache


class Columns(NamedTuple):
    """Where the values of some rows go."""

    of: np.ndarray  # (n_features): a column, FOLDED or ABSENT
    fold: np.ndarray  # (n): the column of a row's folded features, or −1
    fold_norm: np.ndarray  # (n): their norm
    bias: int  # the column of the constant feature, or −1


@njit
def column_extremes(indptr, indices, data, rows, largest, counts, smallest):
    """Over x_ij ≠ 0 of `rows`: largest[j] = max |x_ij|, counts[j] += 1; smallest[0] of all."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j, size = np.uint64(indices[k]), abs(data[k])
            largest[j] = max(largest[j], size)
            if size != 0.0:
                counts[j] += 1
                smallest[0] = min(smallest[0], size)


@njit
def add_moments(indptr, indices, data, rows, factors, grid, sums):
    """sums[0, j] += z, sums[1, j] += z² over `rows`, with z = x_ij factors[j] of size ≤ 1; in whole multiples of 1/grid (int64)."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            z = np.float64(data[k]) * factors[j]
            sums[0, j] += np.int64(np.rint(z * grid))
            sums[1, j] += np.int64(np.rint(z * z * grid))


@njit
def row_sizes(indptr, indices, data, rows, column_of, sizes, squares, folded):
    """For each row: how many values have a column, Σ x² of all, and of `FOLDED` features."""
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
    """Copy `rows` to where out_indptr[0] says; all FOLDED features of a row become one value.

    The FREQUENT first columns come before the others.
    """
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
    """out[j], factors[j] of the FOLDED features of `rows`: the row's column, x_ij over its norm."""
    column_of, fold_column, fold_norm, _ = columns
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j = np.uint64(indices[k])
            if column_of[j] == FOLDED:
                out[j], factors[j] = fold_column[i], np.float64(data[k]) / np.float64(fold_norm[i])


@njit
def count_features(indptr, indices, data, rows, out):
    """out[j] += the number of `rows` in which feature j is not 0."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            if data[k] != 0:
                out[np.uint64(indices[k])] += 1


@njit
def count_labels(y_indptr, y_indices, rows, out):
    """out[l] += the number of `rows` that have label l."""
    for i in range(rows.size):
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            out[np.uint64(y_indices[k])] += 1


@njit
def transpose(begins, ends, indices, data, first, places, out_rows, out_data, positive=False):
    """Write the entries begins[i] ≤ k < ends[i] of every row i column by column: i into out_rows, data[k] into out_data.

    places[c − first] (int64) is the place of the next entry of column c and is advanced. Columns without a place, or with a place
    below 0, are left out; with `positive`, values of at most 0 too. `data` and `out_data` may be None.
    """
    for i in range(begins.size):
        for k in range(np.uint64(begins[i]), np.uint64(ends[i])):
            c = np.uint64(indices[k] - first)  # of a column before `first`: larger than any size
            if c >= np.uint64(places.size) or places[c] < 0:
                continue
            place = np.uint64(places[c])
            if data is not None:
                if positive and not data[k] > 0.0:
                    continue
                out_data[place] = data[k]
            out_rows[place] = i
            places[c] += 1


@njit
def first_at_least(values, begin, end, key):
    """Return the smallest i in [begin, end) with values[i] ≥ key, or `end` if there is none; `values` are ascending."""
    while begin < end:
        middle = (begin + end) >> 1
        if values[np.uint64(middle)] < key:
            begin = middle + 1
        else:
            end = middle
    return begin

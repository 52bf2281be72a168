"""The compiled pieces of choosing: dealing rows to folds, copying rows, scores of held-out rows."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.rows import dot_rows

TILE = 64


@njit
def deal(label_indptr, label_rows, labels, draws, n_folds, fold):
    """fold[i] (int8, −1 at first) of every row: each fold has an even share of each label's rows.

    Sechidis, Tsoumakas & Vlahavas 2011 (iterative stratification), with the labels in the given
    order, which should be that of rising frequency: a row goes to the fold that has the fewest rows
    of the label, of several to that with the fewest rows, then to the one that its number of
    `draws` (n) uint64 points at. Rows with none of the labels come last.
    """
    sizes, have = np.zeros(n_folds, np.int64), np.zeros(n_folds, np.int64)
    for label in labels:
        begin, end = label_indptr[label], label_indptr[label + 1]
        have[:] = 0
        for k in range(begin, end):
            if fold[label_rows[k]] >= 0:
                have[fold[label_rows[k]]] += 1
        for k in range(begin, end):
            i = label_rows[k]
            if fold[i] < 0:
                _give(i, draws[i], have, sizes, fold)
                have[fold[i]] += 1
    have[:] = 0
    for i in range(fold.size):
        if fold[i] < 0:
            _give(i, draws[i], have, sizes, fold)


@njit
def _give(i, draw, have, sizes, fold):
    """Put row i into the fold with the least `have`, then the least size."""
    n_folds, best = sizes.size, -1
    first = np.int64(draw % np.uint64(n_folds))
    for step in range(n_folds):
        k = (first + step) % n_folds
        if best < 0 or have[k] < have[best] or (have[k] == have[best] and sizes[k] < sizes[best]):
            best = k
    fold[i] = best
    sizes[best] += 1


@njit
def count_by_fold(label_indptr, label_rows, fold, counts):
    """counts[l, k] = the rows of fold k that have label l."""
    counts[:] = 0
    for label in range(label_indptr.size - 1):
        for k in range(label_indptr[label], label_indptr[label + 1]):
            counts[label, fold[label_rows[k]]] += 1


@njit
def copy_rows(indptr, indices, data, rows, out_indptr, out_indices, out_data):
    """Copy `rows`, one after the other, to where out_indptr (their beginnings and the end) says."""
    for r in range(rows.size):
        begin, at = indptr[rows[r]], out_indptr[r]
        for k in range(indptr[rows[r] + 1] - begin):
            out_indices[at + k], out_data[at + k] = indices[begin + k], data[begin + k]


@njit
def score(indptr, indices, data, w, lanes, out):
    """out[l, i] = x_i · w_l for CSR rows and `lanes` labels; w (d lanes) flat, out (lanes, n)."""
    n = indptr.size - 1
    z, some = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, n, TILE):
        here = min(TILE, n - tile)
        dot_rows(indptr, indices, data, tile, some[:here], w, z, lanes)
        for r in range(here):
            for lane in range(out.shape[0]):
                out[lane, tile + r] = z[r * lanes + lane]

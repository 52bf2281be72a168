"""Loops of the rare label solver: passes over a working set, its weights, bounds of all rows, and exact scores.

`csr` is (indptr, indices, data) of all rows. `room` is (w, v, duals, positive, active): scratch for weights (d) in single and
double precision, and for duals and flags of rows (n each); it is 0 before and after each call.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.certify import hinge_certify
from hpcml.kernels.lanes.epoch import hinge_epoch
from hpcml.kernels.lanes.products import prefetch, prefetch_row
from hpcml.kernels.rows import first_at_least
from hpcml.methods.dual.kernels import draw

# Passes over support vectors after a pass over the working set.
SUPPORT_PASSES = 3
VIOLATION, VISITED, MOVED, SQUARES, ROUNDED, INTERCEPT, N_TOTALS = range(7)  # results of `fit`
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit
def frequent_ends(indptr, indices, n_frequent, ends):
    """ends[i] = end of the values of row i in frequent columns, which come first."""
    for i in range(ends.size):
        ends[i] = first_at_least(indices, indptr[i], indptr[i + 1], n_frequent)


@njit
def fit(csr, norms, label, room, rules, tolerance, n_passes, key, columns, totals, index, line, lanes, lane):
    """Train a label on its working set in at most `n_passes`. Return the number of passes and the non-zero weights.

    `label` is (rows, duals, positives, columns, weights); duals are updated, and `columns` gets the columns of the weights.
    `totals` (N_TOTALS): gradient range of the last pass, visited and moved rows of all passes, Σ w² in float64 and after rounding,
    and the intercept. `index`, `line` and `lane` are those of `_start_bounds`.
    """
    (rows, alpha, positives, before, weights), (w, v, duals, positive, active) = label, room
    for k in range(before.size):
        w[before[k]] = weights[k]
    for r in range(rows.size):
        duals[rows[r]] = alpha[r]
        active[rows[r]] = 1
    for i in positives:
        positive[i] = 1
    n_steps = _passes(csr, rows, norms, (w, duals), (positive, active), rules, tolerance, n_passes, key, totals)
    _clear(csr, rows, w)
    n = _combine(csr, rows, norms, duals, positive, v, columns)
    for r in range(rows.size):
        alpha[r], duals[rows[r]], active[rows[r]] = duals[rows[r]], 0, 0
    for i in positives:
        positive[i] = 0
    weights = _round_weights(v, w, columns[:n], totals)
    totals[INTERCEPT] = _start_bounds(index, columns, weights, line, lanes, lane)
    return n_steps, weights


@njit
def _passes(csr, rows, norms, state, bits, rules, tolerance, n_passes, key, totals):
    """Visit `rows` in random order until all projected gradients are within `tolerance`, at most `n_passes` times.

    A pass over all rows is followed by at most SUPPORT_PASSES passes over the support vectors.
    """
    duals, visited, n_support = state[1], np.empty_like(rows), 0
    gradients, counts = np.zeros(2, rules.dtype), np.zeros(2, np.int64)
    for number in range(n_passes):
        n = 0
        for i in rows:
            visited[n] = i
            n += n_support == 0 or duals[i] != 0
        for i in range(n - 1, 0, -1):
            key, other = draw(key, i + 1)
            visited[i], visited[other] = visited[other], visited[i]
        gradients[:], counts[:] = 0.0, 0
        hinge_epoch(csr, visited[:n], norms, state, bits, (rules, gradients, counts), 1, True)
        totals[VIOLATION] = np.float64(gradients[0]) - np.float64(gradients[1])
        totals[VISITED] += counts[0]
        totals[MOVED] += counts[1]
        if totals[VIOLATION] > tolerance:
            n_support = 0 if n_support == SUPPORT_PASSES else n_support + 1
        elif n_support == 0:
            return number + 1
        else:
            n_support = 0
    return n_passes


@njit
def _clear(csr, rows, w):
    indptr, indices, _ = csr
    n = 0
    for i in rows:
        n += indptr[i + 1] - indptr[i]
    if n > w.size:
        w[:] = 0
        return
    for i in rows:
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k]] = 0


@njit
def _combine(csr, rows, norms, duals, positive, v, columns):
    """v += Σ s α y x over `rows`. Return the number of touched columns in `columns`, possibly with duplicates."""
    indptr, indices, data = csr
    n = np.uint64(0)
    for r in range(rows.size):
        if r + 3 < rows.size and duals[rows[r + 3]] != 0:
            far = rows[r + 3]
            prefetch_row(indices, data, indptr[far], indptr[far + 1])
        i = rows[r]
        if duals[i] != 0:
            slope = np.float64(duals[i]) * np.float64(norms[i, 1]) * (1.0 if positive[i] else -1.0)
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint32(indices[k])
                before = v[j]
                if before == 0.0:
                    if n == columns.size:  # sums became 0 again, so there are duplicates
                        n = np.uint64(_distinct(columns))
                    if n < columns.size:  # otherwise all columns are listed
                        columns[n] = j
                        n += ONE
                v[j] = before + slope * np.float64(data[k])
    return n


@njit
def _distinct(columns):
    columns.sort()
    n = 1
    for k in range(1, columns.size):
        if columns[k] != columns[n - 1]:
            columns[n] = columns[k]
            n += 1
    return n


@njit
def _round_weights(v, w, columns, totals):
    """Return the non-zero sums v of `columns`, rounded to the type of w, with their columns first; reset v to 0."""
    weights, n, exact, rounded = np.empty(columns.size, w.dtype), 0, 0.0, 0.0
    for j in columns:
        weights[n] = v[j]
        exact += v[j] * v[j]
        rounded += np.float64(weights[n]) * np.float64(weights[n])
        v[j] = 0.0
        if weights[n] != 0:
            columns[n] = j
            n += 1
    totals[SQUARES], totals[ROUNDED] = exact, rounded
    return weights[:n]


@njit
def _start_bounds(index, columns, weights, line, lanes, lane):
    """Write frequent weights to a lane of `line` (w, bounds), add the others by `index` to the bounds; return the intercept.

    `index` is (indptr, rows, data, any_sign) of the rare columns.
    """
    (indptr, rows, data, any_sign), (w, bounds) = index, line
    n_frequent, intercept = w.size // lanes, 0.0
    for k in range(weights.size):
        j, x = columns[k], weights[k]
        if j < n_frequent:
            w[j * lanes + lane] = x
        elif j - n_frequent + 1 >= indptr.size:
            intercept = np.float64(x)
        elif x > 0 or any_sign:
            for p in range(indptr[j - n_frequent], indptr[j - n_frequent + 1]):
                bounds[rows[p] * lanes + lane] += max(x * data[p], 0)
    return intercept


@njit
def merge_rows(added, label, candidates, keep_all):
    """Merge ascending rows `added` with the working set of `label` (rows, duals, positives); return the number of `candidates`.

    Unless `keep_all`, negative rows of the working set with dual 0 that are not `added` are removed.
    """
    (working, alpha, positives), (rows, duals, positive) = label, candidates
    a, b, c, n = 0, 0, 0, 0
    while a < added.size or b < working.size:
        is_added = b == working.size or (a < added.size and added[a] <= working[b])
        i = added[a] if is_added else working[b]
        while c < positives.size and positives[c] < i:
            c += 1
        rows[n], duals[n], positive[n] = i, 0, c < positives.size and positives[c] == i
        if b < working.size and working[b] == i:
            duals[n] = alpha[b]
            b += 1
        a += is_added
        n += keep_all or is_added or positive[n] != 0 or duals[n] != 0
    return n


@njit
def certify(csr, norms, added, label, room, candidates, tables, sums, within):
    """Merge `added` with the working set, and compute the scores and the sums of the certificate; return the number of candidates.

    `label` is that of `fit`; `candidates` are rows, duals, positive, near, scores and lines of `norms`; `tables`, `sums` and
    `within` are those of `hinge_certify`.
    """
    (indptr, indices, data), w = csr, room[0]
    (working, alpha, positives, columns, weights), (rows, duals, positive, near, z, norms_of) = label, candidates
    n = merge_rows(added, (working, alpha, positives), (rows, duals, positive), True)
    for k in range(columns.size):
        w[columns[k]] = weights[k]
    for r in range(n):
        if r + 8 < n:
            prefetch(indptr, rows[r + 8], 1)
        if r + 4 < n:
            far = rows[r + 4]
            prefetch_row(indices, data, indptr[far], indptr[far + 1])
        z[r] = _score(csr, rows[r], w)
        norms_of[r, 0], norms_of[r, 1] = norms[rows[r], 0], norms[rows[r], 1]
    for j in columns:
        w[j] = 0
    hinge_certify((z, duals), positive[:n], norms_of, tables, near, sums, 1, within)
    return n


@njit
def _score(csr, i, w):
    """x_i · w in float64, by four independent sums."""
    indptr, indices, data = csr
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
    while k + THREE < end:
        a += np.float64(data[k]) * np.float64(w[np.uint32(indices[k])])
        b += np.float64(data[k + ONE]) * np.float64(w[np.uint32(indices[k + ONE])])
        c += np.float64(data[k + TWO]) * np.float64(w[np.uint32(indices[k + TWO])])
        d += np.float64(data[k + THREE]) * np.float64(w[np.uint32(indices[k + THREE])])
        k += FOUR
    while k < end:
        a += np.float64(data[k]) * np.float64(w[np.uint32(indices[k])])
        k += ONE
    return (a + b) + (c + d)

"""Loops of the rare label solver: passes over a working set, its weights, bounds of all rows, and exact scores.

`csr` is (indptr, indices, data) of all rows. `room` is (w, v, duals, positive, active): scratch for weights (d) in single and
double precision, and for duals and flags of rows (n each); it is 0 before and after each call.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.epoch import HIGHEST, LOWEST, hinge_epoch
from hpcml.kernels.lanes.products import prefetch, prefetch_row
from hpcml.kernels.rows import first_at_least
from hpcml.methods.dual.kernels import draw

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit
def frequent_ends(indptr, indices, n_frequent, ends):
    """ends[i] = end of the values of row i in frequent columns, which come first."""
    for i in range(ends.size):
        ends[i] = first_at_least(indices, indptr[i], indptr[i + 1], n_frequent)


@njit
def fit(csr, norms, label, room, rules, tolerance, key, steps, columns, squares):
    """Train a label on its working set. Return the number of passes and the non-zero weights; `columns` gets their columns.

    `label` is (rows, duals, positives, columns, weights); duals are updated. `squares`: Σ w² in float64 and after rounding.
    """
    (rows, alpha, positives, before, weights), (w, v, duals, positive, active) = label, room
    for k in range(before.size):
        w[before[k]] = weights[k]
    for r in range(rows.size):
        duals[rows[r]] = alpha[r]
    for i in positives:
        positive[i] = 1
    n_steps = _passes(csr, rows, norms, (w, duals), (positive, active), rules, tolerance, key, steps)
    _clear(csr, rows, w)
    n = _combine(csr, rows, norms, duals, positive, v, columns)
    for r in range(rows.size):
        alpha[r], duals[rows[r]] = duals[rows[r]], 0
    for i in positives:
        positive[i] = 0
    return n_steps, _round_weights(v, w, columns[:n], squares)


@njit
def _passes(csr, rows, norms, state, bits, rules, tolerance, key, steps):
    """Visit `rows` in random order until all projected gradients are within `tolerance` or `steps` (n, 3) is full.

    Rows with gradients outside the range of the previous pass are shrunk until the remaining gradients are small. Each pass writes
    its line of `steps`: gradient range, active rows, moved rows.
    """
    active, visited, all_rows = bits[1], np.empty_like(rows), True
    gradients, counts = np.zeros(2, rules.dtype), np.zeros(2, np.int64)
    for number in range(steps.shape[0]):
        if all_rows:
            rules[HIGHEST], rules[LOWEST] = np.inf, -np.inf
            for i in rows:
                active[i] = 1
        n = 0
        for i in rows:
            if active[i]:
                visited[n] = i
                n += 1
        for i in range(n - 1, 0, -1):
            key, other = draw(key, i + 1)
            visited[i], visited[other] = visited[other], visited[i]
        gradients[:], counts[:] = 0.0, 0
        hinge_epoch(csr, visited[:n], norms, state, bits, (rules, gradients, counts), 1, True)
        most, least = gradients
        steps[number, 0], steps[number, 1], steps[number, 2] = np.float64(most) - np.float64(least), counts[0], counts[1]
        if steps[number, 0] > tolerance:
            all_rows = False
            rules[HIGHEST], rules[LOWEST] = most if most > 0 else np.inf, least if least < 0 else -np.inf
        elif all_rows:
            return number + 1
        else:
            all_rows = True
    return steps.shape[0]


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
def _round_weights(v, w, columns, squares):
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
    squares[0], squares[1] = exact, rounded
    return weights[:n]


@njit
def start_bounds(index, weights, n_frequent, any_sign, line, lanes, lane):
    """Write frequent weights to a lane of `line` (w, bounds), add the others by `index` to the bounds; return the intercept."""
    (indptr, rows, data), (columns, values), (w, bounds) = index, weights, line
    intercept = 0.0
    for k in range(columns.size):
        j, x = columns[k], values[k]
        if j < n_frequent:
            w[j * lanes + lane] = x
        elif j - n_frequent + 1 >= indptr.size:
            intercept = np.float64(x)
        elif x > 0 or any_sign:
            for p in range(indptr[j - n_frequent], indptr[j - n_frequent + 1]):
                bounds[rows[p] * lanes + lane] += max(x * data[p], 0)
    return intercept


@njit
def merge_rows(added, label, candidates):
    """Merge ascending rows `added` with the working set of `label` (rows, duals, positives); return the number of `candidates`."""
    (working, alpha, positives), (rows, duals, positive) = label, candidates
    a, b, c, n = 0, 0, 0, 0
    while a < added.size or b < working.size:
        if b == working.size or (a < added.size and added[a] < working[b]):
            rows[n], duals[n] = added[a], 0
            a += 1
        else:
            rows[n], duals[n] = working[b], alpha[b]
            if a < added.size and added[a] == working[b]:
                a += 1
            b += 1
        while c < positives.size and positives[c] < rows[n]:
            c += 1
        positive[n] = c < positives.size and positives[c] == rows[n]
        n += 1
    return n


@njit
def scores_of(csr, rows, norms, weights, w, z, norms_of):
    """Write the float64 scores z of `rows` for weights (columns, values), and their lines of `norms`; w (d) is scratch."""
    (indptr, indices, data), (columns, values) = csr, weights
    for k in range(columns.size):
        w[columns[k]] = values[k]
    for r in range(rows.size):
        if r + 8 < rows.size:
            prefetch(indptr, rows[r + 8], 1)
        if r + 4 < rows.size:
            far = rows[r + 4]
            prefetch_row(indices, data, indptr[far], indptr[far + 1])
        z[r] = _score(csr, rows[r], w)
        norms_of[r, 0], norms_of[r, 1] = norms[rows[r], 0], norms[rows[r], 1]
    for j in columns:
        w[j] = 0


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

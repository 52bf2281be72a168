"""Loops for a label that is trained alone: passes over its working set, the weights that come of
it, what these add to the bounds of all rows, and exact scores of some.

`csr` is (indptr, indices, data) of all rows; `room` is (w, v, duals, positive, active): room for
weights (d) in single and in double precision, and for duals and flags of rows (n each), which is 0
before and after.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.epoch import HIGHEST, LOWEST, hinge_epoch
from hpcml.kernels.lanes.products import ask, ask_row
from hpcml.kernels.rows import first_at_least
from hpcml.methods.dual.kernels import draw

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit
def frequent_ends(indptr, indices, n_frequent, ends):
    """ends[i]: where the values of row i in the first columns, which lie before the others, end."""
    for i in range(ends.size):
        ends[i] = first_at_least(indices, indptr[i], indptr[i + 1], n_frequent)


@njit
def fit(csr, norms, label, room, rules, enough, key, steps, columns, squares):
    """Train a label on its working set; how many passes, and its weights that are not 0, whose
    `columns` (room for them) are written.

    `label` is (rows, duals, positives, columns, weights): the working set with its duals, which are
    changed, the label's rows, and the weights that its duals have made. Passes, as in `_passes`.
    `squares`: Σ w², summed in float64, and of the weights as rounded.
    """
    (rows, alpha, positives, before, weights), (w, v, duals, positive, active) = label, room
    for k in range(before.size):
        w[before[k]] = weights[k]
    for r in range(rows.size):
        duals[rows[r]] = alpha[r]
    for i in positives:
        positive[i] = 1
    n_steps = _passes(csr, rows, norms, (w, duals), (positive, active), rules, enough, key, steps)
    _clear(csr, rows, w)
    n = _combine(csr, rows, norms, duals, positive, v, columns)
    for r in range(rows.size):
        alpha[r], duals[rows[r]] = duals[rows[r]], 0
    for i in positives:
        positive[i] = 0
    return n_steps, _take(v, w, columns[:n], squares)


@njit
def _passes(csr, rows, norms, state, bits, rules, enough, key, steps):
    """Visit `rows` in random order until the projected gradients of all are within `enough`, or
    `steps` (n, 3) is full; how many passes that were.

    After a pass over all of them, and until the gradients of those that are left are small, the
    rows are set aside whose gradients lie beyond those of the pass before. A pass writes its line
    of `steps`: the range of its gradients, how many rows it looked at, and moved.
    """
    active, some, whole = bits[1], np.empty_like(rows), True
    gradients, counts = np.zeros(2, rules.dtype), np.zeros(2, np.int64)
    for number in range(steps.shape[0]):
        if whole:
            rules[HIGHEST], rules[LOWEST] = np.inf, -np.inf
            for i in rows:
                active[i] = 1
        n = 0
        for i in rows:
            if active[i]:
                some[n] = i
                n += 1
        for i in range(n - 1, 0, -1):
            key, other = draw(key, i + 1)
            some[i], some[other] = some[other], some[i]
        gradients[:], counts[:] = 0.0, 0
        hinge_epoch(csr, some[:n], norms, state, bits, (rules, gradients, counts), 1, True)
        most, least = gradients
        steps[number, 0], steps[number, 1], steps[number, 2] = np.float64(most) - np.float64(least), counts[0], counts[1]
        if steps[number, 0] > enough:
            whole = False
            rules[HIGHEST], rules[LOWEST] = most if most > 0 else np.inf, least if least < 0 else -np.inf
        elif whole:
            return number + 1
        else:
            whole = True
    return steps.shape[0]


@njit
def _clear(csr, rows, w):
    """Put the weights of all columns of these rows to 0."""
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
    """v += Σ s α y x over `rows`; how many columns it goes to, which are put into `columns`, some
    perhaps twice.
    """
    indptr, indices, data = csr
    n = np.uint64(0)
    for r in range(rows.size):
        if r + 3 < rows.size and duals[rows[r + 3]] != 0:
            far = rows[r + 3]
            ask_row(indices, data, indptr[far], indptr[far + 1])
        i = rows[r]
        if duals[i] != 0:
            slope = np.float64(duals[i]) * np.float64(norms[i, 1]) * (1.0 if positive[i] else -1.0)
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint32(indices[k])
                before = v[j]
                if before == 0.0:
                    if n == columns.size:  # sums have come to 0 again: columns are there twice
                        n = np.uint64(_distinct(columns))
                    if n < columns.size:  # else all are there
                        columns[n] = j
                        n += ONE
                v[j] = before + slope * np.float64(data[k])
    return n


@njit
def _distinct(columns):
    """Put the numbers that occur in `columns`, once each, to their beginning; how many."""
    columns.sort()
    n = 1
    for k in range(1, columns.size):
        if columns[k] != columns[n - 1]:
            columns[n] = columns[k]
            n += 1
    return n


@njit
def _take(v, w, columns, squares):
    """The sums v in `columns`, rounded to the type of w; those that are not 0 are first then. v is
    0 again.
    """
    weights, kept, exact, rounded = np.empty(columns.size, w.dtype), 0, 0.0, 0.0
    for j in columns:
        weights[kept] = v[j]
        exact += v[j] * v[j]
        rounded += np.float64(weights[kept]) * np.float64(weights[kept])
        v[j] = 0.0
        if weights[kept] != 0:
            columns[kept] = j
            kept += 1
    squares[0], squares[1] = exact, rounded
    return weights[:kept]


@njit
def begin_bounds(index, weights, n_frequent, any_sign, line, lanes, lane):
    """Put the weights (columns, values) of frequent columns into a lane of `line` (w, bounds), and
    what those of others add to the scores of rows at most; the weight behind all of these is
    returned.

    `index` (indptr, rows, values) are the values of the columns from `n_frequent` on. Negative
    weights add nothing, unless values have `any_sign`.
    """
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
def together(found, label, seen):
    """Put the rows that are `found`, or in the working set of `label` (rows, duals, positives),
    into `seen` (rows, duals, positive): how many. All are ascending.
    """
    (mine, alpha, positives), (rows, duals, positive) = label, seen
    a, b, c, n = 0, 0, 0, 0
    while a < found.size or b < mine.size:
        if b == mine.size or (a < found.size and found[a] < mine[b]):
            rows[n], duals[n] = found[a], 0
            a += 1
        else:
            rows[n], duals[n] = mine[b], alpha[b]
            if a < found.size and found[a] == mine[b]:
                a += 1
            b += 1
        while c < positives.size and positives[c] < rows[n]:
            c += 1
        positive[n] = c < positives.size and positives[c] == rows[n]
        n += 1
    return n


@njit
def scores_of(csr, rows, norms, weights, w, z, norms_of):
    """The scores z of `rows`, in float64, by weights (columns, values), and their lines of `norms`;
    w (d) is room for weights, 0 before and after.
    """
    (indptr, indices, data), (columns, values) = csr, weights
    for k in range(columns.size):
        w[columns[k]] = values[k]
    for r in range(rows.size):
        if r + 8 < rows.size:
            ask(indptr, rows[r + 8], 1)
        if r + 4 < rows.size:
            far = rows[r + 4]
            ask_row(indices, data, indptr[far], indptr[far + 1])
        z[r] = _score(csr, rows[r], w)
        norms_of[r, 0], norms_of[r, 1] = norms[rows[r], 0], norms[rows[r], 1]
    for j in columns:
        w[j] = 0


@njit
def _score(csr, i, w):
    """x_i · w in float64: four sums, none of which waits for the others."""
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

"""Loops over the rows of one label: exact scores, sums of squares, and leave-one-out slack."""

import numpy as np

from hpcml.kernels import njit

ONE, TWO = np.uint64(1), np.uint64(2)


@njit
def known_lengths(csr, counts, squares):
    """squares[0, i] = Σ x_ij², and squares[1, i] over columns with values in two or more rows; `counts` excludes the constant."""
    indptr, indices, data = csr
    for i in range(indptr.size - 1):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.uint64(indices[k])
            if j < np.uint64(counts.size):
                x = np.float64(data[k])
                squares[0, i] += x * x
                squares[1, i] += x * x * (counts[j] > 1)


@njit
def put(columns, weights, w, lane, lanes):
    """w[columns[k] lanes + lane] = weights[k]."""
    for k in range(columns.size):
        w[columns[k] * lanes + lane] = weights[k]


@njit
def score_rows(csr, above, positives, w, rows, positive, scores):
    """Merge ascending rows `above` and `positives`; keep positive rows and scores above −1. Return their number."""
    (indptr, indices, data), a, b, n = csr, 0, 0, 0
    while a < above.size or b < positives.size:
        is_positive = b < positives.size and (a == above.size or positives[b] <= above[a])
        i = positives[b] if is_positive else above[a]
        a += a < above.size and above[a] == i
        b += is_positive
        k, end, score, other = np.uint64(indptr[i]), np.uint64(indptr[i + 1]), 0.0, 0.0
        while k + ONE < end:
            score += np.float64(data[k]) * w[np.uint64(indices[k])]
            other += np.float64(data[k + ONE]) * w[np.uint64(indices[k + ONE])]
            k += TWO
        if k < end:
            score += np.float64(data[k]) * w[np.uint64(indices[k])]
        score += other
        if is_positive or score > -1.0:
            rows[n], positive[n], scores[n] = i, is_positive, score
            n += 1
    return n


@njit
def add_squares(csr, rows, costs, sums):
    """sums[j] += 2 C_i x_ij² over `rows`."""
    indptr, indices, data = csr
    for r in range(rows.size):
        for k in range(np.uint64(indptr[rows[r]]), np.uint64(indptr[rows[r] + 1])):
            x = np.float64(data[k])
            sums[np.uint64(indices[k])] += 2 * costs[r] * (x * x)


@njit
def leave_out(csr, rows, costs, sums, slack):
    """slack[r] *= 1 + Σ_j q_j / (1 + sums[j] − q_j) for q_j = 2 C_i x_ij², over `rows` with slack: the diagonal of H without i."""
    indptr, indices, data = csr
    for r in range(rows.size):
        if slack[r] > 0:
            a = 0.0
            for k in range(np.uint64(indptr[rows[r]]), np.uint64(indptr[rows[r] + 1])):
                x = np.float64(data[k])
                q = 2 * costs[r] * (x * x)
                a += q / (1 + max(sums[np.uint64(indices[k])] - q, 0.0))
            slack[r] *= 1 + a


@njit
def leave_out_positives(csr, costs, slack, sums, v):
    """Return slack_i / (½ C_i⁻¹ [M⁻¹]_ii) of the rows of `csr`, M = ½ C⁻¹ + P D⁻¹ Pᵀ, D = 1 + sums; v (d) is 0 before and after."""
    (indptr, indices, data), n = csr, costs.size
    M, out = np.empty((n, n)), np.empty(n)
    for a in range(n):
        for k in range(indptr[a], indptr[a + 1]):
            v[indices[k]] = np.float64(data[k]) / (1 + sums[indices[k]])
        for b in range(a + 1):
            total = 0.0
            for k in range(np.uint64(indptr[b]), np.uint64(indptr[b + 1])):
                total += np.float64(data[k]) * v[np.uint64(indices[k])]
            M[a, b] = total
        for k in range(indptr[a], indptr[a + 1]):
            v[indices[k]] = 0
    for a in range(n):  # Cholesky factor in the lower triangle
        for b in range(a + 1):
            total = M[a, b] + (0.5 / costs[a] if a == b else 0.0)
            least = total * 1e-15
            for c in range(b):
                total -= M[a, c] * M[b, c]
            M[a, b] = np.sqrt(max(total, least)) if a == b else total / M[b, b]
    z = np.empty(n)
    for i in range(n):  # column i of its inverse
        square = 0.0
        for r in range(i, n):
            total = 1.0 if r == i else 0.0
            for c in range(i, r):
                total -= M[r, c] * z[c]
            z[r] = total / M[r, r]
            square += z[r] * z[r]
        out[i] = 2 * costs[i] * slack[i] / square
    return out


@njit
def clear(csr, rows, sums):
    indptr, indices, _ = csr
    for i in rows:
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            sums[np.uint64(indices[k])] = 0

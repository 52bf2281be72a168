"""Steps of the proximal Newton method for one label, in the local matrix of the working set.

Slots, margins and losses are as in `certifier_kernels`. A local matrix is used by columns and by rows; columns are numbered within
the working set.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.methods.elastic_net.certifier_kernels import loss_at, margins, slopes_at, soft_threshold, values_at

SIGMA, SHRINK = 0.01, 0.5  # Armijo line search
TINY = 1e-12  # minimum curvature of a coordinate


@njit
def derivatives(local, z, b, losses, slopes, curves, gradient):
    """Write ℓ′ and ℓ″ of the touched rows and the gradient of Σ ℓ (weights, then intercept); return Σ ℓ″ of the untouched rows."""
    n_positive, n_rows, squared = losses
    _, slope, curve = loss_at(b, -1.0, squared)
    n_others = n_rows - z.size
    total = n_others * slope
    slopes_at(z, n_positive, squared, slopes, curves)
    for s in range(z.size):
        total += slopes[s]
    for p in range(local.indptr.size - 1):
        g = 0.0
        for k in range(local.indptr[p], local.indptr[p + 1]):
            g += slopes[local.indices[k]] * local.values[k]
        gradient[p] = g
    gradient[local.indptr.size - 1] = total
    return n_others * curve


@njit
def gram(rows, curves, others, l2, first, H):
    """Write H = Σ ℓ″ x xᵀ + Λ₂ of the working set, and last the intercept. Entries of columns before `first` are kept."""
    n = H.shape[0] - 1
    H[first:n] = 0.0
    total = others
    for s in range(curves.size):
        c = curves[s]
        total += c
        for a in range(rows.indptr[s + 1] - 1, rows.indptr[s] - 1, -1):
            p, v = rows.indices[a], c * rows.values[a]
            if p < first:
                break
            H[p, n] += v
            for e in range(rows.indptr[s], a + 1):
                H[p, rows.indices[e]] += v * rows.values[e]
    for p in range(first, n):
        for q in range(p):
            H[q, p] = H[p, q]
        H[n, p] = H[p, n]
        H[p, p] += l2 + TINY
    H[n, n] = total + TINY


@njit
def solve_dense(H, gradient, w, strengths, tolerance, sweeps, d):
    """Minimise g·d + ½ dᵀHd + Λ₁‖w + d‖₁ + Λ₂ w·d by coordinate descent; most sweeps skip zeros. Return whether it converged."""
    n = w.size
    l1, l2 = strengths
    Hd = np.zeros(n + 1)
    d[:] = 0.0
    all_columns = True
    for _ in range(sweeps):
        worst = 0.0
        for p in range(n + 1):
            old = d[p]
            if p < n:
                if not all_columns and w[p] + old == 0.0:
                    continue
                g = gradient[p] + l2 * w[p] + Hd[p]
                new = soft_threshold(w[p] + old - g / H[p, p], l1 / H[p, p]) - w[p]
            else:
                new = old - (gradient[n] + Hd[n]) / H[n, n]
            if new != old:
                change = new - old
                d[p] = new
                for q in range(n + 1):
                    Hd[q] += change * H[p, q]
                worst = max(worst, abs(change) * H[p, p])
        if worst <= tolerance and all_columns:
            return True
        all_columns = worst <= tolerance
    return False


@njit
def solve_sparse(local, curves, others, gradient, w, strengths, tolerance, sweeps, d):
    """`solve_dense` without H: X d of the touched rows is updated instead."""
    n, total = w.size, others + curves.sum() + TINY
    l1, l2 = strengths
    weighted, diagonal = np.zeros(curves.size), np.full(n, l2 + TINY)  # ℓ″ X d, without the intercept
    for p in range(n):
        for k in range(local.indptr[p], local.indptr[p + 1]):
            diagonal[p] += curves[local.indices[k]] * local.values[k] ** 2
    d[:] = 0.0
    summed, all_columns = 0.0, True  # Σ ℓ″ X d
    for _ in range(sweeps):
        worst = 0.0
        for p in range(n):
            old = d[p]
            if not all_columns and w[p] + old == 0.0:
                continue
            g = gradient[p] + l2 * (w[p] + old) + TINY * old  # the slope of the quadratic model by this column
            for k in range(local.indptr[p], local.indptr[p + 1]):
                s = local.indices[k]
                g += local.values[k] * (weighted[s] + curves[s] * d[n])
            new = soft_threshold(w[p] + old - g / diagonal[p], l1 / diagonal[p]) - w[p]
            if new != old:
                d[p] = new
                for k in range(local.indptr[p], local.indptr[p + 1]):
                    s = local.indices[k]
                    v = (new - old) * curves[s] * local.values[k]
                    weighted[s] += v
                    summed += v
                worst = max(worst, abs(new - old) * diagonal[p])
        change = -(gradient[n] + summed + total * d[n]) / total
        d[n] += change
        worst = max(worst, abs(change) * total)
        if worst <= tolerance and all_columns:
            break
        all_columns = worst <= tolerance


@njit
def search(local, z, b, losses, w, d, gradient, strengths, before):
    """Move w and z along d until the objective falls sufficiently; `before` is Σ ℓ. Return the new intercept and the new Σ ℓ."""
    n_positive, n_rows, squared = losses
    l1, l2 = strengths
    n, move, moved, values = w.size, np.empty(z.size), np.empty(z.size), np.empty(z.size)
    margins(local, d[:n], d[n], move)
    slope, penalty = gradient[n] * d[n], 0.0
    for p in range(n):
        slope += (gradient[p] + l2 * w[p]) * d[p] + l1 * (abs(w[p] + d[p]) - abs(w[p]))
        penalty += l1 * abs(w[p]) + 0.5 * l2 * w[p] ** 2
    t = 1.0
    for _ in range(60):
        after = (n_rows - z.size) * loss_at(b + t * d[n], -1.0, squared)[0]
        for s in range(z.size):
            moved[s] = z[s] + t * move[s]
        values_at(moved, n_positive, squared, values)
        for s in range(z.size):
            after += values[s]
        new = 0.0
        for p in range(n):
            new += l1 * abs(w[p] + t * d[p]) + 0.5 * l2 * (w[p] + t * d[p]) ** 2
        if after + new <= before + penalty + SIGMA * t * slope + 1e-12 * abs(before + penalty):
            for p in range(n):
                w[p] = 0.0 if t == 1.0 and w[p] + d[p] == 0.0 else w[p] + t * d[p]
            z[:] = moved
            return b + t * d[n], after
        t *= SHRINK
    return b, before

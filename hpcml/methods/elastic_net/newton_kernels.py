"""Compiled steps of the proximal Newton method for one label; sums are in float64 and m times the
objective's mean.

A label's touched rows lie in slots: those that have the label first (y = +1), then others (y = −1).
`slot_of` (m) says where a row lies, or −1. All other rows have y = −1 and the intercept b as their
margin. `colptr, colrows, coldata` are the columns of all rows (the inverted index),
`indptr, indices, data` the rows. A local matrix has the touched rows' values of the working set
only, by columns (`lptr, lslots, lvalues`) and by rows (`rptr, rplaces, rvalues`).
"""

from __future__ import annotations

import math

import numpy as np

from hpcml.kernels import njit

ABOVE, LARGEST, SQUARES = range(3)  # what `screen` finds besides the columns: their number, max |g|, Σ [|g| − Λ₁]₊²
SIGMA, SHRINK = 0.01, 0.5  # of the line search (Armijo)
TINY = 1e-12  # curvature that every coordinate has at least, so that a step exists


@njit
def loss_at(z: float, y: float, squared: bool) -> tuple[float, float, float]:
    """ℓ, ℓ′ and ℓ″ at the margin z of a row with the target y = ±1: ½ (z − y)², or log(1 +
    exp(−y z)).
    """
    if squared:
        return 0.5 * (z - y) ** 2, z - y, 1.0
    e = math.exp(-abs(z))
    small = e / (1.0 + e)  # the lesser of the two probabilities
    yz = y * z
    if yz > 0:
        return math.log1p(e), -y * small, small * (1.0 - small)
    return math.log1p(e) - yz, -y * (1.0 - small), small * (1.0 - small)


@njit
def conjugate_at(z: float, y: float, squared: bool, scale: float) -> float:
    """−ℓ*(−r) for r = −scale · ℓ′(z), the row's share of the dual objective."""
    slope = loss_at(z, y, squared)[1] * scale
    a = -y * slope
    if squared:
        return a - 0.5 * a * a
    value = 0.0
    if a > 0:
        value -= a * math.log(a)
    if a < 1:
        value -= (1.0 - a) * math.log1p(-a)
    return value


@njit
def columns_of(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    first: int,
    last: int,
    place: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
) -> None:
    """Fill the columns first .. last − 1 of the inverted index; `place` (their number) is where
    each begins, and is used up.
    """
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if first <= j < last:
                p = place[j - first]
                rows[p], values[p] = i, data[k]
                place[j - first] = p + 1


@njit
def column_totals(indptr: np.ndarray, values: np.ndarray, totals: np.ndarray) -> None:
    """The sum of each column, in the order of its rows."""
    for j in range(totals.size):
        total = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            total += values[k]
        totals[j] = total


@njit
def gather(
    chosen: np.ndarray,
    colptr: np.ndarray,
    colrows: np.ndarray,
    coldata: np.ndarray,
    slot_of: np.ndarray,
    touched: np.ndarray,
    n_touched: int,
    lptr: np.ndarray,
    lslots: np.ndarray,
    lvalues: np.ndarray,
) -> int:
    """Copy the chosen columns into a local matrix; rows that are not touched yet get slots. The
    number of touched rows.
    """
    at = 0
    for p in range(chosen.size):
        j = chosen[p]
        for k in range(colptr[j], colptr[j + 1]):
            i = colrows[k]
            slot = slot_of[i]
            if slot < 0:
                slot = n_touched
                slot_of[i] = slot
                touched[slot] = i
                n_touched += 1
            lslots[at], lvalues[at] = slot, coldata[k]
            at += 1
        lptr[p + 1] = at
    return n_touched


@njit
def by_rows(
    lptr: np.ndarray, lslots: np.ndarray, lvalues: np.ndarray, rptr: np.ndarray, rplaces: np.ndarray, rvalues: np.ndarray
) -> None:
    """The local matrix by rows. `rptr` (touched rows + 2) is all 0 before; its first touched
    rows + 1 numbers are valid after.
    """
    for k in range(lslots.size):
        rptr[lslots[k] + 2] += 1
    for s in range(2, rptr.size):
        rptr[s] += rptr[s - 1]
    for p in range(lptr.size - 1):
        for k in range(lptr[p], lptr[p + 1]):
            at = rptr[lslots[k] + 1]
            rplaces[at], rvalues[at] = p, lvalues[k]
            rptr[lslots[k] + 1] = at + 1


@njit
def margins(lptr: np.ndarray, lslots: np.ndarray, lvalues: np.ndarray, w: np.ndarray, b: float, z: np.ndarray) -> None:
    """z = b + X w of the touched rows."""
    z[:] = b
    for p in range(w.size):
        if w[p] != 0.0:
            for k in range(lptr[p], lptr[p + 1]):
                z[lslots[k]] += w[p] * lvalues[k]


@njit
def value(z: np.ndarray, n_positive: int, n_rows: int, b: float, squared: bool) -> float:
    """Σ ℓ over all rows: the touched ones have the margins z."""
    total = (n_rows - z.size) * loss_at(b, -1.0, squared)[0]
    for s in range(z.size):
        total += loss_at(z[s], 1.0 if s < n_positive else -1.0, squared)[0]
    return total


@njit
def centre(z: np.ndarray, n_positive: int, n_rows: int, b: float, squared: bool) -> float:
    """Move the intercept (and the margins z) to its optimum for these weights. The new
    intercept.
    """
    n_others = n_rows - z.size
    for _ in range(100):
        _, slope, curve = loss_at(b, -1.0, squared)
        slope, curve = n_others * slope, n_others * curve
        size = abs(slope)
        for s in range(z.size):
            _, one, two = loss_at(z[s], 1.0 if s < n_positive else -1.0, squared)
            slope += one
            curve += two
            size += abs(one)
        if abs(slope) <= 1e-13 * size:
            break
        step = max(-1.0, min(1.0, -slope / max(curve, 1e-300)))
        b += step
        for s in range(z.size):
            z[s] += step
        if abs(step) <= 1e-15 * max(1.0, abs(b)):
            break
    return b


@njit
def derivatives(
    lptr: np.ndarray,
    lslots: np.ndarray,
    lvalues: np.ndarray,
    z: np.ndarray,
    n_positive: int,
    n_rows: int,
    b: float,
    squared: bool,
    slopes: np.ndarray,
    curves: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """ℓ′ and ℓ″ of the touched rows, the gradient (weights, then the intercept) of Σ ℓ. Returns
    ℓ″ of all other rows together.
    """
    _, slope, curve = loss_at(b, -1.0, squared)
    n_others = n_rows - z.size
    total = n_others * slope
    for s in range(z.size):
        _, slopes[s], curves[s] = loss_at(z[s], 1.0 if s < n_positive else -1.0, squared)
        total += slopes[s]
    for p in range(lptr.size - 1):
        g = 0.0
        for k in range(lptr[p], lptr[p + 1]):
            g += slopes[lslots[k]] * lvalues[k]
        gradient[p] = g
    gradient[lptr.size - 1] = total
    return n_others * curve


@njit
def violation(gradient: np.ndarray, w: np.ndarray, l1: float, l2: float) -> float:
    """The largest distance of 0 from the subdifferential, over the weights and the intercept."""
    worst = abs(gradient[w.size])
    for p in range(w.size):
        g = gradient[p] + l2 * w[p]
        if w[p] > 0:
            worst = max(worst, abs(g + l1))
        elif w[p] < 0:
            worst = max(worst, abs(g - l1))
        else:
            worst = max(worst, abs(g) - l1)
    return worst


@njit
def gram(
    rptr: np.ndarray,
    rplaces: np.ndarray,
    rvalues: np.ndarray,
    curves: np.ndarray,
    others: float,
    l2: float,
    first: int,
    H: np.ndarray,
) -> None:
    """H = Σ ℓ″ x xᵀ + Λ₂ of the working set and, last, the intercept; what H has of the columns
    before `first` stands.

    The values of a row are in the order of their places.
    """
    n = H.shape[0] - 1
    H[first:n] = 0.0
    total = others
    for s in range(curves.size):
        c = curves[s]
        total += c
        for a in range(rptr[s + 1] - 1, rptr[s] - 1, -1):
            p, v = rplaces[a], c * rvalues[a]
            if p < first:
                break
            H[p, n] += v
            for e in range(rptr[s], a + 1):
                H[p, rplaces[e]] += v * rvalues[e]
    for p in range(first, n):
        for q in range(p):
            H[q, p] = H[p, q]
        H[n, p] = H[p, n]
        H[p, p] += l2 + TINY
    H[n, n] = total + TINY


@njit
def soft(point: float, by: float) -> float:
    """The number moved towards 0 by so much, and not beyond."""
    if point > by:
        return point - by
    if point < -by:
        return point + by
    return 0.0


@njit
def solve_dense(
    H: np.ndarray, gradient: np.ndarray, w: np.ndarray, l1: float, l2: float, tolerance: float, sweeps: int, d: np.ndarray
) -> bool:
    """Coordinate descent for the step d: min g·d + ½ dᵀHd + Λ₁‖w + d‖₁ + Λ₂ w·d. Columns at 0 are
    tried now and then.

    Whether it came to the tolerance.
    """
    n = w.size
    Hd = np.zeros(n + 1)
    d[:] = 0.0
    whole = True
    for _ in range(sweeps):
        worst = 0.0
        for p in range(n + 1):
            old = d[p]
            if p < n:
                if not whole and w[p] + old == 0.0:
                    continue
                g = gradient[p] + l2 * w[p] + Hd[p]
                new = soft(w[p] + old - g / H[p, p], l1 / H[p, p]) - w[p]
            else:
                new = old - (gradient[n] + Hd[n]) / H[n, n]
            if new != old:
                change = new - old
                d[p] = new
                for q in range(n + 1):
                    Hd[q] += change * H[p, q]
                worst = max(worst, abs(change) * H[p, p])
        if worst <= tolerance:
            if whole:
                return True
            whole = True
        else:
            whole = False
    return False


@njit
def solve_sparse(
    lptr: np.ndarray,
    lslots: np.ndarray,
    lvalues: np.ndarray,
    curves: np.ndarray,
    others: float,
    gradient: np.ndarray,
    w: np.ndarray,
    l1: float,
    l2: float,
    tolerance: float,
    sweeps: int,
    d: np.ndarray,
) -> bool:
    """As `solve_dense`, where H has no room: the products X d of the touched rows are kept
    instead.
    """
    n = w.size
    weighted, diagonal, total = (
        np.zeros(curves.size),
        np.full(n, l2 + TINY),
        others + curves.sum() + TINY,
    )  # ℓ″ X d, without the intercept
    for p in range(n):
        for k in range(lptr[p], lptr[p + 1]):
            diagonal[p] += curves[lslots[k]] * lvalues[k] ** 2
    d[:] = 0.0
    summed, whole = 0.0, True  # Σ ℓ″ X d
    for _ in range(sweeps):
        worst = 0.0
        for p in range(n):
            old = d[p]
            if not whole and w[p] + old == 0.0:
                continue
            g = gradient[p] + l2 * (w[p] + old) + TINY * old
            for k in range(lptr[p], lptr[p + 1]):
                s = lslots[k]
                g += lvalues[k] * (weighted[s] + curves[s] * d[n])
            new = soft(w[p] + old - g / diagonal[p], l1 / diagonal[p]) - w[p]
            if new != old:
                change = new - old
                d[p] = new
                for k in range(lptr[p], lptr[p + 1]):
                    s = lslots[k]
                    v = change * curves[s] * lvalues[k]
                    weighted[s] += v
                    summed += v
                worst = max(worst, abs(change) * diagonal[p])
        change = -(gradient[n] + summed + total * d[n]) / total
        d[n] += change
        worst = max(worst, abs(change) * total)
        if worst <= tolerance:
            if whole:
                return True
            whole = True
        else:
            whole = False
    return False


@njit
def search(
    lptr: np.ndarray,
    lslots: np.ndarray,
    lvalues: np.ndarray,
    z: np.ndarray,
    n_positive: int,
    n_rows: int,
    b: float,
    w: np.ndarray,
    d: np.ndarray,
    gradient: np.ndarray,
    l1: float,
    l2: float,
    squared: bool,
    before: float,
) -> tuple[float, float]:
    """Go along d as far as the objective falls enough. (the new intercept, the new Σ ℓ); w and z
    are moved. `before` is Σ ℓ.
    """
    n = w.size
    move = np.empty(z.size)
    margins(lptr, lslots, lvalues, d[:n], d[n], move)
    slope, penalty = gradient[n] * d[n], 0.0
    for p in range(n):
        slope += (gradient[p] + l2 * w[p]) * d[p] + l1 * (abs(w[p] + d[p]) - abs(w[p]))
        penalty += l1 * abs(w[p]) + 0.5 * l2 * w[p] ** 2
    t = 1.0
    for _ in range(60):
        after = (n_rows - z.size) * loss_at(b + t * d[n], -1.0, squared)[0]
        for s in range(z.size):
            after += loss_at(z[s] + t * move[s], 1.0 if s < n_positive else -1.0, squared)[0]
        new = 0.0
        for p in range(n):
            new += l1 * abs(w[p] + t * d[p]) + 0.5 * l2 * (w[p] + t * d[p]) ** 2
        if after + new <= before + penalty + SIGMA * t * slope + 1e-12 * abs(before + penalty):
            for p in range(n):
                w[p] = 0.0 if t == 1.0 and w[p] + d[p] == 0.0 else w[p] + t * d[p]
            for s in range(z.size):
                z[s] += t * move[s]
            return b + t * d[n], after
        t *= SHRINK
    return b, before


@njit
def slopes_of(
    z: np.ndarray, touched: np.ndarray, n_positive: int, b: float, squared: bool, rows: np.ndarray, differences: np.ndarray
) -> int:
    """The rows whose ℓ′ differs from that of the untouched ones, and by how much. Their number."""
    base = loss_at(b, -1.0, squared)[1]
    n = 0
    for s in range(z.size):
        difference = loss_at(z[s], 1.0 if s < n_positive else -1.0, squared)[1] - base
        if difference != 0.0:
            rows[n], differences[n] = touched[s], difference
            n += 1
    return n


@njit
def add_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    rows: np.ndarray,
    factors: np.ndarray,
    sums: np.ndarray,
    met: np.ndarray,
    n_met: int,
) -> int:
    """sums (n_columns) += Σ factor · row; the columns met, each once. `sums` is 0 for columns
    that are not met.
    """
    for r in range(rows.size):
        factor = factors[r]
        for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
            j = indices[k]
            if sums[j] == 0.0:
                met[n_met] = j
                n_met += 1
                sums[j] = 5e-324  # met, even if what follows adds up to 0
            sums[j] += factor * data[k]
            if sums[j] == 0.0:
                sums[j] = 5e-324
    return n_met


@njit
def screen(
    sums: np.ndarray,
    met: np.ndarray,
    totals: np.ndarray,
    by_size: np.ndarray,
    base: float,
    l1: float,
    in_use: np.ndarray,
    columns: np.ndarray,
    excess: np.ndarray,
    found: np.ndarray,
) -> None:
    """The columns not in use whose gradient is beyond Λ₁, and by how much; over all columns also
    `found` (ABOVE, LARGEST, SQUARES).

    The gradient of a column is sums + base · totals (base is ℓ′ of untouched rows, totals the sum
    of the column over all rows).
    """
    n, largest, squares = 0, 0.0, 0.0
    for k in range(met.size):
        j = met[k]
        size = abs(sums[j] + base * totals[j])
        largest = max(largest, size)
        if size > l1:
            squares += (size - l1) ** 2
            if not in_use[j]:
                columns[n], excess[n] = j, size - l1
                n += 1
    for k in range(by_size.size):  # of those that no touched row has, the frequent ones
        j = by_size[k]
        size = abs(base * totals[j])
        if size <= l1 and size <= largest:
            break
        if sums[j] == 0.0:
            largest = max(largest, size)
            if size > l1:
                squares += (size - l1) ** 2
                if not in_use[j]:
                    columns[n], excess[n] = j, size - l1
                    n += 1
    found[ABOVE], found[LARGEST], found[SQUARES] = n, largest, squares


@njit
def clear(values: np.ndarray, places: np.ndarray, value: float) -> None:
    """Set the values at these places."""
    for k in range(places.size):
        values[places[k]] = value


@njit
def dual_value(z: np.ndarray, n_positive: int, n_rows: int, b: float, squared: bool, scale: float) -> float:
    """Σ −ℓ*(−r) over all rows, for r = −scale · ℓ′."""
    total = (n_rows - z.size) * conjugate_at(b, -1.0, squared, scale)
    for s in range(z.size):
        total += conjugate_at(z[s], 1.0 if s < n_positive else -1.0, squared, scale)
    return total

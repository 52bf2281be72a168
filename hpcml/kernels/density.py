"""Kernel density estimates of one feature in one class: the mass P(v | c) of the cell of width δ around a value v.

Estimate: P(v | c) = Σ_i w_i [Φ((v − x_i + δ/2)/h) − Φ((v − x_i − δ/2)/h)] over the class's training values x_i with shares w_i. v
is first rounded to a multiple of δ, and P is divided by δ (P' = P / δ, at least `floor`).

A feature with few distinct values stores them with their weights and evaluates the sum. For the other features P is tabulated by a
fast Gauss transform in one dimension (Greengard & Strain 1991): the axis is cut into cells of width h/3, starting at the class's
lowest value; the training values of a cell are replaced by their moments about its centre; and each cell gets a polynomial in the
position t ∈ [−½, ½] within the cell, the double Taylor series of the Gaussian. Pairs of cells more than FAR · h + δ/2 apart are
ignored.

Columns are those of a CSC matrix (`indptr, rows, data`); values that are not stored are 0. Indices are not checked.
"""

import math
from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import erfc, exp, log
from hpcml.kernels.rows import first_at_least

# Terms of the series in either variable. Relative error of P near training values: 1e-6 with 8 terms, below 1e-8 with 10, 1e-11
# with 12.
ORDER = 10
PER_BANDWIDTH = 3  # cells per bandwidth
# Bandwidths beyond which tables treat the Gaussian as 0: it is below the minimum P' times the minimum δ.
FAR = 19.3
NEGLIGIBLE = 1e-11  # maximum share of P that ignored far cells contribute
_BLOCK = 1024  # rows that stay in the caches while all features are added
PRODUCT = 4  # number of probabilities whose product cannot underflow
_ROOT_HALF = math.sqrt(0.5)
_PEAK = 1 / math.sqrt(2 * math.pi)


class Density(NamedTuple):
    """The densities of d features in K classes; a feature has either `values` or `tables`, or neither if it is constant."""

    sizes: np.ndarray  # (K) n_c
    counts: np.ndarray  # (d) number of distinct values
    precisions: np.ndarray  # (d) δ
    bandwidths: np.ndarray  # (d, K) h
    lows: np.ndarray  # (d, K) the lowest value of the class
    starts: np.ndarray  # (d + 1) range of each feature in `values`
    values: np.ndarray  # ascending within a feature
    masses: np.ndarray  # (values, K) share of the class's weight
    logs: np.ndarray  # (values, K) log P'
    table_starts: np.ndarray  # (d K + 1) the cells of feature j and class c begin at table_starts[j K + c]
    tables: np.ndarray  # (cells, ORDER)
    floor: float  # minimum P'


@njit
def sum_columns(indptr, rows, data, labels, weights, lows, highs, counts, totals):
    """Update lows, highs, counts and weights per feature and class (d, K), initialised to +∞, −∞, 0, 0."""
    for j in range(indptr.size - 1):
        for k in range(indptr[j], indptr[j + 1]):
            row = rows[k]
            c = labels[row]
            lows[j, c] = min(lows[j, c], data[k])
            highs[j, c] = max(highs[j, c], data[k])
            counts[j, c] += 1
            totals[j, c] += weights[row]


@njit
def _collect(column, has_zero, values):
    """Write the distinct values of a column to `values`, ascending, until it is full; their number."""
    count = 0
    if has_zero and values.size > 0:
        values[0] = 0.0
        count = 1
    for v in column:
        if count == values.size:
            break
        index = first_at_least(values, 0, count, v)
        if index == count or values[index] != v:
            for i in range(count, index, -1):
                values[i] = values[i - 1]
            values[index] = v
            count += 1
    return count


@njit
def count_values(indptr, data, has_zero, buffer, counts):
    """counts[j] = number of distinct values of feature j, at most buffer.size; has_zero (d), counts (d)."""
    for j in range(counts.size):
        counts[j] = _collect(data[indptr[j] : indptr[j + 1]], has_zero[j], buffer)


@njit
def collect_values(indptr, data, has_zero, starts, values):
    """values[starts[j]:starts[j + 1]] = the distinct values of feature j."""
    for j in range(starts.size - 1):
        _collect(data[indptr[j] : indptr[j + 1]], has_zero[j], values[starts[j] : starts[j + 1]])


@njit
def weigh_values(indptr, rows, data, labels, weights, zero_weights, starts, values, masses):
    """masses[i, c] += weight of values[i] in class c; zero_weights (d, K): weight of the zeros that are not stored."""
    for j in range(starts.size - 1):
        begin, end = starts[j], starts[j + 1]
        if begin == end:
            continue
        for k in range(indptr[j], indptr[j + 1]):
            masses[first_at_least(values, begin, end, data[k]), labels[rows[k]]] += weights[rows[k]]
        zero = first_at_least(values, begin, end, 0.0)
        if zero < end and values[zero] == 0.0:
            masses[zero] += zero_weights[j]


@njit(forceinline=True)
def cell_mass(distance, precision, bandwidth):
    """Φ((u + δ/2)/h) − Φ((u − δ/2)/h), computed from the tails of one side to avoid cancellation."""
    u = abs(distance)
    near = (u - 0.5 * precision) / bandwidth
    return 0.5 * (erfc(near * _ROOT_HALF) - erfc((near + precision / bandwidth) * _ROOT_HALF))


@njit
def _rounded(density, j, v):
    """v rounded to a multiple of δ."""
    return np.rint(v / density.precisions[j]) * density.precisions[j]


@njit
def _sum_values(density, j, c, v):
    """P(v | c) of a feature with few values."""
    total, v = 0.0, _rounded(density, j, v)
    for i in range(density.starts[j], density.starts[j + 1]):
        if density.masses[i, c] > 0:
            distance = v - _rounded(density, j, density.values[i])
            total += density.masses[i, c] * cell_mass(distance, density.precisions[j], density.bandwidths[j, c])
    return total


@njit
def _floored_log(density, j, mass):
    """log P' = log max(P / δ, floor)."""
    return log(max(mass / density.precisions[j], density.floor))


@njit
def log_values(density, out):
    """out[i, c] = log P'(values[i] | c), as stored in density.logs."""
    for j in range(density.counts.size):
        for i in range(density.starts[j], density.starts[j + 1]):
            for c in range(density.sizes.size):
                out[i, c] = _floored_log(density, j, _sum_values(density, j, c, density.values[i]))


@njit
def reach(ratio):
    """Number of cells on either side of a cell to which it contributes (FAR bandwidths); `ratio` is δ/h."""
    return np.int64(math.ceil((FAR + 0.5 * ratio) * PER_BANDWIDTH)) + 1


@njit
def add_moments(rows, column, labels, weights, lows, bandwidths, starts, moments):
    """moments[starts[c] + cell, p] += w t^p / p! for the values of a column, at position t in their cells."""
    for k in range(rows.size):
        row = rows[k]
        c = labels[row]
        position = (column[k] - lows[c]) * (PER_BANDWIDTH / bandwidths[c])
        cell = np.int64(position)
        term = weights[row]
        t = position - cell - 0.5
        moment = moments[starts[c] + cell]
        for p in range(ORDER):
            moment[p] += term
            term *= t / (p + 1)


@njit
def tabulate_derivatives(ratio, out):
    """out[i, k] (2r + 1, 2 ORDER − 1) = (−h/3)^k · k-th derivative of the mass of the cell i − r cells away."""
    middle = out.shape[0] // 2
    for i in range(out.shape[0]):
        u = (i - middle) / PER_BANDWIDTH
        out[i, 0] = cell_mass(u, ratio, 1.0)
        right, left = u + 0.5 * ratio, u - 0.5 * ratio
        a, b = _PEAK * exp(-0.5 * right * right), _PEAK * exp(-0.5 * left * left)  # He_0 φ
        a_before = b_before = 0.0
        scale = 1.0
        for k in range(1, out.shape[1]):
            scale /= PER_BANDWIDTH
            out[i, k] = scale * (b - a)
            a, a_before = right * a - (k - 1) * a_before, a  # He_k = x He_(k−1) − (k − 1) He_(k−2)
            b, b_before = left * b - (k - 1) * b_before, b


@njit
def _add_series(moment, derivatives, out):
    """out[q] += Σ_p moment[p] derivatives[p + q]."""
    for p in range(ORDER):
        m = moment[p]
        for q in range(ORDER):
            out[q] += m * derivatives[p + q]


@njit
def _furthest(moments, derivatives, target, nearest):
    """Distance in cells beyond which sources of `target` are negligible, given the distance of the nearest source.

    Every cell holds a mass of at most 1, so farther sources add less than NEGLIGIBLE of the contribution of a nearest source.
    """
    middle = derivatives.shape[0] // 2
    mass = 0.0
    for source in (target - nearest, target + nearest):
        if 0 <= source < moments.shape[0]:
            mass = max(mass, moments[source, 0])
    least = NEGLIGIBLE * mass * derivatives[middle + min(nearest + 1, middle), 0]
    near, far = nearest, middle
    while near < far:  # the first distance beyond which all is below `least`
        distance = (near + far) >> 1
        if derivatives[middle + max(distance - 1, 0), 0] < least:
            far = distance
        else:
            near = distance + 1
    return near


@njit
def tabulate(moments, derivatives, table):
    """Polynomials of the cells from the moments (cells, ORDER); table (cells + 2r) starts r cells earlier."""
    r, n = derivatives.shape[0] // 2, moments.shape[0]
    before = np.empty(table.shape[0], np.int64)  # the last cell with values, up to each cell
    last = -table.shape[0] - r
    for target in range(table.shape[0]):
        if target - r < n and target >= r and moments[target - r, 0] > 0:
            last = target - r
        before[target] = last
    after = n + table.shape[0] + r
    for target in range(table.shape[0] - 1, -1, -1):
        at = target - r
        if 0 <= at < n and moments[at, 0] > 0:
            after = at
        total = table[target]
        total[:] = 0.0
        nearest = min(at - before[target], after - at)
        reached = _furthest(moments, derivatives, at, nearest) if nearest <= r else 0
        for source in range(max(0, at - reached), min(n, at + reached + 1)):
            if moments[source, 0] > 0:
                _add_series(moments[source], derivatives[at - source + r], total)
        factor = 1.0
        for q in range(ORDER):
            total[q] *= factor
            factor /= -(q + 1.0)  # the derivatives have the sign (−1)^(p + q), the series needs (−1)^p


@njit(forceinline=True)
def mass_in_table(tables, begin, end, position):
    """P(v | c) of the value `position` cells above the lower end of the cells begin ≤ cell < end; 0 outside of them.

    Uses selections instead of branches, so that LLVM vectorises a loop over rows.
    """
    if begin == end:  # only in a damaged file
        return 0.0
    inside = 0 <= position < np.float64(end - begin)
    cell = np.intp(position if inside else 0.0)
    t = position - cell - 0.5
    row = tables[begin + cell]
    total = row[ORDER - 1]
    for q in range(ORDER - 2, -1, -1):
        total = total * t + row[q]
    return max(total, 0.0) if inside else 0.0


@njit
def _look_up(density, j, c, v):
    """P(v | c) of a feature with tables."""
    k = j * density.sizes.size + c
    bandwidth = density.bandwidths[j, c]
    position = (_rounded(density, j, v) - density.lows[j, c]) * (PER_BANDWIDTH / bandwidth)
    position += reach(density.precisions[j] / bandwidth)
    return mass_in_table(density.tables, density.table_starts[k], density.table_starts[k + 1], position)


@njit
def _add_logs(density, j, v, out):
    """out[c] += log P'(v | c) of feature j."""
    if density.counts[j] < 2:
        return
    begin, end = density.starts[j], density.starts[j + 1]
    if begin == end:
        for c in range(out.size):
            out[c] += _floored_log(density, j, _look_up(density, j, c, v))
        return
    i = first_at_least(density.values, begin, end, v)
    if i < end and density.values[i] == v:
        for c in range(out.size):
            out[c] += density.logs[i, c]
    else:
        for c in range(out.size):
            out[c] += _floored_log(density, j, _sum_values(density, j, c, v))


@njit
def log_zeros(density, out):
    """out[j, c] = log P'(0 | c); out (d, K) is initialised to 0."""
    for j in range(out.shape[0]):
        _add_logs(density, j, 0.0, out[j])


@njit
def _multiply_by_tables(density, j, c, values, product):
    """product[i] *= P'(values[i] | c) of feature j with tables."""
    k = j * density.sizes.size + c
    begin, end = density.table_starts[k], density.table_starts[k + 1]
    low, scale = density.lows[j, c], PER_BANDWIDTH / density.bandwidths[j, c]
    shift = np.float64(reach(density.precisions[j] / density.bandwidths[j, c]))
    floor, width = density.floor, density.precisions[j]
    for i in range(values.size):
        mass = mass_in_table(density.tables, begin, end, (values[i] - low) * scale + shift)
        product[i] *= max(mass / width, floor)


@njit
def add_dense(density, X, out):
    """out[i, c] += Σ_j log P'(X[i, j] | c), in the order of j; X (n, d), out (n, K).

    Features with tables are added in groups, with one logarithm of their product.
    """
    n_classes = out.shape[1]
    values, products = np.empty(_BLOCK), np.ones((n_classes, _BLOCK))
    for begin in range(0, X.shape[0], _BLOCK):
        n = min(_BLOCK, X.shape[0] - begin)
        waiting = 0
        for j in range(X.shape[1]):
            if density.counts[j] < 2:
                continue
            if density.starts[j] < density.starts[j + 1]:
                for i in range(begin, begin + n):
                    _add_logs(density, j, np.float64(X[i, j]), out[i])
                continue
            for i in range(n):
                values[i] = _rounded(density, j, np.float64(X[begin + i, j]))
            for c in range(n_classes):
                _multiply_by_tables(density, j, c, values[:n], products[c])
            waiting += 1
            if waiting == PRODUCT:
                _add_log_products(products, n, begin, out)
                waiting = 0
        if waiting:
            _add_log_products(products, n, begin, out)


@njit
def _add_log_products(products, n, begin, out):
    """out[begin + i, c] += log products[c, i] for n rows; resets the products to 1."""
    for c in range(out.shape[1]):
        for i in range(n):
            out[begin + i, c] += log(products[c, i])
            products[c, i] = 1.0


@njit
def add_sparse(density, zeros, indptr, indices, data, out):
    """out[i, c] += Σ log P'(x_j | c) − zeros[j, c] over the stored x_j; zeros from `log_zeros`."""
    for i in range(out.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            for c in range(out.shape[1]):
                out[i, c] -= zeros[j, c]
            _add_logs(density, j, np.float64(data[k]), out[i])

"""Kernel density estimates of one feature in one class: the mass P(v | c) of the cell of width δ
around a value v.

v is first rounded to a multiple of δ, and P is divided by δ.

A feature with few distinct values keeps them with their weights, and P is their sum. For the others
P is tabulated: the axis is cut into cells of width h/3 from the class's lowest value on, the
training values of a cell are replaced by their moments about its centre, and each cell has a
polynomial in the place t ∈ [−½, ½] within the cell, the double Taylor series of the Gaussian (a
fast Gauss transform in one dimension). Pairs of cells more than FAR · h + δ/2 apart are left out.

Columns are those of a CSC matrix (`indptr, rows, data`); what it does not store is 0. No index is
checked here.
"""

import math
from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import erfc, exp, log
from hpcml.kernels.rows import first_at_least

ORDER = 10  # terms of the series in either variable; relative error of P near values below 1e-8 (with 8 terms 1e-6, with 12 1e-11)
PER_BANDWIDTH = 3  # cells in a bandwidth
FAR = 19.3  # bandwidths at which tables take the Gaussian for 0: it is below the least P' times the least δ
NEGLIGIBLE = 1e-11  # share of P that far cells may add unseen
_BLOCK = 1024  # rows that stay in the caches while the features pass
PRODUCT = 4  # probabilities of which a product is above the least number
_ROOT_HALF = math.sqrt(0.5)
_PEAK = 1 / math.sqrt(2 * math.pi)


class Density(NamedTuple):
    """The densities of d features in K classes; a feature has `values`, or none, or `tables`."""

    sizes: np.ndarray  # (K) n_c
    counts: np.ndarray  # (d) distinct values
    precisions: np.ndarray  # (d) δ
    bandwidths: np.ndarray  # (d, K) h
    lows: np.ndarray  # (d, K) the lowest value of the class
    starts: np.ndarray  # (d + 1)
    values: np.ndarray  # ascending within a feature
    masses: np.ndarray  # (values, K) share of the class's weight
    logs: np.ndarray  # (values, K) log P'
    table_starts: np.ndarray  # (d K + 1) the cells of feature j and class c begin at table_starts[j K + c]
    tables: np.ndarray  # (cells, ORDER)
    floor: float  # the least P'


@njit
def sum_columns(indptr, rows, data, labels, weights, lows, highs, counts, totals):
    """Per feature and class (d, K): lowest, highest, number, weight; given as +∞, −∞, 0, 0."""
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
    """Put the distinct values of a column into `values`, ascending, until it is full; how many."""
    count = 0
    if has_zero and values.size > 0:
        values[0] = 0.0
        count = 1
    for v in column:
        if count == values.size:
            break
        place = first_at_least(values, 0, count, v)
        if place == count or values[place] != v:
            for i in range(count, place, -1):
                values[i] = values[i - 1]
            values[place] = v
            count += 1
    return count


@njit
def count_values(indptr, data, has_zero, buffer, counts):
    """counts[j] = distinct values of feature j, at most buffer.size; has_zero (d), counts (d)."""
    for j in range(counts.size):
        counts[j] = _collect(data[indptr[j] : indptr[j + 1]], has_zero[j], buffer)


@njit
def collect_values(indptr, data, has_zero, starts, values):
    """values[starts[j]:starts[j + 1]] = the distinct values of feature j, exactly so many."""
    for j in range(starts.size - 1):
        _collect(data[indptr[j] : indptr[j + 1]], has_zero[j], values[starts[j] : starts[j + 1]])


@njit
def weigh_values(indptr, rows, data, labels, weights, zero_weights, starts, values, masses):
    """masses[i, c] += weight of values[i] in class c; zero_weights (d, K): of zeros not stored."""
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
    """Φ((u + δ/2)/h) − Φ((u − δ/2)/h), of the tails on one side: far away nothing cancels."""
    u = abs(distance)
    near = (u - 0.5 * precision) / bandwidth
    return 0.5 * (erfc(near * _ROOT_HALF) - erfc((near + precision / bandwidth) * _ROOT_HALF))


@njit
def _judged(density, j, v):
    """v, rounded to a multiple of δ."""
    return np.rint(v / density.precisions[j]) * density.precisions[j]


@njit
def _cell_masses(values, v, precision, bandwidth, out):
    """out[i] = the mass of v's cell under a Gaussian at values[i], rounded to a multiple of δ."""
    for i in range(values.size):
        value = np.rint(values[i] / precision) * precision
        out[i] = cell_mass(v - value, precision, bandwidth)


@njit
def _sum_values(density, j, c, v):
    """P(v | c) of a feature with few values."""
    begin, end = density.starts[j], density.starts[j + 1]
    total, masses = 0.0, np.empty(end - begin)
    v = _judged(density, j, v)
    _cell_masses(density.values[begin:end], v, density.precisions[j], density.bandwidths[j, c], masses)
    for i in range(begin, end):
        if density.masses[i, c] > 0:
            total += density.masses[i, c] * masses[i - begin]
    return total


@njit
def _floored_log(density, j, mass):
    """log P' = log max(P / δ, floor)."""
    return log(max(mass / density.precisions[j], density.floor))


@njit
def log_values(density, out):
    """out[i, c] = log P'(values[i] | c): what density.logs is."""
    for j in range(density.counts.size):
        for i in range(density.starts[j], density.starts[j + 1]):
            for c in range(density.sizes.size):
                out[i, c] = _floored_log(density, j, _sum_values(density, j, c, density.values[i]))


@njit
def reach(ratio):
    """Cells on either side of a cell that it is felt in, up to FAR bandwidths; `ratio` is δ/h."""
    return np.int64(math.ceil((FAR + 0.5 * ratio) * PER_BANDWIDTH)) + 1


@njit
def add_moments(rows, column, labels, weights, lows, bandwidths, starts, moments):
    """moments[starts[c] + cell, p] += w t^p / p! for the values of a column at t in their cells."""
    for k in range(rows.size):
        row = rows[k]
        c = labels[row]
        place = (column[k] - lows[c]) * (PER_BANDWIDTH / bandwidths[c])
        cell = np.int64(place)
        term = weights[row]
        t = place - cell - 0.5
        moment = moments[starts[c] + cell]
        for p in range(ORDER):
            moment[p] += term
            term *= t / (p + 1)


@njit
def tabulate_derivatives(ratio, out):
    """out[i, k] (2r + 1, 2 ORDER − 1) = (−h/3)^k · k-th derivative of a cell's mass, i − r away."""
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
    """How many cells away sources of `target` still count, if the nearest is so far away.

    All hold at most 1, so others add less than NEGLIGIBLE of what a nearest source adds.
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
    """The polynomials of cells from the moments (cells, ORDER); table (cells + 2r) is r before."""
    r, n = derivatives.shape[0] // 2, moments.shape[0]
    before = np.empty(table.shape[0], np.int64)  # the last cell with values up to each place
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
            factor /= -(q + 1.0)  # the derivatives come with the sign (−1)^(p + q), the series needs (−1)^p


@njit(forceinline=True)
def mass_in_table(tables, begin, end, place):
    """P(v | c) of the value that lies `place` cells from the lower end of cells begin ≤ cell < end; 0 outside of them.

    A choice, no branch, where there are cells: LLVM makes vectors of a loop over rows.
    """
    if begin == end:  # only of a damaged file
        return 0.0
    inside = 0 <= place < np.float64(end - begin)
    cell = np.intp(place if inside else 0.0)
    t = place - cell - 0.5
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
    place = (_judged(density, j, v) - density.lows[j, c]) * (PER_BANDWIDTH / bandwidth) + reach(density.precisions[j] / bandwidth)
    return mass_in_table(density.tables, density.table_starts[k], density.table_starts[k + 1], place)


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
    """out[j, c] = log P'(0 | c); out (d, K) is given as 0."""
    for j in range(out.shape[0]):
        _add_logs(density, j, 0.0, out[j])


@njit
def _multiply_by_tables(density, j, c, values, product):
    """product[i] *= P'(values[i] | c) of feature j, which has tables."""
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

    Features with tables pass in groups, with one logarithm of their product.
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
                values[i] = _judged(density, j, np.float64(X[begin + i, j]))
            for c in range(n_classes):
                _multiply_by_tables(density, j, c, values[:n], products[c])
            waiting += 1
            if waiting == PRODUCT:
                _take_logs(products, n, begin, out)
                waiting = 0
        if waiting:
            _take_logs(products, n, begin, out)


@njit
def _take_logs(products, n, begin, out):
    """out[begin + i, c] += log products[c, i] of n rows; the products are 1 again."""
    for c in range(out.shape[1]):
        for i in range(n):
            out[begin + i, c] += log(products[c, i])
            products[c, i] = 1.0


@njit
def add_sparse(density, zeros, indptr, indices, data, out):
    """out[i, c] += Σ log P'(x_j | c) − zeros[j, c] over the stored x_j; zeros by `log_zeros`."""
    for i in range(out.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            for c in range(out.shape[1]):
                out[i, c] -= zeros[j, c]
            _add_logs(density, j, np.float64(data[k]), out[i])

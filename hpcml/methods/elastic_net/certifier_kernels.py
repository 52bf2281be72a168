"""Sums over the rows of one label, in float64 and m times the mean.

Touched rows have slots: positive rows first (y = +1), then others (y = −1); `slot_of` (m) is the slot of a row, or −1. Untouched
rows have y = −1 and margin b. A local matrix holds, column by column, slots and values of the touched rows in the working set.
"""

from typing import NamedTuple

import numpy as np

from hpcml.kernels import njit
from hpcml.losses import logistic, squared


class Vectors(NamedTuple):
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class RowLosses(NamedTuple):
    n_positive: int
    n_rows: int
    is_squared: bool  # loss; otherwise logistic


class Strengths(NamedTuple):
    """Λ₁ and Λ₂: λ₁ and λ₂ times m."""

    l1: float
    l2: float


@njit
def soft_threshold(x, by):
    return x - min(max(x, -by), by)


@njit(forceinline=True)
def loss_at(z, y, is_squared):
    """Return ℓ, ℓ′ and ℓ″ at a score z, with y = ±1."""
    margin = z if y > 0 else -z
    value, slope, curvature = squared.at(margin) if is_squared else logistic.at(margin)
    return value, slope if y > 0 else -slope, curvature


@njit(forceinline=True)
def conjugate_at(z, y, is_squared, scale):
    """Return −ℓ*(−r) for r = −scale · ℓ′(z), a row's term of the dual objective."""
    a = -y * (loss_at(z, y, is_squared)[1] * scale)
    return squared.dual(a) if is_squared else logistic.dual(a)


@njit
def values_at(z, n_positive, is_squared, values):
    for s in range(z.size):
        values[s] = loss_at(z[s], 1.0 if s < n_positive else -1.0, is_squared)[0]


@njit
def slopes_at(z, n_positive, is_squared, slopes, curves):
    for s in range(z.size):
        _, slopes[s], curves[s] = loss_at(z[s], 1.0 if s < n_positive else -1.0, is_squared)


@njit
def _conjugates_at(z, n_positive, is_squared, scale, values):
    for s in range(z.size):
        values[s] = conjugate_at(z[s], 1.0 if s < n_positive else -1.0, is_squared, scale)


@njit
def column_totals(columns, totals):
    for j in range(totals.size):
        total = 0.0
        for k in range(columns.indptr[j], columns.indptr[j + 1]):
            total += columns.values[k]
        totals[j] = total


@njit
def gather(chosen, columns, slot_of, touched, n_touched, local):
    """Copy columns to a local matrix and assign slots to untouched rows. Return the number of touched rows."""
    at = 0
    for p in range(chosen.size):
        j = chosen[p]
        for k in range(columns.indptr[j], columns.indptr[j + 1]):
            i = columns.indices[k]
            slot = slot_of[i]
            if slot < 0:
                slot = n_touched
                slot_of[i] = slot
                touched[slot] = i
                n_touched += 1
            local.indices[at], local.values[at] = slot, columns.values[k]
            at += 1
        local.indptr[p + 1] = at
    return n_touched


@njit
def margins(local, w, b, z):
    """z = b + X w of the touched rows."""
    z[:] = b
    for p in range(w.size):
        if w[p] != 0.0:
            for k in range(local.indptr[p], local.indptr[p + 1]):
                z[local.indices[k]] += w[p] * local.values[k]


@njit
def value(z, b, losses):
    """Return Σ ℓ over all rows; the touched ones have margins z."""
    n_positive, n_rows, is_squared = losses
    total, values = (n_rows - z.size) * loss_at(b, -1.0, is_squared)[0], np.empty(z.size)
    values_at(z, n_positive, is_squared, values)
    for s in range(z.size):
        total += values[s]
    return total


@njit
def dual_value(z, b, losses, scale):
    """Return Σ −ℓ*(−r) over all rows, for r = −scale · ℓ′."""
    n_positive, n_rows, is_squared = losses
    total, values = (n_rows - z.size) * conjugate_at(b, -1.0, is_squared, scale), np.empty(z.size)
    _conjugates_at(z, n_positive, is_squared, scale, values)
    for s in range(z.size):
        total += values[s]
    return total


@njit
def centre(z, b, losses):
    """Return the best intercept for the current weights, starting from b; the margins z move with it."""
    n_positive, n_rows, is_squared = losses
    n_others, slopes, curves = n_rows - z.size, np.empty(z.size), np.empty(z.size)
    for _ in range(100):
        _, slope, curve = loss_at(b, -1.0, is_squared)
        slope, curve = n_others * slope, n_others * curve
        size = abs(slope)
        slopes_at(z, n_positive, is_squared, slopes, curves)
        for s in range(z.size):
            slope += slopes[s]
            curve += curves[s]
            size += abs(slopes[s])
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
def add_rows(matrix, rows, factors, sums, met, n_met):
    """sums (n_columns) += Σ factor · row. Append columns whose sum was 0 to met[:n_met]; return their number."""
    for r in range(rows.size):
        factor = factors[r]
        for k in range(matrix.indptr[rows[r]], matrix.indptr[rows[r] + 1]):
            j = matrix.indices[k]
            if sums[j] == 0.0:
                met[n_met] = j
                n_met += 1
                sums[j] = 5e-324  # marks the column as met even if its sum is 0
            sums[j] += factor * matrix.values[k]
            if sums[j] == 0.0:
                sums[j] = 5e-324
    return n_met


@njit
def add_columns(columns, first, last, differences, sums, met, n_met):
    """`add_rows` for columns first … last − 1, read column by column."""
    for j in range(first, last):
        total = 0.0
        for k in range(columns.indptr[j], columns.indptr[j + 1]):
            total += differences[np.uint32(columns.indices[k])] * columns.values[k]
        if total != 0.0:
            sums[j], met[n_met] = total, j
            n_met += 1
    return n_met


@njit
def screen(sums, met, totals, by_size, base, l1, in_use, columns, excess):
    """Write unused columns with gradient g beyond Λ₁ and their excess; return their number, max |g| and Σ [|g| − Λ₁]₊².

    A column's gradient is sums + base · totals, where base is ℓ′ of untouched rows.
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
    for k in range(by_size.size):  # columns without touched rows, by descending |total|
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
    return n, largest, squares

"""One pass over CSR rows that gives loss and subgradient of a block of labels.

`W` is (d, B) row-major, so that a non-zero touches B contiguous weights; inside, blocks are flat arrays with computed
offsets, which the compiler vectorises better than row views (0.6 against 1.0 ns per non-zero and label). Rows are taken in
tiles: first all margins of the tile, then all slopes, then all scattering, which keeps the three loops free of one another's
branch misses. Every lane (label) is computed in the same order whatever B is, and all sums over rows are made on a grid
(`hpcml.mpi.exact`), so the bits depend neither on the block nor on how the rows are spread over ranks.
"""

import numpy as np
from numba import njit

TILE = 64
HINGE = 0
ONE, TWO = np.uint64(1), np.uint64(2)


@njit(cache=True, error_model="numpy", inline="always")
def value_and_slope(code, z):
    """Loss ℓ(z) and its slope ℓ′(z) at the margin z, for the loss with this code (`hpcml.losses`)."""
    if code == HINGE and z < 1.0:
        return 1.0 - z, -1.0
    return 0.0, 0.0


@njit(cache=True, error_model="numpy")
def _margins(indptr, indices, data, tile, n_lanes, bias, w, z):
    """z[i B + l] = w_l · x_i for the rows of a tile; with `bias`, the last B weights belong to the constant feature 1."""
    lanes = np.uint64(n_lanes)
    for i in range(tile.size):
        begin, end = np.uint64(indptr[tile[i]]), np.uint64(indptr[tile[i] + 1])
        at = np.uint64(i) * lanes
        if lanes == 1:
            total = 0.0
            if (end - begin) % TWO:
                total += data[begin] * w[np.uint64(indices[begin])]
            for k in range(begin + (end - begin) % TWO, end, TWO):
                total += data[k] * w[np.uint64(indices[k])] + data[k + ONE] * w[np.uint64(indices[k + ONE])]
            z[at] = total
        else:
            z[at : at + lanes] = 0.0
            if (end - begin) % TWO:
                x, row = np.float64(data[begin]), np.uint64(indices[begin]) * lanes
                for lane in range(lanes):
                    z[at + lane] += x * w[row + lane]
            for k in range(begin + (end - begin) % TWO, end, TWO):
                x, row = np.float64(data[k]), np.uint64(indices[k]) * lanes
                x_next, row_next = np.float64(data[k + ONE]), np.uint64(indices[k + ONE]) * lanes
                for lane in range(lanes):
                    z[at + lane] += x * w[row + lane] + x_next * w[row_next + lane]
        if bias:
            for lane in range(lanes):
                z[at + lane] += w[np.uint64(w.size) - lanes + lane]


@njit(cache=True, error_model="numpy")
def _signs(y_indptr, y_indices, tile, slot_of_label, negative, y):
    """y[i B + l] = +1 if row i of the tile has the label in slot l, else `negative`[l]."""
    n_lanes = negative.size
    for i in range(tile.size):
        for lane in range(n_lanes):
            y[i * n_lanes + lane] = negative[lane]
        for k in range(np.uint64(y_indptr[tile[i]]), np.uint64(y_indptr[tile[i] + 1])):
            slot = slot_of_label[np.uint64(y_indices[k])]
            if slot >= 0:
                y[i * n_lanes + slot] = 1.0


@njit(cache=True, error_model="numpy")
def _losses(code, n_rows, n_lanes, y, shifts, z, sums):
    """Replace the scores z of a tile by the slopes with respect to them; add losses (two levels) and violators to `sums`."""
    for lane in range(n_lanes):
        shift_high, shift_low = shifts[0, lane], shifts[1, lane]
        high, low, violators = 0.0, 0.0, 0.0
        for i in range(n_rows):
            at = np.uint64(i * n_lanes + lane)
            value, slope = value_and_slope(code, y[at] * z[at])
            rounded = (value + shift_high) - shift_high
            high += rounded
            low += ((value - rounded) + shift_low) - shift_low
            z[at] = slope * y[at]
            violators += np.float64(z[at] != 0.0)
        sums[0, lane] += high
        sums[1, lane] += low
        sums[2, lane] += violators


@njit(cache=True, error_model="numpy")
def _subgradients_exact(indptr, indices, data, tile, n_lanes, slopes, g):
    """g[j B + l] += Σ_i slopes[i B + l] x_ij over the rows of a tile, where all products lie on one grid already."""
    lanes = np.uint64(n_lanes)
    for i in range(tile.size):
        begin, end = np.uint64(indptr[tile[i]]), np.uint64(indptr[tile[i] + 1])
        at = np.uint64(i) * lanes
        if lanes == 1:
            slope = slopes[at]
            for k in range(begin, end if slope != 0.0 else begin):
                g[np.uint64(indices[k])] += slope * data[k]
        elif slopes[at : at + lanes].any():
            for k in range(begin, end):
                x, row = np.float64(data[k]), np.uint64(indices[k]) * lanes
                for lane in range(lanes):
                    g[row + lane] += slopes[at + lane] * x


@njit(cache=True, error_model="numpy")
def _subgradients(indptr, indices, data, tile, n_lanes, slopes, one_shift, levels, shift_of_level, g):
    """g[j B + l] += Σ_i slopes[i B + l] x_ij over the rows of a tile, every addend rounded to the grid of feature j."""
    lanes = np.uint64(n_lanes)
    for i in range(tile.size):
        begin, end = np.uint64(indptr[tile[i]]), np.uint64(indptr[tile[i] + 1])
        at = np.uint64(i) * lanes
        if not slopes[at : at + lanes].any():
            continue
        for k in range(begin, end):
            j, x = np.uint64(indices[k]), np.float64(data[k])
            shift, row = one_shift if one_shift > 0.0 else shift_of_level[levels[j]], j * lanes
            for lane in range(lanes):
                g[row + lane] += (slopes[at + lane] * x + shift) - shift


@njit(cache=True, error_model="numpy")
def _bias_subgradients(n_rows, n_lanes, slopes, shift, g):
    """Add the slopes of a tile, rounded to the grid of `shift`, to the last B entries of g: the constant feature 1."""
    for i in range(n_rows):
        for lane in range(n_lanes):
            g[g.size - n_lanes + lane] += (slopes[i * n_lanes + lane] + shift) - shift


@njit(cache=True, error_model="numpy")
def fused_pass(
    indptr,
    indices,
    data,
    rows,
    y_indptr,
    y_indices,
    slot_of_label,
    negative,
    W,
    bias,
    code,
    exact,
    one_shift,
    levels,
    shift_of_level,
    shifts,
    G,
    sums,
):
    """Add to `G` (d, B) the sum over `rows` of ∂ℓ/∂w and to `sums` (3, B) losses (high, low) and violators.

    Row r has the non-zeros indptr[r] .. indptr[r + 1]. With `bias`, the last row of `W` and `G` is the constant feature 1.
    `negative` (B) is −1, or 0 in an idle lane, which then has no slope. `levels` (d, uint8) choose each feature's grid in
    `shift_of_level`, unless `one_shift` > 0 is the grid of all; `exact` says that every slope · x lies on that grid as it is.
    `shifts` (2, B) are the grids of the losses' two levels.
    """
    n_lanes = W.shape[1]
    w, g = W.reshape(W.size), G.reshape(G.size)
    z, y = np.empty(TILE * n_lanes), np.empty(TILE * n_lanes)
    for first in range(0, rows.size, TILE):
        tile = rows[first : first + TILE]
        _margins(indptr, indices, data, tile, n_lanes, bias, w, z)
        _signs(y_indptr, y_indices, tile, slot_of_label, negative, y)
        _losses(code, tile.size, n_lanes, y, shifts, z, sums)
        if exact:
            _subgradients_exact(indptr, indices, data, tile, n_lanes, z, g)
        else:
            _subgradients(indptr, indices, data, tile, n_lanes, z, one_shift, levels, shift_of_level, g)
        if bias:
            _bias_subgradients(tile.size, n_lanes, z, one_shift if one_shift > 0.0 else shift_of_level[levels[-1]], g)


@njit(cache=True, error_model="numpy")
def column_extremes(indptr, indices, data, rows, largest, counts, smallest):
    """largest[j] = max |x_ij| and counts[j] += 1 over the non-zeros of `rows`; smallest[0] = the least |x_ij| > 0 of all."""
    for i in range(rows.size):
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            j, size = np.uint64(indices[k]), abs(data[k])
            largest[j] = max(largest[j], size)
            counts[j] += 1
            if size > 0.0:
                smallest[0] = min(smallest[0], size)


@njit(cache=True, error_model="numpy")
def row_squares(indptr, data, rows, out):
    """out[i] = Σ data² over the non-zeros of row rows[i]."""
    for i in range(rows.size):
        total = 0.0
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            total += np.float64(data[k]) * np.float64(data[k])
        out[i] = total


@njit(cache=True, error_model="numpy")
def count_labels(y_indptr, y_indices, rows, out):
    """out[l] += the number of `rows` that have label l."""
    for i in range(rows.size):
        for k in range(np.uint64(y_indptr[rows[i]]), np.uint64(y_indptr[rows[i] + 1])):
            out[np.uint64(y_indices[k])] += 1

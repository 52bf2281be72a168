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
def _signs(y_indptr, y_indices, tile, slot_of_label, n_lanes, y):
    """y[i B + l] = +1 if row i of the tile has the label in slot l, else −1."""
    y[: tile.size * n_lanes] = -1.0
    for i in range(tile.size):
        for k in range(np.uint64(y_indptr[tile[i]]), np.uint64(y_indptr[tile[i] + 1])):
            slot = slot_of_label[np.uint64(y_indices[k])]
            if slot >= 0:
                y[i * n_lanes + slot] = 1.0


@njit(cache=True, error_model="numpy")
def _losses(code, n_rows, n_lanes, y, shifts, z, sums, violated):
    """Replace the scores z of a tile by the slopes with respect to them; add losses (two levels) and violators to `sums`."""
    for i in range(n_rows):
        any_slope = False
        for lane in range(n_lanes):
            at = np.uint64(i * n_lanes + lane)
            value, slope = value_and_slope(code, y[at] * z[at])
            high = (value + shifts[0, lane]) - shifts[0, lane]
            sums[0, lane] += high
            sums[1, lane] += ((value - high) + shifts[1, lane]) - shifts[1, lane]
            sums[2, lane] += np.float64(slope != 0.0)
            z[at] = slope * y[at]
            any_slope |= slope != 0.0
        violated[i] = any_slope


@njit(cache=True, error_model="numpy")
def _subgradients(indptr, indices, data, tile, violated, n_lanes, slopes, shift, bias, g):
    """g[j B + l] += Σ_i slopes[i B + l] x_ij over the violated rows of a tile, every addend rounded to the grid of `shift`."""
    lanes = np.uint64(n_lanes)
    for i in range(tile.size):
        if not violated[i]:
            continue
        begin, end = np.uint64(indptr[tile[i]]), np.uint64(indptr[tile[i] + 1])
        at = np.uint64(i) * lanes
        if lanes == 1:
            slope = slopes[at]
            for k in range(begin, end):
                g[np.uint64(indices[k])] += (slope * data[k] + shift) - shift
        else:
            for k in range(begin, end):
                x, row = np.float64(data[k]), np.uint64(indices[k]) * lanes
                for lane in range(lanes):
                    g[row + lane] += (slopes[at + lane] * x + shift) - shift
        if bias:
            for lane in range(lanes):
                g[np.uint64(g.size) - lanes + lane] += (slopes[at + lane] + shift) - shift


@njit(cache=True, error_model="numpy")
def fused_pass(indptr, indices, data, rows, y_indptr, y_indices, slot_of_label, W, bias, code, shift, shifts, G, sums):
    """Add to `G` (d, B) the sum over `rows` of ∂ℓ/∂w and to `sums` (3, B) losses (high, low) and violators.

    Row r has the non-zeros indptr[r] .. indptr[r + 1]. With `bias`, the last row of `W` and `G` is the constant feature 1.
    `shift` is the grid of the slopes' sums, `shifts` (2, B) the grids of the losses' two levels.
    """
    n_lanes = W.shape[1]
    w, g = W.reshape(W.size), G.reshape(G.size)
    z, y = np.empty(TILE * n_lanes), np.empty(TILE * n_lanes)
    violated = np.empty(TILE, dtype=np.bool_)
    for first in range(0, rows.size, TILE):
        tile = rows[first : first + TILE]
        _margins(indptr, indices, data, tile, n_lanes, bias, w, z)
        _signs(y_indptr, y_indices, tile, slot_of_label, n_lanes, y)
        _losses(code, tile.size, n_lanes, y, shifts, z, sums, violated)
        _subgradients(indptr, indices, data, tile, violated, n_lanes, z, shift, bias, g)


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

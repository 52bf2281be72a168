"""Row loops of dual coordinate descent: order of a pass, selection of active rows, scores.

Loops that keep the labels of a panel in a vector register ("lanes") are in `hpcml.kernels.lanes`.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import TILE, dot_rows


@njit
def shuffle(rows, bounds, chunks, key):
    """Write rows 0 … n − 1 to `rows` (n) in random order: chunks bounds[c] … are shuffled, and the rows within each."""
    state = key
    for c in range(chunks.size):
        chunks[c] = c
    for c in range(chunks.size - 1, 0, -1):
        state, drawn = draw(state, c + 1)
        chunks[c], chunks[drawn] = chunks[drawn], chunks[c]
    start = 0
    for c in chunks:
        size = bounds[c + 1] - bounds[c]
        for i in range(size):
            rows[start + i] = bounds[c] + i
        for i in range(size - 1, 0, -1):
            state, drawn = draw(state, i + 1)
            rows[start + i], rows[start + drawn] = rows[start + drawn], rows[start + i]
        start += size


@njit
def draw(state, n):
    """Return the next state of splitmix64 and a number below n."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit
def select_active(order, active, rows):
    """Copy the rows of `order` that are active in any lane to `rows`, in order; return their number."""
    n = 0
    for i in order:
        rows[n] = i  # overwritten by the next row if inactive: a branch would be mispredicted
        n += active[i] != 0
    return n


@njit
def pack(indptr, indices, data, selected, to_indptr, to_indices, to_data):
    """Copy the rows with kept[i] to CSR arrays; the other rows are empty there."""
    position = 0
    for i in range(selected.size):
        to_indptr[i] = position
        if selected[i]:
            for k in range(indptr[i], indptr[i + 1]):
                to_indices[position], to_data[position] = indices[k], data[k]
                position += 1
    to_indptr[selected.size] = position


@njit
def certificate_scores(indptr, indices, data, w, out, lanes, ahead):
    """out[i lanes + l] = x_i · w_l for all rows, summed in float64; `ahead` as in an epoch."""
    n, rows = indptr.size - 1, np.arange(TILE)
    for tile in range(0, n, TILE):
        dot_rows(indptr, indices, data, tile, rows[: n - tile], w, out[tile * lanes :], lanes, ahead)


@njit
def norms(indptr, data, weights, out):
    """out[i] = (s ‖x_i‖², s), summed in float64; s = weights[i], or 1 if `weights` is empty."""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * np.float64(data[k])
        s = weights[i] if weights.size else 1.0
        out[i, 0], out[i, 1] = s * total, s


@njit
def remove_duals(csr, rows, norms, start, no_dual, state, lanes, lane):
    """Set the duals `start` (n) of `rows`, positive for this label, to `no_dual` in one lane and remove them from the weights."""
    (indptr, indices, data), (w, alpha) = csr, state
    for i in rows:
        alpha[i * lanes + lane] = no_dual
        if start[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k] * lanes + lane] += start[i] * norms[i, 1] * data[k]

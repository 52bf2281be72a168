"""Loops of dual coordinate descent over rows, in order: which rows a pass visits, scores.

What has a vector register for the labels of a panel ("lanes") is in `hpcml.kernels.lanes`.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import TILE, dot_rows


@njit
def shuffle(rows, bounds, chunks, key):
    """Order the rows 0 .. n − 1 at random, by `key` (uint64): the chunks bounds[c] .. bounds[c + 1]
    − 1, and the rows in each.

    rows (n) int32 or int64, chunks (n_chunks) int64 is scratch.
    """
    state = key
    for c in range(chunks.size):
        chunks[c] = c
    for c in range(chunks.size - 1, 0, -1):
        state, drawn = draw(state, c + 1)
        chunks[c], chunks[drawn] = chunks[drawn], chunks[c]
    place = 0
    for c in chunks:
        size = bounds[c + 1] - bounds[c]
        for i in range(size):
            rows[place + i] = bounds[c] + i
        for i in range(size - 1, 0, -1):
            state, drawn = draw(state, i + 1)
            rows[place + i], rows[place + drawn] = rows[place + drawn], rows[place + i]
        place += size


@njit
def draw(state, n):
    """The next state (splitmix64) and a number below n."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.int64(((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit
def looked_at(order, active, rows):
    """Put those of the rows in `order` that some lane looks at into `rows`, in this order; how
    many they are.
    """
    n = 0
    for i in order:
        rows[n] = i  # the next one takes its place if no lane looks at it: a jump would be guessed wrong
        n += active[i] != 0
    return n


@njit
def pack(indptr, indices, data, kept, to_indptr, to_indices, to_data):
    """Copy the rows that are `kept` (n) bool; the others have no values in the copy. to_indptr
    (n + 1) is written, too.
    """
    place = 0
    for i in range(kept.size):
        to_indptr[i] = place
        if kept[i]:
            for k in range(indptr[i], indptr[i + 1]):
                to_indices[place], to_data[place] = indices[k], data[k]
                place += 1
    to_indptr[kept.size] = place


@njit
def certificate_scores(indptr, indices, data, w, out, lanes, ahead):
    """out[i lanes + l] = x_i · w_l, summed in float64, of all rows; `ahead` as in an epoch."""
    n, rows = indptr.size - 1, np.arange(TILE)
    for tile in range(0, n, TILE):
        dot_rows(indptr, indices, data, tile, rows[: n - tile], w, out[tile * lanes :], lanes, ahead)


@njit
def norms(indptr, data, weights, out):
    """out[i] = s ‖x_i‖², summed in float64, and s, the weight of the row; `weights` (n), or (0):
    1 each.
    """
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * np.float64(data[k])
        s = weights[i] if weights.size else 1.0
        out[i, 0], out[i, 1] = s * total, s


@njit
def remove_duals(csr, rows, norms, start, no_dual, state, lanes, lane):
    """Take the duals `start` (n) of `rows` of `csr` (indptr, indices, data), negative so far, back
    to 0 in one lane of `state` (weights, duals): they will be positive. What stands for 0 is `no_dual`.
    """
    (indptr, indices, data), (w, alpha) = csr, state
    for i in rows:
        alpha[i * lanes + lane] = no_dual
        if start[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k] * lanes + lane] += start[i] * norms[i, 1] * data[k]

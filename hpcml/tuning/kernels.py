"""The compiled pieces of choosing: copying rows, scores of held-out rows."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.lanes.products import dot_rows

TILE = 64


@njit
def copy_rows(indptr, indices, data, rows, out_indptr, out_indices, out_data):
    """Copy `rows`, one after the other, to where out_indptr (their beginnings and the end) says."""
    for r in range(rows.size):
        begin, at = indptr[rows[r]], out_indptr[r]
        for k in range(indptr[rows[r] + 1] - begin):
            out_indices[at + k], out_data[at + k] = indices[begin + k], data[begin + k]


@njit
def score(indptr, indices, data, w, lanes, out):
    """out[l, i] = x_i · w_l for CSR rows and `lanes` labels; w (d lanes) flat, out (lanes, n)."""
    n = indptr.size - 1
    z, some = np.empty(TILE * lanes), np.arange(TILE)
    for tile in range(0, n, TILE):
        here = min(TILE, n - tile)
        dot_rows(indptr, indices, data, tile, some[:here], w, z, lanes)
        for r in range(here):
            for lane in range(out.shape[0]):
                out[lane, tile + r] = z[r * lanes + lane]

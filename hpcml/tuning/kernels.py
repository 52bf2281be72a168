"""The compiled copy of rows."""

from hpcml.kernels import njit


@njit
def copy_rows(indptr, indices, data, rows, out_indptr, out_indices, out_data):
    """Copy `rows` one after the other; row r is written to out_indptr[r] ≤ k < out_indptr[r + 1]."""
    for r in range(rows.size):
        begin, at = indptr[rows[r]], out_indptr[r]
        for k in range(indptr[rows[r] + 1] - begin):
            out_indices[at + k], out_data[at + k] = indices[begin + k], data[begin + k]

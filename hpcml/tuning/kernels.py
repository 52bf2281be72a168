"""The compiled piece of choosing: copies of rows."""

from hpcml.kernels import njit


@njit
def copy_rows(indptr, indices, data, rows, out_indptr, out_indices, out_data):
    """Copy `rows`, one after the other, to where out_indptr (their beginnings and the end) says."""
    for r in range(rows.size):
        begin, at = indptr[rows[r]], out_indptr[r]
        for k in range(indptr[rows[r] + 1] - begin):
            out_indices[at + k], out_data[at + k] = indices[begin + k], data[begin + k]

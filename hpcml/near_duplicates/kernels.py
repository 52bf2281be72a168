"""Compiled passes over the features of rows: minimum hashes, and numbers of common features."""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.row_keys import mix

_LARGEST = np.uint32(2**32 - 1)


@njit
def _lower(x, factors, addends, least):
    """Set least[h] = min(least[h], x · factors[h] + addends[h]) mod 2³². A function of its own, so that it is vectorised."""
    for h in range(least.size):
        least[h] = min(least[h], np.uint32(x * factors[h] + addends[h]))


@njit
def band_keys(features, rows, hashes, functions, size, least, begin, keys):
    """Set keys[b, begin + i] (uint64) to a hash of the b-th `size` minimum hashes of the features of rows[i].

    hashes (n_features uint32); functions: factors, addends (bands · size uint32); `least`, of that size, is scratch.
    """
    (indptr, indices), (factors, addends) = features, functions
    for i in range(rows.size):
        least[:] = _LARGEST
        for k in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            _lower(hashes[np.uint64(indices[k])], factors, addends, least)
        for b in range(keys.shape[0]):
            key = np.uint64(0)
            for h in range(b * size, (b + 1) * size):
                key = mix(key + np.uint64(least[h]))
            keys[b, begin + i] = key


@njit
def count_common(features, rows, other_features, others, counts):
    """Set counts[p] to the number of common features of rows[p] and others[p]; features must ascend."""
    (indptr, indices), (other_indptr, other_indices) = features, other_features
    for p in range(rows.size):
        a, a_end = np.uint64(indptr[rows[p]]), np.uint64(indptr[rows[p] + 1])
        b, b_end = np.uint64(other_indptr[others[p]]), np.uint64(other_indptr[others[p] + 1])
        count = 0
        while a < a_end and b < b_end:
            x, y = np.int64(indices[a]), np.int64(other_indices[b])
            count += x == y
            a += np.uint64(x <= y)
            b += np.uint64(y <= x)
        counts[p] = count

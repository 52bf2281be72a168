"""Inner products and sums of cutting planes, each a row of a matrix over a range of columns.

As in `linear.panel_kernels`, sums are made in fixed chunks of CHUNK columns, so ranks with different columns get the same bits. A
range of columns starts at a chunk.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.methods.linear.panel_kernels import CHUNK

PARTS = 8  # interleaved partial sums, which the compiler keeps in vector registers


@njit
def _dot(a, b, parts):
    """Return a · b in float64; `parts` (PARTS) is scratch."""
    parts[:] = 0.0
    size, step = np.uint64(a.size), np.uint64(PARTS)
    even = size - size % step
    for first in range(np.uint64(0), even, step):
        for part in range(step):
            parts[part] += np.float64(a[first + part]) * np.float64(b[first + part])
    for column in range(even, size):
        parts[0] += np.float64(a[column]) * np.float64(b[column])
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]))


@njit
def products(planes, w, out):
    """out[c, k] = a · planes[k] and out[c, n] = a · w over chunk c, for a = planes[n − 1]; planes (n, d), out (chunks, n + 1)."""
    parts, n = np.empty(PARTS), planes.shape[0]
    for chunk in range(out.shape[0]):
        first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, w.size)
        newest = planes[n - 1][first:last]
        for k in range(n):
            out[chunk, k] = _dot(newest, planes[k][first:last], parts)
        out[chunk, n] = _dot(newest, w[first:last], parts)


@njit
def _add(factor, plane, total):
    """total += factor plane."""
    for column in range(np.uint64(plane.size)):
        total[column] += factor * np.float64(plane[column])


@njit
def combine(planes, factors, out):
    """out (d) = Σ factors[k] planes[k], in float64 and in the order of k; planes (n, d)."""
    total = np.empty(CHUNK)
    for first in range(0, out.size, CHUNK):
        last = min(first + CHUNK, out.size)
        total[:] = 0.0
        for k in range(factors.size):
            if factors[k] != 0.0:
                _add(factors[k], planes[k][first:last], total[: last - first])
        for column in range(first, last):
            out[column] = total[column - first]

"""Checksums for `hpcml.files.slabs`."""

import numpy as np

from hpcml.kernels import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit
def add_sums(words, first, size, out):
    """Add to out[b − first // size] the checksum of block b. `words` (uint32) are elements first, … of an array in blocks of
    `size`.

    Each word has its own odd factor, modulo 2^64.
    """
    at, b = 0, 0
    while at < words.size:
        end, total = min(words.size, at + size - (first + at) % size), np.uint64(0)
        for i in range(at, end):
            total += np.uint64(words[i]) * ((np.uint64(first + i) * GOLDEN) | np.uint64(1))
        out[b] += total
        at, b = end, b + 1

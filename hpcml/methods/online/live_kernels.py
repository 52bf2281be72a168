"""A bounded hash table from feature numbers to slots, with open addressing."""

import numpy as np

from hpcml.kernels import njit

FREE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit
def find(keys, number):
    """Index of `number` in `keys`, or the free index to insert it at. The size is a power of two and the table is never full."""
    mask = np.uint64(keys.size - 1)
    mixed = np.uint64(number) * _GOLDEN
    index = (mixed ^ (mixed >> np.uint64(32))) & mask
    while keys[index] != FREE and keys[index] != number:
        index = (index + np.uint64(1)) & mask
    return index


@njit
def put_all(keys, slots, numbers, slot_of):
    for i in range(numbers.size):
        index = find(keys, numbers[i])
        keys[index], slots[index] = numbers[i], slot_of[i]


@njit
def map_rows(csr, rows, table, n_free, allow_dropping, out):
    """Copy rows of `csr` to `out` (both indptr, indices, data) with slots for features, until a row needs more slots than are free.

    `table` is (keys, their slots, feature number of each slot, stack of free slots). With `allow_dropping`, the first row is copied
    without the new features that find no slot. Returns (number of rows copied, number of free slots).
    """
    indptr, indices, data = csr
    out_indptr, out_indices, out_data = out
    keys, slots, numbers, free = table
    at = np.int64(0)
    for i in range(rows.size):
        begin, end = indptr[rows[i]], indptr[rows[i] + 1]
        n_new = 0
        for k in range(begin, end):
            if data[k] != 0.0 and keys[find(keys, indices[k])] == FREE:
                n_new += 1
        if n_new > n_free and not (allow_dropping and i == 0):
            return i, n_free
        for k in range(begin, end):
            if data[k] == 0.0:
                continue
            index = find(keys, indices[k])
            if keys[index] == FREE:
                if n_free == 0:
                    continue
                n_free -= 1
                keys[index], slots[index] = indices[k], free[n_free]
                numbers[free[n_free]] = indices[k]
            out_indices[at], out_data[at] = slots[index], data[k]
            at += 1
        out_indptr[i + 1] = at
    return rows.size, n_free

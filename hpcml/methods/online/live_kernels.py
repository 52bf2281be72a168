"""A bounded table of live features: numbers to slots, by open addressing."""

import numpy as np

from hpcml.kernels import njit

FREE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit
def find(keys, number):
    """The place of `number`, or for it, in the table `keys` (a power of two long, never full)."""
    mask = np.uint64(keys.size - 1)
    mixed = np.uint64(number) * _GOLDEN
    place = (mixed ^ (mixed >> np.uint64(32))) & mask
    while keys[place] != FREE and keys[place] != number:
        place = (place + np.uint64(1)) & mask
    return place


@njit
def put_all(keys, slots, numbers, slot_of):
    """Fill an empty table: numbers[i] has the slot slot_of[i]."""
    for i in range(numbers.size):
        place = find(keys, numbers[i])
        keys[place], slots[place] = numbers[i], slot_of[i]


@njit
def take_rows(csr, rows, table, n_free, forced, out):
    """Copy rows of `csr` to `out` (both indptr, indices, data), with slots for features, new
    features taking slots off a stack, until a row finds too few: (rows copied, slots left).

    `table` is (keys, slots of these, number of each slot, stack of free slots). With `forced` the
    first row is copied in any case, without those of its new features that find no slot.
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
        if n_new > n_free and not (forced and i == 0):
            return i, n_free
        for k in range(begin, end):
            if data[k] == 0.0:
                continue
            place = find(keys, indices[k])
            if keys[place] == FREE:
                if n_free == 0:
                    continue
                n_free -= 1
                keys[place], slots[place] = indices[k], free[n_free]
                numbers[free[n_free]] = indices[k]
            out_indices[at], out_data[at] = slots[place], data[k]
            at += 1
        out_indptr[i + 1] = at
    return rows.size, n_free

"""Compiled passes over rows: content hashes, and the assignment of rows to parts."""

import numpy as np

from hpcml.kernels import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit
def _mix(x):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@njit
def hash_rows(lengths, indices, values, features, out):
    """out[i] = a hash of row i: its features (keys `features`, or numbers if empty) and values.

    `values` are the bits of the values (uint32). The order of the features does not matter.
    """
    at = 0
    for i in range(lengths.size):
        total = np.uint64(lengths[i])
        for k in range(at, at + lengths[i]):
            key = np.uint64(indices[k]) if features.size == 0 else features[indices[k]]
            total += _mix(_mix(key + GOLDEN) ^ (np.uint64(values[k]) * GOLDEN + np.uint64(1)))
        at += lengths[i]
        out[i] = _mix(total + GOLDEN)


@njit
def assign(label_indptr, label_rows, order, wanted, capacity, draws, group, group_indptr, group_rows, part):
    """part[i] (int8, -1 at first) = the part of row i, by iterative stratification.

    Sechidis, Tsoumakas & Vlahavas 2011, for groups of rows. Labels are taken in the given `order`
    (rarest first). A row of the label goes to the part that lacks most of the label's `wanted`
    rows (labels x parts, float64); of several, to the one with most room left (`capacity`, rows);
    then to the one that the row's draw (uint64) points at. The rows of its group go with it. A part
    without room for the group is not chosen while another has room. Rows with none of the labels
    come last. Rows of a label are taken in the given order.
    """
    n_parts = capacity.size
    room, lack = capacity.copy(), np.zeros(n_parts)
    for label in order:
        begin, end = label_indptr[label], label_indptr[label + 1]
        lack[:] = wanted[label]
        for k in range(begin, end):
            if part[label_rows[k]] >= 0:
                lack[part[label_rows[k]]] -= 1.0
        for k in range(begin, end):
            i = label_rows[k]
            if part[i] < 0:
                _give(i, draws[i], lack, room, group, group_indptr, group_rows, part)
                lack[part[i]] -= 1.0
    lack[:] = 0.0
    for i in range(part.size):
        if part[i] < 0:
            _give(i, draws[i], lack, room, group, group_indptr, group_rows, part)


@njit
def _give(i, draw, lack, room, group, group_indptr, group_rows, part):
    """Put row i and its group into a part."""
    n_parts, best, fits = room.size, -1, False
    begin, end = group_indptr[group[i]], group_indptr[group[i] + 1]
    first = np.int64(draw % np.uint64(n_parts))
    for step in range(n_parts):
        k = (first + step) % n_parts
        has_room = room[k] >= end - begin
        if best < 0 or (has_room and not fits):
            better = True
        elif fits and not has_room:
            better = False
        elif not has_room:
            better = room[k] > room[best]
        else:
            better = lack[k] > lack[best] or (lack[k] == lack[best] and room[k] > room[best])
        if better:
            best, fits = k, has_room
    for r in range(begin, end):
        part[group_rows[r]] = best
    room[best] -= end - begin

"""Content hashes of rows, checksums of arrays (`hpcml.files.slabs`), and the assignment of rows to parts."""

import numpy as np

from hpcml.kernels import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
EVERYTHING = 0.02  # weight of the number of rows in a part, relative to a row's labels
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit
def mix(x):
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@njit
def hash_rows(lengths, indices, values, features, out):
    """out[i] = hash of row i's non-zero values (uint32 bits) and features (`features`, or their numbers if empty), in any order."""
    at = 0
    for i in range(lengths.size):
        total = np.uint64(0)
        for k in range(at, at + lengths[i]):
            if values[k] << np.uint32(1) == np.uint32(0):
                continue
            key = np.uint64(indices[k]) if features.size == 0 else features[indices[k]]
            total += mix(mix(key + GOLDEN) ^ (np.uint64(values[k]) * GOLDEN + np.uint64(1)))
        at += lengths[i]
        out[i] = mix(total + GOLDEN)


@njit
def assign(indptr, labels, weights, shares, room, draws, order, group_indptr, group_rows, deviations, part):
    """part[i] (int8) = part of row i, such that every part gets its share of the rows of each label.

    Groups of rows are assigned in `order`, each to the part that adds least to the sum over labels (indptr, labels) of `weights`
    times the squared `deviations` (labels + 1, parts): rows of a label in a part, minus its share. The last line counts all rows.
    Ties go to the part with most `room` (rows), then by the first row's draw. A part without room is chosen only if no part has
    room.
    """
    n_parts, everything = shares.size, deviations.shape[0] - 1
    inside, cost = np.zeros(everything + 1), np.empty(n_parts)
    for g in order:
        begin, end = group_indptr[g], group_indptr[g + 1]
        size, total, squares = end - begin, 0.0, 0.0
        cost[:] = 0.0
        for r in range(begin, end):
            i = group_rows[r]
            for k in range(indptr[i], indptr[i + 1]):
                label = labels[k]
                total += weights[label]
                squares += weights[label] * (2.0 * inside[label] + 1.0)
                inside[label] += 1.0
                for p in range(n_parts):
                    cost[p] += weights[label] * deviations[label, p]
        of_all = EVERYTHING * total / size if total > 0.0 else 1.0
        best, fits = -1, False
        first = np.int64(draws[group_rows[begin]] % np.uint64(n_parts))
        for step in range(n_parts):
            p = (first + step) % n_parts
            cost[p] += of_all * size * deviations[everything, p] - shares[p] * (squares + of_all * size * size)
            has_room = room[p] >= size
            if best < 0 or (has_room and not fits):
                better = True
            elif fits and not has_room:
                better = False
            elif not has_room:
                better = room[p] > room[best]
            else:
                better = cost[p] < cost[best] or (cost[p] == cost[best] and room[p] > room[best])
            if better:
                best, fits = p, has_room
        for r in range(begin, end):
            i = group_rows[r]
            part[i] = best
            for k in range(indptr[i], indptr[i + 1]):
                inside[labels[k]] = 0.0
                for p in range(n_parts):
                    deviations[labels[k], p] -= shares[p]
                deviations[labels[k], best] += 1.0
        for p in range(n_parts):
            deviations[everything, p] -= shares[p] * size
        deviations[everything, best] += size
        room[best] -= size


@njit
def add_sums(words, first, size, out):
    """out[b − first // size] += checksum of block b: Σ word · (odd factor of its index) mod 2^64; `words` (uint32) start at
    `first`.
    """
    at, b = 0, 0
    while at < words.size:
        end, total = min(words.size, at + size - (first + at) % size), np.uint64(0)
        for i in range(at, end):
            total += np.uint64(words[i]) * ((np.uint64(first + i) * GOLDEN) | np.uint64(1))
        out[b] += total
        at, b = end, b + 1

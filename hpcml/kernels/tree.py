"""Growth of a classification tree from columns that are sorted once, and the leaves of rows.

A key (uint64) is a value of a feature and its row: from bit `SHIFT` on the value's code, which has the order of the values; below
it the row's number, and lowest the row's class, in `class_bits` bits. The keys of a node have the same positions in every column,
ascending. A split partitions them in place and in order, so nothing is sorted again.

Splits are compared in integers: `table[n]` is n log₂ n in fixed point, where log₂ n is the sum of those of n's prime factors. Equal
gains therefore have equal bits, in any order of summation.
"""

import numpy as np

from hpcml.kernels import njit
from hpcml.kernels.elementary import log2

SHIFT = np.uint64(32)
LEAF = -1  # in the place of a feature
BLOCK = 256  # rows
_SIGN = np.uint32(1 << 31)


@njit
def make_keys(bits, classes, class_bits, out):
    """out (d × n) = keys of rows; `bits` (uint32, n × d) are those of their float32 values."""
    for first in range(0, bits.shape[0], BLOCK):
        for j in range(bits.shape[1]):
            for i in range(first, min(first + BLOCK, bits.shape[0])):
                code = bits[i, j]
                if code == _SIGN:  # −0
                    code = np.uint32(0)
                code = ~code if code & _SIGN else code | _SIGN
                out[j, i] = np.uint64(code) << SHIFT | np.uint64(i) << class_bits | np.uint64(classes[i])


@njit
def tabulate_entropies(scale, out):
    """out[n] (int64, initially 0) = n · scale log₂ n, with scale log₂ of primes rounded."""
    for prime in range(2, out.size):
        if out[prime] == 0:
            rounded, power = np.int64(np.rint(scale * log2(np.float64(prime)))), prime
            while power < out.size:
                for n in range(power, out.size, power):
                    out[n] += rounded
                power *= prime
    for n in range(out.size):
        out[n] *= n


@njit
def _best_split(column, class_mask, table, min_leaf, left, right):
    """Return the score of the best split of a node's column, and its number of rows on the left (0: no split).

    The score is Σ_sides (Σ_c n_c log n_c − n log n), largest where the entropy is smallest. `left` (n_classes) is scratch; `right`
    has the counts of the node and is overwritten.
    """
    n = column.size
    left[:] = 0
    total_left, total_right = np.int64(0), np.int64(0)
    for c in range(right.size):
        total_right += table[right[c]]
    best, n_left = np.iinfo(np.int64).min, 0
    for i in range(n - min_leaf):
        key = column[i]
        c = np.intp(key & class_mask)
        total_left += table[left[c] + 1] - table[left[c]]
        left[c] += 1
        total_right += table[right[c] - 1] - table[right[c]]
        right[c] -= 1
        if i + 1 >= min_leaf and (key >> SHIFT) != (column[i + 1] >> SHIFT):
            score = total_left - table[i + 1] + total_right - table[n - i - 1]
            if score > best:
                best, n_left = score, i + 1
    return best, n_left


@njit
def _part(column, on_left, class_bits, row_mask, room):
    """Move the keys of rows with `on_left` 1 before the others, both in their order."""
    n_left, n_right = 0, 0
    for i in range(column.size):
        key = column[i]
        goes = on_left[np.intp((key & row_mask) >> class_bits)]
        column[n_left] = key
        room[n_right] = key
        n_left += goes
        n_right += 1 - goes
    column[n_left:] = room[:n_right]


@njit
def _ends(counts, n, depth, min_leaf, max_depth):
    if depth >= max_depth or n < 2 * min_leaf:
        return True
    return counts.max() == n


@njit
def _choose(keys, first, last, counts, varying, n_varying, rules):
    """Return the best split of a node: feature (d: no split), rows on the left, n_varying.

    Ties go to the smallest feature, then to the lowest values. Features that are constant in the node move to the end of `varying`.
    """
    class_bits, table, min_leaf, _ = rules
    class_mask = (np.uint64(1) << class_bits) - np.uint64(1)
    left, right = np.empty(counts.size, np.int64), np.empty(counts.size, np.int64)
    best, at, split = np.iinfo(np.int64).min, 0, varying.size
    i = 0
    while i < n_varying:
        j = varying[i]
        column = keys[j, first:last]
        if column[0] >> SHIFT == column[-1] >> SHIFT:
            n_varying -= 1
            varying[i], varying[n_varying] = varying[n_varying], j
            continue
        i += 1
        right[:] = counts
        score, n_left = _best_split(column, class_mask, table, min_leaf, left, right)
        if n_left and (score > best or (score == best and j < split)):
            best, at, split = score, n_left, j
    return split, at, n_varying


@njit
def _part_all(keys, split, middle, varying, class_bits, on_left, room):
    """Partition a node's keys of `varying` features as the feature `split` is partitioned at `middle`."""
    row_mask = (np.uint64(1) << SHIFT) - np.uint64(1)
    for i in range(keys.shape[1]):
        on_left[np.intp((keys[split, i] & row_mask) >> class_bits)] = i < middle
    for j in varying:
        if j != split:
            _part(keys[j], on_left, class_bits, row_mask, room)


@njit
def grow(keys, rules, nodes):
    """Grow a tree into `nodes`, partitioning `keys` (n_features × n_rows, sorted); return the number of nodes.

    `rules` are (class_bits, table, minimum rows of a leaf, maximum depth). `nodes` are the features (LEAF of a leaf), the codes
    (uint32) of the values below and above the threshold, the left children (the right one follows) and the counts (× n_classes;
    root given).
    """
    n_features, n_rows = keys.shape
    features, lows, highs, children, counts = nodes
    class_bits, _, min_leaf, max_depth = rules
    class_mask = (np.uint64(1) << class_bits) - np.uint64(1)
    on_left, room = np.empty(n_rows, np.uint8), np.empty(n_rows, np.uint64)
    varying = np.arange(n_features)  # features, those first that are not constant in a node
    waiting = np.empty((features.size // 2 + 2, 5), np.int64)
    waiting[0] = 0, 0, n_rows, 0, n_features
    n_waiting, n_nodes = 1, 1
    features[0] = LEAF
    while n_waiting:
        n_waiting -= 1
        node, first, last, depth, n_varying = waiting[n_waiting]
        if _ends(counts[node], last - first, depth, min_leaf, max_depth):
            continue
        split, at, n_varying = _choose(keys, first, last, counts[node], varying, n_varying, rules)
        if split == n_features:
            continue
        middle, child = first + at, n_nodes
        features[node], children[node] = split, child
        lows[node], highs[node] = keys[split, middle - 1] >> SHIFT, keys[split, middle] >> SHIFT
        counts[child] = 0
        for i in range(first, middle):
            counts[child, np.intp(keys[split, i] & class_mask)] += 1
        counts[child + 1] = counts[node] - counts[child]
        features[child], features[child + 1] = LEAF, LEAF
        n_nodes += 2
        ends_left = _ends(counts[child], at, depth + 1, min_leaf, max_depth)
        ends_right = _ends(counts[child + 1], last - middle, depth + 1, min_leaf, max_depth)
        if not (ends_left and ends_right):
            _part_all(keys[:, first:last], split, at, varying[:n_varying], class_bits, on_left, room)
        if not ends_right:
            waiting[n_waiting] = child + 1, middle, last, depth + 1, n_varying
            n_waiting += 1
        if not ends_left:
            waiting[n_waiting] = child, first, middle, depth + 1, n_varying
            n_waiting += 1
    return n_nodes


@njit
def leaves(X, features, thresholds, children, out):
    """out[i] (int32) = leaf of row i of X (n × d): left if a value is at most the threshold.

    Rows of a block take steps in turn, which hides the latency of their nodes.
    """
    going = np.empty(BLOCK, np.intp)
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first) if features[0] != LEAF else 0
        for i in range(n):
            going[i] = first + i
        out[first : first + BLOCK] = 0
        while n:
            n_going = 0
            for i in range(n):
                row = going[i]
                node = out[row]
                node = children[node] + (X[row, features[node]] > thresholds[node])
                out[row] = node
                going[n_going] = row
                n_going += features[node] != LEAF
            n = n_going

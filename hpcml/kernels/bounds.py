"""How large the scores of blocks of labels can be: upper bounds, for all blocks of a row at once.

A score is at most the intercept plus Σ x w over the weights above 0, if no x is below 0. Of a block
of BLOCK labels, such a sum is at most that of the largest weights. The columns that most labels
have a weight of ("frequent") have these in a table, as bytes q with q · scale ≥ w, so that the
table's lines times whole numbers m ≥ x · scale / unit add up to bounds, in units, in 16 bits. Those
of the other columns ("rare") are added weight by weight.

Labels with very many weights ("heavy") are in no block: their bounds would be far too large, and
there are so few that they can always be scored.
"""

import numpy as np

from hpcml.kernels import njit

BLOCK = 8  # labels
TILE = 512  # blocks whose sums lie in the nearest cache
LEVELS = 255
FULL = 65535  # a sum of this size says nothing
MOST_AT_ONCE = 257  # the largest m: 257 · 255 = 65535


@njit
def fill_table(indptr, indices, data, heavy, places, scales, table):
    """table[t, f] (TILE) of the columns with places[column] = f ≥ 0, from a CSR matrix."""
    for label in range(indptr.size - 1):
        if heavy[label]:
            continue
        tile, block = label // BLOCK // TILE, label // BLOCK % TILE
        for k in range(np.uint64(indptr[label]), np.uint64(indptr[label + 1])):
            place = places[np.uint64(indices[k])]
            if place >= 0 and data[k] > 0.0:
                level = np.uint8(min(np.ceil(np.float64(data[k]) / scales[place]), 255.0))
                table[tile, place, block] = max(table[tile, place, block], level)


@njit
def measure_columns(indptr, indices, data, heavy, counts, largest):
    """How many weights above 0 of labels that are not heavy each column has, and the largest."""
    for label in range(indptr.size - 1):
        if heavy[label]:
            continue
        for k in range(np.uint64(indptr[label]), np.uint64(indptr[label + 1])):
            if data[k] > 0.0:
                column = np.uint64(indices[k])
                counts[column] += 1
                largest[column] = max(largest[column], np.float64(data[k]))


@njit
def add_rare(x, blocks, weights, out):
    """out[blocks[p]] += x weights[p]."""
    for p in range(blocks.size):
        out[np.uint64(blocks[p])] += x * np.float32(weights[p])

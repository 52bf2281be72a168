"""Upper bounds of the scores of blocks of labels, for all blocks of a row at once.

If no x is negative, a score is at most the intercept plus Σ x w over positive weights; for a block of BLOCK labels, over the
largest weights of the block. Frequent columns, in which most labels have a weight, store these in a table of bytes q with q · scale
≥ w. Sums of table lines times integers m ≥ x · scale / unit bound the scores in 16 bits, in units. Other columns ("rare") are added
weight by weight.

Labels with very many weights ("heavy") are in no block, because their bounds would be far too large; they are few enough to be
scored always.
"""

import numpy as np

from hpcml.kernels import njit

BLOCK = 8  # labels
TILE = 512  # blocks whose sums fit the L1 cache
LEVELS = 255
FULL = 65535  # saturated sum: no bound
MOST_AT_ONCE = 257  # largest m: 257 · 255 = 65535


@njit
def fill_table(indptr, indices, data, heavy, lines, scales, table):
    """Fill table[t, f] (TILE) for columns with lines[column] = f ≥ 0, from a CSR matrix."""
    for label in range(indptr.size - 1):
        if heavy[label]:
            continue
        tile, block = label // BLOCK // TILE, label // BLOCK % TILE
        for k in range(np.uint64(indptr[label]), np.uint64(indptr[label + 1])):
            line = lines[np.uint64(indices[k])]
            if line >= 0 and data[k] > 0.0:
                level = np.uint8(min(np.ceil(np.float64(data[k]) / scales[line]), 255.0))
                table[tile, line, block] = max(table[tile, line, block], level)


@njit
def measure_columns(indptr, indices, data, heavy, counts, largest):
    """Count the positive weights of non-heavy labels in each column, and find the largest."""
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
    for p in range(blocks.size):
        out[np.uint64(blocks[p])] += x * np.float32(weights[p])

"""Confidence intervals by the bootstrap, over rows, groups of rows, or labels.

Problem: the 95 % interval of a ratio of sums Σ aᵢ / Σ bᵢ over items i. P@k, nDCG and micro F1 have this form over rows, macro
measures over labels. Method: each item belongs to one of at most BLOCKS blocks, and blocks are drawn with replacement (random
groups; Wolter, Introduction to Variance Estimation, 2007, chapter 2). The interval lies between percentiles of the resampled ratios
(Efron 1979). With at most BLOCKS items every block is one item, which is the ordinary bootstrap. Rows of a group share a block.

The sums of blocks are whole numbers and blocks come from a counter-based generator, so the result has the same bits on any number
of ranks. One reduction of BLOCKS numbers per sum is all the communication.

Not done: a draw per row and resample, which needs 10⁹ draws for a million rows.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.row_keys import draw_keys
from hpcml.data.shard import Shard
from hpcml.measures import ratio
from hpcml.rng import bits

RESAMPLES = 1000
LEVEL = 95  # per cent
BLOCKS = 1000  # the standard error of a variance from 1,000 blocks is 4.5 %
UNIT = 1 << 30  # fractions are summed as multiples of 1 / UNIT


class Interval(NamedTuple):
    """A value and the bounds of its interval; the bounds are NaN if they are undefined, as for a single item."""

    value: float
    low: float = np.nan
    high: float = np.nan

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


class Blocks(NamedTuple):
    of_items: np.ndarray
    n_blocks: int


def assign_blocks(keys: np.ndarray, n_items: int) -> Blocks:
    """Assign items with these keys to blocks; up to BLOCKS items with the keys 0 to n_items - 1 have a block each."""
    if n_items <= BLOCKS:
        return Blocks(keys.astype(np.int64), n_items)
    return Blocks((bits(0, "bootstrap", keys) % np.uint64(BLOCKS)).astype(np.int64), BLOCKS)


def assign_row_blocks(comm: mpi.Comm, dataset: DataFile, shard: Shard) -> Blocks:
    """Assign this rank's rows to blocks, rows of one group to the same block. Collective over `comm`."""
    if dataset.has_groups:
        with mpi.agreed(comm, f"reading {dataset.path}"):
            keys = draw_keys(dataset, shard.first_row + shard.rows)
        return assign_blocks(keys, BLOCKS + 1)
    (begin,), _ = mpi.exclusive_sum(comm, [shard.n_local])
    return assign_blocks(int(begin) + np.arange(shard.n_local), shard.n_global)


def sum_blocks(blocks: Blocks, numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return the sums (2 × n_blocks, int64) of numerators and denominators (n each); both are integers or both are fractions."""
    pair = np.stack([numerator, denominator])
    pair = pair if pair.dtype.kind in "iub" else np.rint(pair * UNIT)
    return np.stack([np.rint(np.bincount(blocks.of_items, each, blocks.n_blocks)).astype(np.int64) for each in pair])


@lru_cache(maxsize=4)
def _draw_blocks(n_blocks: int) -> np.ndarray:
    drawn = (bits(0, "resamples", np.arange(RESAMPLES * n_blocks)) % np.uint64(n_blocks)).astype(np.int64)
    drawn += np.repeat(np.arange(RESAMPLES) * n_blocks, n_blocks)
    return np.bincount(drawn, minlength=RESAMPLES * n_blocks).reshape(RESAMPLES, n_blocks)


def bootstrap_ratio(sums: np.ndarray) -> Interval:
    value, n_blocks = float(ratio(*sums.sum(axis=1).astype(np.float64))), sums.shape[1]
    if n_blocks < 2:
        return Interval(value)
    resampled = ratio(*(_draw_blocks(n_blocks) @ sums.T).T.astype(np.float64))
    if np.isnan(resampled).any():
        return Interval(value)
    return Interval(value, *np.percentile(resampled, [(100 - LEVEL) / 2, (100 + LEVEL) / 2]).tolist())


def bootstrap_mean(values: np.ndarray) -> Interval:
    blocks = assign_blocks(np.arange(values.size), values.size)
    interval = bootstrap_ratio(sum_blocks(blocks, values, np.ones(values.size)))
    return interval._replace(value=float(values.mean()) if values.size else np.nan)

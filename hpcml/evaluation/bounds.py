"""The index by which the best labels of rows are found without all scores (`hpcml.kernels.pruned`).

It takes at most 4 bytes a weight of the model for the table of frequent columns, 8 for a weight of
a rare column that is above 0, and 8 or 12 for one of a heavy label, an eighth of all. All of that
goes by counts, so that the same model has the same index everywhere.
"""

from __future__ import annotations

import numpy as np

from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.scoring import weights_by_column
from hpcml.kernels import bounds as kernels
from hpcml.kernels.pruned import LARGEST, Arrays, Index
from hpcml.kernels.rows import transpose
from hpcml.model.linear import Model, SparseRows

# All scores take a third of the time with 12,738 labels, and 2.8 times as long with 72,374.
LEAST_LABELS = 1 << 15
LEAST_A_BEST = 1 << 13  # labels for each of the best that are asked for: with 72,374, bounds leave too many for a 10th best
HEAVY = 1 / 8  # of all weights, those of heavy labels at most, unless these are too few
MOST_HEAVY = 1 / 64  # of the labels: with more, they take longer than all scores, and with fewer weights each say less
FEW_HEAVY = 16  # labels that are always scored
FREQUENT = 1 / 200  # of the labels, those with a weight above 0 of a frequent column
TABLE_BYTES = 4  # of the table at most, for each weight of the model


def bounds_hold(model: Model, comparable: Comparable, W: SparseRows, size: int) -> bool:
    """Whether an index helps to find the best `size` labels of a row, and its bounds hold."""
    if model.normalised or model.n_labels < max(LEAST_LABELS, LEAST_A_BEST * size):
        return False
    if _heavy_labels(np.diff(W.indptr), 0).size > max(MOST_HEAVY * model.n_labels, FEW_HEAVY):
        return False
    parts = (W.data[begin : begin + (1 << 22)] for begin in range(0, W.data.size, 1 << 22))
    return all(np.all(np.abs(some) <= LARGEST) for some in (model.bias, *comparable.sigmoids, *parts))


def bound_index(model: Model, comparable: Comparable, W: SparseRows, n_columns: int, size: int) -> Index:
    """The index, as `best_pruned` takes it, for up to `size` labels of a row, of labels with rows
    of W.
    """
    n_labels = W.indptr.size - 1
    labels = _heavy_labels(np.diff(W.indptr), size)
    heavy = np.zeros(n_labels, dtype=np.bool_)
    heavy[labels] = True
    counts, largest = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns)
    kernels.measure_columns(*W, heavy, counts, largest)
    table = _table(W, heavy, counts, largest)
    begins = np.concatenate([[0], np.cumsum(np.where(table[0] < 0, counts, 0))])
    rare = begins, np.empty(begins[-1], np.int32), np.empty(begins[-1], np.float32)
    places = np.where(table[0] < 0, begins[:-1], -1)
    transpose(W.indptr[:-1], W.indptr[1:] - np.where(heavy, np.diff(W.indptr), 0), W.indices, W.data, 0, places, *rare[1:], True)
    rare[1][:] //= kernels.BLOCK
    return Index(*table, rare, labels, weights_by_column(W, labels, n_columns), *_bases(model, comparable, heavy))


def _heavy_labels(n_weights: np.ndarray, size: int) -> np.ndarray:
    """The labels with most weights, ascending: enough of them for a row's best."""
    order = np.argsort(-n_weights, kind="stable")
    n = int(np.searchsorted(np.cumsum(n_weights[order]), HEAVY * n_weights.sum()))
    return np.sort(order[: max(n, 2 * size + FEW_HEAVY)])


def _table(W: SparseRows, heavy: np.ndarray, counts: np.ndarray, largest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(places, scales, table) of the frequent columns."""
    n_tiles = -(-heavy.size // (kernels.BLOCK * kernels.TILE))
    order = np.argsort(-counts, kind="stable")
    n = int((counts >= max(1, FREQUENT * heavy.size)).sum())
    columns = np.sort(order[: min(n, TABLE_BYTES * W.data.size // max(1, n_tiles * kernels.TILE))])
    places = np.full(counts.size, -1, dtype=np.int32)
    places[columns] = np.arange(columns.size)
    scales = largest[columns] / kernels.LEVELS * (1 + 1e-12)
    table = np.zeros((n_tiles, columns.size, kernels.TILE), dtype=np.uint8)
    kernels.fill_table(*W, heavy, places, scales, table)
    return places, scales, table


def _bases(model: Model, comparable: Comparable, heavy: np.ndarray) -> tuple[Arrays, Arrays, tuple[float, float]]:
    """(bases, slopes) of blocks and of labels: a value is at most slope · sum + base; and a usual
    base and slope.

    Each is larger than the exact one by more than roundings are.
    """
    bias, n = model.bias[: heavy.size], heavy.size
    slope, offset = (some[:n] for some in comparable.sigmoids) if comparable.sigmoids[0].size else (np.ones(n), np.zeros(n))
    scaled = np.where(slope > 0, slope * bias, 0.0)
    base = _above(scaled + offset + 2.0**-20 * (np.abs(scaled) + np.abs(offset)))
    base[heavy], slopes = -np.inf, _above(slope)
    width = kernels.BLOCK * kernels.TILE
    padded = np.full((2, -(-n // width) * width), -np.inf, dtype=np.float32)
    padded[0, :n], padded[1, :n] = base, slopes
    blocks = padded.reshape(2, padded.shape[1] // kernels.BLOCK, kernels.BLOCK).max(axis=2, initial=-np.inf)
    blocks[1] = np.maximum(blocks[1], 0.0)
    light = base[~heavy]
    usual = (float(light.mean()), max(float(slopes.mean()), 1e-30)) if light.size else (0.0, 1.0)
    return (blocks[0], blocks[1]), (base, slopes), usual


def _above(values: np.ndarray) -> np.ndarray:
    """The float32 numbers above float64 ones."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))

"""The best labels of rows: the k largest values (`comparable`), lower numbers first among equal ones.

With many labels an index (`hpcml.kernels.pruned`) finds them without computing all scores. It needs at most 4 bytes per weight of
the model for the table of frequent columns, 8 per positive weight of a rare column, and 8 or 12 per weight of a heavy label (an
eighth of all weights). It depends on counts only, so a model has the same index on every machine.
"""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.evaluation.comparable import Comparable
from hpcml.kernels import bounds
from hpcml.kernels import top as kernels
from hpcml.kernels.pruned import LARGEST, Index, best_pruned
from hpcml.kernels.rows import transpose
from hpcml.kernels.scores import score_rows_by_column
from hpcml.model.linear import Model, SparseRows
from hpcml.model.scoring import BlockWeights, ClassifierScorer, Scorer, transpose_weights
from hpcml.model.trained import Trained

# All scores take a third of the time with 12,738 labels, and 2.8 times as long with 72,374.
LEAST_LABELS = 1 << 15
LEAST_A_BEST = 1 << 13  # labels per requested best label: with 72,374 labels, bounds exclude too few for a 10th best
HEAVY = 1 / 8  # largest share of all weights that belong to heavy labels, unless these are too few
MOST_HEAVY = 1 / 64  # largest share of heavy labels: more take longer than all scores, and their bounds are weaker
FEW_HEAVY = 16  # labels that are always scored
FREQUENT = 1 / 200  # share of the labels with a positive weight in a frequent column
TABLE_BYTES = 4  # largest size of the table per weight of the model


class Best:
    def __init__(self, n_rows: int, size: int, comparable: Comparable | None = None) -> None:
        self.sigmoids = (np.zeros(0), np.zeros(0)) if comparable is None else comparable.sigmoids
        self.scores = np.full((n_rows, size), -np.inf)
        self.labels = np.full((n_rows, size), kernels.NONE, dtype=np.int32)

    def add(self, row: int, scores: np.ndarray, first: int) -> None:
        """Add scores (n, B) of rows from `row` on for labels from `first` on, in any order."""
        if self.scores.shape[1]:
            rows = slice(row, row + scores.shape[0])
            kernels.keep_best(scores, first, *self.sigmoids, self.scores[rows], self.labels[rows])

    def sort(self) -> Best:
        kernels.sort_best(*self.sigmoids, self.scores, self.labels)
        return self


class BlockwiseTop(BlockWeights):
    def __init__(self, model: Trained, size: int, keeps: bool, by_pairs: bool = False) -> None:
        super().__init__(keeps, by_pairs)
        self.size, self.comparable = size, Comparable(model, np.arange(model.n_labels))

    def best(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray, size: int | None = None) -> Best:
        """Return the best `size` labels, by default `self.size`. Raises NonFiniteError if a score is not a number."""
        out = Best(rows.size, self.size if size is None else size, self.comparable)
        for block, scores in self.scores(scorer, rows):
            out.add(0, np.ascontiguousarray(scores), block.start)
        return out.sort()


def bounds_hold(model: Model, comparable: Comparable, W: SparseRows, size: int) -> bool:
    """Return whether an index is faster for the best `size` labels of a row and its bounds hold."""
    if model.normalised or model.n_labels < max(LEAST_LABELS, LEAST_A_BEST * size):
        return False
    if _heavy_labels(np.diff(W.indptr), 0).size > max(MOST_HEAVY * model.n_labels, FEW_HEAVY):
        return False
    parts = (W.data[begin : begin + (1 << 22)] for begin in range(0, W.data.size, 1 << 22))
    return all(np.all(np.abs(values) <= LARGEST) for values in (model.bias, *comparable.sigmoids, *parts))


def bound_index(model: Model, comparable: Comparable, W: SparseRows, n_columns: int, size: int) -> Index:
    """Return the index of the labels of W for up to `size` labels of a row; its bounds allow for rounding."""
    n = W.indptr.size - 1
    labels = _heavy_labels(np.diff(W.indptr), size)
    heavy = np.zeros(n, dtype=np.bool_)
    heavy[labels] = True
    counts, largest = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns)
    bounds.measure_columns(*W, heavy, counts, largest)
    # the table of the frequent columns
    n_tiles = -(-n // (bounds.BLOCK * bounds.TILE))
    n_frequent = min(int((counts >= max(1, FREQUENT * n)).sum()), TABLE_BYTES * W.data.size // max(1, n_tiles * bounds.TILE))
    columns = np.sort(np.argsort(-counts, kind="stable")[:n_frequent])
    in_table = np.full(counts.size, -1, dtype=np.int32)
    in_table[columns] = np.arange(columns.size)
    scales = largest[columns] / bounds.LEVELS * (1 + 1e-12)
    table = np.zeros((n_tiles, columns.size, bounds.TILE), dtype=np.uint8)
    bounds.fill_table(*W, heavy, in_table, scales, table)
    # the weights of the rare columns, by blocks of labels
    begins = np.concatenate([[0], np.cumsum(np.where(in_table < 0, counts, 0))])
    rare = begins, np.empty(begins[-1], np.int32), np.empty(begins[-1], np.float32)
    targets, sizes = np.where(in_table < 0, begins[:-1], -1), np.where(heavy, 0, np.diff(W.indptr))
    transpose(W.indptr[:-1], W.indptr[:-1] + sizes, W.indices, W.data, 0, targets, *rare[1:], True)
    rare[1][:] //= bounds.BLOCK
    # bases and slopes of labels and blocks: a value is at most slope · sum + base
    bias = model.bias[:n]
    slope, offset = (values[:n] for values in comparable.sigmoids) if comparable.sigmoids[0].size else (np.ones(n), np.zeros(n))
    scaled = np.where(slope > 0, slope * bias, 0.0)
    base = _above(scaled + offset + 2.0**-20 * (np.abs(scaled) + np.abs(offset)))
    base[heavy], slopes = -np.inf, _above(slope)
    width = bounds.BLOCK * bounds.TILE
    padded = np.full((2, -(-n // width) * width), -np.inf, dtype=np.float32)
    padded[0, :n], padded[1, :n] = base, slopes
    blocks = padded.reshape(2, padded.shape[1] // bounds.BLOCK, bounds.BLOCK).max(axis=2, initial=-np.inf)
    blocks[1] = np.maximum(blocks[1], 0.0)
    light = base[~heavy]
    usual = (float(light.mean()), max(float(slopes.mean()), 1e-30)) if light.size else (0.0, 1.0)
    heavy_weights = transpose_weights(W, labels, n_columns)
    return Index(in_table, scales, table, rare, labels, heavy_weights, (blocks[0], blocks[1]), (base, slopes), usual)


def _heavy_labels(n_weights: np.ndarray, size: int) -> np.ndarray:
    """Return the labels with most weights, ascending: at least enough for the best labels of a row."""
    order = np.argsort(-n_weights, kind="stable")
    n = int(np.searchsorted(np.cumsum(n_weights[order]), HEAVY * n_weights.sum()))
    return np.sort(order[: max(n, 2 * size + FEW_HEAVY)])


def _above(values: np.ndarray) -> np.ndarray:
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


class InvertedTop:
    """Finds the best labels with a sparse model, row by row, from its weights by column (8 or 12 bytes per weight)."""

    def __init__(self, model: Model, size: int, W: SparseRows, n_columns: int, indexed: bool) -> None:
        self.model, self.size, self.comparable = model, size, Comparable(model, np.arange(model.n_labels))
        self._inverted, self._by_label = transpose_weights(W, np.arange(W.indptr.size - 1), n_columns), tuple(W)
        self._index = bound_index(model, self.comparable, W, n_columns, size) if indexed else None

    def best(self, scorer: Scorer, rows: np.ndarray, size: int | None = None) -> Best:
        size = self.size if size is None else size
        out, sums = Best(rows.size, size, self.comparable), scorer.compute_divisors(rows)
        model = (self._inverted, *scorer.tables, self.model.bias)
        best = (sums, out.sigmoids, out.scores, out.labels)
        if self._index is None or LEAST_A_BEST * size > self.model.n_labels:
            bad = kernels.score_inverted(scorer.csr, rows, model, *best)
        else:
            bad = best_pruned(scorer.csr, rows, model, self._by_label, *best[:2], self._index, *best[2:])
        if bad >= 0:
            scorer.check_numbers(np.array([np.nan]), np.array([bad]))
        return out.sort()

    def all_scores(self, scorer: Scorer, rows: np.ndarray) -> np.ndarray:
        out, model = np.empty((rows.size, self.model.n_labels)), (self._inverted, *scorer.tables, self.model.bias)
        bad = score_rows_by_column(scorer.csr, rows, model, scorer.compute_divisors(rows), out)
        if bad >= 0:
            scorer.check_numbers(np.array([np.nan]), np.array([bad]))
        return out


def make_top_finder(
    comm: mpi.Comm, scorer: Scorer | ClassifierScorer, size: int, keeps: bool, by_pairs: bool = False
) -> BlockwiseTop | InvertedTop:
    """Return an object that finds the best `size` labels, or all, with the scorer's model. Collective over `comm`."""
    size = min(size, scorer.model.n_labels)
    if not isinstance(scorer, Scorer) or scorer.n_parts or not isinstance(scorer.model.W, SparseRows) or scorer.model.below:
        return BlockwiseTop(scorer.model, size, keeps, by_pairs)
    model, W = scorer.model, scorer.model.W
    nothing, indexed = SparseRows(W.indptr[:1], W.indices[:0], W.data[:0]), False
    with mpi.agreed(comm, f"reading {model.path}"):
        indexed = bounds_hold(model, Comparable(model, np.arange(model.n_labels)), W, size)
    with mpi.node_first(comm):
        InvertedTop(model, size, nothing, 0, indexed).best(scorer, np.empty(0, dtype=np.int64))
    with mpi.agreed(comm, f"reading {model.path}"):
        return InvertedTop(model, size, W, model.n_columns, indexed)


def find_true_labels(best: Best, rows: np.ndarray, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Return flags (n × k) of the best labels of each row that are true; the true pairs are (rows[i], labels[i])."""
    true = np.sort(rows.astype(np.int64) * n_labels + labels)
    pairs = np.arange(best.labels.shape[0], dtype=np.int64)[:, None] * n_labels + best.labels
    hits = np.zeros(pairs.shape, dtype=bool)
    if true.size:
        hits = true[np.minimum(np.searchsorted(true, pairs), true.size - 1)] == pairs
    return hits & (best.scores > -np.inf)  # a row without scores has no best labels

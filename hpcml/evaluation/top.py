"""The best labels of rows: the k largest values (`comparable`), lower numbers first among equal ones.

With a sparse model of many labels an index (`hpcml.kernels.pruned`) finds them without computing all scores. It needs at most 4
bytes per weight of the model for the table of frequent columns, 8 per positive weight of a rare column, 4 per weight of labels
with very many weights, and 160 MiB for sums. It depends on counts only, so a model has the same index on every machine.
"""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.evaluation.comparable import Comparable
from hpcml.kernels import pruned
from hpcml.kernels import top as kernels
from hpcml.kernels.lanes.bounds import TILE
from hpcml.kernels.rows import transpose
from hpcml.kernels.scores import score_rows_by_column
from hpcml.model.linear import Model, SparseRows
from hpcml.model.scoring import BlockWeights, ClassifierScorer, Scorer, divide_rows, transpose_weights
from hpcml.model.trained import Trained

LEAST_LABELS = 1 << 12  # labels from which bounds are used
MOST_BEST = 1 / 512  # largest share of the labels that is requested as best labels
DENSE = 1 / 16  # mean share of labels in the column of a weight, from which every label has its own bound
HEAVY = 1 / 8  # share of all weights that belong to labels with their own bounds in other models
MOST_HEAVY = 1 / 64  # largest share of these labels
RARE = 1 / 32  # a column with fewer weights than this share of the cells is rare: adding these is faster
DENSE_ROW = 1 / 8  # share of the columns in which a label has weights, from which these are also stored dense
TABLE_BYTES = 4  # largest size of the table per weight of the model
FEW_ROWS = 16  # rows that are scored label by label before weights are rearranged


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


def make_index(model: Model, comparable: Comparable, W: SparseRows, n_columns: int) -> pruned.Index | None:
    """Return the bounds of the labels of W (`hpcml.kernels.pruned`); None if they do not hold."""
    n, (counts, n_positive), largest = W.indptr.size - 1, np.zeros((2, n_columns), dtype=np.int64), np.zeros(n_columns)
    pruned.measure_columns(W.indices, W.data, counts, n_positive, largest)
    bias, sigmoids = model.bias[:n], tuple(values[:n] for values in comparable.sigmoids)
    if model.normalised or any(np.abs(values).max(initial=0.0) > pruned.LARGEST for values in (largest, bias, *sigmoids)):
        return None
    # cells: those of one label first, with the most weights first
    order = np.argsort(-np.diff(W.indptr), kind="stable")
    n_single = n
    if float((counts * counts).sum()) < DENSE * W.data.size * n:
        n_heavy = int(np.searchsorted(np.cumsum(np.diff(W.indptr)[order]), HEAVY * W.data.size))
        n_single = min(n_heavy, int(MOST_HEAVY * n))
        order[n_single:].sort()
    n_cells = n_single - (n_single - n) // pruned.BLOCK  # rounded up
    starts = np.minimum(np.append(np.arange(n_single), n_single + pruned.BLOCK * np.arange(n_cells - n_single + 1)), n)
    cells = np.empty(n, dtype=np.int64)
    cells[order] = np.repeat(np.arange(n_cells), np.diff(starts))
    # the table of the frequent columns
    n_tiles = -(-n_cells // TILE)
    n_frequent = min(int((counts >= max(1, RARE * n_cells)).sum()), TABLE_BYTES * W.data.size // max(1, n_tiles * TILE))
    columns = np.sort(np.argsort(-counts, kind="stable")[:n_frequent])
    line_of = np.full(n_columns, -1, dtype=np.int32)
    line_of[columns] = np.arange(columns.size)
    scales = np.maximum(largest[columns] / pruned.LEVELS * (1 + 1e-12), 1e-300)
    table = np.zeros((n_tiles, columns.size, TILE), dtype=np.int8)
    pruned.fill_table(tuple(W), cells, n_single, line_of, scales, table)
    # the positive weights of the rare columns
    begins = np.append(0, np.cumsum(np.where(line_of < 0, n_positive, 0)))
    rare, targets = (np.empty(begins[-1], np.int32), np.empty(begins[-1], np.float32)), np.where(line_of < 0, begins[:-1], -1)
    transpose(W.indptr[:-1], W.indptr[1:], W.indices, W.data, 0, targets, *rare, True)
    rare[0][:] = cells[rare[0]]
    # dense rows of the labels with most weights
    n_weights = np.diff(W.indptr)[order[:n_single]]
    dense = np.zeros((np.count_nonzero(n_weights > DENSE_ROW * n_columns), n_columns), dtype=W.data.dtype)
    pruned.fill_dense(tuple(W), order, dense)
    # bases and slopes: a value is at most slope · sum + base
    slope, offset = sigmoids if sigmoids[0].size else (np.ones(n), np.zeros(n))
    scaled = np.where(slope > 0, slope * bias, 0.0)
    base = _above(scaled + offset + 2.0**-20 * (np.abs(scaled) + np.abs(offset)))
    slopes, of_cells = _above(np.maximum(slope, 0.0)), np.zeros((2, n_tiles * TILE), dtype=np.float32)
    of_cells[0] = -np.inf
    for values, out in zip((base, slopes), of_cells, strict=True):
        out[:n_cells] = np.maximum.reduceat(values[order], starts[:-1]) if n else values
    bounds = (of_cells[0], of_cells[1]), (base, slopes)
    return pruned.Index(largest, line_of, scales, table, (begins, *rare), dense, (starts, order), *bounds)


def _above(values: np.ndarray) -> np.ndarray:
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


class SparseTop:
    """Finds the best labels with a sparse model.

    The first rows are scored label by label. For more rows the index or the weights by column (8 or 12 bytes per weight) are built.
    """

    def __init__(self, model: Model, size: int, W: SparseRows) -> None:
        self.model, self.size, self.W, self.comparable = model, size, W, Comparable(model, np.arange(model.n_labels))
        self._by_column: tuple[np.ndarray, ...] | None = None
        self._index: pruned.Index | None = None
        self._may_have_index, self._n_rows = model.n_labels >= LEAST_LABELS, 0

    def expect_many_rows(self) -> None:
        """Build the index or the weights by column with the next row, so that later rows do not wait."""
        self._n_rows = FEW_ROWS + 1

    def best(self, scorer: Scorer, rows: np.ndarray, size: int | None = None) -> Best:
        """Return the best `size` labels, by default `self.size`. Raises NonFiniteError if a score is not a number."""
        size, left = self.size if size is None else size, np.ones(rows.size, dtype=np.bool_)
        out, by_index = Best(rows.size, size, self.comparable), size <= MOST_BEST * self.model.n_labels
        if by_index and self._may_have_index and self._index is None and self._n_rows + rows.size > FEW_ROWS:
            self._index = make_index(self.model, self.comparable, self.W, self.model.n_columns)
            self._may_have_index = self._index is not None
        if by_index and self._index is not None:
            self._search(scorer, rows, left, out)
        rest = np.flatnonzero(left)
        for _, block in divide_rows(rest, self.model.n_labels):
            all_scores = Best(block.size, size, self.comparable)
            all_scores.add(0, self.all_scores(scorer, rows[block]), 0)
            out.scores[block], out.labels[block] = all_scores.scores, all_scores.labels
        return out.sort()

    def _search(self, scorer: Scorer, rows: np.ndarray, left: np.ndarray, out: Best) -> None:
        model = (*scorer.tables, self.model.bias)
        pruned.best_pruned(scorer.csr, rows, model, tuple(self.W), out.sigmoids, self._index, left, out.scores, out.labels)

    def all_scores(self, scorer: Scorer, rows: np.ndarray) -> np.ndarray:
        self._n_rows += rows.size
        out, divisors = np.empty((rows.size, self.model.n_labels)), scorer.compute_divisors(rows)
        model = (*scorer.tables, self.model.bias)
        if self._by_column is None and self._n_rows > FEW_ROWS:
            self._by_column = transpose_weights(self.W, np.arange(self.W.indptr.size - 1), self.model.n_columns)
        if self._by_column is None:
            bad = pruned.score_rows_by_label(scorer.csr, rows, model, tuple(self.W), self.model.n_columns, divisors, out)
        else:
            bad = score_rows_by_column(scorer.csr, rows, (self._by_column, *model), divisors, out)
        if bad >= 0:
            scorer.check_numbers(np.array([np.nan]), np.array([bad]))
        return out

    def warm_up(self, scorer: Scorer) -> None:
        """Compile the kernels."""
        nothing = SparseRows(self.W.indptr[:1], self.W.indices[:0], self.W.data[:0])
        rows, found = np.empty(0, dtype=np.int64), SparseTop(self.model, 1, nothing)
        for _ in range(2):
            found.all_scores(scorer, rows)
            found._by_column = transpose_weights(nothing, rows, 0)
        if self._may_have_index:
            found._index = make_index(self.model, self.comparable, nothing, 0)
            found.best(scorer, rows)


def make_top_finder(
    comm: mpi.Comm, scorer: Scorer | ClassifierScorer, size: int, keeps: bool, by_pairs: bool = False
) -> BlockwiseTop | SparseTop:
    """Return an object that finds the best `size` labels, or all, with the scorer's model. Collective over `comm`."""
    size = min(size, scorer.model.n_labels)
    if not isinstance(scorer, Scorer) or scorer.n_parts or not isinstance(scorer.model.W, SparseRows) or scorer.model.below:
        return BlockwiseTop(scorer.model, size, keeps, by_pairs)
    found = SparseTop(scorer.model, size, scorer.model.W)
    with mpi.node_first(comm):
        found.warm_up(scorer)
    return found


def find_true_labels(best: Best, rows: np.ndarray, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Return flags (n × k) of the best labels of each row that are true; the true pairs are (rows[i], labels[i])."""
    true = np.sort(rows.astype(np.int64) * n_labels + labels)
    pairs = np.arange(best.labels.shape[0], dtype=np.int64)[:, None] * n_labels + best.labels
    hits = np.zeros(pairs.shape, dtype=bool)
    if true.size:
        hits = true[np.minimum(np.searchsorted(true, pairs), true.size - 1)] == pairs
    return hits & (best.scores > -np.inf)  # a row without scores has no best labels

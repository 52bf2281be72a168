"""The best labels of rows: the k largest values (`comparable`), of equal ones lower numbers."""

from __future__ import annotations

import numpy as np

from hpcml import mpi
from hpcml.evaluation.bounds import LEAST_A_BEST, bound_index, bounds_hold
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.scoring import BlockWeights, ClassifierScorer, CombinedScorer, Scorer, weights_by_column
from hpcml.kernels import top as kernels
from hpcml.kernels.pruned import best_pruned
from hpcml.kernels.scores import score_rows_by_column
from hpcml.model.linear import Model, SparseRows, Trained


class Best:
    """The best of the labels whose scores have been added so far, for n rows."""

    def __init__(self, n_rows: int, size: int, comparable: Comparable | None = None) -> None:
        """`size` (k), at most the labels to come; compared by scores without `comparable`."""
        self.sigmoids = (np.zeros(0), np.zeros(0)) if comparable is None else comparable.sigmoids
        self.scores = np.full((n_rows, size), -np.inf)
        self.labels = np.full((n_rows, size), kernels.NONE, dtype=np.int32)

    def add(self, row: int, scores: np.ndarray, first: int) -> None:
        """Take scores (n, B) of rows `row`, ... for labels `first`, ..., in any order."""
        if self.scores.shape[1]:
            some = slice(row, row + scores.shape[0])
            kernels.keep_best(scores, first, *self.sigmoids, self.scores[some], self.labels[some])

    def sort(self) -> Best:
        """Put every row's labels in order, best first, once all are added."""
        kernels.sort_best(*self.sigmoids, self.scores, self.labels)
        return self


class BlockwiseTop(BlockWeights):
    """The best `size` labels of any model, block by block."""

    def __init__(self, model: Trained, size: int, keeps: bool, by_pairs: bool = False) -> None:
        super().__init__(keeps, by_pairs)
        self.size, self.comparable = size, Comparable(model, np.arange(model.n_labels))

    def best(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray, size: int | None = None) -> Best:
        """The best `size` labels, or `self.size`. Raises NonFiniteError if a score is not a number."""
        out = Best(rows.size, self.size if size is None else size, self.comparable)
        for block, scores in self.scores(scorer, rows):
            out.add(0, np.ascontiguousarray(scores), block.start)
        return out.sort()

    def all_scores(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray) -> np.ndarray:
        """The scores (n × L) of all labels. Raises NonFiniteError if one is not a number."""
        out = np.empty((rows.size, scorer.labels.size))
        for block, scores in self.scores(scorer, rows):
            out[:, block] = scores
        return out


class InvertedTop:
    """The best labels of a sparse model, row by row, by columns: 8 or 12 bytes a weight; where
    there are many labels, with an index of their bounds.
    """

    def __init__(self, model: Model, size: int, W: SparseRows, n_columns: int, indexed: bool) -> None:
        """`W` is the model's, with so many columns; `indexed`: with an index for `size` labels."""
        self.model, self.size, self.comparable = model, size, Comparable(model, np.arange(model.n_labels))
        self._inverted, self._by_label = weights_by_column(W, np.arange(W.indptr.size - 1), n_columns), tuple(W)
        self._index = bound_index(model, self.comparable, W, n_columns, size) if indexed else None

    def best(self, scorer: Scorer, rows: np.ndarray, size: int | None = None) -> Best:
        """The best `size` labels, or `self.size`. Local. Raises NonFiniteError if a score is not a
        number.
        """
        size = self.size if size is None else size
        out, sums = Best(rows.size, size, self.comparable), scorer.divisors(rows)
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
        """The scores (n × L) of all labels. Raises NonFiniteError if one is not a number."""
        out, model = np.empty((rows.size, self.model.n_labels)), (self._inverted, *scorer.tables, self.model.bias)
        bad = score_rows_by_column(scorer.csr, rows, model, scorer.divisors(rows), out)
        if bad >= 0:
            scorer.check_numbers(np.array([np.nan]), np.array([bad]))
        return out


def top_of(
    comm: mpi.Comm, scorer: Scorer | ClassifierScorer, size: int, keeps: bool, by_pairs: bool = False
) -> BlockwiseTop | InvertedTop:
    """Collective over `comm`. What finds the best `size` labels, or all, of the scorer's model."""
    size = min(size, scorer.model.n_labels)
    if not isinstance(scorer, Scorer) or isinstance(scorer, CombinedScorer):
        return BlockwiseTop(scorer.model, size, keeps, by_pairs)
    if not isinstance(scorer.model.W, SparseRows) or scorer.model.below:
        return BlockwiseTop(scorer.model, size, keeps, by_pairs)
    model, W = scorer.model, scorer.model.W
    nothing, indexed = SparseRows(W.indptr[:1], W.indices[:0], W.data[:0]), False
    with mpi.agreed(comm, f"reading {model.path}"):
        indexed = bounds_hold(model, Comparable(model, np.arange(model.n_labels)), W, size)
    with mpi.node_first(comm):
        InvertedTop(model, size, nothing, 0, indexed).best(scorer, np.empty(0, dtype=np.int64))
    with mpi.agreed(comm, f"reading {model.path}"):
        return InvertedTop(model, size, W, model.n_columns, indexed)


def are_true(best: Best, rows: np.ndarray, labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Which of each row's best labels are true (n × k); true pairs are (rows[p], labels[p])."""
    true = np.sort(rows.astype(np.int64) * n_labels + labels)
    found = np.arange(best.labels.shape[0], dtype=np.int64)[:, None] * n_labels + best.labels
    places = np.searchsorted(true, found)
    hits = np.zeros(found.shape, dtype=bool)
    if true.size:
        hits = true[np.minimum(places, true.size - 1)] == found
    return hits & (best.scores > -np.inf)  # a row without scores has no best labels

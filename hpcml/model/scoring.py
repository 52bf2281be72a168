"""Scores of a model's labels on a shard, block by block of rows × labels, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard, rows_of
from hpcml.errors import DataError
from hpcml.kernels import scores as kernels
from hpcml.kernels.rows import count_labels, transpose
from hpcml.kernels.top import keep_best, sort_best
from hpcml.model.classifier import ClassifierModel
from hpcml.model.linear import Model, SparseRows
from hpcml.model.trained import Trained
from hpcml.partition import offsets

# Memory for the expanded weights of a block of labels (n_features × B float64), if one label does not need more.
WEIGHT_BYTES = 1 << 28
# Memory for the scores of a block of rows × labels.
SCORE_BYTES = 1 << 25
# Maximum width of a block of labels. Wider blocks are not faster.
MAX_LANES = 32
# The same for scores by column, where most of the time is spent on columns without weights. Rows of 31 cache lines: with 32, the
# scores of a label share few sets of the L1 cache.
MANY_LANES = 248
# Share of the labels of a block with a weight in a column from which the column is stored for all of them, so that scores are
# vectors. With 28,544 labels and 15,708 rows of text, 92 % of the products belong to the 2 % of columns that half the labels have:
# scores take 5.3 s instead of 11.1 s in blocks of 128 labels (6.9 s with 0.05, 5.6 s with 0.5), and 4.3 s in blocks of 256.
FREQUENT = 1 / 4
# Memory for the rows that a classifier scores at once, if one row does not need more.
ROWS_BYTES = 1 << 26
# Values checked for zeros at a time.
PRESENT = 1 << 22
# Memory per non-zero while a CSR matrix is built.
_NONZERO_BYTES = 32


def divide_labels(n_labels: int, n_features: int, most: int = MAX_LANES) -> list[tuple[int, int]]:
    """Return ranges (begin, end) of at most `most` labels whose weights fit into WEIGHT_BYTES."""
    width = max(1, min(most, WEIGHT_BYTES // (8 * max(1, n_features))))
    return [(begin, min(begin + width, n_labels)) for begin in range(0, n_labels, width)]


def divide_rows(rows: np.ndarray, n_columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (begin, rows[begin:end]) for blocks whose scores of n_columns labels fit into SCORE_BYTES."""
    step = max(1, SCORE_BYTES // (8 * max(1, n_columns)))
    for begin in range(0, rows.size, step):
        yield begin, rows[begin : begin + step]


def score_block(scorer: Scorer | ClassifierScorer, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first, scores (n, B)) of labels begin to end, block by block of rows. Raises NonFiniteError."""
    weights = scorer.weights(begin, end)
    for first, rows in divide_rows(scorer.rows, end - begin):
        scores = scorer.score_rows(rows, *weights)
        scorer.check_numbers(scores.max(axis=0), scorer.labels[begin:end])
        yield first, scores


def warm_up_counts() -> None:
    no_scores, sigmoids = np.empty((0, 1)), (np.empty(0), np.empty(0))
    keep_best(no_scores, 0, *sigmoids, no_scores, np.empty((0, 1), dtype=np.int32))
    sort_best(*sigmoids, no_scores, np.empty((0, 1), dtype=np.int32))


def transpose_weights(W: SparseRows, labels: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of W by column: (begins, lanes, weights), where lanes are ascending indices into `labels`."""
    counts = np.zeros(n_columns, np.int64)
    count_labels(W.indptr, W.indices, labels, counts)
    begins = offsets(counts)
    lanes, weights = np.empty(int(begins[-1]), np.int32), np.empty(int(begins[-1]), W.data.dtype)
    transpose(W.indptr[labels], W.indptr[labels + 1], W.indices, W.data, 0, begins[:-1].copy(), lanes, weights)
    return begins, lanes, weights


class Scorer:
    """Scores of ascending labels of a linear model on the rows of a shard."""

    def __init__(self, model: Model, shard: Shard, labels: np.ndarray) -> None:
        self.model, self.labels, self.rows = model, labels, shard.rows
        data = shard.data
        if model.binary:  # every non-zero value counts as 1; a broadcast array needs no memory
            has_zeros = not all(np.all(data[begin : begin + PRESENT]) for begin in range(0, data.size, PRESENT))
            data = (data != 0).astype(np.float32) if has_zeros else np.broadcast_to(np.float32(1), data.shape)
        self.csr, self._first_row = (shard.indptr, shard.indices, data), shard.first_row
        self.tables, self._is_dense = (model.columns, model.factors), not (model.sparse or model.below)
        self.n_parts = 0 if model.combination is None else model.combination.n_parts  # 0: one weight vector without a rule
        self._by_column = model.sparse and not self.n_parts
        most = MANY_LANES if self._by_column else MAX_LANES
        self.blocks = divide_labels(labels.size, max(1, self.n_parts) * model.n_features, most)

    def weights(self, begin: int, end: int) -> tuple[Any, Any]:
        """Return the arguments `weights` and `bias` of `score_rows` for labels[begin:end].

        `weights` is an array (n_features, B) with `bias` (B,); for sparse models the result of `transpose_weights` with the places
        and table of frequent columns; for labels with several parts an array (n_parts, n_features, B) with one rule per label as
        `bias`. Raises NonFiniteError.
        """
        labels, model = self.labels[begin:end], self.model
        if self._by_column:
            assert isinstance(model.W, SparseRows)
            W, lanes = model.W, labels
            if model.below:
                columns, weights = zip(*map(model.row, labels.tolist()), strict=True) if labels.size else ((), ())
                entries = (np.concatenate([np.zeros(0, "<i4"), *columns]), np.concatenate([np.zeros(0, model.precision), *weights]))
                W, lanes = SparseRows(offsets([each.size for each in columns]), *entries), np.arange(labels.size)
            by_column = transpose_weights(W, lanes, model.n_columns)
            is_frequent = np.diff(by_column[0]) > FREQUENT * labels.size
            places = np.where(is_frequent, np.cumsum(is_frequent, dtype=np.int32) - 1, -1).astype(np.int32)
            table = np.empty((np.count_nonzero(is_frequent), labels.size), by_column[2].dtype)
            kernels.fill_frequent(by_column, places, table)
            return (*by_column, places, table), model.bias[labels]
        Wt = np.empty((max(1, self.n_parts), model.n_features, labels.size))
        for part, out in enumerate(Wt):
            W, indices, bias = self._dense_rows(labels, part)
            kernels.expand_weights(W, indices, *self.tables, out)
        if self.n_parts:
            return Wt, [model._rule(int(label)) for label in labels]
        if not (finite := np.isfinite(Wt[0]).all(axis=0)).all():
            raise model._non_finite_error(labels[int(np.argmin(finite))])
        return Wt[0], bias[indices]

    def _dense_rows(self, labels: np.ndarray, part: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return dense rows of W, the indices of the labels in them, and the bias of each row (0 for a part)."""
        if self.n_parts:
            return self.model.rows(labels, part), np.arange(labels.size), np.zeros(labels.size)
        if self._is_dense:
            return self.model.W, labels, self.model.bias
        return self.model.rows(labels), np.arange(labels.size), self.model.bias[labels]

    def score_rows(self, rows: np.ndarray, weights: Any, bias: Any) -> np.ndarray:
        out = np.empty((rows.size, len(bias)))
        if self._by_column:
            kernels.score_block_by_column(self.csr, rows, (weights, *self.tables, bias), self.compute_divisors(rows), out)
            return out
        if self.n_parts:
            parts = np.empty((self.n_parts, *out.shape))
            for Wt, scores in zip(weights, parts, strict=True):
                kernels.score_rows(*self.csr, rows, Wt, np.zeros(len(bias)), scores)
            for lane, rule in enumerate(bias):
                out[:, lane] = rule(parts[:, :, lane])
        else:
            kernels.score_rows(*self.csr, rows, weights, bias, out)
        if self.model.normalised:
            out /= self.compute_divisors(rows)[:, None]
        return out

    def compute_divisors(self, rows: np.ndarray) -> np.ndarray:
        """Return divisors (n,) of scores; 1 unless the model is normalised. Raises DataError for negative values."""
        if not self.model.normalised:
            return np.ones(rows.size)
        sums = np.empty(rows.size)
        n_summed = kernels.sum_rows(*self.csr, rows, self.model.factors, sums)
        if n_summed < rows.size:
            row = self._first_row + int(rows[n_summed])
            raise DataError(f"row {row} (from 0): negative value; {self.model.path} (Winnow family) needs non-negative values")
        return sums

    def score_pairs(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the scores of row rows[p] for label labels[p], with the same bits as `score_rows`."""
        out, order = np.empty(rows.size), np.argsort(labels, kind="stable")
        # a dense W needs no expansion, so all its labels are one block
        for begin, end in [(0, self.labels.size)] if self._is_dense and not self.n_parts else self.blocks:
            block = self.labels[begin:end]
            pairs = order[slice(*np.searchsorted(labels[order], block[[0, -1]] + [0, 1]))] if block.size else order[:0]
            if not pairs.size:
                continue
            block, lanes = np.unique(labels[pairs], return_inverse=True)
            parts = np.empty((max(1, self.n_parts), pairs.size))
            for part, scores in enumerate(parts):
                W, indices, bias = self._dense_rows(block, part)
                kernels.score_pairs(*self.csr, rows[pairs], indices[lanes], W, self.tables, bias, scores)
            if not self.n_parts:
                out[pairs] = parts[0]
            for lane, label in enumerate(block.tolist() if self.n_parts else ()):
                in_lane = lanes == lane
                out[pairs[in_lane]] = self.model._rule(label)(parts[:, in_lane])
        return out / self.compute_divisors(rows) if self.model.normalised else out

    def check_numbers(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Raise NonFiniteError if scores[i] of label labels[i] is not finite."""
        if not (finite := np.isfinite(scores)).all():
            raise self.model._non_finite_error(labels[int(np.argmin(finite))])

    def warm_up(self, comm: mpi.Comm, only_rows: bool = False) -> None:
        """Compile the kernels (`only_rows`: of `score_rows`), on one rank per node first. Collective over `comm`."""
        empty = np.empty(0, dtype=np.int64)
        with mpi.node_first(comm):
            self.score_rows(empty, *self.weights(0, 0))
            if not only_rows:
                W, _, bias = self._dense_rows(empty)
                kernels.score_pairs(*self.csr, empty, empty, W, self.tables, bias, np.empty(0))
                warm_up_counts()


class ClassifierScorer:
    """Scores of a classifier, with the interface of `Scorer`: all labels are one block, and its "weights" are their numbers."""

    def __init__(self, model: ClassifierModel, shard: Shard, labels: np.ndarray) -> None:
        self.model, self.labels = model, labels
        self.rows = shard.rows
        self._csr = (shard.indptr, shard.indices, shard.data)
        self.blocks = [(0, labels.size)]

    def weights(self, begin: int, end: int) -> tuple[np.ndarray]:
        return (self.labels[begin:end],)

    def score_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        (indptr, _, _), model, out = self._csr, self.model, np.empty((rows.size, labels.size))
        sizes = 8 * model.n_classes + _NONZERO_BYTES * (indptr[rows + 1] - indptr[rows]) + 4 * model.n_features * model.dense
        ends, begin = np.append(0, np.cumsum(sizes)), 0
        while begin < rows.size:
            end = max(begin + 1, int(np.searchsorted(ends[1:], ends[begin] + ROWS_BYTES, "right")))
            X = rows_of(self._csr, rows[begin:end], model.n_features, model.dense)
            out[begin:end] = model.scores(X)[:, labels]
            begin = end
        return out

    def score_pairs(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the scores of row rows[p] for label labels[p], with the bits of `score_rows` for all rows of the shard."""
        out, positions = np.empty(rows.size), np.searchsorted(self.rows, rows)
        order = np.argsort(positions, kind="stable")
        columns = np.searchsorted(self.labels, labels)
        # the same blocks as in `score_block`: the scores of some classifiers depend on the other rows
        for begin, block in divide_rows(self.rows, self.labels.size):
            first, last = np.searchsorted(positions[order], [begin, begin + block.size])
            if first < last:
                pairs = order[first:last]
                out[pairs] = self.score_rows(block, self.labels)[positions[pairs] - begin, columns[pairs]]
        return out

    def check_numbers(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Do nothing: `score_rows` already checks the scores."""

    def warm_up(self, comm: mpi.Comm, only_rows: bool = False) -> None:
        """Compile the kernels by scoring one row, on one rank per node first. Collective over `comm`."""
        row = (np.zeros(2, dtype=np.int64), self._csr[1][:0], self._csr[2][:0])
        with mpi.node_first(comm):
            X = rows_of(row, np.zeros(1, dtype=np.int64), self.model.n_features, self.model.dense)
            self.model.scores(X)
            if not only_rows:
                warm_up_counts()


def make_scorer(model: Trained, shard: Shard, labels: np.ndarray) -> Scorer | ClassifierScorer:
    """Return the scorer of ascending `labels` of a model of any kind on a shard."""
    if isinstance(model, ClassifierModel):
        return ClassifierScorer(model, shard, labels)
    assert isinstance(model, Model)
    return Scorer(model, shard, labels)


class BlockWeights:
    """Scores of all labels, block by block.

    `keeps`: expand all weights once and keep them. `by_pairs`: score few rows by pairs unless weights are kept; a non-finite weight
    is then detected only if one of the rows has its feature.
    """

    def __init__(self, keeps: bool, by_pairs: bool = False) -> None:
        self.keeps, self.by_pairs = keeps, by_pairs
        self._kept: list[tuple[Any, ...]] | None = None

    def scores(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield (slice of labels, scores (n, B)). Raises NonFiniteError."""
        if not rows.size:
            return
        if self._kept is None and self.keeps:
            self._kept = [scorer.weights(*block) for block in scorer.blocks]
        if self.by_pairs and self._kept is None and isinstance(scorer, Scorer):
            # Pairs are faster if the rows have fewer values than there are features. Measured with 1,000 labels, 50,000 features
            # and 100 values per row: 10 rows take 0.008 s by pairs and 0.100 s with expanded weights; 500 rows take 0.14
            # s and 0.17 s.
            n_values = int((scorer.csr[0][rows + 1] - scorer.csr[0][rows]).sum())
            if n_values < scorer.model.n_features and 8 * rows.size * scorer.labels.size <= SCORE_BYTES:
                labels = np.tile(scorer.labels, rows.size)
                scores = scorer.score_pairs(np.repeat(rows, scorer.labels.size), labels).reshape(rows.size, -1)
                scorer.check_numbers(scores.max(axis=0), scorer.labels)
                yield slice(0, scorer.labels.size), scores
                return
        for number, block in enumerate(scorer.blocks):
            scores = scorer.score_rows(rows, *(self._kept[number] if self._kept else scorer.weights(*block)))
            scorer.check_numbers(scores.max(axis=0), scorer.labels[slice(*block)])
            yield slice(*block), scores

    def all_scores(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray) -> np.ndarray:
        out = np.empty((rows.size, scorer.labels.size))
        for block, scores in self.scores(scorer, rows):
            out[:, block] = scores
        return out

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

WEIGHT_BYTES = 1 << 28  # the weights of a block of labels (d × B doubles, expanded), unless one label alone needs more
SCORE_BYTES = 1 << 25  # the scores of a block of rows × labels
MAX_LANES = 32  # wider blocks of labels are no faster
MANY_LANES = 128  # where most of the time goes by the columns of a row's values that no label has a weight of
FEW = 0.05  # of the weights of a sparse model that are not 0: up to here, those alone are looked at
ROWS_BYTES = 1 << 26  # the rows that a classifier is given at once, unless one row alone needs more
PRESENT = 1 << 22  # values that are looked at together
_NONZERO_BYTES = 32  # of a CSR row in memory while it is made


def divide_labels(n_labels: int, n_features: int, most: int = MAX_LANES) -> list[tuple[int, int]]:
    """Ranges (begin, end) of labels whose weights fit WEIGHT_BYTES, at most `most` wide."""
    width = max(1, min(most, WEIGHT_BYTES // (8 * max(1, n_features))))
    return [(begin, min(begin + width, n_labels)) for begin in range(0, n_labels, width)]


def divide_rows(rows: np.ndarray, n_columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """(begin, rows[begin:end]) for ranges whose rows × n_columns doubles fit SCORE_BYTES."""
    step = max(1, SCORE_BYTES // (8 * max(1, n_columns)))
    for begin in range(0, rows.size, step):
        yield begin, rows[begin : begin + step]


def score_block(scorer: Scorer | ClassifierScorer, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
    """(first, scores (n × B)) of rows first, ..., labels begin..end. Raises NonFiniteError."""
    weights = scorer.weights(begin, end)
    for first, rows in divide_rows(scorer.rows, end - begin):
        scores = scorer.score_rows(rows, *weights)
        scorer.check_numbers(scores.max(axis=0), scorer.labels[begin:end])
        yield first, scores


def warm_up_counts() -> None:
    """Compile the kernels that count and rank scores. Local."""
    none, nothing, sigmoids = np.empty(0, dtype=np.int64), np.empty((0, 1)), (np.empty(0), np.empty(0))
    kernels.count_sorted(np.empty(0), np.empty(0), np.zeros(1, dtype=np.int64), none)
    keep_best(nothing, 0, *sigmoids, nothing, np.empty((0, 1), dtype=np.int32))
    sort_best(*sigmoids, nothing, np.empty((0, 1), dtype=np.int32))


def transpose_weights(W: SparseRows, labels: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows `labels` of W column by column, as (begins, lanes, weights).

    begins[c] ≤ p < begins[c + 1] are the entries of column c; lanes[p], ascending, are places in `labels`.
    """
    counts = np.zeros(n_columns, np.int64)
    count_labels(W.indptr, W.indices, labels, counts)
    begins = offsets(counts)
    lanes, weights = np.empty(int(begins[-1]), np.int32), np.empty(int(begins[-1]), W.data.dtype)
    transpose(W.indptr[labels], W.indptr[labels + 1], W.indices, W.data, 0, begins[:-1].copy(), lanes, weights)
    return begins, lanes, weights


class Scorer:
    """The scores of some labels of a linear model on the rows of a shard.

    A label of a model with `combination` has several weight vectors, its parts; a rule makes its score of theirs.
    """

    def __init__(self, model: Model, shard: Shard, labels: np.ndarray) -> None:
        """`labels` (n, int64, ascending) are label numbers of the model."""
        self.model, self.labels, self.rows = model, labels, shard.rows
        data = shard.data
        if model.binary:  # 1 for each value that is not 0, without memory of its own if none is 0
            has_zeros = not all(np.all(data[begin : begin + PRESENT]) for begin in range(0, data.size, PRESENT))
            data = (data != 0).astype(np.float32) if has_zeros else np.broadcast_to(np.float32(1), data.shape)
        self.csr, self._first_row = (shard.indptr, shard.indices, data), shard.first_row
        self.tables, self._is_dense = (model.columns, model.factors), not (model.sparse or model.below)
        self.n_parts = 0 if model.combination is None else model.combination.n_parts  # 0: one weight vector, and no rule
        few = isinstance(model.W, SparseRows) and model.n_weights <= FEW * model.n_labels * model.n_columns
        self._by_column = few and not self.n_parts
        most = MANY_LANES if self._by_column else MAX_LANES
        self.blocks = divide_labels(labels.size, max(1, self.n_parts) * model.n_features, most)

    def weights(self, begin: int, end: int) -> tuple[Any, Any]:
        """The weights of labels[begin:end] as `score_rows` takes them, and their bias (B).

        They are Wt (d, B), those of every feature; or, where few are not 0, what `transpose_weights` makes of these; or a
        Wt of each part, and the rules for the bias. Raises NonFiniteError if one is not a finite number.
        """
        labels, model = self.labels[begin:end], self.model
        if self._by_column:
            assert isinstance(model.W, SparseRows)
            W, lanes = model.W, labels
            if model.below:  # only the weights that are not below it, label after label
                columns, weights = zip(*map(model.row, labels.tolist()), strict=True) if labels.size else ((), ())
                starts = offsets([each.size for each in columns])
                parts = (np.concatenate([np.zeros(0, "<i4"), *columns]), np.concatenate([np.zeros(0, model.precision), *weights]))
                W, lanes = SparseRows(starts, *parts), np.arange(labels.size)
            return transpose_weights(W, lanes, model.n_columns), model.bias[labels]
        Wt = np.empty((max(1, self.n_parts), model.n_features, labels.size))
        for part, out in enumerate(Wt):
            W, places, bias = self._rows_of(labels, part)
            kernels.expand_weights(W, places, *self.tables, out)
        if self.n_parts:
            return Wt, [model.rule(int(label)) for label in labels]
        if not (fit := np.isfinite(Wt[0]).all(axis=0)).all():
            raise model.not_finite(labels[int(np.argmin(fit))])
        return Wt[0], bias[places]

    def _rows_of(self, labels: np.ndarray, part: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows of W (dense), where in it those of some labels are, and the bias of each row; of a part, the bias is 0."""
        if self.n_parts:
            return self.model.rows(labels, part), np.arange(labels.size), np.zeros(labels.size)
        if self._is_dense:
            return self.model.W, labels, self.model.bias
        return self.model.rows(labels), np.arange(labels.size), self.model.bias[labels]

    def score_rows(self, rows: np.ndarray, weights: Any, bias: Any) -> np.ndarray:
        """The scores (n, B) of `rows` for a block's weights."""
        out = np.empty((rows.size, len(bias)))
        if self._by_column:
            kernels.score_rows_by_column(self.csr, rows, (weights, *self.tables, bias), self.compute_divisors(rows), out)
            return out
        if self.n_parts:
            of_parts = np.empty((self.n_parts, *out.shape))
            for Wt, scores in zip(weights, of_parts, strict=True):
                kernels.score_rows(*self.csr, rows, Wt, np.zeros(len(bias)), scores)
            for lane, rule in enumerate(bias):
                out[:, lane] = rule(of_parts[:, :, lane])
        else:
            kernels.score_rows(*self.csr, rows, weights, bias, out)
        if self.model.normalised:
            out /= self.compute_divisors(rows)[:, None]
        return out

    def compute_divisors(self, rows: np.ndarray) -> np.ndarray:
        """The divisors of the scores of rows (n): 1, or of a normalised model bias and values.

        Raises DataError for a row with a negative value.
        """
        if not self.model.normalised:
            return np.ones(rows.size)
        sums = np.empty(rows.size)
        done = kernels.sum_rows(*self.csr, rows, self.model.factors, sums)
        if done < rows.size:
            row = self._first_row + int(rows[done])
            raise DataError(f"row {row} (from 0) has a negative value, which {self.model.path}, of the Winnow family, cannot score")
        return sums

    def score_pairs(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The scores of row rows[p] for the model's label labels[p]: `score_rows`' bits."""
        out, order = np.empty(rows.size), np.argsort(labels, kind="stable")
        # all labels at once of a dense W, else only some rows of W are expanded at a time
        for begin, end in [(0, self.labels.size)] if self._is_dense and not self.n_parts else self.blocks:
            own = self.labels[begin:end]
            some = order[slice(*np.searchsorted(labels[order], own[[0, -1]] + [0, 1]))] if own.size else order[:0]
            if not some.size:
                continue
            own, lanes = np.unique(labels[some], return_inverse=True)
            of_parts = np.empty((max(1, self.n_parts), some.size))
            for part, scores in enumerate(of_parts):
                W, places, bias = self._rows_of(own, part)
                kernels.score_pairs(*self.csr, rows[some], places[lanes], W, self.tables, bias, scores)
            if not self.n_parts:
                out[some] = of_parts[0]
            for lane, label in enumerate(own.tolist() if self.n_parts else ()):
                mine = lanes == lane
                out[some[mine]] = self.model.rule(label)(of_parts[:, mine])
        return out / self.compute_divisors(rows) if self.model.normalised else out

    def check_numbers(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Raise NonFiniteError if scores[i], of label labels[i], is not a finite number."""
        if not (fit := np.isfinite(scores)).all():
            raise self.model.not_finite(labels[int(np.argmin(fit))])

    def warm_up(self, comm: mpi.Comm, only_rows: bool = False) -> None:
        """Collective over `comm`. Compile the kernels for these types, or `only_rows`: of `score_rows`, one rank a node first."""
        none = np.empty(0, dtype=np.int64)
        with mpi.node_first(comm):
            self.score_rows(none, *self.weights(0, 0))
            if not only_rows:
                W, _, bias = self._rows_of(none)
                kernels.score_pairs(*self.csr, none, none, W, self.tables, bias, np.empty(0))
                warm_up_counts()


class ClassifierScorer:
    """A `Scorer` of a classifier: all labels are one block, whose "weights" are their numbers."""

    def __init__(self, model: ClassifierModel, shard: Shard, labels: np.ndarray) -> None:
        """`labels` (n, int64, ascending) are label numbers of the model."""
        self.model, self.labels = model, labels
        self.rows = shard.rows
        self._csr = (shard.indptr, shard.indices, shard.data)
        self.blocks = [(0, labels.size)]

    def weights(self, begin: int, end: int) -> tuple[np.ndarray]:
        """The numbers of labels[begin:end]: all that `score_rows` needs of a block."""
        return (self.labels[begin:end],)

    def score_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The scores (n, B) of `rows` for a block's labels. Raises NonFiniteError."""
        (indptr, _, _), model, out = self._csr, self.model, np.empty((rows.size, labels.size))
        sizes = 8 * model.n_classes + _NONZERO_BYTES * (indptr[rows + 1] - indptr[rows]) + 4 * model.n_features * model.dense
        ends, begin = np.append(0, np.cumsum(sizes)), 0
        while begin < rows.size:  # as many rows at once as have matrices and scores that fit ROWS_BYTES
            end = max(begin + 1, int(np.searchsorted(ends[1:], ends[begin] + ROWS_BYTES, "right")))
            X = rows_of(self._csr, rows[begin:end], model.n_features, model.dense)
            out[begin:end] = model.scores(X)[:, labels]
            begin = end
        return out

    def score_pairs(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The scores (n_pairs) of row rows[p] for label labels[p] of the model.

        The same bits as `score_rows` gives for all rows of the shard, even of a learner whose bits
        depend on the rows around: the classifier is given the same rows at once.
        """
        out, places = np.empty(rows.size), np.searchsorted(self.rows, rows)
        order = np.argsort(places, kind="stable")
        columns = np.searchsorted(self.labels, labels)
        for begin, some in divide_rows(self.rows, self.labels.size):
            first, last = np.searchsorted(places[order], [begin, begin + some.size])
            if first < last:
                mine = order[first:last]
                out[mine] = self.score_rows(some, self.labels)[places[mine] - begin, columns[mine]]
        return out

    def check_numbers(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Nothing: `score_rows` has raised NonFiniteError if a score is not a number."""

    def warm_up(self, comm: mpi.Comm, only_rows: bool = False) -> None:
        """Collective over `comm`. Compile, the classifier too, by a row, one rank a node first."""
        row = (np.zeros(2, dtype=np.int64), self._csr[1][:0], self._csr[2][:0])
        with mpi.node_first(comm):
            X = rows_of(row, np.zeros(1, dtype=np.int64), self.model.n_features, self.model.dense)
            self.model.scores(X)
            if not only_rows:
                warm_up_counts()


def make_scorer(model: Trained, shard: Shard, labels: np.ndarray) -> Scorer | ClassifierScorer:
    """The scorer of `labels` (n, int64, ascending numbers) of a model of any kind on a shard."""
    if isinstance(model, ClassifierModel):
        return ClassifierScorer(model, shard, labels)
    assert isinstance(model, Model)
    return Scorer(model, shard, labels)


class BlockWeights:
    """Scores by blocks of labels; where `keeps`, the weights of all are expanded only once.

    With `by_pairs`, rows that are few are scored by pairs if weights are not kept. That finds no
    weight that is no number unless one of the rows has its feature.
    """

    def __init__(self, keeps: bool, by_pairs: bool = False) -> None:
        self.keeps, self.by_pairs = keeps, by_pairs
        self._kept: list[tuple[Any, ...]] | None = None

    def scores(self, scorer: Scorer | ClassifierScorer, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """(labels, scores (n, B)), block by block. Local. Raises NonFiniteError."""
        if not rows.size:
            return
        if self._kept is None and self.keeps:
            self._kept = [scorer.weights(*block) for block in scorer.blocks]
        few = False  # have the rows fewer values than there are features, so that pairs cost less than expanding weights?
        if self.by_pairs and self._kept is None and isinstance(scorer, Scorer):
            # 1,000 labels, 50,000 features: 10 rows of 100 values take 0.008 s by pairs and 0.100 s else; 500 rows 0.14 and 0.17
            n_values = int((scorer.csr[0][rows + 1] - scorer.csr[0][rows]).sum())
            few = n_values < scorer.model.n_features and 8 * rows.size * scorer.labels.size <= SCORE_BYTES
        if few:
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
        """Return the scores (n × L) of all labels. Raises NonFiniteError if one is not a number."""
        out = np.empty((rows.size, scorer.labels.size))
        for block, scores in self.scores(scorer, rows):
            out[:, block] = scores
        return out

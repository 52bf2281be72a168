"""Labels of rows in memory, with classes collected from all ranks, and predictions from scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hpcml import mpi
from hpcml.data.in_memory import LABEL_SETS, check_label_sets
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.estimators.sklearn_types import BaseEstimator, ClassifierMixin

CLASSES, INDICATOR, SPARSE_INDICATOR, NAMES = range(1, 5)  # kinds of y; 0 on a rank without rows


class LabelSets(NamedTuple):
    """Labels of this rank's rows in CSR form, the classes of all ranks, and weights of the rows."""

    kind: int
    classes: np.ndarray
    n_labels: int
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None = None  # (n,) float64, positive; None: all 1, on all ranks


class LabelScores(ClassifierMixin):
    """Mixin that predicts classes or label sets from scores, in the form of the y passed to `fit`."""

    _kind: int
    classes_: np.ndarray
    _scores: Callable[[Any], np.ndarray]  # (n, n_labels)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_labels), or (n_samples,) for two classes
            Positive scores predict the label, or the second class.
        """
        scores = self._scores(X)
        return scores.ravel() if self._kind == CLASSES and scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray | sp.csr_matrix | list[list[Any]]:
        """Predict classes or label sets.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray, sparse matrix or list
            In the form of the y passed to `fit`: the class with the highest score, or the labels with positive scores. Of two
            classes, the last one for scores above `threshold_`, or above 0 if there is no such attribute.
        """
        scores = self._scores(X)
        if self._kind == CLASSES:
            last, threshold = len(self.classes_) - 1, getattr(self, "threshold_", 0.0)
            return self.classes_[scores.argmax(axis=1) if last > 1 else np.where(scores[:, 0] > threshold, last, 0)]
        if self._kind == NAMES:
            return [self.classes_[row > 0].tolist() for row in scores]
        labels = (scores > 0).astype(np.int64)
        return labels if self._kind == INDICATOR else sp.csr_matrix(labels)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.
        y : array, sparse matrix or list
            Classes or label sets, as for `fit`.
        sample_weight : array (n_samples,) or None
            Weights of the rows. Default: equal weights.

        Returns
        -------
        float
            Share of rows whose class or label set is predicted exactly.
        """
        if self._kind != NAMES:
            return float(super().score(X, check_target(y)[1] if sp.issparse(y) else check_label_sets(y), sample_weight))
        is_exact = [set(predicted) == set(names) for predicted, names in zip(self.predict(X), check_label_sets(y), strict=True)]
        return float(np.average(is_exact, weights=sample_weight))


def check_target(y: Any) -> tuple[int, np.ndarray | sp.csr_matrix | list[list[Any]]]:
    """Return the kind of a non-empty y, and y as classes (n,), CSR matrix (n, n_labels) or lists of names."""
    y = check_label_sets(y)
    rows = y.tolist() if isinstance(getattr(y, "dtype", None), np.dtype) and y.dtype == object and y.ndim == 1 else y
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, LABEL_SETS) for row in rows):
        has_names = any(isinstance(row, (set, frozenset)) or any(isinstance(name, str) for name in row) for row in rows)
        if has_names or len({len(row) for row in rows}) > 1:  # else an indicator matrix
            try:
                return NAMES, [sorted(set(row)) for row in rows]
            except TypeError:
                raise TypeError("y: the labels of a row have different types; expected only strings or only integers") from None
    y = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None, input_name="y")
    if not sp.issparse(y) and (y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return CLASSES, y
    kind, values = (SPARSE_INDICATOR, y.data) if sp.issparse(y) else (INDICATOR, y)
    invalid = [value for value in np.unique(values).tolist() if value not in (0, 1)]
    if invalid:
        raise ValueError(f"Unknown label type: y has several columns and the value {invalid[0]!r}; expected 0 and 1")
    y = sp.csr_matrix(y, copy=True)
    y.sum_duplicates()
    y.eliminate_zeros()
    y.data[:] = 1  # duplicates were added up
    return kind, y


def check_features(comm: mpi.Comm, estimator: BaseEstimator) -> None:
    """Raise DataError if the features of the ranks' rows differ. Collective over `comm`."""
    names = getattr(estimator, "feature_names_in_", None)
    digest = None if names is None else hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    widths, digests = zip(*comm.allgather((estimator.n_features_in_, digest)), strict=True)
    for rank, width in enumerate(widths):
        if width != widths[0]:
            raise DataError(f"X has {width} features on rank {rank}, but {widths[0]} on rank 0; use the same features on all ranks")
    if len(set(digests) - {None}) > 1:
        raise DataError("the feature names of X or their order differ between ranks; use the same features on all ranks")


def agree_labels(comm: mpi.Comm, kind: int, y: Any, n_local: int) -> LabelSets:
    """Return this rank's labels with the classes of all ranks. Collective over `comm`. Raises DataError."""
    summary = None  # the kind of y, and its number of columns, classes or label names
    if kind:
        summary = (kind, y.shape[1] if kind in (INDICATOR, SPARSE_INDICATOR) else np.unique(y if kind == CLASSES else _flatten(y)))
    summaries = [(rank, *each) for rank, each in enumerate(comm.allgather(summary)) if each is not None]
    if not summaries:
        raise DataError("no rank has rows to train on (rows with weight zero do not count)")
    first, first_kind, _ = summaries[0]
    for rank, rank_kind, _ in summaries:
        if (rank_kind == CLASSES) != (first_kind == CLASSES):
            raise DataError(f"y has one column on some ranks and more on others (rank {rank} differs from rank {first})")
        if (rank_kind == NAMES) != (first_kind == NAMES):
            raise DataError(f"y has names of labels on some ranks only (rank {rank} differs from rank {first})")
    values = [each for _, _, each in summaries]
    if first_kind == NAMES:
        classes = _union([names for names in values if names.size] or [np.zeros(0, np.int64)])
        if not classes.size:
            raise DataError("y: there are no labels; expected at least one")
        return named_sets(y if kind else [], classes)
    if first_kind == CLASSES:
        classes = _union(values)
        n_labels = 1 if len(classes) <= 2 else len(classes)
        numbers = np.searchsorted(classes, y) if kind else np.zeros(0, np.int64)
        if n_labels > 1:
            return LabelSets(CLASSES, classes, n_labels, np.arange(n_local + 1), numbers)
        positive = numbers == len(classes) - 1
        return LabelSets(CLASSES, classes, 1, np.concatenate([[0], np.cumsum(positive)]), np.zeros(int(positive.sum()), np.int64))
    if len(set(values)) > 1:
        raise DataError(f"y has {min(values)} columns on some ranks, but {max(values)} on others")
    n_labels = values[0]
    matrix: Any = y if kind else sp.csr_matrix((0, n_labels))
    return LabelSets(max(each for _, each, _ in summaries), np.arange(n_labels), n_labels, matrix.indptr, matrix.indices)


def named_sets(names: list[list[Any]], classes: np.ndarray) -> LabelSets:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in names], dtype=np.int64)])
    indices = np.searchsorted(classes, _flatten(names)) if indptr[-1] else np.zeros(0, np.int64)
    return LabelSets(NAMES, classes, len(classes), indptr, indices)


def _flatten(names: list[list[Any]]) -> np.ndarray:
    return np.array([name for row in names for name in row])


def _union(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sorted classes of all ranks. Raises DataError for numbers mixed with other types."""
    if len({part.dtype.kind in "biuf" for part in parts}) > 1:
        raise DataError("y: the classes are numbers on some ranks but not on others")
    return np.unique(np.concatenate(parts))


def shard_of(X: sp.csr_matrix, labels: LabelSets, first: int, n_global: int) -> Shard:
    """Return the rows as a shard: read-only arrays with the types for which the kernels are compiled."""
    index = np.int32 if X.shape[1] < 2**31 else np.int64
    arrays = ((X.indices, index), (X.data, None), (labels.indices, np.int32))
    indices, data, label_indices = (np.ascontiguousarray(array, dtype).view() for array, dtype in arrays)
    for array in (indices, data, label_indices):
        array.flags.writeable = False
    csr, label_sets = (X.indptr.astype(np.int64), indices, data), (labels.indptr.astype(np.int64), label_indices)
    return Shard.of_csr(csr, X.shape[1], labels.n_labels, label_sets, first, n_global, labels.weights)

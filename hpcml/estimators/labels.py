"""Label sets of arrays in memory, agreed on by all ranks, and classes from scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from hpcml import mpi
from hpcml.data.in_memory import LABEL_SETS, sound_labels
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.estimators.sklearn_types import BaseEstimator, ClassifierMixin

CLASSES, INDICATOR, SPARSE_INDICATOR, NAMES = range(1, 5)  # what y is; 0 on a rank without rows, which cannot know


class LabelSets(NamedTuple):
    """This rank's labels, of row i indices[indptr[i]:indptr[i + 1]], and the rows' weights."""

    kind: int
    classes: np.ndarray
    n_labels: int
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None = None  # (n) float64, above 0; None: 1 each, on all ranks


class LabelScores(ClassifierMixin):
    """Classes, or label sets, from scores; `_kind` and `classes_` are those of `fit`'s y."""

    _kind: int
    classes_: np.ndarray
    _scores: Callable[[Any], np.ndarray]  # (n, n_labels), by the classifier

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: (n,) of the last of one or two classes; else (n, n_labels)."""
        scores = self._scores(X)
        return scores.ravel() if self._kind == CLASSES and scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray | sp.csr_matrix | list[list[Any]]:
        """The class of each row (n,), its score the highest, or labels with positive ones."""
        scores = self._scores(X)
        if self._kind == CLASSES:
            last = len(self.classes_) - 1
            return self.classes_[scores.argmax(axis=1) if last > 1 else np.where(scores[:, 0] > 0, last, 0)]
        if self._kind == NAMES:
            return [self.classes_[row > 0].tolist() for row in scores]
        labels = (scores > 0).astype(np.int64)
        return labels if self._kind == INDICATOR else sp.csr_matrix(labels)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the rows whose class, or whose labels, are found exactly."""
        if self._kind != NAMES:
            return float(super().score(X, check_target(y)[1] if sp.issparse(y) else sound_labels(y), sample_weight))
        right = [set(found) == set(names) for found, names in zip(self.predict(X), sound_labels(y), strict=True)]
        return float(np.average(right, weights=sample_weight))


def check_target(y: Any) -> tuple[int, np.ndarray | sp.csr_matrix | list[list[Any]]]:
    """Return the kind of y (not empty), and y: classes (n,), CSR label sets (n, n_labels), or lists of
    names. Raises ValueError, TypeError.
    """
    y = sound_labels(y)
    rows = y.tolist() if isinstance(getattr(y, "dtype", None), np.dtype) and y.dtype == object and y.ndim == 1 else y
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, LABEL_SETS) for row in rows):
        named = any(isinstance(row, (set, frozenset)) or any(isinstance(name, str) for name in row) for row in rows)
        if named or len({len(row) for row in rows}) > 1:  # else columns of zeros and ones
            try:
                return NAMES, [sorted(set(row)) for row in rows]
            except TypeError:
                raise TypeError("y: the labels of a row are names of different kinds; give texts, or whole numbers") from None
    y = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None, input_name="y")
    if not sp.issparse(y) and (y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return CLASSES, y
    kind, values = (SPARSE_INDICATOR, y.data) if sp.issparse(y) else (INDICATOR, y)
    strange = [value for value in np.unique(values).tolist() if value not in (0, 1)]
    if strange:
        raise ValueError(f"Unknown label type: y has several columns, where 0 and 1 are expected, but found {strange[0]!r}")
    y = sp.csr_matrix(y, copy=True)
    y.sum_duplicates()
    y.eliminate_zeros()
    y.data[:] = 1  # also where a row has a label twice
    return kind, y


def check_features(comm: mpi.Comm, estimator: BaseEstimator) -> None:
    """Collective over `comm`. Raises DataError if the ranks' rows have other features."""
    names = getattr(estimator, "feature_names_in_", None)
    digest = None if names is None else hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    widths, digests = zip(*comm.allgather((estimator.n_features_in_, digest)), strict=True)
    for rank, width in enumerate(widths):
        if width != widths[0]:
            raise DataError(f"X has {width} features on rank {rank}, but {widths[0]} on rank 0; all ranks need the same features")
    if len(set(digests) - {None}) > 1:
        raise DataError("X has other feature names, or another order of them, on some ranks; all ranks need the same features")


def agree_labels(comm: mpi.Comm, kind: int, y: Any, n_local: int) -> LabelSets:
    """Collective over `comm`. All ranks' classes, this rank's labels. Raises DataError."""
    about = None  # the number of columns, or the classes (or names of labels) of this rank's rows
    if kind:
        about = (kind, y.shape[1] if kind in (INDICATOR, SPARSE_INDICATOR) else np.unique(y if kind == CLASSES else _flat(y)))
    found = [(rank, *its) for rank, its in enumerate(comm.allgather(about)) if its is not None]
    if not found:
        raise DataError("no rank has rows to train on (those of weight zero do not count)")
    first, first_kind, _ = found[0]
    for rank, its_kind, _ in found:
        if (its_kind == CLASSES) != (first_kind == CLASSES):
            raise DataError(f"y has one column on some ranks and more on others (rank {rank} differs from rank {first})")
        if (its_kind == NAMES) != (first_kind == NAMES):
            raise DataError(f"y has names of labels on some ranks only (rank {rank} differs from rank {first})")
    if first_kind == NAMES:
        classes = _union([its for _, _, its in found if its.size] or [np.zeros(0, np.int64)])
        if not classes.size:
            raise DataError("y: no row has a label")
        return named_sets(y if kind else [], classes)
    if first_kind == CLASSES:
        classes = _union([its for _, _, its in found])
        n_labels = 1 if len(classes) <= 2 else len(classes)
        numbers = np.searchsorted(classes, y) if kind else np.zeros(0, np.int64)
        if n_labels > 1:
            return LabelSets(CLASSES, classes, n_labels, np.arange(n_local + 1), numbers)
        positive = numbers == len(classes) - 1
        return LabelSets(CLASSES, classes, 1, np.concatenate([[0], np.cumsum(positive)]), np.zeros(int(positive.sum()), np.int64))
    widths = [its for _, _, its in found]
    if len(set(widths)) > 1:
        raise DataError(f"y has {min(widths)} columns on some ranks, but {max(widths)} on others")
    matrix: Any = y if kind else sp.csr_matrix((0, widths[0]))
    return LabelSets(max(its for _, its, _ in found), np.arange(widths[0]), widths[0], matrix.indptr, matrix.indices)


def named_sets(names: list[list[Any]], classes: np.ndarray) -> LabelSets:
    """The label sets of rows with these names (each once), all of which are among the `classes`."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in names], dtype=np.int64)])
    indices = np.searchsorted(classes, _flat(names)) if indptr[-1] else np.zeros(0, np.int64)
    return LabelSets(NAMES, classes, len(classes), indptr, indices)


def _flat(names: list[list[Any]]) -> np.ndarray:
    return np.array([name for row in names for name in row])


def _union(parts: list[np.ndarray]) -> np.ndarray:
    """The sorted classes of several ranks. Raises DataError if numbers and others are mixed."""
    if len({part.dtype.kind in "biuf" for part in parts}) > 1:
        raise DataError("the classes in y are numbers on some ranks but not on others")
    return np.unique(np.concatenate(parts))


def shard_of(X: sp.csr_matrix, labels: LabelSets, first: int, n_global: int) -> Shard:
    """The rows as those of a file: read-only and of the types that the kernels are compiled for."""
    index = np.int32 if X.shape[1] < 2**31 else np.int64
    arrays = [
        np.ascontiguousarray(of, kind).view() for of, kind in ((X.indices, index), (X.data, None), (labels.indices, np.int32))
    ]
    for array in arrays:
        array.flags.writeable = False
    indices, data, label_indices = arrays
    csr, label_sets = (X.indptr.astype(np.int64), indices, data), (labels.indptr.astype(np.int64), label_indices)
    return Shard.of_csr(csr, X.shape[1], labels.n_labels, label_sets, first, n_global, labels.weights)

"""The base of naive Bayes: from rows by feature to probabilities; no import of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical, sound_csr
from hpcml.kernels import density, elementwise
from hpcml.kernels import joint as kernels

FEW = 64  # a feature with so many distinct values, or fewer, may keep them instead of tables
FLOOR = 1e-75  # the least probability, Weka's


class JointBayes:
    """The base of classifiers with joint log probabilities (`predict_joint_log_proba`).

    X is a C-contiguous array or a CSR matrix of float32 or float64; a subclass for users checks it.
    """

    classes_: np.ndarray
    class_log_prior_: np.ndarray
    n_features_in_: int

    def _training_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """X, y, and a weight ≥ 0 for each row. Raises ValueError."""
        self.n_features_in_ = X.shape[1]
        y = np.asarray(y)
        return self._rows(X), y, np.ones(y.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)

    def _rows(self, X: Any) -> Any:
        """Return X, if it is sound and has the right width and finite numbers. Raises ValueError."""
        X = sound_csr(X, "X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but expected {self.n_features_in_}")
        if not np.isfinite(X.data if sp.issparse(X) else X).all():
            raise ValueError("X: a value is no finite number")
        return X

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Rows with a weight, their classes' numbers, their weights, each class's sum.

        Weights below 1 a row, as in boosting, are scaled to it. Sets `classes_`,
        `class_log_prior_`.
        """
        X, y, weights = self._training_rows(X, y, sample_weight)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not weights.any():
            raise ValueError("sample_weight: every weight is 0, but at least one must be above")
        counted = weights > 0
        if not counted.all():
            X, labels, weights = X[counted], labels[counted], weights[counted]
        with np.errstate(over="ignore"):
            total = weights.sum()
        if not weights.size <= total < np.inf:
            weights = weights / weights.max()
            weights, total = weights * (weights.size / weights.sum()), weights.size
        n_classes = self.classes_.size
        totals = np.bincount(labels, weights, n_classes)
        self.class_log_prior_ = elementwise.log((totals + 1) / (total + n_classes))
        return X, labels, weights, totals

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the joint probabilities of X and the classes (n_samples × n_classes)."""
        raise AssertionError("a subclass says")

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba` (n_samples × n_classes)."""
        return _filled(kernels.log_shares, self.predict_joint_log_proba(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes (n_samples × n_classes), in `classes_`' order."""
        return _filled(kernels.shares, self.predict_joint_log_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Of two classes the log-odds of `classes_[1]` (n_samples); else of each class.

        log p_c − log(1 − p_c) of every class c (n_samples × n_classes; ∞ of a single one).
        """
        joint = self.predict_joint_log_proba(X)
        return np.asarray(joint[:, 1] - joint[:, 0]) if self.classes_.size == 2 else _filled(kernels.log_odds, joint)

    def confidence(self, X: Any) -> np.ndarray:
        """The largest probability of a class less the second largest (n_samples)."""
        joint = self.predict_joint_log_proba(X)
        out = np.empty(joint.shape[0])
        kernels.gaps(joint, out)
        return out

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes (n_samples), of equal ones the first of `classes_`."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _filled(kernel: Callable[[np.ndarray, np.ndarray], None], joint: np.ndarray) -> np.ndarray:
    out = np.empty_like(joint)
    kernel(joint, out)
    return out


def by_column(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSC arrays (indptr, rows, data) of X; of a dense X, zeros are stored like other values."""
    if sp.issparse(X):
        X = canonical(X).tocsc()
        return X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    n_rows, n_features = X.shape
    rows = np.tile(np.arange(n_rows, dtype=np.int32 if n_rows < 2**31 else np.int64), n_features)
    return np.arange(n_features + 1) * n_rows, rows, X.ravel(order="F").astype(np.float64, copy=False)


def count_values(indptr: np.ndarray, data: np.ndarray, has_zero: np.ndarray, limit: int = FEW) -> np.ndarray:
    """The number of distinct values of every feature; only many (> `limit`) are sorted."""
    counts = np.zeros(has_zero.size, np.int64)
    density.count_values(indptr, data, has_zero, np.empty(limit + 1), counts)
    for j in np.flatnonzero(counts > limit):
        column = data[indptr[j] : indptr[j + 1]]
        ascending = np.sort(np.append(column, 0.0) if has_zero[j] else column)
        counts[j] = 1 + np.count_nonzero(np.diff(ascending))
    return counts


def rounded(values: np.ndarray, precision: np.ndarray | float) -> np.ndarray:
    """The nearest multiples of the precision (even ones of two), or values where it is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        nearest: np.ndarray = np.where(np.asarray(precision) > 0, np.rint(values / precision) * precision, values)
    return nearest


def check_precisions(precisions: np.ndarray, counts: np.ndarray) -> None:
    """Raise if a feature's values are too far apart for double-precision numbers."""
    wrong = np.flatnonzero((counts > 1) & ~(precisions < np.inf))
    if wrong.size:
        gap = precisions[wrong[0]]
        raise ValueError(
            f"X: feature {wrong[0]}: the mean gap between its values is {gap:g}, but must be a normal number; scale it"
        )

"""Naive Bayes with feature densities, as trained by base learners (definitions: `naive_bayes`).

This module does not import scikit-learn, which takes one second. Rows must already be checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical, check_csr
from hpcml.kernels import density, elementwise, gaussian
from hpcml.partition import offsets

# A feature with at most this many distinct values may store them instead of tables.
FEW = 64
# Smallest probability (as in Weka).
FLOOR = 1e-75
# Smallest precision of a feature with kernel densities (as in Weka).
LEAST_PRECISION = 1e-6
# Precision of a feature with a single value, for Gaussians (as in Weka).
_PRECISION = 0.01


class JointBayes:
    """Base class of naive Bayes classifiers. X is a C-contiguous array or a CSR matrix of float32 or float64."""

    classes_: np.ndarray
    class_log_prior_: np.ndarray
    n_features_in_: int

    def _training_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        self.n_features_in_ = X.shape[1]
        y = np.asarray(y)
        return self._rows(X), y, np.ones(y.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)

    def _rows(self, X: Any) -> Any:
        X = check_csr(X, "X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but expected {self.n_features_in_}")
        if not np.isfinite(X.data if sp.issparse(X) else X).all():
            raise ValueError("X: a value is not a finite number")
        return canonical(X) if sp.issparse(X) else X

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Return rows with positive weight, their class numbers and weights (scaled to a mean of at least 1), and class totals."""
        X, y, weights = self._training_rows(X, y, sample_weight)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not weights.any():
            raise ValueError("sample_weight: every weight is 0; expected at least one positive weight")
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

    def _densities(self) -> tuple[Callable[..., None], Callable[..., None], Any]:
        """Return the kernels for dense and for sparse rows, and the densities that are their first argument."""
        raise NotImplementedError

    def _zero_log(self) -> np.ndarray:
        """Return log P(0 | c) (n_features, n_classes)."""
        raise NotImplementedError

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Return log P(c) + Σ_j log P(x_j | c).

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        X, (add_dense, add_sparse, densities) = self._rows(X), self._densities()
        joint = np.tile(self.class_log_prior_, (X.shape[0], 1))
        if sp.issparse(X):
            X, zeros = canonical(X), self._zero_log()
            joint += zeros.sum(axis=0)
            add_sparse(densities, zeros, X.indptr, X.indices, X.data, joint)
        else:
            add_dense(densities, X, joint)
        return joint

    def _check_shapes(self, integers: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> None:
        """Raise ValueError unless the arrays have these shapes and are float64, or int64 if named in `integers`."""
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != (np.int64 if name in integers else np.float64):
                raise ValueError(f"{name} is damaged")

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log P(c | x).

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        joint = self.predict_joint_log_proba(X)
        return np.asarray(joint - _log_of_sum(joint)[:, None])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return P(c | x).

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        joint = self.predict_joint_log_proba(X)
        return elementwise.exp(joint - _log_of_sum(joint)[:, None])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds log p_c − log(1 − p_c).

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples, n_classes), or (n_samples,) for two classes
            With two classes, the log-odds of the second one.
        """
        joint = self.predict_joint_log_proba(X)
        if self.classes_.size == 2:
            return np.asarray(joint[:, 1] - joint[:, 0])
        return np.stack([joint[:, c] - _log_of_sum(np.delete(joint, c, axis=1)) for c in range(joint.shape[1])], axis=1)

    def confidence(self, X: Any) -> np.ndarray:
        """Return the confidence of the predictions.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
            Largest class probability minus the second largest.
        """
        joint = np.pad(self.predict_joint_log_proba(X), ((0, 0), (1, 0)), constant_values=-np.inf)  # there may be a single class
        second, first = np.partition(joint, -2, axis=1)[:, -2:].T - _log_of_sum(joint)
        return np.asarray(elementwise.exp(first) - elementwise.exp(second))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable classes.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray (n_samples,)
            Of equally probable classes, the first one in `classes_`.
        """
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _log_of_sum(joint: np.ndarray) -> np.ndarray:
    """Return log Σ_c exp(joint[i, c]) (n,); −∞ without classes."""
    largest, total = joint.max(axis=1, initial=-np.inf), np.zeros(joint.shape[0])
    for column in joint.T:  # in this order, so that the bits are the same everywhere
        total += elementwise.exp(column - largest)
    return np.asarray(largest + elementwise.log(total))


def to_columns(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return CSC arrays (indptr, rows, data) of X; zeros of a dense X are stored."""
    if sp.issparse(X):
        X = canonical(X).tocsc()
        return X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    n_rows, n_features = X.shape
    rows = np.tile(np.arange(n_rows, dtype=np.int32 if n_rows < 2**31 else np.int64), n_features)
    return np.arange(n_features + 1) * n_rows, rows, X.ravel(order="F").astype(np.float64, copy=False)


def count_values(indptr: np.ndarray, data: np.ndarray, has_zero: np.ndarray, limit: int = FEW) -> np.ndarray:
    counts = np.zeros(has_zero.size, np.int64)
    density.count_values(indptr, data, has_zero, np.empty(limit + 1), counts)
    for j in np.flatnonzero(counts > limit):  # the kernel stops counting at the limit
        column = data[indptr[j] : indptr[j + 1]]
        ascending = np.sort(np.append(column, 0.0) if has_zero[j] else column)
        counts[j] = 1 + np.count_nonzero(np.diff(ascending))
    return counts


def round_values(values: np.ndarray, precision: np.ndarray | float) -> np.ndarray:
    """Round to multiples of the precision (ties to even); values with precision 0 are unchanged."""
    with np.errstate(invalid="ignore", divide="ignore"):
        nearest: np.ndarray = np.where(np.asarray(precision) > 0, np.rint(values / precision) * precision, values)
    return nearest


def check_precisions(precisions: np.ndarray, counts: np.ndarray) -> None:
    """Raise ValueError if a feature's range overflows float64."""
    wrong = np.flatnonzero((counts > 1) & ~(precisions < np.inf))
    if wrong.size:
        gap = precisions[wrong[0]]
        raise ValueError(
            f"X: feature {wrong[0]}: the mean gap between its values is {gap:g}, but must be a normal number; scale it"
        )


class GaussianDensities(JointBayes):
    """The densities of `hpcml.model.naive_bayes.GaussianNB`."""

    kind = "gaussian-nb"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GaussianDensities:
        """Fit to X (n_samples, n_features) and y (n_samples,). Raises ValueError if a feature's range is not finite."""
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        indptr, rows, data = to_columns(X)
        n_features, n_classes = indptr.size - 1, self.classes_.size
        (low, high), filled = np.zeros((2, n_features)), np.flatnonzero(np.diff(indptr))
        low[filled], high[filled] = (ufunc.reduceat(data, indptr[filled]) for ufunc in (np.minimum, np.maximum))
        has_zero = np.diff(indptr) < labels.size
        low, high = np.where(has_zero, np.minimum(low, 0), low), np.where(has_zero, np.maximum(high, 0), high)
        counts = count_values(indptr, data, has_zero)
        with np.errstate(over="ignore"):
            gaps = (high - low) / np.maximum(counts - 1, 1)
        check_precisions(gaps, counts)
        self.precision_ = np.where(counts > 1, gaps, _PRECISION)
        self.mean_, self.deviation_ = np.zeros((2, n_features, n_classes))
        gaussian.mean_and_spread(indptr, rows, data, labels, weights, totals, self.precision_, self.mean_, self.deviation_)
        self.deviation_ = np.maximum(self.deviation_, self.precision_[:, None] / 6)
        return self

    def _densities(self) -> tuple[Callable[..., None], Callable[..., None], Any]:
        densities = gaussian.Gaussians(self.precision_, self.mean_, self.deviation_, FLOOR)
        return gaussian.add_dense, gaussian.add_sparse, densities

    def _zero_log(self) -> np.ndarray:
        zeros = np.empty_like(self.mean_)
        gaussian.log_zeros(self._densities()[-1], zeros)
        return zeros

    def check_arrays(self) -> None:
        d, k = self.n_features_in_, self.classes_.size
        self._check_shapes(class_log_prior_=(k,), precision_=(d,), mean_=(d, k), deviation_=(d, k))


class KernelDensities(JointBayes):
    """The densities of `hpcml.model.naive_bayes.KernelNB`."""

    kind = "kernel-nb"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the densities.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.
        y : array (n_samples,)
            Classes.
        sample_weight : array (n_samples,) or None
            Weights, at least 0 and not all 0. Default: equal weights.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            For other arguments, or a feature whose range or mean gap between values is not a normal number.
        """
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        indptr, rows, data = to_columns(X)
        self.class_size_ = totals
        row_classes = labels, weights / totals[labels]  # classes, and weights that sum to 1 per class
        n_features, n_classes = indptr.size - 1, self.classes_.size
        lows, highs = np.full((2, n_features, n_classes), [[[np.inf]], [[-np.inf]]])
        stored, masses = np.zeros((n_features, n_classes), np.int64), np.zeros((n_features, n_classes))
        density.sum_columns(indptr, rows, data, *row_classes, lows, highs, stored, masses)
        n_rows = np.bincount(labels, minlength=n_classes)
        has_zeros = np.asarray(stored < n_rows)  # zeros that are not stored
        lows, highs = np.where(has_zeros, np.minimum(lows, 0), lows), np.where(has_zeros, np.maximum(highs, 0), highs)
        zero_masses = np.where(has_zeros, np.maximum(1 - masses, 0), 0)
        some_zeros = np.asarray(has_zeros.any(axis=1))
        limit = min(FEW, math.isqrt(round(self.class_size_.sum())))
        self.value_count_ = count_values(indptr, data, some_zeros, limit)
        with np.errstate(over="ignore"):
            self.precision_ = (highs.max(axis=1) - lows.min(axis=1)) / np.maximum(self.value_count_ - 1, 1)
        check_precisions(self.precision_, self.value_count_)
        self.precision_ = np.where(self.value_count_ > 1, np.maximum(self.precision_, LEAST_PRECISION), 0.0)
        lows, highs = (round_values(ends, self.precision_[:, None]) for ends in (lows, highs))
        ranges = np.where(n_rows > 0, highs - lows, 0.0)
        self.low_ = np.where(n_rows > 0, lows, 0.0)
        self.bandwidth_ = np.maximum(
            ranges / np.sqrt(np.where(self.class_size_ > 0, self.class_size_, 1)), self.precision_[:, None] / 6
        )
        few = (self.value_count_ > 1) & (self.value_count_ <= limit)
        many = self.value_count_ > max(limit, 1)
        self.value_start_ = offsets(np.where(few, self.value_count_, 0))
        self.value_ = np.empty(self.value_start_[-1])
        self.value_mass_ = np.zeros((self.value_.size, n_classes))
        self.value_log_ = np.zeros_like(self.value_mass_)
        density.collect_values(indptr, data, some_zeros, self.value_start_, self.value_)
        density.weigh_values(indptr, rows, data, *row_classes, zero_masses, self.value_start_, self.value_, self.value_mass_)
        self.table_start_, self.table_ = np.zeros(1, np.int64), np.empty((0, density.ORDER))
        density.log_values(self._densities()[-1], self.value_log_)
        # Tabulate the densities of features with many values.
        sources = np.zeros(ranges.shape, np.int64)  # number of cells with values
        sources[many] = (ranges[many] * (density.PER_BANDWIDTH / self.bandwidth_[many])).astype(np.int64) + 1
        cells = np.zeros_like(sources)
        for j in np.flatnonzero(many).tolist():
            cells[j] = [n + 2 * density.reach(self.precision_[j] / h) for n, h in zip(sources[j], self.bandwidth_[j], strict=True)]
        self.table_start_ = offsets(cells)
        self.table_ = np.empty((self.table_start_[-1], density.ORDER))
        for j in np.flatnonzero(many).tolist():
            starts = offsets(sources[j])  # first cell of each class
            moments, begin, end = np.zeros((starts[-1], density.ORDER)), *indptr[j : j + 2]
            cell_arrays = self.low_[j], self.bandwidth_[j], starts, moments
            density.add_moments(rows[begin:end], round_values(data[begin:end], self.precision_[j]), *row_classes, *cell_arrays)
            classes = np.flatnonzero(zero_masses[j])  # unstored zeros count as one row of value 0 per class
            density.add_moments(classes, np.zeros(classes.size), np.arange(n_classes), zero_masses[j], *cell_arrays)
            for c in range(n_classes):
                ratio = self.precision_[j] / self.bandwidth_[j, c]
                derivatives = np.empty((2 * density.reach(ratio) + 1, 2 * density.ORDER - 1))
                density.tabulate_derivatives(ratio, derivatives)
                first, last = self.table_start_[j * n_classes + c : j * n_classes + c + 2]
                density.tabulate(moments[starts[c] : starts[c + 1]], derivatives, self.table_[first:last])
        self.zero_log_ = np.zeros((n_features, n_classes))
        density.log_zeros(self._densities()[-1], self.zero_log_)
        return self

    def _densities(self) -> tuple[Callable[..., None], Callable[..., None], Any]:
        densities = density.Density(
            sizes=self.class_size_,
            counts=self.value_count_,
            precisions=self.precision_,
            bandwidths=self.bandwidth_,
            lows=self.low_,
            starts=self.value_start_,
            values=self.value_,
            masses=self.value_mass_,
            logs=self.value_log_,
            table_starts=self.table_start_,
            tables=self.table_,
            floor=FLOOR,
        )
        return density.add_dense, density.add_sparse, densities

    def _zero_log(self) -> np.ndarray:
        return self.zero_log_

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays are consistent; kernels do not check indices."""
        d, k, n_values = self.n_features_in_, self.classes_.size, self.value_.size
        self._check_shapes(
            ("value_count_", "value_start_", "table_start_"),
            **{"class_log_prior_": (k,), "class_size_": (k,), "value_count_": (d,), "precision_": (d,)},
            **{"bandwidth_": (d, k), "low_": (d, k), "zero_log_": (d, k)},
            **{"value_": (n_values,), "value_mass_": (n_values, k), "value_log_": (n_values, k)},
            **{"value_start_": (d + 1,), "table_start_": (d * k + 1,), "table_": (len(self.table_), density.ORDER)},
        )
        for starts, end in ((self.value_start_, n_values), (self.table_start_, len(self.table_))):
            if starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
                raise ValueError("value_start_ or table_start_ is damaged")

"""Naive Bayes with kernel density estimates as a scikit-learn classifier."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hpcml.kernels import density as kernels
from hpcml.partition import offsets

_FEW = 64  # a feature with so many distinct values, or fewer, may keep them instead of tables
_FAR = 18.6  # bandwidths at which a Gaussian is below FLOOR
_FAR_BEFORE = 9.0  # of files that have no floor
FLOOR = 1e-75  # of a probability, and
LEAST_PRECISION = 1e-6  # of a feature, both Weka's


class _Columns(NamedTuple):
    """The training data by feature, as CSC; the rows have a class and a weight."""

    indptr: np.ndarray
    rows: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class JointNaiveBayes(ClassifierMixin, BaseEstimator):
    """What classifiers share that have the logarithms of joint probabilities (`predict_joint_log_proba`)."""

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Rows that have a weight, their classes' numbers, their weights, which sum to their number, and each class's sum.

        Sets `classes_` and `class_log_prior_`.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not weights.any():
            raise ValueError("sample_weight: every weight is 0, but at least one must be above")
        weights = weights / weights.max()
        counted = weights > 0
        if not counted.all():
            X, labels, weights = X[counted], labels[counted], weights[counted]
        weights = weights * (weights.size / weights.sum())
        n_classes = self.classes_.size
        totals = np.bincount(labels, weights, n_classes)
        self.class_log_prior_ = np.log((totals + 1) / (weights.size + n_classes))
        return X, labels, weights, totals

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the joint probabilities of X and the classes (n_samples × n_classes)."""
        raise AssertionError("a subclass says")

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of the classes' probabilities.
        """
        joint: np.ndarray = self.predict_joint_log_proba(X)
        logarithms: np.ndarray = joint - logsumexp(joint, axis=1, keepdims=True)
        return logarithms

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        probabilities: np.ndarray = np.exp(self.predict_log_proba(X))
        return probabilities

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of two classes: the log-odds of `classes_[1]`. Else log p_c − log(1 − p_c) of every class c (∞ of a single one).
        """
        joint = self.predict_joint_log_proba(X)
        odds: np.ndarray
        if self.classes_.size == 2:
            odds = joint[:, 1] - joint[:, 0]
            return odds
        odds = np.empty_like(joint)
        for c in range(self.classes_.size):
            others = np.delete(joint, c, axis=1)
            odds[:, c] = joint[:, c] - (logsumexp(others, axis=1) if others.size else -np.inf)
        return odds

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels; of equally probable ones the first of `classes_`.
        """
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelNaiveBayes(JointNaiveBayes):
    """Naive Bayes with a Gaussian kernel density estimate per feature and class, as Weka's `NaiveBayes -K` has it.

    Features are numeric; what a sparse row does not store is the value 0. Weights are scaled so that they sum to the number of
    rows. For feature j with m_j distinct values and range R_j in the training rows,

    - δ_j = max(R_j / (m_j − 1), 1e-6) is its precision, the mean gap between values; a feature with one value is ignored;
    - values x_i of the training rows are rounded to multiples of δ_j;
    - h_jc = max(range_jc / √n_c, δ_j / 6) is the bandwidth, n_c the sum of the weights of class c, range_jc that of its values;
    - P(v | c) = Σ w_i [Φ((v + δ/2 − x_i) / h) − Φ((v − δ/2 − x_i) / h)] / n_c over the rows i of class c: the mass in the cell
      of width δ around v, almost the frequency of v where values are few, the density times δ where they are many;
    - P'(v | c) = max(P(v | c), 1e-75);
    - the prior is (n_c + 1) / (n + K) with K classes.

    Weka stops adding when what is missing is below 1 % of a sum; here all is added. Far below all values of a class, by 8.3 h or
    more, Weka's P is 0, for it is a difference of numbers near 1; here it falls on, as it does above them in both.

    Rows of weight 0 are as if absent, and a common factor of all weights changes nothing but roundings. Features with at most 64
    values that recur (m_j² rows or more) are summed exactly, the others are looked up in tables of at most 3 √n_c + 140 cells of
    80 bytes for each class. P's relative error is below 1e-6 where it is above 1e-13, and below 0.4 next to 1e-75. Training takes
    time in proportion to the rows, times their logarithm where values are counted; the time to predict a row does not depend on
    their number. The prediction for a row has the same bits whatever the other rows given; that for a sparse matrix and for the
    same one dense may differ by rounding.

    Classifiers of files from before version 0.9 have floor_ = 0: raw values, n_c = (Σ w)² / Σ w² and
    P' = (n_c P + 1/m_j) / (n_c + 1).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had them in `fit`.
    class_log_prior_ : ndarray of shape (n_classes,)
        Logarithms of the classes' prior probabilities.
    class_size_ : ndarray of shape (n_classes,)
        n_c.
    value_count_, precision_ : ndarray of shape (n_features_in_,)
        m_j and δ_j.
    bandwidth_, low_ : ndarray of shape (n_features_in_, n_classes)
        h_jc and the lowest value of the class.
    value_start_, value_, value_mass_, value_log_ : ndarray
        The values of features with few of them, with P's weights and log P' by class (see `hpcml.kernels.density.Density`).
    table_start_, table_ : ndarray
        The tables of the other features.
    zero_log_ : ndarray of shape (n_features_in_, n_classes)
        log P'(0 | c).
    floor_ : float
        1e-75.

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.6, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.KernelEstimator`.
    """

    floor_ = 0.0  # of files that do not say

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelNaiveBayes:
        """Estimate the densities.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array of shape (n_samples,)
            Labels.
        sample_weight : array of shape (n_samples,), optional
            Weights ≥ 0, not all 0; equal if not given.

        Returns
        -------
        KernelNaiveBayes
            Itself.

        Raises
        ------
        ValueError
            If the arguments are not as described, or a feature's range or its values' mean gap is not a normal number.
        """
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        self.class_size_, self.floor_ = totals, FLOOR
        shares = weights / totals[labels]  # of each row in its class
        self._fit_densities(_Columns(*by_column(X), labels, shares))
        return self

    def _fit_densities(self, columns: _Columns) -> None:
        """Everything but the prior; `columns.weights` sum to 1 in each class."""
        n_features, n_classes = columns.indptr.size - 1, self.classes_.size
        lows, highs = np.full((2, n_features, n_classes), [[[np.inf]], [[-np.inf]]])
        stored, masses = np.zeros((n_features, n_classes), np.int64), np.zeros((n_features, n_classes))
        kernels.sum_columns(*columns, lows, highs, stored, masses)
        n_rows = np.bincount(columns.labels, minlength=n_classes)
        has_zeros = np.asarray(stored < n_rows)  # that are not stored
        lows, highs = np.where(has_zeros, np.minimum(lows, 0), lows), np.where(has_zeros, np.maximum(highs, 0), highs)
        zero_masses = np.where(has_zeros, np.maximum(1 - masses, 0), 0)
        some_zeros = np.asarray(has_zeros.any(axis=1))
        limit = min(_FEW, math.isqrt(columns.labels.size))
        self.value_count_ = count_values(columns.indptr, columns.data, some_zeros, limit)
        with np.errstate(over="ignore"):
            self.precision_ = (highs.max(axis=1) - lows.min(axis=1)) / np.maximum(self.value_count_ - 1, 1)
        check_precisions(self.precision_, self.value_count_)
        self.precision_ = np.where(self.value_count_ > 1, np.maximum(self.precision_, LEAST_PRECISION), 0.0)
        lows, highs = (rounded(ends, self.precision_[:, None]) for ends in (lows, highs))
        ranges = np.where(n_rows > 0, highs - lows, 0.0)
        self.low_ = np.where(n_rows > 0, lows, 0.0)
        self.bandwidth_ = np.maximum(
            ranges / np.sqrt(np.where(self.class_size_ > 0, self.class_size_, 1)), self.precision_[:, None] / 6
        )
        few = (self.value_count_ > 1) & (self.value_count_ <= limit)
        many = self.value_count_ > max(limit, 1)
        self._fit_values(columns, some_zeros, zero_masses, few)
        self._fit_tables(columns, zero_masses, ranges, many)
        self.zero_log_ = np.zeros((n_features, n_classes))
        kernels.log_zeros(self._density(), self.zero_log_)

    def _fit_values(self, columns: _Columns, has_zero: np.ndarray, zero_masses: np.ndarray, few: np.ndarray) -> None:
        """The values of the features that are `few`."""
        self.value_start_ = offsets(np.where(few, self.value_count_, 0))
        self.value_ = np.empty(self.value_start_[-1])
        self.value_mass_ = np.zeros((self.value_.size, self.classes_.size))
        self.value_log_ = np.zeros_like(self.value_mass_)
        kernels.collect_values(columns.indptr, columns.data, has_zero, self.value_start_, self.value_)
        kernels.weigh_values(*columns, zero_masses, self.value_start_, self.value_, self.value_mass_)
        self.table_start_, self.table_ = np.zeros(1, np.int64), np.empty((0, kernels.ORDER))
        kernels.log_values(self._density(), self.value_log_)

    def _fit_tables(self, columns: _Columns, zero_masses: np.ndarray, ranges: np.ndarray, many: np.ndarray) -> None:
        """The tables of the features that are `many`."""
        n_classes = self.classes_.size
        sources = np.zeros(ranges.shape, np.int64)  # cells with values in them
        sources[many] = (ranges[many] * (kernels.PER_BANDWIDTH / self.bandwidth_[many])).astype(np.int64) + 1
        cells = np.zeros_like(sources)
        for j in np.flatnonzero(many).tolist():
            cells[j] = [
                n + 2 * kernels.reach(self.precision_[j] / h, _FAR) for n, h in zip(sources[j], self.bandwidth_[j], strict=True)
            ]
        self.table_start_ = offsets(cells)
        self.table_ = np.empty((self.table_start_[-1], kernels.ORDER))
        for j in np.flatnonzero(many).tolist():
            starts = offsets(sources[j])
            moments = self._moments(columns, zero_masses[j], j, starts)
            for c in range(n_classes):
                ratio = self.precision_[j] / self.bandwidth_[j, c]
                derivatives = np.empty((2 * kernels.reach(ratio, _FAR) + 1, 2 * kernels.ORDER - 1))
                kernels.tabulate_derivatives(ratio, derivatives)
                first, last = self.table_start_[j * n_classes + c : j * n_classes + c + 2]
                kernels.tabulate(moments[starts[c] : starts[c + 1]], derivatives, self.table_[first:last])

    def _moments(self, columns: _Columns, zero_masses: np.ndarray, j: int, starts: np.ndarray) -> np.ndarray:
        """The moments of the values of feature j, class after class; `starts` (n_classes + 1) are the classes' first cells."""
        begin, end = columns.indptr[j : j + 2]
        place = self.low_[j], self.bandwidth_[j], starts, np.zeros((starts[-1], kernels.ORDER))
        values = rounded(columns.data[begin:end], self.precision_[j])
        kernels.add_moments(columns.rows[begin:end], values, columns.labels, columns.weights, *place)
        classes = np.flatnonzero(zero_masses)  # what is not stored: one row of value 0 per class
        kernels.add_moments(classes, np.zeros(classes.size), np.arange(zero_masses.size), zero_masses, *place)
        return place[-1]

    def _density(self) -> kernels.Density:
        """The attributes as the kernels take them."""
        return kernels.Density(
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
            floor=self.floor_,
            far=_FAR if self.floor_ > 0 else _FAR_BEFORE,
        )

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays fit one another: of a classifier from a file the kernels must be sure of that."""
        d, k, n_values = self.n_features_in_, self.classes_.size, self.value_.size
        shapes = {
            **{"class_log_prior_": (k,), "class_size_": (k,), "value_count_": (d,), "precision_": (d,)},
            **{"bandwidth_": (d, k), "low_": (d, k), "zero_log_": (d, k)},
            **{"value_": (n_values,), "value_mass_": (n_values, k), "value_log_": (n_values, k)},
            **{"value_start_": (d + 1,), "table_start_": (d * k + 1,), "table_": (len(self.table_), kernels.ORDER)},
        }
        whole = {"value_count_", "value_start_", "table_start_"}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != (np.int64 if name in whole else np.float64):
                raise ValueError(f"{name} is damaged")
        if type(self.floor_) is not float or self.floor_ not in (0.0, FLOOR):
            raise ValueError("floor_ is damaged")
        for starts, end in ((self.value_start_, n_values), (self.table_start_, len(self.table_))):
            if starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
                raise ValueError("starts are damaged")

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the joint probabilities of X and the classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            log prior + Σ_j log P'(x_j | c).
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
        joint = np.tile(self.class_log_prior_, (X.shape[0], 1))
        if sp.issparse(X):
            X = canonical(X)
            joint += self.zero_log_.sum(axis=0)
            kernels.add_sparse(self._density(), self.zero_log_, X.indptr, X.indices, X.data, joint)
        else:
            kernels.add_dense(self._density(), X, joint)
        return joint


def canonical(X: Any) -> Any:
    """X with its columns in order and each of them once; a copy if it is not so already."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def by_column(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSC arrays (indptr, rows, data) of X; of a dense X, zeros are stored like other values."""
    if sp.issparse(X):
        X = canonical(X).tocsc()
        return X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    n_rows, n_features = X.shape
    rows = np.tile(np.arange(n_rows, dtype=np.int32 if n_rows < 2**31 else np.int64), n_features)
    return np.arange(n_features + 1) * n_rows, rows, X.ravel(order="F").astype(np.float64, copy=False)


def count_values(indptr: np.ndarray, data: np.ndarray, has_zero: np.ndarray, limit: int = _FEW) -> np.ndarray:
    """The number of distinct values of every feature; a column is only sorted if it has more than `limit`."""
    counts = np.zeros(has_zero.size, np.int64)
    kernels.count_values(indptr, data, has_zero, np.empty(limit + 1), counts)
    for j in np.flatnonzero(counts > limit):
        column = data[indptr[j] : indptr[j + 1]]
        ascending = np.sort(np.append(column, 0.0) if has_zero[j] else column)
        counts[j] = 1 + np.count_nonzero(np.diff(ascending))
    return counts


def rounded(values: np.ndarray, precision: np.ndarray | float) -> np.ndarray:
    """The nearest multiples of the precision (of even ones, where two are as near); values themselves where it is 0."""
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

"""Naive Bayes with one Gaussian per feature and class as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml.model.kernel_bayes import FLOOR, JointNaiveBayes, by_column, canonical, check_precisions, count_values, rounded

_PRECISION = 0.01  # of a feature with one value
_BLOCK = 4096  # rows that pass together


class GaussianNaiveBayes(JointNaiveBayes):
    """Naive Bayes with a Gaussian per feature and class, as Weka's `NaiveBayes` has it.

    Features are numeric; what a sparse row does not store is the value 0. Weights are scaled so that they sum to the number of
    rows. For feature j with m_j distinct values and range R_j in the training rows,

    - δ_j = R_j / (m_j − 1) is its precision, the mean gap between values; 0.01 if it has one value;
    - values, of training rows and of others, are rounded to multiples of δ_j;
    - μ_jc and s_jc are mean and standard deviation (divided by n_c, the sum of weights) of the values of class c, and
      σ_jc = max(s_jc, δ_j / 6);
    - P(v | c) = max(Φ((v − μ + δ/2) / σ) − Φ((v − μ − δ/2) / σ), 1e-75), in double precision as it stands: so it is 1e-75 from
      8.3 σ above the mean on, but only from 18 σ below;
    - the prior is (n_c + 1) / (n + K) with K classes.

    Rows of weight 0 are as if absent, and a common factor of all weights changes nothing but roundings.

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
    precision_ : ndarray of shape (n_features_in_,)
        δ_j.
    mean_, deviation_ : ndarray of shape (n_features_in_, n_classes)
        μ_jc and σ_jc; 0 and δ_j / 6 of a class without rows.

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.6, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.NormalEstimator`.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GaussianNaiveBayes:
        """Estimate the Gaussians.

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
        GaussianNaiveBayes
            Itself.

        Raises
        ------
        ValueError
            If the arguments are not as described, or a feature's range is not a finite number.
        """
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        indptr, rows, data = by_column(X)
        n_features, n_classes = indptr.size - 1, self.classes_.size
        stored = np.diff(indptr)
        low, high = np.zeros((2, n_features))
        for j in np.flatnonzero(stored).tolist():
            column = data[indptr[j] : indptr[j + 1]]
            low[j], high[j] = column.min(), column.max()
        has_zero = stored < labels.size
        low, high = np.where(has_zero, np.minimum(low, 0), low), np.where(has_zero, np.maximum(high, 0), high)
        counts = count_values(indptr, data, has_zero)
        with np.errstate(over="ignore"):
            gaps = (high - low) / np.maximum(counts - 1, 1)
        check_precisions(gaps, counts)
        self.precision_ = np.where(counts > 1, gaps, _PRECISION)
        self.mean_, self.deviation_ = np.zeros((2, n_features, n_classes))
        safe = np.where(totals > 0, totals, 1)
        for j in range(n_features):
            among = rows[indptr[j] : indptr[j + 1]]
            values = rounded(data[indptr[j] : indptr[j + 1]], self.precision_[j])
            classes, mass = labels[among], weights[among]
            mean = np.bincount(classes, mass * values, n_classes) / safe
            zeros = np.maximum(totals - np.bincount(classes, mass, n_classes), 0) if has_zero[j] else 0.0
            squares = np.bincount(classes, mass * (values - mean[classes]) ** 2, n_classes) + zeros * mean**2
            self.mean_[j], self.deviation_[j] = mean, np.sqrt(squares / safe)
        self.deviation_ = np.maximum(self.deviation_, self.precision_[:, None] / 6)
        return self

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays fit one another."""
        d, k = self.n_features_in_, self.classes_.size
        shapes = {"class_log_prior_": (k,), "precision_": (d,), "mean_": (d, k), "deviation_": (d, k)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64:
                raise ValueError(f"{name} is damaged")

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the joint probabilities of X and the classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            log prior + Σ_j log P(x_j | c).
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
        joint = np.tile(self.class_log_prior_, (X.shape[0], 1))
        if sp.issparse(X):
            X = canonical(X)
            zeros = self._logs(np.zeros(self.n_features_in_), np.arange(self.n_features_in_))
            joint += zeros.sum(axis=0)
            of_row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            np.add.at(joint, of_row, self._logs(X.data.astype(np.float64), X.indices) - zeros[X.indices])
            return joint
        for begin in range(0, X.shape[0], _BLOCK):
            block = X[begin : begin + _BLOCK].astype(np.float64)
            for j in range(self.n_features_in_):
                joint[begin : begin + _BLOCK] += self._logs(block[:, j], j)
        return joint

    def _logs(self, values: np.ndarray, features: np.ndarray | int) -> np.ndarray:
        """log P of values (n) of the features (n, or one of all), for each class (n × n_classes)."""
        precision = np.asarray(self.precision_[features])
        away = rounded(values, precision)[:, None] - self.mean_[features]
        half, deviation = np.atleast_1d(precision)[:, None] / 2, self.deviation_[features]
        logs: np.ndarray = np.log(np.maximum(ndtr((away + half) / deviation) - ndtr((away - half) / deviation), FLOOR))
        return logs

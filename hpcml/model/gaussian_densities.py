"""Naive Bayes with a Gaussian per feature and class, without scikit-learn: see `gaussian_bayes`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical
from hpcml.kernels import gaussian as kernels
from hpcml.model.joint_bayes import FLOOR, JointBayes, by_column, check_precisions, count_values

_PRECISION = 0.01  # of a feature with one value


class GaussianDensities(JointBayes):
    """The estimates of `hpcml.model.gaussian_bayes.GaussianNB`, for sound rows."""

    kind = "gaussian-nb"  # in files

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GaussianDensities:
        """Estimate the Gaussians of X (n_samples × n_features), with labels y (n_samples); itself.

        `sample_weight` (n_samples): ≥ 0, not all 0; equal if not given. Raises ValueError for other
        arguments, or if a feature's range is not a finite number.
        """
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        indptr, rows, data = by_column(X)
        n_features, n_classes = indptr.size - 1, self.classes_.size
        low, high = np.zeros((2, n_features))
        kernels.extremes(indptr, data, low, high)
        has_zero = np.diff(indptr) < labels.size
        low, high = np.where(has_zero, np.minimum(low, 0), low), np.where(has_zero, np.maximum(high, 0), high)
        counts = count_values(indptr, data, has_zero)
        with np.errstate(over="ignore"):
            gaps = (high - low) / np.maximum(counts - 1, 1)
        check_precisions(gaps, counts)
        self.precision_ = np.where(counts > 1, gaps, _PRECISION)
        self.mean_, self.deviation_ = np.zeros((2, n_features, n_classes))
        kernels.mean_and_spread(indptr, rows, data, labels, weights, totals, self.precision_, self.mean_, self.deviation_)
        self.deviation_ = np.maximum(self.deviation_, self.precision_[:, None] / 6)
        return self

    def _gaussians(self) -> kernels.Gaussians:
        return kernels.Gaussians(self.precision_, self.mean_, self.deviation_, FLOOR)

    def _zero_log(self) -> np.ndarray:
        """log P(0 | c) of every feature and class (n_features × n_classes)."""
        zeros = np.empty_like(self.mean_)
        kernels.log_zeros(self._gaussians(), zeros)
        return zeros

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays fit one another."""
        d, k = self.n_features_in_, self.classes_.size
        shapes = {"class_log_prior_": (k,), "precision_": (d,), "mean_": (d, k), "deviation_": (d, k)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64:
                raise ValueError(f"{name} is damaged")

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """log prior + Σ_j log P(x_j | c) of rows and classes (n_samples × n_classes)."""
        X = self._rows(X)
        joint = np.tile(self.class_log_prior_, (X.shape[0], 1))
        if sp.issparse(X):
            X = canonical(X)
            zeros = self._zero_log()
            joint += zeros.sum(axis=0)
            kernels.add_sparse(self._gaussians(), zeros, X.indptr, X.indices, X.data, joint)
        else:
            kernels.add_dense(self._gaussians(), X, joint)
        return joint

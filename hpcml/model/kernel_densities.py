"""Naive Bayes with kernel density estimates, without scikit-learn: see `kernel_bayes`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from hpcml.data.in_memory import canonical
from hpcml.kernels import density as kernels
from hpcml.model.joint_bayes import FEW, FLOOR, JointBayes, by_column, check_precisions, count_values, rounded
from hpcml.partition import offsets

LEAST_PRECISION = 1e-6  # of a feature, Weka's


class _Columns(NamedTuple):
    """The training data by feature, as CSC; the rows have a class and a weight."""

    indptr: np.ndarray
    rows: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class KernelDensities(JointBayes):
    """The estimates of `hpcml.model.kernel_bayes.KernelNB`, for rows that are known to be sound."""

    kind = "kernel-nb"  # in files

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Estimate the densities of X (n_samples × n_features), with labels y; itself.

        `sample_weight` (n_samples): ≥ 0, not all 0; equal if not given. Raises ValueError for other
        arguments, or if a feature's range or its values' mean gap is not a normal number.
        """
        X, labels, weights, totals = self._prepare(X, y, sample_weight)
        self.class_size_ = totals
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
        limit = min(FEW, math.isqrt(round(self.class_size_.sum())))
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
        self.value_start_ = offsets(np.where(few, self.value_count_, 0))
        self.value_ = np.empty(self.value_start_[-1])
        self.value_mass_ = np.zeros((self.value_.size, self.classes_.size))
        self.value_log_ = np.zeros_like(self.value_mass_)
        kernels.collect_values(columns.indptr, columns.data, has_zero, self.value_start_, self.value_)
        kernels.weigh_values(*columns, zero_masses, self.value_start_, self.value_, self.value_mass_)
        self.table_start_, self.table_ = np.zeros(1, np.int64), np.empty((0, kernels.ORDER))
        kernels.log_values(self._density(), self.value_log_)

    def _fit_tables(self, columns: _Columns, zero_masses: np.ndarray, ranges: np.ndarray, many: np.ndarray) -> None:
        n_classes = self.classes_.size
        sources = np.zeros(ranges.shape, np.int64)  # cells with values in them
        sources[many] = (ranges[many] * (kernels.PER_BANDWIDTH / self.bandwidth_[many])).astype(np.int64) + 1
        cells = np.zeros_like(sources)
        for j in np.flatnonzero(many).tolist():
            cells[j] = [n + 2 * kernels.reach(self.precision_[j] / h) for n, h in zip(sources[j], self.bandwidth_[j], strict=True)]
        self.table_start_ = offsets(cells)
        self.table_ = np.empty((self.table_start_[-1], kernels.ORDER))
        for j in np.flatnonzero(many).tolist():
            starts = offsets(sources[j])
            moments = self._moments(columns, zero_masses[j], j, starts)
            for c in range(n_classes):
                ratio = self.precision_[j] / self.bandwidth_[j, c]
                derivatives = np.empty((2 * kernels.reach(ratio) + 1, 2 * kernels.ORDER - 1))
                kernels.tabulate_derivatives(ratio, derivatives)
                first, last = self.table_start_[j * n_classes + c : j * n_classes + c + 2]
                kernels.tabulate(moments[starts[c] : starts[c + 1]], derivatives, self.table_[first:last])

    def _moments(self, columns: _Columns, zero_masses: np.ndarray, j: int, starts: np.ndarray) -> np.ndarray:
        """The moments of feature j, class after class, whose first cells are `starts`."""
        begin, end = columns.indptr[j : j + 2]
        place = self.low_[j], self.bandwidth_[j], starts, np.zeros((starts[-1], kernels.ORDER))
        values = rounded(columns.data[begin:end], self.precision_[j])
        kernels.add_moments(columns.rows[begin:end], values, columns.labels, columns.weights, *place)
        classes = np.flatnonzero(zero_masses)  # what is not stored: one row of value 0 per class
        kernels.add_moments(classes, np.zeros(classes.size), np.arange(zero_masses.size), zero_masses, *place)
        return place[-1]

    def _density(self) -> kernels.Density:
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
            floor=FLOOR,
        )

    def _shifts(self) -> np.ndarray:
        """How many cells a table begins before the lowest value (n_features × n_classes)."""
        ratios = self.precision_[:, None] / np.where(self.bandwidth_ > 0, self.bandwidth_, 1.0)
        return np.array([[float(kernels.reach(ratio)) for ratio in of] for of in ratios.tolist()]).reshape(ratios.shape)

    def check_arrays(self) -> None:
        """Raise ValueError unless the arrays fit: kernels must be sure of a file's."""
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
        for starts, end in ((self.value_start_, n_values), (self.table_start_, len(self.table_))):
            if starts[0] != 0 or starts[-1] != end or (starts[1:] < starts[:-1]).any():
                raise ValueError("starts are damaged")

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """log prior + Σ_j log P'(x_j | c) of rows and classes (n_samples × n_classes)."""
        X = self._rows(X)
        joint = np.tile(self.class_log_prior_, (X.shape[0], 1))
        if sp.issparse(X):
            X = canonical(X)
            joint += self.zero_log_.sum(axis=0)
            kernels.add_sparse(self._density(), self.zero_log_, X.indptr, X.indices, X.data, joint)
        else:
            kernels.add_dense(self._density(), X, joint)
        return joint

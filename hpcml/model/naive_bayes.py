"""Naive Bayes with densities of features as scikit-learn classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hpcml.data.in_memory import sound_csr, sound_labels
from hpcml.model.densities import GaussianDensities, JointBayes, KernelDensities


class JointNaiveBayes(ClassifierMixin, BaseEstimator, JointBayes):
    """The part of the classifiers that checks rows and classes of a user."""

    def _training_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        X, y = validate_data(self, sound_csr(X, "X"), sound_labels(y), accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        return X, y, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the rows of X whose class is that of y (n_samples). Raises ValueError."""
        return float(super().score(X, sound_labels(y), sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelNB(JointNaiveBayes, KernelDensities):
    """Naive Bayes with Gaussian kernel densities per feature and class, as Weka 3.9's `-K`.

    Features are numeric; what a sparse row does not store is the value 0. A row of weight 2 is as good as two rows, one of weight 0
    as if absent; weights that sum to less than the number of rows, as those of boosting, are scaled to sum to it. For feature j
    with m_j distinct values and range R_j in the training rows,

    - δ_j = max(R_j / (m_j − 1), 1e-6) is its precision, the mean gap between values; a feature with
      one value is ignored;
    - values, those of the training rows (x_i) and the one that is judged (v), are rounded to
      multiples of δ_j;
    - h_jc = max(range_jc / √n_c, δ_j / 6) is the bandwidth, n_c the sum of the weights of class c,
      range_jc that of its values;
    - P(v | c) = Σ w_i [Φ((v + δ/2 − x_i) / h) − Φ((v − δ/2 − x_i) / h)] / n_c over the rows i of
      class c: the mass in the cell of width δ around v, almost the frequency of v where values are
      few, the density times δ where they are many;
    - P'(v | c) = max(P(v | c) / δ, 1e-75), a density;
    - the prior is (n_c + 1) / (n + K) with K classes.

    Weka stops adding when what is missing is below 1 % of a sum; here all is added. Far below all values of a class, by 8.3 h or
    more, Weka's P is 0, for it is a difference of numbers near 1; here it falls on, as it does above them in both.

    Features with at most 64 values that recur (m_j² rows or more) are summed exactly, the others are looked up in tables of at most
    3 √n_c + 140 cells of 80 bytes for each class. P's relative error is below 1e-6 where it is above 1e-13, and below 0.4 next to
    1e-75. Training takes time in proportion to the rows, times their logarithm where values are counted; the time to predict a row
    does not depend on their number. The prediction for a row has the same bits with any other rows; that for a sparse matrix and
    for the same one dense may differ by rounding.

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

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.9, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.KernelEstimator`.
    """


class GaussianNB(JointNaiveBayes, GaussianDensities):
    """Naive Bayes with a Gaussian per feature and class, as Weka's `NaiveBayes` has it.

    Features are numeric; rows that are sparse, or have weights, count as in `KernelNB`. For feature
    j with m_j distinct values and range R_j in the training rows,

    - δ_j = R_j / (m_j − 1) is its precision, the mean gap between values; 0.01 if it has one value;
    - values, of training rows and of others, are rounded to multiples of δ_j;
    - μ_jc and s_jc are mean and standard deviation of the values of class c (divided by n_c, the
      sum of weights), and σ_jc = max(s_jc, δ_j / 6);
    - P(v | c) = max(Φ((v − μ + δ/2) / σ) − Φ((v − μ − δ/2) / σ), 1e-75), in double precision as it
      stands: so it is 1e-75 from 8.3 σ above the mean on, but only from 18 σ below;
    - the prior is (n_c + 1) / (n + K) with K classes.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_, class_log_prior_
        As in `KernelNB`.
    precision_ : ndarray of shape (n_features_in_,)
        δ_j.
    mean_, deviation_ : ndarray of shape (n_features_in_, n_classes)
        μ_jc and σ_jc; 0 and δ_j / 6 of a class without rows.

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.6, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.NormalEstimator`.
    """

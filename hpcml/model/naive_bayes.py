"""scikit-learn classifiers for naive Bayes with feature densities."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hpcml.data.in_memory import check_csr, check_label_sets
from hpcml.model.densities import GaussianDensities, JointBayes, KernelDensities


class JointNaiveBayes(ClassifierMixin, BaseEstimator, JointBayes):
    """Base class that checks rows and classes."""

    def _training_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        X, y = validate_data(self, check_csr(X, "X"), check_label_sets(y), accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        return X, y, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            Rows.
        y : array (n_samples,)
            Classes.
        sample_weight : array (n_samples,) or None
            Weights of the rows. Default: equal weights.

        Returns
        -------
        float
            Share of rows whose class is predicted.
        """
        return float(super().score(X, check_label_sets(y), sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelNB(JointNaiveBayes, KernelDensities):
    """Naive Bayes with Gaussian kernel densities per feature and class, as `NaiveBayes -K` of Weka 3.9.

    Features are numeric; values that a sparse row does not store are 0. A weight of 2 counts a row twice, and a weight of 0 ignores
    it. Weights whose sum is below the number of rows (as in boosting) are scaled to it. For feature j with m_j distinct values and
    range R_j in the training rows:

    - The precision δ_j = max(R_j / (m_j − 1), 1e-6) is the mean gap between values. A feature with one value is ignored.
    - Values of training rows (x_i) and of rows to classify (v) are rounded to multiples of δ_j.
    - The bandwidth is h_jc = max(range_jc / √n_c, δ_j / 6) with the total weight n_c of class c and its range of values range_jc.
    - P(v | c) = Σ w_i [Φ((v + δ/2 − x_i) / h) − Φ((v − δ/2 − x_i) / h)] / n_c over the rows i of class c is the mass in the cell of
      width δ around v: about the frequency of v for few distinct values, and the density times δ for many.
    - P'(v | c) = max(P(v | c) / δ, 1e-75) is the density.
    - The prior is (n_c + 1) / (n + K) with K classes.

    Differences from Weka: Weka stops adding when the remainder is below 1 % of a sum; here all terms are added. At 8.3 h or more
    below all values of a class, Weka's P is 0, because it is a difference of numbers near 1; here it decreases as it does above
    them.

    Features with at most 64 recurring values (m_j² rows or more) are summed exactly. The others use tables of at most 3 √n_c + 140
    cells of 80 bytes per class. The relative error of P is below 1e-6 for P > 1e-13, and below 0.4 near 1e-75. Training takes time
    proportional to the number of rows, times its logarithm for features whose values are counted. The time to classify a row does
    not depend on it. The prediction of a row does not depend on the other rows, bit for bit; predictions for sparse and dense rows
    may differ by rounding.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X in `fit` had names.
    class_log_prior_ : ndarray of shape (n_classes,)
        Logarithms of the prior probabilities.
    class_size_ : ndarray of shape (n_classes,)
        n_c.
    value_count_, precision_ : ndarray of shape (n_features_in_,)
        m_j and δ_j.
    bandwidth_, low_ : ndarray of shape (n_features_in_, n_classes)
        h_jc and the smallest value of the class.
    value_start_, value_, value_mass_, value_log_ : ndarray
        Values of features with few distinct values, with their masses and log P' per class (`hpcml.kernels.density.Density`).
    table_start_, table_ : ndarray
        Tables of the other features.
    zero_log_ : ndarray of shape (n_features_in_, n_classes)
        log P'(0 | c).

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.9, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.KernelEstimator`.

    Examples
    --------
    >>> hpcml.KernelNB().fit([[0.0], [0.1], [1.0], [1.1]], [0, 0, 1, 1]).predict([[0.2]])
    array([0])
    """


class GaussianNB(JointNaiveBayes, GaussianDensities):
    """Naive Bayes with a Gaussian per feature and class, as `NaiveBayes` of Weka.

    Features are numeric; sparse rows and weights are treated as by `KernelNB`. For feature j with m_j distinct values and range R_j
    in the training rows:

    - The precision δ_j = R_j / (m_j − 1) is the mean gap between values, and 0.01 for a feature with one value.
    - All values are rounded to multiples of δ_j.
    - μ_jc and s_jc are mean and standard deviation of the values of class c (with divisor n_c, the total weight of the class), and
      σ_jc = max(s_jc, δ_j / 6).
    - P(v | c) = max(Φ((v − μ + δ/2) / σ) − Φ((v − μ − δ/2) / σ), 1e-75), in double precision in this form. It therefore is 1e-75
      from 8.3 σ above the mean, but only from 18 σ below.
    - The prior is (n_c + 1) / (n + K) with K classes.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_, class_log_prior_
        As in `KernelNB`.
    precision_ : ndarray of shape (n_features_in_,)
        δ_j.
    mean_, deviation_ : ndarray of shape (n_features_in_, n_classes)
        μ_jc and σ_jc; 0 and δ_j / 6 for a class without rows.

    References
    ----------
    John and Langley, "Estimating continuous distributions in Bayesian classifiers", UAI 1995.
    Weka 3.6, `weka.classifiers.bayes.NaiveBayes` and `weka.estimators.NormalEstimator`.
    """

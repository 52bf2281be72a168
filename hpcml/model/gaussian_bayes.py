"""Naive Bayes with one Gaussian per feature and class as a scikit-learn classifier."""

from hpcml.model.gaussian_densities import GaussianDensities
from hpcml.model.kernel_bayes import JointNaiveBayes


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

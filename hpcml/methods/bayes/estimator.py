"""Naive Bayes, boosted and in stages, as scikit-learn classifiers that train on arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.in_memory import canonical, check_csr
from hpcml.estimators.parameters import OPTION, classifier_of
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.bayes.solvers import BERNOULLI_NB, BOOSTED_BAYES, STAGED_BAYES, STAGED_SVM, BayesRisk
from hpcml.methods.linear.estimator import LearntLabels, LinearClassifier
from hpcml.methods.linear.objective import Risk


class BayesClassifier(LinearClassifier):
    """Base of the naive Bayes classifiers. Features are binary: a non-zero value is present."""

    _learnt = ("classes_", "coef_", "intercept_", "n_iter_", "n_features_in_", "feature_names_in_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on dense rows, where every feature is present
        return tags

    def _take(self, risk: Risk, learnt: LearntLabels) -> None:
        super()._take(risk, learnt)
        assert isinstance(risk, BayesRisk)
        rows = risk.rows
        self._combination, self.part_coef_ = risk.combination, learnt.coef
        self._numbers = [learnt.numbers.get(label, np.zeros(0)) for label in range(rows.n_labels)]
        self._constant = (rows.n_positive == 0) | (rows.n_positive == rows.n_global)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        present = canonical(sp.csr_matrix(X)).astype(np.bool_).astype(np.float64)
        parts = np.stack([present @ coef.T for coef in self.part_coef_])
        combination = self._combination
        if combination is None:
            return parts[0] + self.intercept_
        rules = zip(self.intercept_.tolist(), self._constant.tolist(), self._numbers, strict=True)
        return np.stack([combination.rule(*numbers)(parts[:, :, label]) for label, numbers in enumerate(rules)], axis=1)


@classifier_of(BernoulliNBOptions)
class BernoulliNBClassifier(BayesClassifier):
    """Naive Bayes with binary features, trained for every label from counts.

    The weight of feature j is log[p_j (1 − q_j) / (q_j (1 − p_j))], where p_j and q_j are the smoothed shares of the rows with and
    without the label that have the feature. Features that no row with the label has get no weight. The score of a row is the
    log-odds of the label given the features with a weight.

    Every rank of `comm` gets a copy of all rows, and the labels are distributed over the ranks.

    Attributes
    ----------
    intercept_ : ndarray (n_labels,), float64
        The score of a row without any feature with a weight; +1 for a label that all rows have, −1 for a label without rows.
    part_coef_ : ndarray (1, n_labels, n_features), float64
        The same weights as `coef_`, as a single part.

    References
    ----------
    Wilbur 2000, Boosting naive Bayesian learning on a large subset of MEDLINE.

    Examples
    --------
    >>> X = [[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0]]
    >>> hpcml.BernoulliNBClassifier(min_weight=0).fit(X, ["sea", "sea", "farm", "farm"]).predict([[1, 0, 0]]).tolist()
    ['sea']
    """

    _method = BERNOULLI_NB

    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None


@classifier_of(BoostedBayesOptions)
class BoostedBayesClassifier(BayesClassifier):
    """AdaBoost with naive Bayes classifiers, whose scores are calibrated by isotonic regression.

    The score of a row is its share of the weighted votes minus ½.

    Attributes
    ----------
    part_coef_ : ndarray (rounds, n_labels, n_features), float64
        The weights of each round; `coef_` has those of the first round.

    References
    ----------
    Wilbur 2000; Freund & Schapire 1995 (AdaBoost); Ayer et al. 1955 (pool adjacent violators).

    Examples
    --------
    >>> X = [[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0]]
    >>> hpcml.BoostedBayesClassifier(min_weight=0).fit(X, ["sea", "sea", "farm", "farm"]).predict([[1, 0, 0]]).tolist()
    ['sea']
    """

    _method = BOOSTED_BAYES

    rounds: int = OPTION
    trim: float = OPTION
    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None


@classifier_of(StagedBayesOptions)
class StagedBayesClassifier(BayesClassifier):
    """Naive Bayes in stages, each trained on the rows with the label and the hard rows without it.

    Rows with a first score above `cut` rank above all others, by the first score plus `factor` times the later scores.

    Attributes
    ----------
    part_coef_ : ndarray (stages, n_labels, n_features), float64
        The weights of each stage; `coef_` has those of the first stage.

    References
    ----------
    Wilbur 2000, Boosting naive Bayesian learning on a large subset of MEDLINE.

    Examples
    --------
    >>> X = [[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0]]
    >>> hpcml.StagedBayesClassifier(min_weight=0).fit(X, ["sea", "sea", "farm", "farm"]).predict([[1, 0, 0]]).tolist()
    ['sea']
    """

    _method = STAGED_BAYES

    stages: int = OPTION
    cut: float = OPTION
    factor: float = OPTION
    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None


@classifier_of(StagedSvmOptions)
class StagedSvmClassifier(BayesClassifier):
    """Naive Bayes, then a linear SVM on the rows with the label and the hard rows without it.

    Rows with a naive Bayes score above `cut` rank above all others, by that score plus `factor` times the SVM score.

    Attributes
    ----------
    part_coef_ : ndarray (2, n_labels, n_features), float64
        The weights of naive Bayes and of the SVM; `coef_` has those of naive Bayes.

    References
    ----------
    Wilbur 2000; Platt 1999 (sequential minimal optimisation).

    Examples
    --------
    >>> X = [[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0]]
    >>> hpcml.StagedSvmClassifier(min_weight=0).fit(X, ["sea", "sea", "farm", "farm"]).predict([[1, 0, 0]]).tolist()
    ['sea']
    """

    _method = STAGED_SVM

    cut: float = OPTION
    factor: float = OPTION
    svm_c: float = OPTION
    svm_tol: float = OPTION
    chi_square: float = OPTION
    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None

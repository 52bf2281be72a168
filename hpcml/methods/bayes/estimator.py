"""Naive Bayes, boosted and in stages, as scikit-learn classifiers: training on arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.in_memory import canonical, sound_csr
from hpcml.estimators.parameters import OPTION, classifier_of
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.bayes.solvers import BERNOULLI_NB, BOOSTED_BAYES, STAGED_BAYES, STAGED_SVM, BayesRisk
from hpcml.methods.linear.estimator import LearntLabels, LinearClassifier
from hpcml.methods.linear.objective import Risk


class BayesClassifier(LinearClassifier):
    """The base of naive Bayes and its relatives; a feature is present where it is not 0."""

    _learnt = ("classes_", "coef_", "intercept_", "n_iter_", "n_features_in_", "feature_names_in_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of rows where every feature is present, as of any Bernoulli model
        return tags

    def _take(self, risk: Risk, learnt: LearntLabels) -> None:
        """Set what was learnt. Local."""
        super()._take(risk, learnt)
        assert isinstance(risk, BayesRisk)
        rows, nothing = risk.rows, np.zeros(0)
        self._combination, self.part_coef_ = risk.combination, learnt.coef
        self._numbers = [learnt.numbers.get(label, nothing) for label in range(rows.n_labels)]
        self._constant = (rows.n_positive == 0) | (rows.n_positive == rows.n_global)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores (n, n_labels) of rows by which of their features are present."""
        check_is_fitted(self)
        X = validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if sp.issparse(X):  # whose `!=` sorts it in place
            X = canonical(X)
            present = sp.csr_matrix(((X.data != 0).astype(np.float64), X.indices, X.indptr), X.shape)
        else:
            present = sp.csr_matrix(X != 0, dtype=np.float64)
        parts = np.stack([present @ coef.T for coef in self.part_coef_])
        combination = self._combination
        if combination is None:
            return parts[0] + self.intercept_
        facts = zip(self.intercept_.tolist(), self._constant.tolist(), self._numbers, strict=True)
        return np.stack([combination.rule(*of)(parts[:, :, label]) for label, of in enumerate(facts)], axis=1)


@classifier_of(BernoulliNBOptions)
class BernoulliNBClassifier(BayesClassifier):
    """Naive Bayes of features that are present or not, for every label from counts.

    A weight is the log of the ratio of two odds: of the feature being present in rows with the label, and in the others. Features
    that no row with the label has get no weight. The score of a row is the log-odds of the label, by the features with a weight.

    Every rank of `comm` gets a copy of all rows, and the labels are divided among the ranks.

    Attributes
    ----------
    intercept_ : ndarray (n_labels,), float64
        The score of a row without any of these features; +1 or −1 for a label that all rows have, or none.
    part_coef_ : ndarray (1, n_labels, n_features), float64
        The weights once more.

    References
    ----------
    Wilbur 2000, Boosting naive Bayesian learning on a large subset of MEDLINE.
    """

    _method = BERNOULLI_NB

    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None


@classifier_of(BoostedBayesOptions)
class BoostedBayesClassifier(BayesClassifier):
    """AdaBoost with naive Bayes, whose scores are made probabilities by isotonic regression.

    The score of a row is its share of the votes, less one half.

    Attributes
    ----------
    part_coef_ : ndarray (rounds, n_labels, n_features), float64
        The weights of each round; `coef_` has those of the first.

    References
    ----------
    Wilbur 2000; Freund & Schapire 1995 (AdaBoost); Ayer et al. 1955 (pool adjacent violators).
    """

    _method = BOOSTED_BAYES

    rounds: int = OPTION
    trim: float = OPTION
    smoothing: float = OPTION
    min_weight: float = OPTION
    comm: mpi.Comm | None = None


@classifier_of(StagedBayesOptions)
class StagedBayesClassifier(BayesClassifier):
    """Naive Bayes, trained again on the rows with the label and the others that look like them.

    Rows that a stage scores above the cut are ranked above all others, by the first score plus `factor` times the later ones.

    Attributes
    ----------
    part_coef_ : ndarray (stages, n_labels, n_features), float64
        The weights of each stage; `coef_` has those of the first.

    References
    ----------
    Wilbur 2000, Boosting naive Bayesian learning on a large subset of MEDLINE.
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
    """Naive Bayes, then a linear SVM on the rows with the label and others that look like them.

    Rows that naive Bayes scores above the cut are ranked above all others, by its score plus `factor` times that of the machine.

    Attributes
    ----------
    part_coef_ : ndarray (2, n_labels, n_features), float64
        The weights of naive Bayes and of the machine; `coef_` has the former.

    References
    ----------
    Wilbur 2000; Platt 1999 (sequential minimal optimisation).
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

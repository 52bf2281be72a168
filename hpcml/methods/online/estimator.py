"""The single-pass learners as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_consistent_length, check_is_fitted, check_non_negative, validate_data

from hpcml import mpi
from hpcml.data.in_memory import canonical, check_csr, check_label_sets
from hpcml.errors import HpcmlError
from hpcml.estimators.labels import CLASSES, NAMES, LabelScores, LabelSets, agree_labels, check_target, named_sets, shard_of
from hpcml.estimators.parameters import OPTION, Seed, classifier_of, error_text, option_values
from hpcml.estimators.saving import ModelTarget, write_linear
from hpcml.estimators.sklearn_types import BaseEstimator
from hpcml.methods.online.kernels import UPDATES
from hpcml.methods.online.options import LEARNERS, OPTIONS, MbwOptions, OnlineOptions, PaOptions
from hpcml.methods.online.order import AVERAGE, AVERAGES, RowOrder, bound_warning
from hpcml.methods.online.saved import label_columns, option_attributes
from hpcml.methods.online.state import LearnerState


@classifier_of(MbwOptions, PaOptions)
class OnlineClassifier(LabelScores, BaseEstimator):
    """Linear classifiers trained in a single pass, in row order: the Winnow family, perceptron, passive-aggressive, ROMMA.

    With two classes there is one learner; otherwise one learner for each class (or column of a multilabel indicator) against all
    others. Rows are converted to float32, as in `hpcml train mbw` and the other commands, which give the same bits. `partial_fit`
    continues the pass: several calls give the result of one call with all rows.

    Attributes
    ----------
    coef_ : ndarray (n_labels, n_features), float64
        The weights; `n_labels` is 1 for one or two classes, and positive scores mean the last one. For a Winnow these are u − v (or
        w) minus the threshold for features with a row, so that `x · coef_ + intercept_` has the sign of the score.
    intercept_ : ndarray (n_labels,), float64
        The weight of the constant feature.
    n_updates_ : ndarray (n_labels,), int
        Number of rows that changed the model.
    n_rows_ : int
        Number of rows so far.

    References
    ----------
    Carvalho & Cohen 2006; Littlestone 1988 (Winnow); Crammer et al. 2003 (PA); Li & Long 2002 (ROMMA).

    Examples
    --------
    >>> X, y = [[1, 0], [0, 1], [1, 1], [0, 2]], ["sea", "farm", "sea", "farm"]
    >>> hpcml.OnlineClassifier("pa").fit(X, y).predict([[3, 0]]).tolist()
    ['sea']
    """

    _learnt = ("classes_", "n_features_in_", "feature_names_in_")

    method: str = "mbw"
    """Learner: pw, bw or mbw (Positive, Balanced or Modified Balanced Winnow; values must not be negative), perceptron, pa
    (Passive-Aggressive) or romma. Each learner uses some of the other parameters; see `hpcml train METHOD --help`."""
    voted: bool = OPTION
    alpha: float = OPTION
    beta: float = OPTION
    theta: float = OPTION
    margin: float = OPTION
    epsilon: float = OPTION
    gamma: float = OPTION
    fit_intercept: bool = OPTION
    """Fit an intercept as the weight of a constant feature 1. Only perceptron, pa and romma allow False."""
    shuffle: bool = OPTION
    random_state: Seed = OPTION

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.method in LEARNERS and LEARNERS[self.method].winnow
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = self.method not in ("perceptron", "pa")  # after one pass over few dense rows
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows, starting anew.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
            The rows; values are converted to float32. Winnow learners need non-negative values.
        y : array-like (n,), list of lists of label names, or multilabel indicator (n, n_labels), dense or sparse
            The class of each row, or its labels.

        Returns
        -------
        OnlineClassifier
            The classifier itself.

        Raises
        ------
        ValueError, TypeError
            For invalid rows, labels or parameters.

        Examples
        --------
        >>> hpcml.OnlineClassifier("perceptron").fit([[1, 0], [0, 1]], [0, 1]).n_rows_
        2
        """
        options = self._options()
        X = self._rows(X, reset=True)
        labels = self._labels(X, y, None)
        self._kind, self.classes_ = labels.kind, labels.classes
        self._begin(options, labels, X.shape[1])
        order = check_random_state(self.random_state).permutation(X.shape[0]) if self.shuffle else np.arange(X.shape[0])
        return self._learn(X, labels, order)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Continue the pass with more rows.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
            The rows, as for `fit`; `shuffle` has no effect.
        y : array-like (n,), list of lists of label names, or multilabel indicator (n, n_labels), dense or sparse
            The class of each row, or its labels.
        classes : array-like (n_classes,), optional
            All classes, or names of labels, of this and later calls. Required in the first call, except with a multilabel
            indicator.

        Returns
        -------
        OnlineClassifier
            The classifier itself.

        Raises
        ------
        ValueError, TypeError
            For invalid rows, labels or parameters, or if they differ from those of the first call.

        Examples
        --------
        >>> model = hpcml.OnlineClassifier("perceptron").partial_fit([[1, 0]], [0], classes=[0, 1])
        >>> model.partial_fit([[0, 1]], [1]).n_rows_
        2
        """
        options, first, classes = self._options(), not hasattr(self, "_state"), check_label_sets(classes, "classes")
        if not first and (self._state.options, self._state.method.code) != (options, LEARNERS[self.method].code):
            raise ValueError("parameters differ from those of the first call to partial_fit; use fit to start anew")
        X = self._rows(X, reset=first)
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} differ from those of the first call to partial_fit: {self.classes_!r}")
        labels = self._labels(X, y, np.unique(classes) if first and classes is not None else getattr(self, "classes_", None))
        if first:
            if labels.kind in (CLASSES, NAMES) and classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self._kind, self.classes_ = labels.kind, labels.classes
            self._begin(options, labels, X.shape[1])
        elif (
            any((labels.kind == kind) != (self._kind == kind) for kind in (CLASSES, NAMES))
            or labels.n_labels != self._state.n_lanes
        ):
            raise ValueError("y has a different number of columns than in the first call to partial_fit")
        return self._learn(X, labels, np.arange(X.shape[0]))

    def _options(self) -> OnlineOptions:
        if self.method not in LEARNERS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(LEARNERS)}")
        kind = OPTIONS[self.method]
        known = {option.name for option in fields(kind)} - {"shuffle"}  # a parameter of `fit` only
        if "bias" not in known and not self.fit_intercept:
            raise ValueError(f"fit_intercept={self.fit_intercept!r}: method={self.method!r} always has an intercept; expected True")
        try:
            options: OnlineOptions = kind(**{name: value for name, value in option_values(self).items() if name in known})
            options.validate()
        except HpcmlError as error:
            raise ValueError(error_text(error)) from None
        return options

    def _rows(self, X: Any, reset: bool) -> sp.csr_matrix:
        """Return X as CSR float32 without stored zeros."""
        X = sp.csr_matrix(validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=np.float32, reset=reset))
        X = canonical(X)
        if LEARNERS[self.method].winnow:
            check_non_negative(X, f"{type(self).__name__}(method={self.method!r})")
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        return X

    def _labels(self, X: sp.csr_matrix, y: Any, classes: np.ndarray | None) -> LabelSets:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        kind, y = check_target(y)
        check_consistent_length(X, y)
        if kind in (CLASSES, NAMES) and classes is not None:
            unknown = np.setdiff1d(y if kind == CLASSES else [name for row in y for name in row], classes)
            if unknown.size:
                raise ValueError(f"y has the class {unknown.tolist()[0]!r}, which is not among classes={classes!r}")
            if kind == NAMES:
                return named_sets(y, classes)
            labels = agree_labels(mpi.self_comm(), kind, np.concatenate([classes, y]), classes.size + X.shape[0])
            indptr = labels.indptr[classes.size :]
            return labels._replace(indptr=indptr - indptr[0], indices=labels.indices[indptr[0] :])
        try:
            return agree_labels(mpi.self_comm(), kind, y, X.shape[0])
        except HpcmlError as error:
            raise ValueError(str(error)) from None

    def _begin(self, options: OnlineOptions, labels: LabelSets, n_features: int) -> None:
        self._state = LearnerState(options, self.method, labels.n_labels, n_features)
        self._order, self._warned = RowOrder(self._state.lane_of, labels.n_labels), set[str]()

    def _learn(self, X: sp.csr_matrix, labels: LabelSets, order: np.ndarray) -> Self:
        """Learn from the rows in this order; warn once about the row order and about weights at the lower bound."""
        shard = shard_of(X, labels, 0, X.shape[0])
        self._state.learn(shard, order)
        self._order.add(shard, order)
        comm, names = mpi.self_comm(), [str(name) for name in self.classes_[-labels.n_labels :]]
        voted, again = self._state.options.voted, f"{AVERAGE}; with corrected labels, call fit again"
        for advice, problem in (
            ("shuffle the rows, or use fit with shuffle=True", self._order.block_warning(comm, names)),
            (again if voted else f"voted=True {AVERAGES}", bound_warning(comm, names, self._state)),
        ):
            if problem and advice not in self._warned:
                self._warned.add(advice)
                warnings.warn(f"{problem}; {advice}", UserWarning, stacklevel=3)
        self.coef_, self.intercept_ = self._state.linear()
        self.n_updates_, self.n_rows_ = self._state.counters[UPDATES].copy(), self._state.n_rows
        return self

    def _write_model(self, target: ModelTarget) -> None:
        """Write the model without the state of the pass. Raises DataError."""
        state, winnow = self._state, self._state.method.winnow
        about = {"n_rows": self.n_rows_, "normalised": winnow, **option_attributes(state.options)}
        factors = state.seen[: self.coef_.shape[1]] if winnow else 1.0  # only features with a row count in the divisor
        write_linear(target, [self.coef_], self.intercept_, label_columns(state), about, factors=factors)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        if self._state.method.winnow:
            if not sp.issparse(X) or (X.nnz and X.data.min() < 0):  # duplicate entries of X may add up to a non-negative value
                check_non_negative(canonical(X) if sp.issparse(X) else X, type(self).__name__)
            seen = self._state.seen[: X.shape[1], None].astype(np.float64)
            scores /= 1.0 + safe_sparse_dot(X, seen, dense_output=True)
        return scores

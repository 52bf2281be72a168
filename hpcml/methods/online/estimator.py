"""The single-pass learners as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_consistent_length, check_is_fitted, check_non_negative, validate_data

from hpcml import mpi
from hpcml.data.in_memory import canonical, sound_csr, sound_labels
from hpcml.errors import HpcmlError
from hpcml.estimators.labels import CLASSES, NAMES, LabelScores, LabelSets, agree_labels, check_target, named_sets, shard_of
from hpcml.estimators.parameters import OPTION, Seed, classifier_of, error_text, option_values
from hpcml.estimators.saving import ModelTarget, write_linear
from hpcml.estimators.sklearn_types import BaseEstimator
from hpcml.methods.online.kernels import POSITIVES, UPDATES
from hpcml.methods.online.options import (
    LEARNERS,
    AdditiveOptions,
    BalancedOptions,
    MbwOptions,
    OnlineOptions,
    PaOptions,
    WinnowOptions,
)
from hpcml.methods.online.order import AVERAGE, AVERAGES, RowOrder, weights_at_bound
from hpcml.methods.online.saved import learning
from hpcml.methods.online.state import LearnerState
from hpcml.model.linear import STATUS

_OPTIONS: dict[str, type[OnlineOptions]] = {
    **{"pw": WinnowOptions, "bw": BalancedOptions, "mbw": MbwOptions},
    **{"perceptron": AdditiveOptions, "pa": PaOptions, "romma": AdditiveOptions},
}


@classifier_of(MbwOptions, PaOptions)
class OnlineClassifier(LabelScores, BaseEstimator):
    """Linear classifiers that learn from each row once, in the order of the rows: Winnow family, perceptron, PA, ROMMA.

    One learner for two classes, or one for each class (or column of a multilabel indicator) against all others. Rows are taken as
    float32, as by `hpcml train mbw` and the others, which give the same bits. `partial_fit` goes on with the pass: several calls
    learn what one call with all rows learns.

    Attributes
    ----------
    coef_ : ndarray (n_labels, n_features), float64
        The weights; `n_labels` is 1 for one or two classes, and positive scores mean the last one. Of a Winnow these are u − v (or
        w) minus the threshold for features with a row, so that `x · coef_ + intercept_` has the sign of the score.
    intercept_ : ndarray (n_labels,), float64
        The weight of the constant feature.
    n_updates_ : ndarray (n_labels,), int
        Rows that changed the model.
    n_rows_ : int
        Rows learnt from.

    References
    ----------
    Carvalho & Cohen 2006; Littlestone 1988 (Winnow); Crammer et al. 2003 (PA); Li & Long 2002 (ROMMA).
    """

    _learnt = ("classes_", "n_features_in_", "feature_names_in_")

    method: str = "mbw"
    """Positive, Balanced, Modified Balanced Winnow (pw, bw, mbw: rows must not have negative values); perceptron;
    Passive-Aggressive (pa); romma. The other parameters are those of some of them: see `hpcml train METHOD --help`."""
    voted: bool = OPTION
    alpha: float = OPTION
    beta: float = OPTION
    theta: float = OPTION
    margin: float = OPTION
    epsilon: float = OPTION
    gamma: float = OPTION
    fit_intercept: bool = OPTION
    """The rows have a constant feature 1. Only perceptron, pa and romma can do without; the others raise ValueError for False."""
    shuffle: bool = OPTION
    random_state: Seed = OPTION

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.method in LEARNERS and LEARNERS[self.method].winnow
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = self.method not in ("perceptron", "pa")  # after a single pass over few dense rows
        return tags

    def fit(self, X: Any, y: Any) -> OnlineClassifier:
        """Learn anew from the rows X (n, n_features), dense or sparse, and their labels y.

        y (n,) holds classes, or lists (or sets) of names of labels; (n, n_labels), dense or sparse,
        zeros and ones. Raises ValueError, TypeError.
        """
        options = self._options()
        X = self._rows(X, reset=True)
        labels = self._labels(X, y, None)
        self._kind, self.classes_ = labels.kind, labels.classes
        self._begin(options, labels, X.shape[1])
        order = check_random_state(self.random_state).permutation(X.shape[0]) if self.shuffle else np.arange(X.shape[0])
        return self._learn(X, labels, order)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> OnlineClassifier:
        """Go on with the pass. The first call needs all `classes` that will ever come (none for a
        multilabel indicator). Raises ValueError, TypeError.
        """
        options, first, classes = self._options(), not hasattr(self, "_state"), sound_labels(classes, "classes")
        if not first and (self._state.options, self._state.method.code) != (options, LEARNERS[self.method].code):
            raise ValueError("the parameters are not those of the first call to partial_fit; use fit to begin anew")
        X = self._rows(X, reset=first)
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call to partial_fit: {self.classes_!r}")
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
            raise ValueError("y has another number of columns than in the first call to partial_fit")
        return self._learn(X, labels, np.arange(X.shape[0]))

    def _options(self) -> OnlineOptions:
        if self.method not in LEARNERS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(LEARNERS)}")
        kind = _OPTIONS[self.method]
        known = {option.name for option in fields(kind)} - {"shuffle"}  # which is of `fit` alone
        if "bias" not in known and not self.fit_intercept:
            raise ValueError(f"fit_intercept={self.fit_intercept!r}: method={self.method!r} always has an intercept; expected True")
        try:
            options: OnlineOptions = kind(**{name: value for name, value in option_values(self).items() if name in known})
            options.validate()
        except HpcmlError as error:
            raise ValueError(error_text(error)) from None
        return options

    def _rows(self, X: Any, reset: bool) -> sp.csr_matrix:
        """X as CSR float32 without zeros."""
        X = sp.csr_matrix(validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=np.float32, reset=reset))
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

    def _learn(self, X: sp.csr_matrix, labels: LabelSets, order: np.ndarray) -> OnlineClassifier:
        """Learn from the rows in this order; warn once of blocks, and of weights at their bound."""
        shard = shard_of(X, labels, 0, X.shape[0])
        self._state.learn(shard, order)
        self._order.add(shard, order)
        comm, names = mpi.self_comm(), [str(name) for name in self.classes_[-labels.n_labels :]]
        voted, again = self._state.options.voted, f"{AVERAGE}; rows with better labels need a new fit"
        for advice, found in (
            ("shuffle the rows, or use fit with shuffle=True", self._order.blocks(comm, names)),
            (again if voted else f"voted=True {AVERAGES}", weights_at_bound(comm, names, self._state)),
        ):
            if found and advice not in self._warned:
                self._warned.add(advice)
                warnings.warn(f"{found}; {advice}", UserWarning, stacklevel=3)
        self.coef_, self.intercept_ = self._state.linear()
        self.n_updates_, self.n_rows_ = self._state.counters[UPDATES].copy(), self._state.n_rows
        return self

    def _write_model(self, target: ModelTarget) -> None:
        """Write the model, without the state of the pass. Local. Raises DataError."""
        state, winnow, counters = self._state, self._state.method.winnow, self._state.counters
        labels = {"steps": np.minimum(counters[UPDATES], 2**31 - 1), "n_positive": counters[POSITIVES]}
        labels |= {"status": STATUS.index("one pass"), "f_min": np.nan, "visited": 1.0}
        about = {"n_rows": self.n_rows_, "normalised": winnow, **learning(state.options)}
        factors = state.seen[: self.coef_.shape[1]] if winnow else 1.0  # only features with a row are in the divisor
        write_linear(target, [self.coef_], self.intercept_, labels, about, factors=factors)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores (n, n_labels) by the features seen; Winnow's are divided by the rows' sums."""
        check_is_fitted(self)
        X = validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        if self._state.method.winnow:
            if not sp.issparse(X) or (X.nnz and X.data.min() < 0):  # which may be a part of a value
                check_non_negative(canonical(X) if sp.issparse(X) else X, type(self).__name__)
            known = self._state.seen[: X.shape[1], None].astype(np.float64)
            scores /= 1.0 + safe_sparse_dot(X, known, dense_output=True)
        return scores

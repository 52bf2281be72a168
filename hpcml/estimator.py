"""PROBE as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.config import TrainOptions
from hpcml.convex.block import STEP_LIMIT
from hpcml.convex.first_order import probe
from hpcml.convex.objective import Objective
from hpcml.convex.plan import lanes_per_group
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows
from hpcml.data.shard import Shard
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.losses import LOSSES
from hpcml.memory import room_per_rank
from hpcml.profile import Profile

CLASSES, INDICATOR, SPARSE_INDICATOR = range(1, 4)  # what y is; 0 on a rank without rows, which cannot know
_TYPES = {"loss": str, "lam": (str, Real), "epsilon": Real, "precision": str, "max_iter": Integral, "block": Integral}
_PARAMETERS = (("--lambda", "lam"), ("--max-steps", "max_iter"), ("--", ""))  # what the command line's options are called here


class LabelSets(NamedTuple):
    """The labels of this rank's rows: those of row i are indices[indptr[i]] .. indices[indptr[i + 1] − 1]."""

    kind: int
    classes: np.ndarray
    n_labels: int
    indptr: np.ndarray
    indices: np.ndarray


def _has_probabilities(estimator: ProbeClassifier) -> bool:
    """Whether the scores are log-odds. Raises AttributeError, with the reason, if not."""
    if estimator.loss != "maxent":
        raise AttributeError(f"probabilities need loss='maxent', not {estimator.loss!r}")
    return True


class LabelScores(ClassifierMixin):
    """Classes, or label sets, from the scores of a linear model for each label; `_kind` and `classes_` are those of y in `fit`."""

    _kind: int
    classes_: np.ndarray
    _scores: Callable[[Any], np.ndarray]  # (n, n_labels), by the classifier

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: (n,) for one or two classes, positive for the last one; else (n, n_labels)."""
        scores = self._scores(X)
        return scores.ravel() if self._kind == CLASSES and scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray | sp.csr_matrix:
        """The class of each row (n,), or its labels (n, n_labels), sparse if y was: the highest, or all positive, scores."""
        scores = self._scores(X)
        if self._kind == CLASSES:
            last = len(self.classes_) - 1
            return self.classes_[scores.argmax(axis=1) if last > 1 else np.where(scores[:, 0] > 0, last, 0)]
        labels = (scores > 0).astype(np.int64)
        return labels if self._kind == INDICATOR else sp.csr_matrix(labels)


class ProbeClassifier(LabelScores, BaseEstimator):
    """Linear classifiers trained with PROBE: subgradient steps from an estimated lower bound.

    Minimises `λ/2 ‖w‖² + (1/m) Σ ℓ(y_i (w · x_i))` for one label (two classes) or for each label against all others (more
    classes, or a multilabel indicator). Rows are taken as float32, as in `hpcml train probe`, which gives the same bits.

    With `comm`, `fit` is collective: each rank gives its own rows as X and y (possibly none), which follow one another in rank
    order. All ranks end with the same model, whose bits do not depend on how the rows are spread. Only `fit` communicates:
    `predict`, `score` and the others are about the rows that they are given. Copies and pickles have `comm=None`, clones keep
    it. Choose parameters with GridSearchCV on one rank (`comm=None`): ranks that score different rows would choose differently.

    Parameters
    ----------
    loss : {"hinge", "huber", "maxent"}
        The loss ℓ: of support vector machines, modified Huber, or logistic.
    lam : str or float
        λ: "X/m", "X/NUMBER" or a number above 0; X = (mean norm of the training rows)², m is their number.
    fit_intercept : bool
        The rows have a constant feature 1, regularised like the others (False: `hpcml train --no-bias`).
    epsilon : float
        A label is done when the bound φ falls below this.
    dormant : bool
        Skip rows that have not violated for 10 steps, for 5 to 15 steps at a time.
    random_state : int, RandomState or None
        Draws those numbers of steps; rank 0's counts.
    precision : {"single", "double"}
        Of weights and margins in training. Sums are exact in both.
    max_iter : int
        Give a label up after so many steps, with a ConvergenceWarning.
    block : int
        Labels that share a pass over the rows. Does not change the result.
    comm : mpi4py communicator or None
        The ranks that share the rows; None: this process alone.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The classes of all ranks, sorted; the numbers of the labels for a multilabel indicator.
    coef_ : ndarray (n_labels, n_features), float64
        The weights; `n_labels` is 1 for one or two classes, and positive scores mean the last one.
    intercept_ : ndarray (n_labels,), float64
        The weights of the constant feature. A label that all rows have, or none, gets no weights but +1 or −1 here.
    n_iter_ : ndarray (n_labels,), int
        Steps taken; 0 for a label that all rows have, or none.
    f_min_ : ndarray (n_labels,)
        The objective over all rows.
    visited_ : ndarray (n_labels,)
        The mean share of the rows that a step visited.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray (n_features,)
        Their names, if X is a data frame with string names.

    References
    ----------
    Smith, Kim & Wilbur 2012 (PROBE); Zhang 2004 (modified Huber).
    """

    def __init__(
        self,
        loss: str = "hinge",
        lam: str | float = "X/m",
        fit_intercept: bool = True,
        epsilon: float = 0.05,
        dormant: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        precision: str = "single",
        max_iter: int = 5000,
        block: int = 16,
        comm: mpi.Comm | None = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.epsilon = epsilon
        self.dormant = dormant
        self.random_state = random_state
        self.precision = precision
        self.max_iter = max_iter
        self.block = block
        self.comm = comm

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "comm": None}  # a communicator belongs to its process

    def __sklearn_clone__(self) -> ProbeClassifier:
        twin = BaseEstimator.__sklearn_clone__(copy.copy(self))
        twin.comm = self.comm
        return twin

    def fit(self, X: Any, y: Any) -> ProbeClassifier:
        """Collective over `comm`. Train on this rank's rows X (n, n_features), dense or sparse, and their labels y.

        y (n,) holds classes, (n, n_labels), dense or sparse, zeros and ones. Raises ValueError or TypeError for what does not fit.
        """
        if not (self.comm is None or isinstance(self.comm, mpi.Comm)):
            raise TypeError(f"comm={self.comm!r}: expected an mpi4py communicator or None")
        wrong: list[Exception] = []
        try:
            with mpi.duplicated(self.comm) as comm:
                self._fit(comm, X, y, wrong)
        except (ConfigError, DataError, NonFiniteError) as error:
            text = str(error)
            for option, parameter in _PARAMETERS if not isinstance(error, DataError) else ():
                text = text.replace(option, parameter)
            alone = self.comm is None or self.comm.size == 1
            raise (wrong[0] if wrong and alone else ValueError(text)) from None
        return self

    @mpi.collective
    def _fit(self, comm: mpi.Comm, X: Any, y: Any, wrong: list[Exception]) -> None:
        """Collective over `comm`. Check, agree, train. Raises ConfigError, DataError, NonFiniteError; see `_ours` for `wrong`."""
        with mpi.agreed(comm, "checking X and y"), _ours(comm.rank, wrong):
            options = self._options()
            X, kind, y = self._check(X, y, comm.size)
        options = self._agreed_options(comm, options)
        _check_features(comm, self)
        labels = agree_labels(comm, kind, y, X.shape[0])
        before, total = mpi.exclusive_sum(comm, [X.shape[0]])
        shard = shard_of(X, labels, int(before[0]), int(total[0]))
        rows, columns = compact_rows(comm, shard, options.bias)
        self._train(rows, columns, options)
        self._kind, self.classes_ = labels.kind, labels.classes
        if comm.rank == 0 and (unfinished := int((self._status == STEP_LIMIT).sum())):
            text = f"{unfinished} of {labels.n_labels} labels were given up after max_iter={options.max_steps} steps"
            warnings.warn(f"{text}; raise max_iter, or scale the features", ConvergenceWarning, stacklevel=4)

    def _options(self) -> TrainOptions:
        """The parameters as options of training. Raises ConfigError for those that make no sense."""
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                wanted = {str: "a string", Real: "a number", Integral: "a whole number"}.get(kind, "a string or a number")
                raise ConfigError(f"{name}={value!r}: expected {wanted}")
        seed = self.random_state
        options = TrainOptions(
            loss=self.loss,
            lam=self.lam if isinstance(self.lam, str) else repr(float(self.lam)),
            bias=bool(self.fit_intercept),
            epsilon=float(self.epsilon),
            dormant=bool(self.dormant),
            seed=int(seed) if isinstance(seed, Integral) else int(check_random_state(seed).randint(2**31 - 1)),
            precision=self.precision,
            block=int(self.block),
            max_steps=int(self.max_iter),
        )
        options.validate(LOSSES)
        return options

    @mpi.collective
    def _agreed_options(self, comm: mpi.Comm, options: TrainOptions) -> TrainOptions:
        """Collective over `comm`. The options of all ranks. Raises ConfigError if the ranks' parameters differ."""
        first = comm.bcast(options)
        if not isinstance(self.random_state, Integral):
            options = replace(options, seed=first.seed)
        if mpi.agreed_any(comm, options != first):
            raise ConfigError("the ranks have classifiers with different parameters; give all ranks the same")
        return options

    def _check(self, X: Any, y: Any, n_ranks: int) -> tuple[sp.csr_matrix, int, Any]:
        """X as CSR float32, what y is, and y. Raises ValueError, TypeError."""
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=1 if n_ranks == 1 else 0)
        X = sp.csr_matrix(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        if X.shape[0] == 0:
            if len(np.shape(y)) and np.shape(y)[0] != 0:
                raise ValueError(f"X has no rows, but y has {np.shape(y)[0]}")
            return X, 0, None
        kind, y = check_target(y)
        check_consistent_length(X, y)
        return X, kind, y

    @mpi.collective
    def _train(self, rows: CompactRows, columns: ColumnMap, options: TrainOptions) -> None:
        """Collective over `rows.comm`. Train every label and set what was learned. Raises ConfigError, NonFiniteError."""
        comm, n = rows.comm, rows.n_labels
        objective = Objective(rows, options, Profile())
        table, factors = columns.tables(comm)
        trainable = (rows.n_positive > 0) & (rows.n_positive < rows.n_global)
        waiting = np.flatnonzero(trainable).tolist()
        n_lanes = lanes_per_group(len(waiting), 0, rows, options, room_per_rank(comm))
        with mpi.agreed(comm, "making room for the weights"):
            coef = np.zeros((n, rows.n_features))
            block = probe(objective, np.arange(n), n_lanes, options, options.max_steps)
        intercept = np.where(trainable, 0.0, np.where(rows.n_positive > 0, 1.0, -1.0))
        steps, status, f_min, visited = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        with mpi.node_first(comm):
            objective.warm_up()
        block.waiting.extend(waiting)
        while block.busy:
            for done in block.turn(0.0):
                w = done.w.astype(np.float64)
                np.multiply(w[table], factors, out=coef[done.label])
                intercept[done.label] = w[-1] if rows.bias else 0.0
                steps[done.label], status[done.label] = done.steps, done.status
                f_min[done.label], visited[done.label] = done.f, done.visited
        self.coef_, self.intercept_ = coef, intercept
        self.n_iter_, self.f_min_, self.visited_, self._status = steps, f_min, visited, status

    def _scores(self, X: Any) -> np.ndarray:
        """The scores `x · w + intercept` (n, n_labels)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, or of each label, (n, len(classes_)), from the log-odds. Only for loss="maxent".

        With more than two classes those of each class against the others, divided by their sum.
        """
        scores = self._scores(X)
        if self._kind != CLASSES:
            return np.where(self.n_iter_ > 0, expit(scores), scores > 0)
        if len(self.classes_) == 1:
            return np.ones_like(scores)
        if len(self.classes_) == 2:
            return np.hstack([expit(-scores), expit(scores)])
        return softmax(log_expit(scores), axis=1)


@contextmanager
def _ours(rank: int, wrong: list[Exception]) -> Iterator[None]:
    """scikit-learn's complaints become a DataError, which all ranks can raise alike; `wrong` keeps the original."""
    try:
        yield
    except (TypeError, ValueError) as error:
        wrong.append(error)
        raise DataError(f"rank {rank}: {error}") from None


def check_target(y: Any) -> tuple[int, np.ndarray | sp.csr_matrix]:
    """What y (at least one row) is, and y: classes (n,), or CSR label sets (n, n_labels). Raises ValueError, TypeError."""
    y = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None, input_name="y")
    if not sp.issparse(y) and (y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return CLASSES, y
    kind, values = (SPARSE_INDICATOR, y.data) if sp.issparse(y) else (INDICATOR, y)
    strange = [value for value in np.unique(values).tolist() if value not in (0, 1)]
    if strange:
        raise ValueError(f"Unknown label type: y has several columns, where 0 and 1 are expected, but found {strange[0]!r}")
    y = sp.csr_matrix(y, copy=True)
    y.sum_duplicates()
    y.eliminate_zeros()
    return kind, y


@mpi.collective
def _check_features(comm: mpi.Comm, estimator: ProbeClassifier) -> None:
    """Collective over `comm`. Raises DataError if the ranks' rows have other features."""
    names = getattr(estimator, "feature_names_in_", None)
    digest = None if names is None else hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    widths, digests = zip(*comm.allgather((estimator.n_features_in_, digest)), strict=True)
    for rank, width in enumerate(widths):
        if width != widths[0]:
            raise DataError(f"X has {width} features on rank {rank}, but {widths[0]} on rank 0; all ranks need the same features")
    if len(set(digests) - {None}) > 1:
        raise DataError("X has other feature names, or another order of them, on some ranks; all ranks need the same features")


@mpi.collective
def agree_labels(comm: mpi.Comm, kind: int, y: np.ndarray | sp.csr_matrix | None, n_local: int) -> LabelSets:
    """Collective over `comm`. The classes of all ranks and the labels of this rank's rows; `kind` and y from `check_target`.

    Raises DataError if no rank has rows or their y do not go together.
    """
    about = None if kind == 0 else (kind, np.unique(y)) if kind == CLASSES else (kind, y.shape[1])
    found = [(rank, *its) for rank, its in enumerate(comm.allgather(about)) if its is not None]
    if not found:
        raise DataError("no rank has rows to train on")
    first, first_kind, _ = found[0]
    for rank, its_kind, _ in found:
        if (its_kind == CLASSES) != (first_kind == CLASSES):
            raise DataError(f"y has one column on some ranks and more on others (rank {rank} differs from rank {first})")
    if first_kind == CLASSES:
        classes = _union([its for _, _, its in found])
        n_labels = 1 if len(classes) <= 2 else len(classes)
        numbers = np.searchsorted(classes, y) if kind else np.zeros(0, np.int64)
        if n_labels > 1:
            return LabelSets(CLASSES, classes, n_labels, np.arange(n_local + 1), numbers)
        positive = numbers == len(classes) - 1
        return LabelSets(CLASSES, classes, 1, np.concatenate([[0], np.cumsum(positive)]), np.zeros(int(positive.sum()), np.int64))
    widths = [its for _, _, its in found]
    if len(set(widths)) > 1:
        raise DataError(f"y has {min(widths)} columns on some ranks, but {max(widths)} on others")
    matrix = y if kind else sp.csr_matrix((0, widths[0]))
    return LabelSets(max(its for _, its, _ in found), np.arange(widths[0]), widths[0], matrix.indptr, matrix.indices)


def _union(parts: list[np.ndarray]) -> np.ndarray:
    """The sorted classes of several ranks. Raises DataError if some are numbers and some are not."""
    if len({part.dtype.kind in "biuf" for part in parts}) > 1:
        raise DataError("the classes in y are numbers on some ranks but not on others")
    return np.unique(np.concatenate(parts))


def shard_of(X: sp.csr_matrix, labels: LabelSets, first: int, n_global: int) -> Shard:
    """The rows as those of a file (of the same types, for which the kernels are compiled), read-only like them."""
    index = np.int32 if X.shape[1] < 2**31 else np.int64
    arrays = [np.ascontiguousarray(X.indices, index), np.ascontiguousarray(X.data), np.ascontiguousarray(labels.indices, np.int32)]
    for i, array in enumerate(arrays):
        arrays[i] = array.view()
        arrays[i].flags.writeable = False
    return Shard(
        first_row=first,
        rows=np.arange(X.shape[0]),
        indptr=X.indptr.astype(np.int64),
        indices=arrays[0],
        data=arrays[1],
        y_indptr=labels.indptr.astype(np.int64),
        y_indices=arrays[2],
        n_global=n_global,
        first_local=first,
        n_features=X.shape[1],
        n_labels=labels.n_labels,
    )

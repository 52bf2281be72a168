"""PROBE as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_consistent_length, check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.estimators.labels import CLASSES, LabelScores, agree_labels, check_features, check_target, complaints_agreed, shard_of
from hpcml.methods.linear.block import STEP_LIMIT
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.plan import lanes_per_group
from hpcml.methods.probe.first_order import probe
from hpcml.methods.probe.options import ProbeOptions
from hpcml.mpi.memory import room_per_rank
from hpcml.run.profile import Profile

_TYPES = {"loss": str, "lam": (str, Real), "epsilon": Real, "precision": str, "max_iter": Integral, "block": Integral}
_PARAMETERS = (("--lambda", "lam"), ("--max-steps", "max_iter"), ("--", ""))  # what the command line's options are called here


def _has_probabilities(estimator: ProbeClassifier) -> bool:
    """Whether the scores are log-odds. Raises AttributeError, with the reason, if not."""
    if estimator.loss != "maxent":
        raise AttributeError(f"probabilities need loss='maxent', not {estimator.loss!r}")
    return True


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

    @mpi.collective
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
        """Collective over `comm`. Check, agree, train. Raises ConfigError, DataError, NonFiniteError."""
        with mpi.agreed(comm, "checking X and y"), complaints_agreed(comm.rank, wrong):
            options = self._options()
            X, kind, y = self._check(X, y, comm.size)
        options = self._agreed_options(comm, options)
        check_features(comm, self)
        labels = agree_labels(comm, kind, y, X.shape[0])
        before, total = mpi.exclusive_sum(comm, [X.shape[0]])
        shard = shard_of(X, labels, int(before[0]), int(total[0]))
        rows, columns = compact_rows(comm, shard, options.bias)
        self._train(rows, columns, options)
        self._kind, self.classes_ = labels.kind, labels.classes
        if comm.rank == 0 and (unfinished := int((self._status == STEP_LIMIT).sum())):
            text = f"{unfinished} of {labels.n_labels} labels were given up after max_iter={options.max_steps} steps"
            warnings.warn(f"{text}; raise max_iter, or scale the features", ConvergenceWarning, stacklevel=4)

    def _options(self) -> ProbeOptions:
        """The parameters as options of training. Raises ConfigError for those that make no sense."""
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                wanted = {str: "a string", Real: "a number", Integral: "a whole number"}.get(kind, "a string or a number")
                raise ConfigError(f"{name}={value!r}: expected {wanted}")
        seed = self.random_state
        options = ProbeOptions(
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
        options.validate()
        return options

    @mpi.collective
    def _agreed_options(self, comm: mpi.Comm, options: ProbeOptions) -> ProbeOptions:
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
    def _train(self, rows: CompactRows, columns: ColumnMap, options: ProbeOptions) -> None:
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

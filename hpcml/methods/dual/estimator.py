"""Dual coordinate descent as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.errors import ConfigError
from hpcml.estimators.distributed import NUMBER, NUMBER_OR_NONE, SWITCH, TEXT, TEXT_OR_NUMBER, WHOLE, Parameter
from hpcml.estimators.labels import CLASSES, LabelSets
from hpcml.methods.dual.options import BALANCED, DualOptions
from hpcml.methods.dual.train import METHOD
from hpcml.methods.linear.estimator import LinearClassifier
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions


class DualClassifier(LinearClassifier):
    """Linear classifiers trained by dual coordinate descent, each with a certified duality gap.

    Minimises `λ/2 ‖w‖² + (1/m) Σ c_i s_i ℓ(y_i (w · x_i))` for one label (two classes) or for each label against all others (more
    classes, or label sets); c_i is `positive_weight` for rows that have the label, else 1; s_i is the row's `sample_weight`, else
    1, and m the sum of these. Rows are taken as float32, as in `hpcml train dual`, which gives the same bits.

    With `comm`, `fit` is collective: each rank gives its own rows as X and y (possibly none), which follow one another in rank
    order. The rows are gathered on every rank, and the labels are scattered over the ranks. All ranks end with the same model,
    whose bits depend neither on how the rows are spread nor on the number of ranks. Only `fit` communicates: `predict`, `score`
    and the others are about the rows that they are given. Copies and pickles have `comm=None`, clones keep it. Choose parameters
    with GridSearchCV on one rank (`comm=None`): ranks that score different rows would choose differently.

    Parameters
    ----------
    loss : {"squared-hinge", "hinge", "logistic"}
        The loss ℓ: [1 − z]₊², [1 − z]₊, or log(1 + exp(−z)), whose scores are log-odds.
    lam : str or float
        λ: "X/m", "0.1X/m", "X/NUMBER" or a number above 0; X = (mean norm of the training rows)², m is their number (with
        `sample_weight` a weighted mean, and the sum of the weights). LIBLINEAR's C is 1 / (λ m).
    fit_intercept : bool
        The rows have a constant feature 1, regularised like the others (False: `hpcml train --no-bias`).
    tol : float
        The stopping tolerance, with LIBLINEAR's meaning: of the projected gradients of all rows.
    max_gap : float or None
        Do not stop before the certified duality gap, divided by the objective, is at most this as well.
    positive_weight : str or float
        c_i of rows that have the label: a number above 0, or "balanced", as many times as there are rows without the label for
        one with it.
    class_weight : dict, "balanced" or None
        As in LIBLINEAR and `LinearSVC`, the weight of each class, or label, 1 if it is not in the dict; c_i is multiplied by it.
        With two classes it is that of the row's class. For each of more classes, and for label sets, it is that of the label for
        rows that have it, and 1 for others. "balanced" is m / (number of classes · rows of the class), for classes only.
    random_state : int, RandomState or None
        Draws the order in which rows are visited; rank 0's counts.
    precision : {"single", "double"}
        Of weights and duals in training. The end of training is judged in float64 with both.
    max_iter : int
        Give a label up after so many passes over the rows, with a ConvergenceWarning.
    block : int
        Labels that share a pass over the rows. Does not change the result.
    comm : mpi4py communicator or None
        The ranks that give the rows; None: this process alone.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The classes of all ranks, sorted; the numbers of the labels for a multilabel indicator.
    coef_ : ndarray (n_labels, n_features), float64
        The weights; `n_labels` is 1 for one or two classes, and positive scores mean the last one.
    intercept_ : ndarray (n_labels,), float64
        The weights of the constant feature. A label that all rows have, or none, gets no weights but +1 or −1 here.
    n_iter_ : ndarray (n_labels,), int
        Passes over the rows; 0 for a label that all rows have, or none.
    f_min_ : ndarray (n_labels,)
        The objective over all rows.
    gap_ : ndarray (n_labels,)
        The certified duality gap, divided by the objective: min f is at least f_min_ · (1 − gap_).
    visited_ : ndarray (n_labels,)
        The mean share of the rows that a pass visited.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray (n_features,)
        Their names, if X is a data frame with string names.

    Notes
    -----
    Every rank holds all rows twice while it trains, once as they were given and once without features that occur nowhere: about 16
    bytes for each value other than 0 of all ranks together. `hpcml train dual` needs a copy for each node only, from a file.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan 2008, Algorithm 1 (LIBLINEAR). Logistic loss: Yu, Huang & Lin 2011.
    """

    _method, _options_kind = METHOD, DualOptions
    _parameters: ClassVar[Mapping[str, Parameter]] = {
        **{"loss": TEXT, "lam": TEXT_OR_NUMBER, "fit_intercept": SWITCH, "tol": NUMBER, "max_gap": NUMBER_OR_NONE},
        **{"positive_weight": TEXT_OR_NUMBER, "precision": TEXT, "max_iter": WHOLE, "block": WHOLE},
    }

    def __init__(
        self,
        loss: str = "squared-hinge",
        lam: str | float = "X/m",
        fit_intercept: bool = True,
        tol: float = 0.1,
        max_gap: float | None = None,
        positive_weight: str | float = "1",
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = 0,
        precision: str = "single",
        max_iter: int = 1000,
        block: int = 16,
        comm: mpi.Comm | None = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_gap = max_gap
        self.positive_weight = positive_weight
        self.class_weight = class_weight
        self.random_state = random_state
        self.precision = precision
        self.max_iter = max_iter
        self.block = block
        self.comm = comm

    @mpi.collective
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Collective over `comm`. Train on this rank's rows X (n, n_features), dense or sparse, and their labels y.

        y (n,) holds classes, or lists (or sets) of names of labels; (n, n_labels), dense or sparse, zeros and ones. `sample_weight`
        (n,) are numbers of at least 0: a row of weight 2 counts as two such rows, one of weight 0 not at all. Raises ValueError or
        TypeError for what does not fit.
        """
        return self._fit_weighted(X, y, sample_weight)

    @mpi.collective
    def _agreed_options(self, comm: mpi.Comm, options: Any) -> Any:
        """Collective over `comm`. The options of all ranks. Raises ConfigError if the ranks' parameters differ."""
        weights = sorted(map(repr, self.class_weight.items())) if isinstance(self.class_weight, Mapping) else self.class_weight
        if mpi.agreed_any(comm, weights != comm.bcast(weights)):
            raise ConfigError("the ranks have classifiers with different parameters; give all ranks the same")
        return super()._agreed_options(comm, options)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
        """What the labels have in common, with their `class_weight`. Raises ConfigError, the same on all ranks."""
        risk = super()._risk(rows, labels, options)
        if self.class_weight is not None:
            weights = self._class_weights(rows, labels)
            if labels.kind == CLASSES and len(labels.classes) == 2:
                risk.negative_weight, risk.positive_weights = float(weights[0]), weights[1:] / weights[0]
            elif labels.kind != CLASSES or len(labels.classes) > 2:
                risk.positive_weights = weights
        return risk

    def _class_weights(self, rows: CompactRows, labels: LabelSets) -> np.ndarray:
        """The weights (n_classes) that `class_weight` gives the classes. Raises ConfigError."""
        given, classes = self.class_weight, labels.classes.tolist()
        if isinstance(given, str) and given == BALANCED:
            if labels.kind != CLASSES:
                raise ConfigError("class_weight='balanced' is of classes; for sets of labels give positive_weight='balanced'")
            sums = np.array([rows.weight_of(label) for label in range(rows.n_labels)], dtype=np.float64)
            sums = np.append(rows.total_weight - sums, sums)[-len(classes) :] if len(classes) <= 2 else sums
            return rows.total_weight / (len(classes) * sums)
        if not isinstance(given, Mapping):
            raise ConfigError(f"class_weight={given!r}: expected a dict, 'balanced' or None")
        for name, weight in given.items():
            if name not in classes:
                raise ConfigError(f"class_weight has {name!r}, which y does not have")
            if not (isinstance(weight, Real) and 0 < weight < np.inf):
                raise ConfigError(f"class_weight[{name!r}]={weight!r}: expected a number above 0")
        return np.array([float(given.get(name, 1.0)) for name in classes])

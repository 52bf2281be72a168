"""PROBE as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hpcml import mpi
from hpcml.estimators.distributed import NUMBER, SWITCH, TEXT, TEXT_OR_NUMBER, WHOLE, Parameter
from hpcml.methods.linear.estimator import LinearClassifier
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.train import METHOD


class ProbeClassifier(LinearClassifier):
    """Linear classifiers trained with PROBE: subgradient steps from an estimated lower bound.

    Minimises `λ/2 ‖w‖² + (1/m) Σ ℓ(y_i (w · x_i))` for one label (two classes) or for each label against all others (more
    classes, or a multilabel indicator). Rows are taken as float32, as in `hpcml train probe`, which gives the same bits.

    With `comm`, `fit` is collective: each rank gives its own rows as X and y (possibly none), which follow one another in rank
    order. All ranks end with the same model, whose bits do not depend on how the rows are spread. Only `fit` communicates:
    `predict`, `score` and the others are about the rows that they are given. Copies and pickles have `comm=None`, clones keep
    it. Choose parameters with GridSearchCV on one rank (`comm=None`): ranks that score different rows would choose differently.

    Parameters
    ----------
    loss : {"hinge", "huber", "logistic"}
        The loss ℓ: of support vector machines, modified Huber, or logistic.
    lam : str or float
        λ: "X/m", "0.1X/m", "X/NUMBER" or a number above 0; X = (mean norm of the training rows)², m is their number.
    fit_intercept : bool
        The rows have a constant feature 1, regularised like the others (False: `hpcml train --no-bias`).
    epsilon : float
        A label is done when φ, the share of the objective that is still aimed for, falls below this. It is no bound on the
        distance from the minimum, which can be several times as large.
    dormant : bool
        Skip rows that have not violated for 10 steps, for 5 to 15 steps at a time.
    random_state : int, RandomState or None
        Draws those numbers of steps; rank 0's counts.
    precision : {"single", "double"}
        Of weights and margins in training. Sums are exact in both.
    max_iter : int
        Give a label up after so many steps, with a ConvergenceWarning.
    labels_per_pass : int
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

    _method, _options_kind = METHOD, ProbeOptions
    _parameters: ClassVar[Mapping[str, Parameter]] = {
        **{"loss": TEXT, "lam": TEXT_OR_NUMBER, "fit_intercept": SWITCH, "epsilon": NUMBER, "dormant": SWITCH},
        **{"precision": TEXT, "max_iter": WHOLE, "labels_per_pass": WHOLE},
    }

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
        labels_per_pass: int = 16,
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
        self.labels_per_pass = labels_per_pass
        self.comm = comm

"""The elastic net as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from hpcml import mpi
from hpcml.estimators.distributed import NUMBER_OR_NONE, TEXT, TEXT_OR_NUMBER, WHOLE, WHOLE_OR_NONE, Parameter
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.elastic_net.train import METHOD
from hpcml.methods.linear.estimator import LinearClassifier


class ElasticNetClassifier(LinearClassifier):
    """Sparse linear classifiers: logistic or squared loss with the elastic net, exact and with a certified duality gap.

    Minimises `(1/m) Σ ℓ(x_i · w + b, y_i) + λ₁ ‖w‖₁ + (λ₂/2) ‖w‖²` for one label (two classes) or for each label against all others
    (more classes, or a multilabel indicator); the intercept b is not regularised. Rows are taken as float32, as in
    `hpcml train elastic-net`, which gives the same bits.

    With `comm`, `fit` is collective: each rank gives its own rows as X and y (possibly none), which follow one another in rank
    order. The rows are gathered on every rank, and the labels are scattered over the ranks. All ranks end with the same model,
    whose bits depend neither on how the rows are spread nor on the number of ranks. Copies and pickles have `comm=None`, clones
    keep it.

    Parameters
    ----------
    loss : {"logistic", "squared"}
        The loss ℓ(z, y) for y = ±1: log(1 + exp(−y z)) or ½ (z − y)².
    lam : str or float
        λ₂: "X/m", "0.1X/m", "X/NUMBER", "NUMBER/m" or a number of at least 0; X = N², m is the number of training rows.
    l1 : str or float
        λ₁: "N/m", "0.1N/m", "NUMBER/m" or a number of at least 0; N is the mean norm of the training rows.
    solver : {"newton", "fobos", "sgd"}
        newton is exact; the others are stochastic gradient descent with delayed regularisation.
    max_gap : float or None
        Of newton: the certified duality gap, divided by the objective, at which a label is done; None: 1e-5.
    rate : {"decaying", "constant", "adagrad"}
        Of fobos and sgd: the learning rate.
    eta : float or None
        Of fobos and sgd: its size; None: by the loss, the rate and the norms of the rows.
    passes : int
        Of fobos and sgd: passes over the rows.
    random_state : int, RandomState or None
        Of fobos and sgd: draws the order of the rows; rank 0's counts.
    precision : {"single", "double"}
        Of the weights. newton computes in float64 with both.
    max_iter : int or None
        Of newton: give a label up after so many rounds, with a ConvergenceWarning; None: 100.
    comm : mpi4py communicator or None
        The ranks that give the rows; None: this process alone.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The classes of all ranks, sorted; the numbers of the labels for a multilabel indicator.
    coef_ : ndarray (n_labels, n_features), float64
        The weights, most of them 0; `n_labels` is 1 for one or two classes, and positive scores mean the last one.
    intercept_ : ndarray (n_labels,), float64
        A label that all rows have, or none, gets no weights but +1 or −1 here.
    n_iter_ : ndarray (n_labels,), int
        Rounds, or passes over the rows; 0 for a label that all rows have, or none.
    f_min_ : ndarray (n_labels,)
        The objective over all rows.
    gap_ : ndarray (n_labels,)
        The certified duality gap, divided by the objective: min f is at least f_min_ · (1 − gap_).
    visited_ : ndarray (n_labels,)
        The mean share of the rows that a round visited.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray (n_features,)
        Their names, if X is a data frame with string names.

    References
    ----------
    Lipton & Elkan 2015, arXiv:1505.06449 (delayed updates); Yuan, Ho & Lin 2012 (proximal Newton for L1 logistic regression).
    """

    _method, _options_kind = METHOD, ElasticNetOptions
    _parameters: ClassVar[Mapping[str, Parameter]] = {
        **{"loss": TEXT, "lam": TEXT_OR_NUMBER, "l1": TEXT_OR_NUMBER, "solver": TEXT, "max_gap": NUMBER_OR_NONE, "rate": TEXT},
        **{"eta": NUMBER_OR_NONE, "passes": WHOLE, "precision": TEXT, "max_iter": WHOLE_OR_NONE},
    }

    def __init__(
        self,
        loss: str = "logistic",
        lam: str | float = "0.01X/m",
        l1: str | float = "0.01N/m",
        solver: str = "newton",
        max_gap: float | None = None,
        rate: str = "decaying",
        eta: float | None = None,
        passes: int = 40,
        random_state: int | np.random.RandomState | None = 0,
        precision: str = "single",
        max_iter: int | None = None,
        comm: mpi.Comm | None = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.l1 = l1
        self.solver = solver
        self.max_gap = max_gap
        self.rate = rate
        self.eta = eta
        self.passes = passes
        self.random_state = random_state
        self.precision = precision
        self.max_iter = max_iter
        self.comm = comm

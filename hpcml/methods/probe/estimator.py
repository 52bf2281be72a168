"""PROBE as a scikit-learn classifier, on one rank or on the rows of many."""

from __future__ import annotations

from hpcml import mpi
from hpcml.estimators.parameters import OPTION, Seed, classifier_of
from hpcml.methods.linear.estimator import LinearClassifier
from hpcml.methods.linear.layout import LANES
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.probe import METHOD


@classifier_of(ProbeOptions)
class ProbeClassifier(LinearClassifier):
    """Linear classifiers trained with PROBE: subgradient steps from an estimated lower bound.

    Minimises `λ/2 ‖w‖² + (1/m) Σ ℓ(y_i (w · x_i))` for one label (two classes) or for each label
    against all others (more classes, or a multilabel indicator). Rows are taken as float32, as in
    `hpcml train probe`, which gives the same bits.

    With `comm`, `fit` is collective: each rank gives its own rows as X and y (possibly none), which
    follow one another in rank order. All ranks end with the same model, whose bits do not depend on
    how the rows are spread. Only `fit` communicates: `predict`, `score` and the others are about
    the rows that they are given. Copies and pickles have `comm=None`, clones keep it. Choose
    parameters with GridSearchCV on one rank (`comm=None`): ranks that score different rows would
    choose differently.

    References
    ----------
    Smith, Kim & Wilbur 2012 (PROBE); Zhang 2004 (modified Huber).
    """

    _method = METHOD

    loss: str = OPTION
    lam: str | float = OPTION
    scale: str | None = OPTION
    fit_intercept: bool = OPTION
    epsilon: float = OPTION
    dormant: bool = OPTION
    random_state: Seed = OPTION
    precision: str = OPTION
    max_iter: int = OPTION
    labels_per_pass: int = LANES
    comm: mpi.Comm | None = None
    """The ranks that share the rows; None: this process alone."""

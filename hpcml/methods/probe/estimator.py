"""PROBE as a scikit-learn classifier."""

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

    Minimises `λ/2 ‖w‖² + (1/m) Σ ℓ(y_i (w · x_i))` for one label (two classes) or for each label against all others (more classes,
    or a multilabel indicator). Rows are taken as float32, as in `hpcml train probe`, which gives the same bits.

    The ranks of `comm` keep their own rows and share each pass over them.

    References
    ----------
    Smith, Kim & Wilbur 2012 (PROBE); Zhang 2004 (modified Huber).

    Examples
    --------
    >>> import numpy as np
    >>> from hpcml import ProbeClassifier
    >>> X = np.array([[1.0, 0.0], [0.8, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> classifier = ProbeClassifier(lam=0.1).fit(X, ["sea", "sea", "land", "land"])
    >>> classifier.predict([[0.9, 0.2]]).tolist()
    ['sea']
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

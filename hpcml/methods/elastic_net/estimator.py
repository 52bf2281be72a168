"""The elastic net as a scikit-learn classifier."""

from __future__ import annotations

from hpcml import mpi
from hpcml.estimators.parameters import ATTRIBUTES, OPTION, Seed, classifier_of
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.elastic_net.train import METHOD
from hpcml.methods.linear.estimator import LinearClassifier


@classifier_of(ElasticNetOptions)
class ElasticNetClassifier(LinearClassifier):
    """Sparse linear classifiers: logistic or squared loss with elastic-net penalty and certified duality gap.

    Minimises `(1/m) Σ ℓ(x_i · w + b, y_i) + λ₁ ‖w‖₁ + (λ₂/2) ‖w‖²` for one label (two classes) or for each label against all others
    (more classes, or a multilabel indicator); the intercept b is not regularised. Rows are taken as float32, as in `hpcml train
    elastic-net`, which gives the same bits.

    Every rank of `comm` gets a copy of all rows, and the labels are distributed over the ranks.

    References
    ----------
    Lipton & Elkan 2015, arXiv:1505.06449 (delayed updates); Yuan, Ho & Lin 2012 (proximal Newton for L1 logistic regression).

    Examples
    --------
    >>> import numpy as np
    >>> from hpcml import ElasticNetClassifier
    >>> X = np.array([[1.0, 0.0], [0.8, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> classifier = ElasticNetClassifier().fit(X, ["sea", "sea", "land", "land"])
    >>> classifier.predict([[0.9, 0.2]]).tolist()
    ['sea']
    """

    _method = METHOD
    _learnt = tuple(ATTRIBUTES)

    loss: str = OPTION
    lam: str | float = OPTION
    scale: str | None = OPTION
    l1: str | float = OPTION
    solver: str = OPTION
    max_gap: float | None = OPTION
    rate: str = OPTION
    eta: float | None = OPTION
    passes: int = OPTION
    random_state: Seed = OPTION
    precision: str = OPTION
    max_iter: int | None = OPTION
    comm: mpi.Comm | None = None

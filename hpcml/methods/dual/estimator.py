"""Dual coordinate descent as a scikit-learn classifier: training on arrays in memory, on one rank or on the rows of many."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Self

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.errors import ConfigError
from hpcml.estimators.labels import CLASSES, LabelSets
from hpcml.estimators.parameters import ATTRIBUTES, OPTION, Seed, classifier_of
from hpcml.methods.dual.options import BALANCED, DualOptions
from hpcml.methods.dual.train import METHOD
from hpcml.methods.linear.estimator import LinearClassifier
from hpcml.methods.linear.layout import LANES
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions


@classifier_of(DualOptions)
class DualClassifier(LinearClassifier):
    """Linear classifiers trained by dual coordinate descent, each with a certified duality gap.

    Minimises `λ/2 ‖w‖² + (1/m) Σ c_i s_i ℓ(y_i (w · x_i))` for one label (two classes) or for each label against all others (more
    classes, or label sets); c_i is `positive_weight` for rows that have the label, else 1; s_i is the row's `sample_weight`, else
    1, and m the sum of these; LIBLINEAR's C is 1 / (λ m). Rows are taken as float32, as in `hpcml train dual`, which gives the same
    bits.

    Every rank of `comm` gets a copy of all rows, and the labels are divided among the ranks.

    Notes
    -----
    Every rank holds all rows twice while it trains, once as they were given and once without features that occur nowhere: about 16
    bytes for each value other than 0 of all ranks together. `hpcml train dual` needs a copy for each node only, from a file.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan 2008, Algorithm 1 (LIBLINEAR). Logistic loss: Yu, Huang & Lin 2011.
    """

    _method = METHOD
    _learnt = tuple(ATTRIBUTES)

    loss: str = OPTION
    lam: str | float = OPTION
    scale: str | None = OPTION
    fit_intercept: bool = OPTION
    tol: float = OPTION
    max_gap: float | None = OPTION
    positive_weight: str | float = OPTION
    class_weight: Mapping[Any, float] | str | None = None
    """As in LIBLINEAR and `LinearSVC`, the weight of each class, or label, 1 if it is not in the dict; c_i is multiplied by it.
    With two classes it is that of the row's class. For each of more classes, and for label sets, it is that of the label for rows
    that have it, and 1 for others. "balanced" is m / (number of classes · rows of the class), for classes only.
    """
    random_state: Seed = OPTION
    precision: str = OPTION
    max_iter: int = OPTION
    labels_per_pass: int = LANES
    comm: mpi.Comm | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Collective over `comm`. Train on this rank's rows X (n, n_features), dense or sparse, and their labels y.

        y (n,) holds classes, or lists (or sets) of names of labels; (n, n_labels), dense or sparse, zeros and ones. `sample_weight`
        (n,) are numbers of at least 0: a row of weight 2 counts as two such rows, one of weight 0 not at all. Raises ValueError or
        TypeError for what does not fit.
        """
        return self._fit_weighted(X, y, sample_weight)

    def _agreed_options(self, comm: mpi.Comm, options: Any) -> Any:
        """Collective over `comm`. Return the options of all ranks. Raises ConfigError if the ranks' parameters differ."""
        weights = sorted(map(repr, self.class_weight.items())) if isinstance(self.class_weight, Mapping) else self.class_weight
        if mpi.agreed_any(comm, weights != comm.bcast(weights)):
            raise ConfigError("the ranks have classifiers with different parameters; give all ranks the same")
        return super()._agreed_options(comm, options)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
        """Return what the labels share, with their `class_weight`. Raises ConfigError, the same on all ranks."""
        risk = super()._risk(rows, labels, options)
        if self.class_weight is not None:
            weights = self._class_weights(rows, labels)
            risk.about["positive_weight"] = "class_weight"
            if labels.kind == CLASSES and len(labels.classes) == 2:
                risk.negative_weight, risk.positive_weights = float(weights[0]), weights[1:] / weights[0]
            elif labels.kind != CLASSES or len(labels.classes) > 2:
                risk.positive_weights = weights
        return risk

    def _class_weights(self, rows: CompactRows, labels: LabelSets) -> np.ndarray:
        """The weights (n_classes) that `class_weight` gives the classes."""
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

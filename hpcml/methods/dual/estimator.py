"""Dual coordinate descent as a scikit-learn classifier."""

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

    Every rank of `comm` gets a copy of all rows, and the labels are distributed over the ranks.

    Notes
    -----
    During training, every rank holds all rows twice: as given, and without features that occur in no row. This takes about 16 bytes
    per non-zero value of all ranks. `hpcml train dual` needs only one copy per node, read from a file.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan 2008, Algorithm 1 (LIBLINEAR). Logistic loss: Yu, Huang & Lin 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from hpcml import DualClassifier
    >>> X = np.array([[1.0, 0.0], [0.8, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> classifier = DualClassifier(lam=0.1).fit(X, ["sea", "sea", "land", "land"])
    >>> classifier.predict([[0.9, 0.2]]).tolist()
    ['sea']
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
    """Weight of each class or label, as in `LinearSVC` (default: 1; labels missing in the dict have weight 1). It multiplies c_i:
    with two classes by the weight of the row's class, otherwise by the weight of the label for rows that have it. "balanced" sets m
    / (number of classes · rows of the class) and needs classes, not label sets.
    """
    random_state: Seed = OPTION
    precision: str = OPTION
    max_iter: int = OPTION
    labels_per_pass: int = LANES
    comm: mpi.Comm | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the rows of this rank. Collective over `comm`.

        Parameters
        ----------
        X : array-like or sparse matrix (n_rows, n_features)
            Features of this rank's rows.
        y : array-like (n_rows,) or (n_rows, n_labels)
            Classes, lists of label names, or a 0/1 indicator matrix (dense or sparse).
        sample_weight : array-like (n_rows,), optional
            Weights of at least 0. A row of weight 2 counts as two rows, a row of weight 0 not at all.

        Returns
        -------
        DualClassifier
            The fitted classifier.

        Raises
        ------
        ValueError, TypeError
            If parameters, rows, labels or weights are invalid; the same on all ranks.
        """
        return self._fit_weighted(X, y, sample_weight)

    def _agreed_options(self, comm: mpi.Comm, options: Any) -> Any:
        weights = sorted(map(repr, self.class_weight.items())) if isinstance(self.class_weight, Mapping) else self.class_weight
        if mpi.agreed_any(comm, weights != comm.bcast(weights)):
            raise ConfigError("the ranks have classifiers with different parameters; use the same parameters on all ranks")
        return super()._agreed_options(comm, options)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
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
        class_weight, classes = self.class_weight, labels.classes.tolist()
        if isinstance(class_weight, str) and class_weight == BALANCED:
            if labels.kind != CLASSES:
                raise ConfigError("class_weight='balanced' needs classes; for label sets use positive_weight='balanced'")
            sums = np.array([rows.label_weight(label) for label in range(rows.n_labels)], dtype=np.float64)
            sums = np.append(rows.total_weight - sums, sums)[-len(classes) :] if len(classes) <= 2 else sums
            return rows.total_weight / (len(classes) * sums)
        if not isinstance(class_weight, Mapping):
            raise ConfigError(f"class_weight={class_weight!r}: expected a dict, 'balanced' or None")
        for name, weight in class_weight.items():
            if name not in classes:
                raise ConfigError(f"class_weight: {name!r} is not a class or label of y")
            if not (isinstance(weight, Real) and 0 < weight < np.inf):
                raise ConfigError(f"class_weight[{name!r}]={weight!r}: expected a number above 0")
        return np.array([float(class_weight.get(name, 1.0)) for name in classes])

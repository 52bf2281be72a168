"""PSBML as a scikit-learn classifier, on one rank or on the rows of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import NoneType
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.in_memory import check_csr
from hpcml.data.labels import Classes
from hpcml.data.row_keys import content_keys, feature_keys
from hpcml.data.shard import Rows
from hpcml.errors import ConfigError, DataError, HpcmlError
from hpcml.estimators.distributed import DistributedClassifier, gather_rows
from hpcml.estimators.labels import CLASSES, LabelScores, LabelSets
from hpcml.estimators.parameters import OPTION, Parameter, Seed, classifier_of, error_text
from hpcml.estimators.saving import ModelTarget
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.problem import RowsInMemory
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.selection import validation_sizes
from hpcml.methods.psbml.snapshot import Snapshot
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.methods.psbml.torus import fit_grid
from hpcml.methods.psbml.train import make_problem, parse_base
from hpcml.model import learner as learners
from hpcml.model.classifier import FoundThreshold, MarginData, Origin, check_savable, write_classifier
from hpcml.model.learner import cpu_version


def _tokens(base: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(base.split()) if isinstance(base, str) else tuple(map(str, base))


BASE = Parameter((str, tuple, list), "a string or a tuple of strings", _tokens)
GRID = Parameter((str, NoneType), "a string or None", lambda grid: PsbmlOptions.grid if grid is None else grid)


class PsbmlCycle(NamedTuple):
    """The rows of this rank's nodes after a cycle of PSBML.

    Attributes
    ----------
    cycle : int
        Number of the cycle, starting at 1.
    rows : dict of int to ndarray (n_slots,), int64
        For each node, the rows in its slots: positions in X, counted over all ranks. A row may fill several slots.
    weights : dict of int to ndarray (n_slots,), float32
        The selection weight of each of them: 1 for the hardest row of the grid, 0 for the easiest.
    """

    cycle: int
    rows: Mapping[int, np.ndarray]
    weights: Mapping[int, np.ndarray]


def _has_probabilities(estimator: PsbmlClassifier) -> bool:
    """Return whether the base learner gives probabilities; if not, AttributeError gives the reason."""
    try:
        if hasattr(learners.parse_learner(_tokens(estimator.base)).unfitted(0), "predict_proba"):
            return True
    except (HpcmlError, TypeError) as error:
        raise AttributeError(str(error)) from None
    raise AttributeError(f"the base learner {estimator.base!r} gives no probabilities")


@classifier_of(PsbmlOptions)
class PsbmlClassifier(LabelScores, DistributedClassifier):
    """PSBML: one classifier of all classes, trained on the rows near the decision boundary, which a torus of nodes selects.

    The rows are distributed over the nodes of a torus. In each cycle every node trains a classifier on its rows, and rows that the
    classifiers of the neighbours are sure of are replaced by harder ones. After each cycle, a classifier trained on all distinct
    rows is assessed on held-out rows, and the best classifier is kept. The result is the same as of `hpcml train psbml` on the same
    rows. Rows are converted to float32.

    Every rank of `comm` gets a copy of all rows, and the nodes are distributed over the ranks.

    Attributes
    ----------
    classifier_ : object
        The best classifier, of the base learner's type, with class numbers as classes; a constant classifier for rows of one class.
    margin_rows_ : ndarray (n,), int64
        The training rows of this classifier, ascending, counted over all ranks.
    margin_weights_ : ndarray (n,), float32
        The hardness of each of these rows, from 0 (easiest) to 1 (hardest).
    grid_ : str
        The size of the torus.
    cycle_ : int
        The cycle of this classifier; 0: the base learner on all rows except the held-out ones, if no cycle improved on it.
    validation_error_ : float
        The error of this classifier on the held-out rows.
    threshold_ : float
        The score above which `predict` returns the last of two classes: 0, or with judge "auc" the threshold with the lowest error.

    Notes
    -----
    During training every rank holds all rows (8 bytes for each non-zero value), and the rows of its nodes in the form that the base
    learner needs.

    References
    ----------
    Kamath, Domeniconi & De Jong 2018, section 3.

    Examples
    --------
    >>> X, y = [[0.1 * k, 0.5] for k in range(20)], [0] * 10 + [1] * 10
    >>> model = hpcml.PsbmlClassifier(cycles=2).fit(X, y)
    >>> model.predict([[0.0, 0.5], [2.0, 0.5]]).tolist()
    [0, 1]
    """

    _learnt = ("classes_", "n_features_in_", "feature_names_in_")

    base: Annotated[str | tuple[str, ...], BASE] = "kernel-nb"
    grid: Annotated[str | None, GRID] = None
    """Size of the torus, "WIDTHxHEIGHT"; every node needs a training row. None: "3x3", or "2x2" or "1x1" for fewer than 9 or 4
    training rows."""
    neighbourhood: str = OPTION
    replace: float = OPTION
    cycles: int = OPTION
    validation_share: float = OPTION
    judge: str = OPTION
    patience: int | None = OPTION
    device: str = OPTION
    random_state: Seed = OPTION
    comm: mpi.Comm | None = None

    def _options(self) -> PsbmlOptions:
        options = super()._options()
        parse_base(options)
        return options

    def fit(self, X: Any, y: Any, on_cycle: Callable[[PsbmlCycle], None] | None = None) -> Self:
        """Train on this rank's rows. Collective over `comm`.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
            The rows; values are converted to float32.
        y : array-like (n,)
            The class of each row.
        on_cycle : callable, optional
            Function that is called on each rank after each cycle with a `PsbmlCycle`: the rows of the rank's nodes and their
            selection weights. An exception in it ends the training on all ranks.

        Returns
        -------
        PsbmlClassifier
            The classifier itself.

        Raises
        ------
        ValueError, TypeError
            For invalid rows, classes or parameters.

        Examples
        --------
        >>> weights = []
        >>> model = hpcml.PsbmlClassifier(cycles=5).fit(X, y, on_cycle=lambda cycle: weights.append(cycle.weights))
        """
        self._on_cycle = on_cycle
        try:
            return super().fit(X, y)
        finally:
            del self._on_cycle

    def _report_cycle(self, grid: Synchronous, snapshot: Snapshot) -> None:
        weights = {}
        for node, slots in grid.slots.items():
            entries = snapshot.entries[snapshot.entries["node"] == node]
            weights[node] = entries["weight"][np.searchsorted(entries["position"], slots)]
        self._on_cycle(PsbmlCycle(snapshot.cycle, {node: np.array(slots, np.int64) for node, slots in grid.slots.items()}, weights))

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: PsbmlOptions) -> None:
        if labels.kind != CLASSES:
            raise DataError(f"y has {labels.n_labels} columns; expected one column with the class of each row")
        X, labels = gather_rows(comm, X, labels)
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        if labels.classes.size < 2:
            raise DataError(
                f"y: all {X.shape[0]} rows are of one class, {labels.classes.tolist()[0]!r}; expected at least two classes"
            )
        numbers = np.diff(labels.indptr) if labels.n_labels == 1 else labels.indices  # for two classes, label 0 is the last class
        names = [str(name) for name in labels.classes[-labels.n_labels :]]
        if self.grid is None:
            n_validation = int(validation_sizes(np.bincount(numbers), options.validation_share).sum())
            options = replace(options, grid=fit_grid(numbers.size - n_validation, options.grid))
        # The keys of a dataset with these rows and without ids.
        keys = content_keys(np.diff(X.indptr), X.indices, X.data, feature_keys(None))
        classes = Classes(names, np.arange(X.shape[0]), numbers.astype(np.int32), keys)
        learner = parse_base(options)
        problem = make_problem(comm, RowsInMemory(X), learner, options, classes)
        with mpi.agreed(comm, f"preparing the base learner {learner.name}"), mpi.node_first(comm):
            check_savable(learner, classes.n_classes, problem.dense, save=False)
        run = TorusRun(problem, on_step=None if self._on_cycle is None else self._report_cycle)
        run.train()
        best = run.best
        result = (*best.margin_data(), cpu_version(best.classifier)) if comm.rank == best.owner else None
        self.margin_rows_, self.margin_weights_, self.classifier_ = comm.bcast(result, root=best.owner)
        self.grid_, self._dense = options.grid, problem.dense
        self.cycle_, self.validation_error_, self.threshold_ = best.cycle, best.error, best.threshold

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        X = validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=np.float32, reset=False)
        if self._dense:
            return X.toarray() if sp.issparse(X) else X
        return sp.csr_matrix(X)

    def _write_model(self, target: ModelTarget) -> None:
        """Write the classifier. Raises ConfigError for titles or a base learner that cannot be saved, DataError."""
        if target.label_titles is not None:
            raise ConfigError("label_titles: not supported for PsbmlClassifier; remove it")
        learner = learners.parse_learner(_tokens(self.base))
        about = {"grid": self.grid_, "validation_error": self.validation_error_}
        facts = (target.label_names, self.n_features_in_, target.vocabulary, self._dense, about, None, target.raw_input)
        threshold = FoundThreshold(self.threshold_, "error", "validation", "all") if self.judge == "auc" else None
        margin = MarginData(self.margin_rows_, self.margin_weights_, self.cycle_)
        write_classifier(target.path, self.classifier_, Origin(target.method, learner, "all", *facts), margin, threshold)

    def _scores(self, X: Any) -> np.ndarray:
        rows = self._rows(X)
        try:
            return learners.scores(self.classifier_, rows, len(self.classes_))
        except HpcmlError as error:
            raise ValueError(error_text(error)) from None

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes. Only available if the base learner gives probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
            The rows.

        Returns
        -------
        ndarray (n, n_classes)
            The probabilities, in the order of `classes_`; 0 for a class that no training row of the classifier has.

        Examples
        --------
        >>> model.predict_proba([[0.0, 0.5]]).shape
        (1, 2)
        """
        rows = self._rows(X)
        out = np.zeros((rows.shape[0], len(self.classes_)))
        constant = isinstance(self.classifier_, learners.Constant)
        out[:, self.classifier_.classes_] = 1.0 if constant else self.classifier_.predict_proba(rows)
        return out

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
from hpcml.data.in_memory import sound_csr
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
from hpcml.methods.psbml.torus import grid_for
from hpcml.methods.psbml.train import learner_of, make_problem
from hpcml.model import learner as learners
from hpcml.model.classifier import FoundThreshold, MarginData, Origin, check_savable, write_classifier
from hpcml.model.learner import on_cpu


def _tokens(base: str | tuple[str, ...]) -> tuple[str, ...]:
    """A base learner as the command line has it."""
    return tuple(base.split()) if isinstance(base, str) else tuple(map(str, base))


BASE = Parameter((str, tuple, list), "a string or a tuple of strings", _tokens)
GRID = Parameter((str, NoneType), "a string or None", lambda grid: PsbmlOptions.grid if grid is None else grid)


class PsbmlCycle(NamedTuple):
    """The rows of this rank's nodes after a cycle of PSBML.

    Attributes
    ----------
    cycle : int
        Number of the cycle, from 1.
    rows : dict of int to ndarray (n_slots,), int64
        For each node the rows in its slots: positions in X, counted over all ranks. A row may fill several slots.
    weights : dict of int to ndarray (n_slots,), float32
        The selection weight of each of them: 1 for the hardest row of the grid, 0 for the easiest.
    """

    cycle: int
    rows: Mapping[int, np.ndarray]
    weights: Mapping[int, np.ndarray]


def _has_probabilities(estimator: PsbmlClassifier) -> bool:
    """Whether the base learner gives probabilities; else AttributeError, with the reason."""
    try:
        if hasattr(learners.parse_learner(_tokens(estimator.base)).unfitted(0), "predict_proba"):
            return True
    except (HpcmlError, TypeError) as error:
        raise AttributeError(str(error)) from None
    raise AttributeError(f"the base learner {estimator.base!r} gives no probabilities")


@classifier_of(PsbmlOptions)
class PsbmlClassifier(LabelScores, DistributedClassifier):
    """PSBML: one classifier of all classes, trained on the rows near the boundary, which a torus of nodes selects.

    The rows are spread over the nodes of a torus; in each cycle every node trains a classifier of its rows, and rows that those of
    the neighbours are sure of are replaced by harder ones. After each cycle a classifier of all distinct rows is judged by rows set
    aside, and the best is kept: the one that `hpcml train psbml` keeps of the same rows. Rows are taken as float32.

    Every rank of `comm` gets a copy of all rows, and the nodes are divided among the ranks.

    Attributes
    ----------
    classifier_ : object
        The classifier that is kept, of the base learner's kind, with the numbers of the classes for
        classes; for rows of one class one that always says that class.
    margin_rows_ : ndarray (n,), int64
        The rows that it was trained on, ascending, counted over all ranks.
    margin_weights_ : ndarray (n,), float32
        How hard each of them was: 1 the hardest, 0 the easiest.
    grid_ : str
        The torus that it was trained on.
    cycle_ : int
        The cycle that it is of; 0: the base learner on all rows but those set aside, which no cycle beat.
    validation_error_ : float
        The share of the rows set aside that it gets wrong.
    threshold_ : float
        The score above which `predict` takes the last of two classes: 0, or with judge "auc" that
            with the least error.

    Notes
    -----
    Every rank holds all rows while it trains, 8 bytes for each value other than 0, and the rows of
    its nodes as the base learner takes them.

    References
    ----------
    Kamath, Domeniconi & De Jong 2018, section 3.
    """

    _learnt = ("classes_", "n_features_in_", "feature_names_in_")

    base: Annotated[str | tuple[str, ...], BASE] = "kernel-nb"
    grid: Annotated[str | None, GRID] = None
    """The torus, "WIDTHxHEIGHT"; there must be a row to train on for each node. None: "3x3", or
    "2x2" or "1x1" for fewer than 9 or 4 such rows."""
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
        learner_of(options)
        return options

    def fit(self, X: Any, y: Any, on_cycle: Callable[[PsbmlCycle], None] | None = None) -> Self:
        """Train on this rank's rows. Collective over `comm`.

        Parameters
        ----------
        X : array-like or sparse matrix (n, n_features)
            The rows; values are taken as float32.
        y : array-like (n,)
            The class of each row.
        on_cycle : callable, optional
            Called on each rank after each cycle with a `PsbmlCycle`: the rows of the rank's nodes and their selection
            weights. An error that it raises ends the training on all ranks.

        Returns
        -------
        PsbmlClassifier
            The classifier itself.

        Raises
        ------
        ValueError, TypeError
            For rows, classes or parameters that do not fit.

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
            weights[node] = entries["weight"][np.searchsorted(entries["place"], slots)]
        self._on_cycle(PsbmlCycle(snapshot.cycle, {node: np.array(slots, np.int64) for node, slots in grid.slots.items()}, weights))

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: PsbmlOptions) -> None:
        """Collective over `comm`. Gather the rows, do the cycles, take over the best classifier."""
        if labels.kind != CLASSES:
            raise DataError(
                f"y has {labels.n_labels} columns, but one classifier of all classes needs one column, the class of each row"
            )
        X, labels = gather_rows(comm, X, labels)
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        if labels.classes.size < 2:
            raise DataError(
                f"y: all {X.shape[0]} rows are of one class, {labels.classes.tolist()[0]!r}; expected at least two classes"
            )
        of = np.diff(labels.indptr) if labels.n_labels == 1 else labels.indices  # of two classes the last one is a label
        names = [str(name) for name in labels.classes[-labels.n_labels :]]
        if self.grid is None:
            n_validation = int(validation_sizes(np.bincount(of), options.validation_share).sum())
            options = replace(options, grid=grid_for(of.size - n_validation, options.grid))
        # The keys are those that a dataset of the rows without ids would have.
        keys = content_keys(np.diff(X.indptr), X.indices, X.data, feature_keys(None))
        classes = Classes(names, np.arange(X.shape[0]), of.astype(np.int32), keys)
        learner = learner_of(options)
        problem = make_problem(comm, RowsInMemory(X), learner, options, classes)
        with mpi.agreed(comm, f"preparing the base learner {learner.name}"), mpi.node_first(comm):
            check_savable(learner, classes.n_classes, problem.dense, save=False)
        run = TorusRun(problem, on_step=None if self._on_cycle is None else self._report_cycle)
        run.train()
        pocket = run.pocket
        mine = (*pocket.margin_data(), on_cpu(pocket.classifier)) if comm.rank == pocket.owner else None
        self.margin_rows_, self.margin_weights_, self.classifier_ = comm.bcast(mine, root=pocket.owner)
        self.grid_, self._dense = options.grid, problem.dense
        self.cycle_, self.validation_error_, self.threshold_ = pocket.cycle, pocket.error, pocket.threshold

    def _rows(self, X: Any) -> Rows:
        """Rows as the base learner takes them."""
        check_is_fitted(self)
        X = validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=np.float32, reset=False)
        if self._dense:
            return X.toarray() if sp.issparse(X) else X
        return sp.csr_matrix(X)

    def _write_model(self, target: ModelTarget) -> None:
        """Write the classifier. Local. Raises ConfigError for titles, or a base learner that cannot be saved, DataError."""
        if target.label_titles is not None:
            raise ConfigError("label_titles: a model of PsbmlClassifier has no titles; remove it")
        learner = learners.parse_learner(_tokens(self.base))
        about = {"grid": self.grid_, "validation_error": self.validation_error_}
        facts = (target.label_names, self.n_features_in_, target.vocabulary, self._dense, about, None, target.raw_input)
        threshold = FoundThreshold(self.threshold_, "error", "validation", "all") if self.judge == "auc" else None
        margin = MarginData(self.margin_rows_, self.margin_weights_, self.cycle_)
        write_classifier(target.path, self.classifier_, Origin(target.method, learner, "all", *facts), margin, threshold)

    def _scores(self, X: Any) -> np.ndarray:
        """The scores (n, 1), or (n, n_classes), as of `hpcml predict`."""
        rows = self._rows(X)
        try:
            return learners.scores(self.classifier_, rows, len(self.classes_))
        except HpcmlError as error:
            raise ValueError(error_text(error)) from None

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row (n,): the highest score; the last of two above `threshold_`."""
        scores = self._scores(X)
        best = scores.argmax(axis=1) if len(self.classes_) > 2 else (scores[:, 0] > self.threshold_).astype(np.intp)
        found: np.ndarray = self.classes_[best]
        return found

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities (n, n_classes), if the base learner has any; 0 for a class not seen."""
        rows = self._rows(X)
        out = np.zeros((rows.shape[0], len(self.classes_)))
        constant = isinstance(self.classifier_, learners.Constant)
        out[:, self.classifier_.classes_] = 1.0 if constant else self.classifier_.predict_proba(rows)
        return out

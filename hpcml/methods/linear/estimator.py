"""Base of the scikit-learn classifiers with a weight vector per label."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.compact import warm_up as warm_up_reading
from hpcml.data.in_memory import check_csr
from hpcml.data.scaling import scaled
from hpcml.estimators.distributed import DistributedClassifier, gather_rows
from hpcml.estimators.labels import CLASSES, LabelScores, LabelSets, shard_of
from hpcml.estimators.parameters import ATTRIBUTES
from hpcml.estimators.saving import ModelTarget, write_linear
from hpcml.kernels import elementwise
from hpcml.methods.linear.layout import Sharding, labels_of_group, lanes_that_fit
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import STEP_LIMIT, Finished, SparseWeightsOf, warm_up
from hpcml.model.trained import LOG_ODDS
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver, Job
from hpcml.run.profile import Profile


def _has_log_odds(estimator: LinearClassifier) -> bool:
    """Raise AttributeError with the reason if scores are not log-odds."""
    if getattr(estimator, "loss", None) != LOG_ODDS:
        advice = f"use loss={LOG_ODDS!r} or " if LOG_ODDS in estimator._options_kind.losses else "use "
        raise AttributeError(f"predict_proba: the scores are not log-odds; {advice}CalibratedClassifierCV")
    for name, neutral in (("positive_weight", ("1", "1.0")), ("class_weight", ("None",))):
        if str(getattr(estimator, name, neutral[0])) not in neutral:
            raise AttributeError(f"predict_proba: {name} changes the log-odds of the rows; use CalibratedClassifierCV")
    return True


class LearntLabels(Job):
    """Results of an estimator's labels; entries of labels that other ranks trained are 0 until `share`."""

    def __init__(self, risk: Risk, column_of: np.ndarray, factors: np.ndarray) -> None:
        self.rows, self.column_of, self.factors = (rows := risk.rows), column_of, factors
        self.coef = np.zeros((risk.n_parts, rows.n_labels, rows.n_features))
        self.intercept, self.f_min, self.visited, self.gap = np.zeros((4, rows.n_labels))
        self.steps, self.status = np.zeros((2, rows.n_labels), np.int64)
        self.numbers: dict[int, np.ndarray] = {}  # parameters of the rule that combines a label's parts

    def keep(self, finished: list[Finished]) -> None:
        for done in finished:
            w, label, n_columns = done.w, done.label, self.rows.n_columns
            if isinstance(w, SparseWeightsOf):
                dense = np.zeros(len(self.coef) * n_columns)
                inside = w.columns < dense.size
                dense[w.columns[inside]] = w.values[inside]
                self.intercept[label] = w.intercept
                if not inside.all():
                    self.numbers[label] = w.values[~inside]
            else:
                dense = w.astype(np.float64)
                self.intercept[label] = dense[-1] if self.rows.bias else 0.0
            for part, coef in enumerate(self.coef if n_columns else ()):
                np.multiply(dense[part * n_columns : (part + 1) * n_columns][self.column_of], self.factors, out=coef[label])
            self.steps[label], self.status[label] = done.steps, done.status
            self.f_min[label], self.visited[label], self.gap[label] = done.f, done.visited, done.gap or 0.0

    def share(self, comm: mpi.Comm) -> None:
        """Collect the labels of all ranks and add constant models. Collective over `comm`."""
        rows = self.rows
        if rows.comm.size < comm.size:
            for array in (self.coef, self.intercept, self.f_min, self.visited, self.gap, self.steps, self.status):
                mpi.allreduce_sum(comm, array.view(np.int64))  # sums bits: all ranks but one have 0
            self.numbers = {label: values for part in comm.allgather(self.numbers) for label, values in part.items()}
        constant = (rows.n_positive == 0) | (rows.n_positive == rows.n_global)
        self.intercept[constant] = np.where(rows.n_positive > 0, 1.0, -1.0)[constant]


class LinearClassifier(LabelScores, DistributedClassifier):
    _method: ClassVar[LinearMethod]
    _options_kind: ClassVar[type[LinearOptions]]
    _learnt: ClassVar[tuple[str, ...]] = tuple(name for name in ATTRIBUTES if name != "gap_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: LinearOptions) -> None:
        """Compact the rows, train, and warn of labels that did not converge. Collective over `comm`.

        With exact sums, each rank keeps its rows; otherwise every rank gets all rows, and labels are distributed.
        """
        method, fold = self._method, self._method.risk.shares_columns
        if method.sharding is Sharding.EXACT:
            before, total = mpi.exclusive_sum(comm, [X.shape[0]])
            shard = scaled(comm, shard_of(X, labels, int(before[0]), int(total[0])), options.scale)
            rows, columns = compact_rows(comm, shard, options.bias, fold=fold)
        else:
            X, labels = gather_rows(comm, X, labels)
            shard = scaled(mpi.self_comm(), shard_of(X, labels, 0, X.shape[0]), options.scale)
            warm_up_reading(comm, shard)
            with mpi.groups_agreed(comm):
                rows, columns = compact_rows(mpi.self_comm(), shard, options.bias, fold=fold)
        risk = self._risk(rows, labels, options)
        with mpi.groups_agreed(comm):
            risk.prepare(rows.comm)
        tables = columns.tables(rows.comm)
        number, n_groups = (0, 1) if rows.comm.size == comm.size else (comm.rank, comm.size)
        trainable = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
        waiting = labels_of_group(trainable, rows.n_positive, number, n_groups).tolist()
        _, (n_values,) = mpi.exclusive_sum(rows.comm, [rows.data.size])
        sizes = int(n_values), rows.n_global, rows.n_columns
        n_lanes = lanes_that_fit(sizes, rows.comm.size, options, room_per_rank(comm), method.memory, method.lanes)
        n_lanes = max(1, min(n_lanes, len(waiting)))
        with mpi.agreed(comm, "making room for the weights"):
            learnt = LearntLabels(risk, *tables)
            solver = method.solver(risk, np.arange(rows.n_labels), n_lanes, options)
        with mpi.node_first(comm):
            warm_up(method.solver, risk, options)
        driver = Driver(comm, rows.comm)
        driver.run(solver.solve(waiting, driver), learnt)
        learnt.share(comm)
        self._take(risk, learnt)
        self._about = {**risk.describe(options), **risk.about, "n_rows": rows.n_global}
        self._n_positive = rows.n_positive
        limit, unfinished = options.step_limit, self._status == STEP_LIMIT
        at_limit = unfinished & (self.n_iter_ >= limit)
        for mask, text in (
            (at_limit, f"reached max_iter={limit} steps; raise max_iter or scale the features"),
            (unfinished & ~at_limit, f"reached the limit of {options.precision} precision before tol or max_gap; raise these"),
        ):
            if mask.any() and comm.rank == 0:  # stacklevel: the caller of `fit`
                warnings.warn(f"{int(mask.sum())} of {mask.size} labels {text}", ConvergenceWarning, stacklevel=4)

    def _take(self, risk: Risk, learnt: LearntLabels) -> None:
        self.coef_, self.intercept_, self.n_iter_, self._status = learnt.coef[0], learnt.intercept, learnt.steps, learnt.status
        for name, values in (("f_min_", learnt.f_min), ("visited_", learnt.visited), ("gap_", learnt.gap)):
            if name in self._learnt:
                setattr(self, name, values)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
        return self._method.risk(rows, options, Profile())

    def _write_model(self, target: ModelTarget) -> None:
        own = {name: getattr(self, f"{name}_") for name in ("f_min", "visited", "gap") if hasattr(self, f"{name}_")}
        facts = {"f_min": np.nan, "visited": np.nan, "status": self._status, "steps": self.n_iter_, "n_positive": self._n_positive}
        weights, numbers = getattr(self, "part_coef_", [self.coef_]), getattr(self, "_numbers", ())
        write_linear(target, weights, self.intercept_, facts | own, self._about, numbers if "combination" in self._about else ())

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, check_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    @available_if(_has_log_odds)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class or label, for losses whose scores are log-odds.

        Parameters
        ----------
        X : array-like or sparse matrix (n_rows, n_features)
            Rows.

        Returns
        -------
        ndarray (n_rows, len(classes_))
            Probabilities. With more than two classes, those of each class against the others, normalised to sum to 1.

        Raises
        ------
        AttributeError
            If the scores are not log-odds.
        """
        scores = self._scores(X)
        if self._kind != CLASSES:
            return np.where(self.n_iter_ > 0, elementwise.sigmoid(scores), scores > 0)
        if len(self.classes_) == 1:
            return np.ones_like(scores)
        if len(self.classes_) == 2:
            return np.hstack([elementwise.sigmoid(-scores), elementwise.sigmoid(scores)])
        logs = -elementwise.softplus(-scores)
        shares = elementwise.exp(logs - logs.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

"""The methods with a weight vector for each label as scikit-learn classifiers."""

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
from hpcml.data.in_memory import sound_csr
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
from hpcml.methods.linear.solver import STEP_LIMIT, Finished, SparseWeightsOf, turns_of, warm_up
from hpcml.model.trained import LOG_ODDS
from hpcml.mpi.memory import room_per_rank
from hpcml.run.driver import Driver, Job
from hpcml.run.profile import Profile


def _has_log_odds(estimator: LinearClassifier) -> bool:
    """Whether the scores are log-odds. Raises AttributeError, with the reason, if not."""
    loss, able = getattr(estimator, "loss", None), [loss for loss in estimator._options_kind.losses if loss == LOG_ODDS]
    if loss not in able:
        advice = f"; they need loss={able[0]!r}" if able else ""
        raise AttributeError(f"predict_proba: the scores are no log-odds{advice} (or wrap it in CalibratedClassifierCV)")
    for name, plain in (("positive_weight", ("1", "1.0")), ("class_weight", ("None",))):
        if str(getattr(estimator, name, plain[0])) not in plain:
            raise AttributeError(f"predict_proba: with a {name} the scores are no log-odds of the rows as they are")
    return True


class LearntLabels(Job):
    """The weights of an estimator's labels, and how their training went; all 0 but for this rank's."""

    def __init__(self, risk: Risk, column_of: np.ndarray, factors: np.ndarray) -> None:
        """`column_of` (n_features) and `factors`: of each feature its column, and what to multiply its weight by."""
        self.rows, self.column_of, self.factors = (rows := risk.rows), column_of, factors
        self.coef = np.zeros((risk.n_parts, rows.n_labels, rows.n_features))
        self.intercept, self.f_min, self.visited, self.gap = np.zeros((4, rows.n_labels))
        self.steps, self.status = np.zeros((2, rows.n_labels), np.int64)
        self.numbers: dict[int, np.ndarray] = {}  # of a label whose parts are combined by a rule: the rule's

    def keep(self, finished: list[Finished]) -> None:
        """Take labels that are done. Local."""
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
        """Collective over `comm`. Take the labels of all ranks, and the constant models of the others."""
        rows = self.rows
        if rows.comm.size < comm.size:
            for array in (self.coef, self.intercept, self.f_min, self.visited, self.gap, self.steps, self.status):
                mpi.allreduce_sum(comm, array.view(np.int64))  # of bits: all are 0 but those of one rank
            self.numbers = {label: values for part in comm.allgather(self.numbers) for label, values in part.items()}
        constant = (rows.n_positive == 0) | (rows.n_positive == rows.n_global)
        self.intercept[constant] = np.where(rows.n_positive > 0, 1.0, -1.0)[constant]


class LinearClassifier(LabelScores, DistributedClassifier):
    """The base of the classifiers; a subclass says the method, its options and its parameters."""

    _method: ClassVar[LinearMethod]
    _options_kind: ClassVar[type[LinearOptions]]
    _learnt: ClassVar[tuple[str, ...]] = tuple(name for name in ATTRIBUTES if name != "gap_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: LinearOptions) -> None:
        """Collective over `comm`. Load the rows, train, warn of labels that did not converge.

        Ranks share the rows as they are, if that gives the same bits. Else every rank has all rows, and they share the labels.
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
            warm_up(method.solver, risk, options, learnt)
        driver = Driver(comm, rows.comm)
        driver.run(turns_of(solver, risk, waiting, driver, learnt), learnt)
        learnt.share(comm)
        self._take(risk, learnt)
        self._about = {**risk.describe(options), **risk.about, "n_rows": rows.n_global}
        self._n_positive = rows.n_positive
        most, short = options.step_limit, self._status == STEP_LIMIT
        late = self.n_iter_ >= most
        for which, text in (
            (short & late, f"were given up after max_iter={most} steps; raise max_iter, or scale the features"),
            (
                short & ~late,
                f"are as exact as {options.precision} precision allows, but less than tol and max_gap ask for; raise these, or "
                "choose precision='double'",
            ),
        ):
            if which.any() and comm.rank == 0:  # told where `fit` was called
                warnings.warn(f"{int(which.sum())} of {short.size} labels {text}", ConvergenceWarning, stacklevel=4)

    def _take(self, risk: Risk, learnt: LearntLabels) -> None:
        """Set what was learnt. Local."""
        self.coef_, self.intercept_, self.n_iter_, self._status = learnt.coef[0], learnt.intercept, learnt.steps, learnt.status
        for name, values in (("f_min_", learnt.f_min), ("visited_", learnt.visited), ("gap_", learnt.gap)):
            if name in self._learnt:
                setattr(self, name, values)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
        """The objective that the labels share. Raises ConfigError, the same on all ranks."""
        return self._method.risk(rows, options, Profile())

    def _write_model(self, target: ModelTarget) -> None:
        """Write the model. Local. Raises DataError."""
        own = {name: getattr(self, f"{name}_") for name in ("f_min", "visited", "gap") if hasattr(self, f"{name}_")}
        facts = {"f_min": np.nan, "visited": np.nan, "status": self._status, "steps": self.n_iter_, "n_positive": self._n_positive}
        weights, numbers = getattr(self, "part_coef_", [self.coef_]), getattr(self, "_numbers", ())
        write_linear(target, weights, self.intercept_, facts | own, self._about, numbers if "combination" in self._about else ())

    def _scores(self, X: Any) -> np.ndarray:
        """The scores `x · w + intercept` (n, n_labels)."""
        check_is_fitted(self)
        X = validate_data(self, sound_csr(X, "X"), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    @available_if(_has_log_odds)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, or label (n, len(classes_)), where scores are log-odds.

        With more than two classes those of each class against the others, divided by their sum.
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

"""The methods with a weight vector for each label as scikit-learn classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, compact_rows
from hpcml.data.compact import warm_up as warm_up_reading
from hpcml.data.in_memory import sound_csr
from hpcml.data.scaling import scaled
from hpcml.estimators.distributed import DistributedClassifier, gather_rows
from hpcml.estimators.labels import CLASSES, LabelScores, LabelSets, shard_of
from hpcml.kernels import elementwise
from hpcml.methods.linear.layout import Sharding, lanes_per_group
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.options import LinearOptions
from hpcml.methods.linear.solver import STEP_LIMIT, Finished, SparseWeightsOf
from hpcml.methods.linear.warm_up import warm_up
from hpcml.model.linear import LOG_ODDS
from hpcml.mpi.memory import room_per_rank
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER


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


class LinearClassifier(LabelScores, DistributedClassifier):
    """The base of the classifiers; a subclass says the method, its options and its parameters."""

    _method: ClassVar[LinearMethod]
    _options_kind: ClassVar[type[LinearOptions]]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _learn(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: LinearOptions) -> None:
        """Collective over `comm`. Spread the rows, train, warn of labels that were given up."""
        rows, columns = self._spread(comm, X, labels, options)
        risk = self._risk(rows, labels, options)
        self._train(comm, risk, columns, options)
        for text in self._shortfalls(options) if comm.rank == 0 else ():
            warnings.warn(text, ConvergenceWarning, stacklevel=5)  # where `fit` was called

    def _spread(self, comm: mpi.Comm, X: sp.csr_matrix, labels: LabelSets, options: LinearOptions) -> tuple[CompactRows, ColumnMap]:
        """Collective over `comm`. The rows as they lie, or all on every rank."""
        if self._method.sharding is Sharding.EXACT:
            before, total = mpi.exclusive_sum(comm, [X.shape[0]])
            shard = scaled(comm, shard_of(X, labels, int(before[0]), int(total[0])), options.scale)
            return compact_rows(comm, shard, options.bias, fold=self._method.risk.shares_columns)
        X, labels = gather_rows(comm, X, labels)
        shard = scaled(mpi.self_comm(), shard_of(X, labels, 0, X.shape[0]), options.scale)
        warm_up_reading(comm, shard)
        with mpi.groups_agreed(comm):
            return compact_rows(mpi.self_comm(), shard, options.bias, fold=self._method.risk.shares_columns)

    def _risk(self, rows: CompactRows, labels: LabelSets, options: LinearOptions) -> Risk:
        """The objective that the labels share. Raises ConfigError, the same on all ranks."""
        return self._method.risk(rows, options, Profile())

    def _train(self, comm: mpi.Comm, risk: Risk, columns: ColumnMap, options: LinearOptions) -> None:
        """Collective over `comm`. Train every label and set what was learnt.

        Ranks that do not share the rows share the labels.
        """
        method, rows = self._method, risk.rows
        n = rows.n_labels
        with mpi.groups_agreed(comm):
            risk.prepare(rows.comm)
        table, factors = columns.tables(rows.comm)
        with mpi.agreed(comm, "making room for the weights"):
            coef = np.zeros((n, rows.n_features))
        intercept, f_min, visited, gap = np.zeros((4, n))
        steps, status = np.zeros((2, n), np.int64)
        for done in self._finished(comm, risk, options):
            if isinstance(done.w, SparseWeightsOf):
                w = np.zeros(rows.n_columns)
                w[done.w.columns] = done.w.values
                intercept[done.label] = done.w.intercept
            else:
                w = done.w.astype(np.float64)
                intercept[done.label] = w[-1] if rows.bias else 0.0
            np.multiply(w[table], factors, out=coef[done.label])
            steps[done.label], status[done.label] = done.steps, done.status
            f_min[done.label], visited[done.label], gap[done.label] = done.f, done.visited, done.gap or 0.0
        if rows.comm.size < comm.size:
            for array in (coef, intercept, f_min, visited, gap, steps, status):
                mpi.allreduce_sum(comm, array.view(np.int64))  # of bits: all are 0 but those of one rank
        constant = (rows.n_positive == 0) | (rows.n_positive == rows.n_global)
        intercept[constant] = np.where(rows.n_positive > 0, 1.0, -1.0)[constant]
        self.coef_, self.intercept_ = coef, intercept
        self.n_iter_, self.f_min_, self.visited_, self._status = steps, f_min, visited, status
        if method.certified:
            self.gap_ = gap

    def _finished(self, comm: mpi.Comm, risk: Risk, options: LinearOptions) -> Iterator[Finished]:
        """Collective over `comm`. The labels of this rank, or its group, as they are done."""
        method, rows = self._method, risk.rows
        number, n_groups = (0, 1) if rows.comm.size == comm.size else (comm.rank, comm.size)
        waiting = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
        waiting = waiting[np.argsort(-rows.n_positive[waiting], kind="stable")][number::n_groups].tolist()
        n_lanes = lanes_per_group(len(waiting), 0, rows, options, room_per_rank(comm), method.memory, most=method.lanes)
        with mpi.agreed(comm, "making room for the weights"):
            solver = method.solver(risk, np.arange(rows.n_labels), n_lanes, options)
        with mpi.node_first(comm):
            warm_up(method.solver, risk, options)
        with mpi.groups_agreed(comm):
            for finished in solver.solve(waiting, NEVER):
                yield from finished

    def _shortfalls(self, options: LinearOptions) -> list[str]:
        """Remarks on labels that are not as exact as was asked for."""
        most = options.step_limit
        short, late = self._status == STEP_LIMIT, self.n_iter_ >= most
        texts = (
            (short & late, f"were given up after max_iter={most} steps; raise max_iter, or scale the features"),
            (
                short & ~late,
                f"are as exact as {options.precision} precision allows, but less than tol and max_gap ask for; raise these, or "
                "choose precision='double'",
            ),
        )
        return [f"{int(which.sum())} of {short.size} labels {text}" for which, text in texts if which.any()]

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

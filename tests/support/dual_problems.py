"""Problems of `dual` without files, their solution, and independent references."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.estimators.labels import LabelSets, shard_of
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.options import BALANCED, DualOptions
from hpcml.methods.linear.objective import Risk
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from support.make import conflicts, duplicates, random_data
from support.oracles import objective
from support.oracles_dual import HingeTwin, SquaredHingeTwin
from support.oracles_logistic import LogisticTwin

HINGES = ("hinge", "squared-hinge")
WEIGHTS = ("1", "3.5", BALANCED)
TWINS = {"hinge": HingeTwin, "squared-hinge": SquaredHingeTwin, "logistic": LogisticTwin}


def asked(loss="hinge", **given):
    return DualOptions(**{"loss": loss, "bias": False} | given)


def risk_of(X, Y, options):
    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y)
    labels = LabelSets(0, np.arange(Y.shape[1]), Y.shape[1], Y.indptr.astype(np.int64), Y.indices.astype(np.int64))
    rows, _ = compact_rows(mpi.self_comm(), shard_of(X, labels, 0, X.shape[0]), options.bias)
    return Risk(rows, options, Profile())


def trainable(risk):
    return np.flatnonzero((risk.rows.n_positive > 0) & (risk.rows.n_positive < risk.rows.n_global))


def finish(risk, options, labels=None, widest=16):
    labels = trainable(risk) if labels is None else np.array(labels)
    turns = DualSolver(risk, labels, widest, options).solve(range(labels.size), NEVER)
    return {int(labels[one.label]): one for finished in turns for one in finished}


def dense(risk):
    rows = risk.rows
    return sp.csr_matrix((rows.data.astype(float), rows.indices, rows.indptr), (rows.n_local, rows.n_columns)).toarray()


def of_label(risk, options, label):
    sign = np.full(risk.rows.n_local, -1.0)
    sign[risk.rows.rows_of(label)] = 1
    return sign, (sign < 0).sum() / (sign > 0).sum() if options.positive_weight == BALANCED else float(options.positive_weight)


def twin_of(risk, options, label, **more):
    twin = TWINS[options.loss](dense(risk), risk.lam, options.dual_tol, options.seed, risk.rows.bias, **more)
    return twin.solve(*of_label(risk, options, label))


def f_of(risk, options, label, w):
    sign, weight = of_label(risk, options, label)
    return objective(options.loss, dense(risk), sign, w.astype(float), risk.lam, weight)


def minimum(risk, options, label):
    sign, weight = of_label(risk, options, label)
    shared = {"C": 1 / (risk.lam * risk.rows.n_global), "fit_intercept": False, "class_weight": {1: weight, -1: 1.0}}
    if options.loss == "logistic":
        solver = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=2000, **shared)
    else:
        solver = LinearSVC(loss=options.loss.replace("-", "_"), tol=1e-8, max_iter=200_000, random_state=0, **shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # then it is an upper bound only
        w = solver.fit(dense(risk), sign).coef_[0]
    return f_of(risk, options, label, w), w


# Data sets that are hard in one respect each: X, Y.


def some_empty_rows():
    X, Y = random_data(1, 40, 9, 3, density=0.4)
    X = X.tolil()
    X[[0, 7, 21, 39]] = 0
    return X, Y


def one_feature():
    rng = np.random.default_rng(4)
    return rng.normal(size=(25, 1)), rng.random((25, 3)) < 0.4


def six_decades():
    X, Y = random_data(5, 40, 8, 3, density=0.5)
    return X @ sp.diags(10.0 ** np.linspace(-3, 3, 8)), Y


def lopsided():
    X, _ = random_data(6, 30, 10, 1, density=0.4)
    Y = np.zeros((30, 4))
    Y[1:, 0], Y[17, 1], Y[:, 3] = 1, 1, 1  # all rows but one; one row; none; all
    return X, Y


def few_rows(n):
    return lambda: (np.random.default_rng(n).normal(size=(n, 3)), np.arange(n)[:, None] == np.arange(min(n, 3)))


DATA = {
    "random": lambda: random_data(0, 60, 20, 3, density=0.3),
    "wide": lambda: random_data(7, 12, 80, 3, density=0.3),
    "two rows": few_rows(2),
    "three rows": few_rows(3),
} | {make.__name__: make for make in (some_empty_rows, duplicates, conflicts, one_feature, six_decades, lopsided)}

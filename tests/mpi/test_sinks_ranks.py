"""Support and training scores of finished labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.dual_problems import of_label
from support.make import random_data

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.estimators.labels import LabelSets, shard_of
from hpcml.methods import registry
from hpcml.methods.dual import dual, newton
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT, SparseWeightsOf, turns_of, warm_up
from hpcml.run.driver import Driver, Job
from hpcml.run.profile import Profile

pytestmark = pytest.mark.mpi
LOSSES = ["hinge", "squared-hinge", "logistic"]


class AllOfThem(Job):
    """Keeps finished labels, with their support and scores."""

    needs_support = needs_scores = True

    def __init__(self):
        self.finished = {}

    def keep(self, finished):
        self.finished |= {each.label: each for each in finished}


class ScoresOnly(AllOfThem):
    needs_support = False


def problem(comm, name="dual", **options):
    """The method, its options, and the rows of 5 labels; those of a rank are a part of all if several ranks share them."""
    X, Y = random_data(3, 90, 25, 5, density=0.3)
    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y)
    n, first = X.shape[0], comm.rank * X.shape[0] // comm.size
    last = (comm.rank + 1) * n // comm.size
    X, Y = X[first:last], Y[first:last]
    labels = LabelSets(0, np.arange(5), 5, Y.indptr.astype(np.int64), Y.indices.astype(np.int64))
    method = registry.method_named(name)
    options = method.options(**options)
    rows, _ = compact_rows(comm, shard_of(X, labels, first, n), options.bias)
    risk = method.load(method.linear).risk(rows, options, Profile())
    risk.prepare(comm)
    return method.load(method.linear), options, risk


def finish(comm, linear, options, risk, sink=None):
    """The finished labels, as a sink gets them."""
    sink = AllOfThem() if sink is None else sink
    solver = linear.solver(risk, np.arange(5), 3, options)
    warm_up(linear.solver, risk, options, sink)
    driver = Driver(comm, risk.comm)
    driver.run(turns_of(solver, risk, range(5), driver, sink), sink)
    assert sorted(sink.finished) == list(range(5))
    return sink.finished


def rows_of(risk):
    rows = risk.rows
    return sp.csr_matrix((rows.data.astype(float), rows.indices, rows.indptr), (rows.n_local, rows.n_columns)).toarray()


def weights_of(done, risk):
    """All weights in float64, and an intercept that is no column of the rows."""
    if not isinstance(done.w, SparseWeightsOf):
        return done.w.astype(float), 0.0
    w = np.zeros(risk.rows.n_columns)
    w[done.w.columns] = done.w.values
    if not risk.rows.bias:
        return w, done.w.intercept
    w[-1] = done.w.intercept
    return w, 0.0


def check_scores(risk, done):
    """The scores are X w, with the intercept."""
    w, intercept = weights_of(done, risk)
    np.testing.assert_allclose(done.scores, rows_of(risk) @ w + intercept, rtol=1e-9, atol=1e-12 * max(1, np.abs(w).max()))
    assert done.scores.dtype == np.float64


def check(comm, risk, options, done, tolerance=1e-6):
    """The weights are those of the duals, which have the signs and bounds of the dual problem; the scores are right.

    Returns the gap that they certify.
    """
    check_scores(risk, done)
    X, (w, _), support = rows_of(risk), weights_of(done, risk), done.support
    assert (np.diff(support.rows) > 0).all() and (support.duals != 0).all() and support.duals.dtype == np.float64
    sums = mpi.allreduce_sum(comm, X[support.rows].T @ support.duals)
    same = slice(None) if options.loss == "logistic" or not risk.rows.bias else slice(-1)  # an intercept is moved
    np.testing.assert_allclose(sums[same], w[same], rtol=0, atol=tolerance * max(1, np.abs(w).max()))
    sign, weight = of_label(risk, options, done.label)
    cost, alpha = np.where(sign > 0, weight, 1.0) / (risk.lam * risk.rows.n_global), np.zeros(sign.size)
    alpha[support.rows] = support.duals * sign[support.rows]
    assert (alpha >= 0).all() and (options.loss == "squared-hinge" or (alpha <= cost * (1 + 1e-6)).all())
    own = alpha.sum()
    if options.loss == "squared-hinge":
        own -= (alpha**2 / (4 * cost)).sum()
    elif options.loss == "logistic":
        inside = np.clip(alpha / cost, 1e-300, 1)
        own = -(cost * (inside * np.log(inside) + (1 - inside) * np.log1p(-np.minimum(inside, 1 - 1e-16)))).sum()
    bound = mpi.allreduce_sum(comm, np.array([own]))[0] - 0.5 * np.square(sums).sum()
    return max(0.0, 1 - risk.lam * bound / done.f)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("loss", "precision"), [*((loss, "single") for loss in LOSSES), ("hinge", "double")])
def test_labels_of_a_panel(comm, loss, precision, bias):
    linear, options, risk = problem(comm, loss=loss, precision=precision, bias=bias, positive_weight="2.5", lam="0.02")
    for done in finish(comm, linear, options, risk).values():
        n_support = comm.allreduce(done.support.rows.size)
        assert done.status == CONVERGED and (n_support == 90 if loss == "logistic" else 0 < n_support < 90)
        assert check(comm, risk, options, done) == pytest.approx(done.gap, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES[:2])
def test_rare_labels(comm, monkeypatch, loss):
    monkeypatch.setattr(dual, "VALUES_PER_POSITIVE", 1e-9)
    alone = mpi.self_comm()  # rare labels are trained by one rank
    linear, options, risk = problem(alone, loss=loss, bias=True, lam="0.02")
    for done in finish(comm, linear, options, risk).values():
        assert isinstance(done.w, SparseWeightsOf)
        assert check(alone, risk, options, done) == pytest.approx(done.gap, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_labels_at_the_step_limit_have_the_support_of_their_best_weights(comm, monkeypatch, loss):
    monkeypatch.setattr(newton, "MOST_COLUMNS", 0)
    linear, options, risk = problem(comm, loss=loss, bias=True, lam="1e-5", max_steps=12, max_gap=1e-9)
    found = finish(comm, linear, options, risk)
    assert STEP_LIMIT in [done.status for done in found.values()]
    for done in found.values():
        check(comm, risk, options, done)


@pytest.mark.parametrize("loss", LOSSES)
def test_labels_of_newton_s_method(comm, monkeypatch, loss):
    monkeypatch.setattr(newton, "PASSES_PER_ITERATION", 1)
    options = {"precision": "double", "bias": False, "lam": "1e-5", "max_steps": 150, "max_gap": 1e-4, "dual_tol": 0.01}
    linear, options, risk = problem(comm, loss=loss, **options)
    improved = []
    monkeypatch.setattr(dual, "run_newton", lambda *given: improved.append(newton.run_newton(*given)) or improved[-1])
    for done in finish(comm, linear, options, risk).values():
        gap = check(comm, risk, options, done, 2 * np.sqrt(2 * done.gap * done.f / risk.lam) + 1e-6)  # f / λ is strongly convex
        assert gap <= done.gap * 1.01 + 1e-9
    assert improved if loss == "hinge" else all(improved)  # of the hinge Newton's method minimises an approximation


@pytest.mark.parametrize("method", ["probe", "pegasos", "elastic-net", "svmperf", "liblinear"])
def test_scores_of_other_methods(comm, method):
    comm = mpi.self_comm() if method in ("elastic-net", "liblinear") else comm  # ranks do not share the rows
    linear, options, risk = problem(comm, method)
    for done in finish(comm, linear, options, risk, ScoresOnly()).values():
        check_scores(risk, done)
        assert done.support is None
    with pytest.raises(NotImplementedError, match="no duals, so its labels have no support"):
        finish(comm, linear, options, risk)


def test_scores_that_are_not_linear(comm):
    linear, options, risk = problem(mpi.self_comm(), "bernoulli-nb")
    with pytest.raises(NotImplementedError, match="scores that are not x"):
        finish(comm, linear, options, risk, ScoresOnly())

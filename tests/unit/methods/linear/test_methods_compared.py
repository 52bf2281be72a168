"""Methods against an independent minimum of the same objective."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import LinearSVC
from support import oracles
from support.make import dataset, random_data
from support.training import asked

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.methods.liblinear.liblinear import METHOD as LIBLINEAR
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.panel_kernels import CHUNK
from hpcml.methods.linear.solver import CONVERGED
from hpcml.methods.probe.probe import METHOD as PROBE
from hpcml.methods.probe.probe import PEGASOS_METHOD as PEGASOS
from hpcml.methods.svmperf.svmperf import IDLE_LIMIT
from hpcml.methods.svmperf.svmperf import METHOD as SVMPERF
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

GIVEN = {
    "probe": asked("probe", loss="hinge", bias=True, dormant=False),
    "pegasos": asked("pegasos", loss="hinge"),
    "svmperf": asked("svmperf", loss="hinge", bias=True),
    "liblinear": asked("liblinear", loss="hinge", bias=True, liblinear_tol=1e-4),
}


METHODS = {"probe": PROBE, "pegasos": PEGASOS, "svmperf": SVMPERF, "liblinear": LIBLINEAR}


def run(method, path, options=None, widest=None):
    options = options or GIVEN[method]
    with DataFile(path) as data:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, "all"), options.bias)
    objective = Objective(rows, options, Profile())
    labels = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
    solver = METHODS[method].solver(objective, labels, widest or labels.size, options)
    return objective, sorted(label for done in solver.solve(range(labels.size), NEVER) for label in done)


def least_objective(loss, X, sign, lam, start):
    def f_and_g(w):
        z = sign * (X @ w)
        slope = -expit(-z) if loss == "logistic" else np.where(z >= 1, 0.0, np.where(z >= -1, -2 * (1 - z), -4.0))
        return oracles.objective(loss, X, sign, w, lam), lam * w + X.T @ (slope * sign) / sign.size

    return minimize(f_and_g, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun


def minima(objective, loss="hinge"):
    rows = objective.rows
    X, found = np.zeros((rows.n_local, rows.n_columns)), []
    X[np.repeat(np.arange(rows.n_local), np.diff(rows.indptr)), rows.indices] = rows.data
    C = 1 / (objective.lam * rows.n_local)
    solver = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=10_000_000, random_state=0)
    for label in np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global)).tolist():
        sign = np.full(rows.n_local, -1.0)
        sign[rows.rows_of(label)] = 1
        if loss == "hinge":
            found.append(oracles.objective(loss, X, sign, solver.fit(X, sign).coef_[0], objective.lam))
        else:
            found.append(least_objective(loss, X, sign, objective.lam, np.zeros(rows.n_columns)))
    return np.array(found)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("compared") / "data.h5", *random_data(3, 120, 40, 9))


@pytest.mark.parametrize(
    ("method", "loss", "share"),  # (f − min f) / min f
    [*(("probe", loss, 0.05) for loss in ("hinge", "huber", "logistic")), ("pegasos", "hinge", 0.1), ("liblinear", "hinge", 1e-3)],
)
@pytest.mark.parametrize("dormant", [False, True])
def test_f_is_near_an_independent_minimum(method, loss, share, dormant, data):
    more = {"loss": loss, "dormant": dormant} if method == "probe" else {}
    if dormant and not more:
        pytest.skip("only probe has dormant rows")
    objective, finished = run(method, data, replace(GIVEN[method], **more))
    least, f = minima(objective, loss), np.array([label.f for label in finished])
    assert (f >= least * (1 - 1e-6)).all() and (f <= least * (1 + share)).all() and f.max() < 1


@pytest.mark.parametrize(("epsilon", "precision"), [(0.1, "single"), (0.01, "single"), (1e-4, "double")])
def test_svmperf_certifies_its_gap_at_every_step(data, epsilon, precision):
    options = replace(GIVEN["svmperf"], svmperf_epsilon=epsilon, precision=precision)
    objective, finished = run("svmperf", data, options)
    for label, least in zip(finished, minima(objective), strict=True):
        assert label.status == CONVERGED
        assert -1e-6 * least <= label.f - least <= epsilon / 100
        f, gap = np.array(label.history)[:, [1, 2]].T
        best = np.minimum.accumulate(f)
        assert label.f == pytest.approx(best[-1], rel=1e-6)
        assert (gap[-1] * best[-1]) <= epsilon / 100
        assert (best * (1 - gap) <= least * (1 + 1e-6)).all()  # lower bounds
        assert label.steps == len(f)
    assert epsilon > 1e-4 or max(label.steps for label in finished) > IDLE_LIMIT + 20  # planes were dropped


@pytest.mark.parametrize("method", ["pegasos", "probe", "svmperf"])
def test_bits_do_not_depend_on_the_width_of_a_panel(method, tmp_path):
    X, Y = random_data(5, 40, 9 * CHUNK, 5)  # of 8 numbers and more, numpy sums a single column in another order than many
    path = dataset(tmp_path / "data.h5", X, Y)
    options = replace(GIVEN[method], max_steps=30)
    objective, alone = run(method, path, options, widest=1)
    assert objective.rows.n_columns > 8 * CHUNK
    for widest in (8, 16):
        for one, other in zip(alone, run(method, path, options, widest)[1], strict=True):
            assert (one.f, one.steps, one.w.tobytes()) == (other.f, other.steps, other.w.tobytes())
            assert [line[:2] for line in one.history] == [line[:2] for line in other.history]

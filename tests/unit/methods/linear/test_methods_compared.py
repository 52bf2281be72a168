"""The methods of `hpcml train` against an independent minimum of the same objective, and what each one promises of it."""

import csv
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from support.make import dataset, random_data
from support.oracles import hinge_objective
from support.training import asked, train

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.methods.liblinear.liblinear import METHOD as LIBLINEAR
from hpcml.methods.linear.block_kernels import CHUNK
from hpcml.methods.linear.objective import Objective
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT
from hpcml.methods.probe.probe import METHOD as PROBE
from hpcml.methods.probe.probe import PEGASOS_METHOD as PEGASOS
from hpcml.methods.svmperf import kernels
from hpcml.methods.svmperf.svmperf import IDLE_LIMIT
from hpcml.methods.svmperf.svmperf import METHOD as SVMPERF
from hpcml.model.linear import STATUS, Model
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

GIVEN = {
    "probe": asked("probe", loss="hinge", bias=True, dormant=False),
    "pegasos": asked("pegasos", loss="hinge"),
    "svmperf": asked("svmperf", loss="hinge", bias=True),
    "liblinear": asked("liblinear", loss="hinge", bias=True, liblinear_tol=1e-4),
}
PROMISED = {"probe": 0.05, "pegasos": 0.1, "liblinear": 1e-3}  # (f − min f)/min f; ε of the options, else as found


METHODS = {"probe": PROBE, "pegasos": PEGASOS, "svmperf": SVMPERF, "liblinear": LIBLINEAR}


def run(method, path, options=None, widest=None):
    """(objective, the finished labels in their order) of a method on all rows of a dataset."""
    options = options or GIVEN[method]
    with DataFile(path) as data:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, "all"), options.bias)
    objective = Objective(rows, options, Profile())
    labels = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
    solver = METHODS[method].solver(objective, labels, widest or labels.size, options)
    return objective, sorted(label for done in solver.solve(range(labels.size), NEVER) for label in done)


def minima(objective):
    """min f of every label, as close as LIBLINEAR gets."""
    rows = objective.rows
    X, found = np.zeros((rows.n_local, rows.n_columns)), []
    X[np.repeat(np.arange(rows.n_local), np.diff(rows.indptr)), rows.indices] = rows.data
    C = 1 / (objective.lam * rows.n_local)
    solver = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=10_000_000, random_state=0)
    for label in np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global)).tolist():
        sign = np.full(rows.n_local, -1.0)
        sign[rows.rows_of(label)] = 1
        found.append(hinge_objective(X, sign, solver.fit(X, sign).coef_[0], objective.lam))
    return np.array(found)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("compared") / "data.h5", *random_data(3, 120, 40, 9))


@pytest.mark.parametrize("method", sorted(PROMISED))
def test_f_is_near_an_independent_minimum(method, data):
    objective, finished = run(method, data)
    least = minima(objective)
    f = np.array([label.f for label in finished])
    assert (f >= least * (1 - 1e-6)).all()
    assert (f <= least * (1 + PROMISED[method])).all()
    assert f.max() < 1  # less than f(0): something was learned


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


def test_svmperf_stops_at_once_where_zero_is_the_minimum(tmp_path):
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [3.0, 1.0]])  # each row once with the label, once without
    data = dataset(tmp_path / "data.h5", X, np.array([[1], [0], [1], [0]]))
    _, [label] = run("svmperf", data, replace(GIVEN["svmperf"], bias=False))
    assert (label.f, label.status, label.steps) == (1.0, CONVERGED, 2)
    assert not label.w.any()


@pytest.mark.parametrize("method", ["pegasos", "probe", "svmperf"])
def test_bits_do_not_know_the_width_of_a_panel(method, tmp_path):
    X, Y = random_data(5, 40, 9 * CHUNK, 5)  # of 8 numbers and more, numpy sums a single column in another order than many
    path = dataset(tmp_path / "data.h5", X, Y)
    options = replace(GIVEN[method], max_steps=30)
    objective, alone = run(method, path, options, widest=1)
    assert objective.rows.n_columns > 8 * CHUNK
    for widest in (8, 16):
        for one, other in zip(alone, run(method, path, options, widest)[1], strict=True):
            assert (one.f, one.steps, one.w.tobytes()) == (other.f, other.steps, other.w.tobytes())
            assert [line[:2] for line in one.history] == [line[:2] for line in other.history]


either = pytest.mark.parametrize("method", ["svmperf", "liblinear"])


@either
def test_step_limit_is_a_status_and_no_warning(method, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, finished = run(method, data, replace(GIVEN[method], max_steps=2))
    assert {(label.status, label.steps) for label in finished} == {(STEP_LIMIT, 2)}


@either
def test_train_writes_what_the_method_found(method, tmp_path):
    X, Y = random_data(7, 90, 30, 6)
    Y = Y.tolil()
    Y[:, 1], Y[:, 2] = 0, 1  # no positive row; no negative row
    path = dataset(tmp_path / "data.h5", X, Y)
    options = replace(GIVEN[method], min_positives=0)
    report = train(method, None, path, tmp_path / "run", options)
    assert report.degenerate == ["label1", "label2"]
    _, finished = run(method, path, options)
    model, trained = Model(report.model), [0, 3, 4, 5]
    assert [STATUS[code] for code in model.labels["status"][trained]] == ["converged"] * 4
    assert model.labels["f_min"][trained].tolist() == [label.f for label in finished]
    assert model.labels["steps"][trained].tolist() == [label.steps for label in finished]
    assert model.bias[trained].tolist() == [label.w[-1] for label in finished]
    assert model.W[trained].tolist() == [label.w[:-1].tolist() for label in finished]
    with report.model.with_name("history.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    last = [float(next(line["f"] for line in reversed(lines) if line["label"] == f"label{k}")) for k in trained]
    assert min(last) > 0
    if method == "liblinear":
        assert last == [label.f for label in finished]


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("svmperf", {"loss": "huber"}, "--loss huber: expected hinge$"),
        ("liblinear", {"loss": "logistic"}, "--loss logistic: expected hinge$"),
        ("svmperf", {"svmperf_epsilon": 0.0}, "--svmperf-epsilon 0.0: expected a number above 0"),
        ("liblinear", {"liblinear_tol": float("nan")}, "--liblinear-tol nan: expected a number above 0"),
    ],
)
def test_options_that_make_no_sense_are_named(method, wrong, message, data, tmp_path):
    with pytest.raises(ConfigError, match=message):
        train(method, None, data, tmp_path / "run", replace(GIVEN[method], **wrong))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [0, 1, 7, 8, CHUNK, 2 * CHUNK + 13])
def test_kernels_of_planes(dtype, d):
    rng = np.random.default_rng(d)
    planes, w, factors = rng.normal(size=(5, d)).astype(dtype), rng.normal(size=d).astype(dtype), np.array([0.5, 0, -1, 2, 0])
    out = np.empty((-(-d // CHUNK), 6))
    kernels.products(planes, w, out)
    exact = np.vstack([planes, w]).astype(float)
    np.testing.assert_allclose(out.sum(axis=0), exact @ exact[4], rtol=1e-12, atol=1e-12 * max(d, 1))
    total = np.empty(d, dtype)
    kernels.combine(planes, factors, total)
    np.testing.assert_allclose(total, factors @ exact[:5], rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-6)

"""Method `elastic-net`: minimum, certificate, and reproducible bits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from support.make import dataset, random_data
from support.training import train

from hpcml import ElasticNetClassifier
from hpcml.errors import ConfigError
from hpcml.methods.elastic_net import certifier, newton
from hpcml.methods.elastic_net.options import parse_l1
from hpcml.model.linear import STATUS, Model

M, D, L = 300, 80, 7


@pytest.fixture
def problem(tmp_path):
    X, Y = random_data(5, M, D, L, density=0.1)
    X = sp.csr_matrix(abs(X))
    return dataset(tmp_path / "data.h5", X, Y), X.astype(np.float32).astype(float), np.where(Y.toarray() != 0, 1.0, -1.0)


def objective(X, sign, w, b, loss, l1, l2):
    z = X @ w + b
    value = np.logaddexp(0, -sign * z) if loss == "logistic" else 0.5 * (z - sign) ** 2
    return value.sum() + l1 * np.abs(w).sum() + l2 / 2 * w @ w


def minimum(X, sign, loss, l1, l2):
    X = X.toarray()
    w, b = np.zeros(X.shape[1]), 0.0
    u, c, t = w, b, 1.0
    step = 1 / (np.linalg.norm(np.hstack([X, np.ones((len(X), 1))]), 2) ** 2 * (0.25 if loss == "logistic" else 1) + l2)
    for _ in range(40000):
        z = X @ u + c
        slope = -sign / (1 + np.exp(sign * z)) if loss == "logistic" else z - sign
        moved = u - step * (X.T @ slope + l2 * u)
        new, b_new = np.sign(moved) * np.maximum(np.abs(moved) - step * l1, 0), c - step * slope.sum()
        if (new - w) @ (u - new) + (b_new - b) * (c - b_new) > 0:  # restart of the momentum
            t = 1.0
        s = (1 + np.sqrt(1 + 4 * t * t)) / 2
        u, c = new + (t - 1) / s * (new - w), b_new + (t - 1) / s * (b_new - b)
        done = max(np.abs(new - w).max(), abs(b_new - b)) < 1e-13
        w, b, t = new, b_new, s
        if done:
            break
    return w, b


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.0), (0.2, 1.0), (0.0, 0.3)])
def test_newton_finds_the_minimum(problem, tmp_path, monkeypatch, loss, l1, l2):
    data, X, signs = problem
    options = {"loss": loss, "l1": f"{l1}/m", "lam": f"{l2}/m", "max_gap": 1e-9, "precision": "double"}
    model = Model(train("elastic-net", None, data, tmp_path / "run", options).model)
    monkeypatch.setattr(newton, "DENSE", 0)  # without a matrix of curvature
    monkeypatch.setattr(newton, "FIRST", 3)
    other = Model(train("elastic-net", None, data, tmp_path / "other", options).model)
    for label in range(L):
        w, b = model.weights(label), model.bias[label]
        f = objective(X, signs[:, label], w, b, loss, l1, l2)
        best, at = minimum(X, signs[:, label], loss, l1, l2)
        g = objective(X, signs[:, label], best, at, loss, l1, l2)
        assert f == pytest.approx(g, rel=1e-8)
        assert f * (1 - model.labels["gap"][label]) <= g * (1 + 1e-12)  # the certificate holds
        assert model.labels["f_min"][label] * M == pytest.approx(f, rel=1e-12)
        assert (np.abs(w) > 1e-4).tolist() == (np.abs(best) > 1e-4).tolist()
        assert other.labels["f_min"][label] * M == pytest.approx(g, rel=1e-8)
    assert model.attrs["l1"] == pytest.approx(l1 / M)


def wide(monkeypatch):
    monkeypatch.setattr(newton, "WIDE_AT_FIRST", 0)
    monkeypatch.setattr(newton, "SHARE", 0.0)


@pytest.fixture
def passes(monkeypatch):
    seen, visit = [], newton.Ascent.visit
    wide(monkeypatch)

    def counted(self, order):
        if self.certifier.n_rows == M and order.size:
            assert np.array_equal(np.sort(order), np.arange(M))  # a pass: each row once
            seen.append(order)
        visit(self, order)

    monkeypatch.setattr(newton.Ascent, "visit", counted)
    return seen


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("l1", "l2"), [(0.5, 0.5), (0.2, 1.0), (0.0, 0.3)])
def test_ascent_finds_the_minimum(problem, tmp_path, monkeypatch, passes, loss, l1, l2):
    data, X, signs = problem
    monkeypatch.setattr(newton, "ROUNDS", 1000)
    options = {"loss": loss, "l1": f"{l1}/m", "lam": f"{l2}/m", "max_gap": 1e-9, "precision": "double", "max_steps": 1000}
    monkeypatch.setattr(newton.NewtonSolver, "_newton_round", None)  # no Newton step at all
    model = Model(train("elastic-net", None, data, tmp_path / "run", options).model)
    assert passes and model.labels["gap"].max() <= 1e-9
    for label in range(L):
        w, b = model.weights(label), model.bias[label]
        best = minimum(X, signs[:, label], loss, l1, l2)
        g = objective(X, signs[:, label], *best, loss, l1, l2)
        assert objective(X, signs[:, label], w, b, loss, l1, l2) == pytest.approx(g, rel=1e-8)
        np.testing.assert_allclose(w, best[0], atol=1e-3)


def test_gradient_by_columns_is_that_by_rows(problem, tmp_path, monkeypatch):
    options, models = {"l1": "0.2/m", "lam": "0.1/m", "precision": "double", "max_gap": 1e-9}, []
    for most in (0.0, 1.0):
        monkeypatch.setattr(certifier, "MOST", most)
        models.append(Model(train("elastic-net", None, problem[0], tmp_path / str(most), options).model))
    np.testing.assert_allclose(models[0].labels["f_min"], models[1].labels["f_min"], rtol=2e-9)
    assert models[0].labels["gap"].max() <= 1e-9


def test_stops_at_the_precision_of_the_weights(problem, tmp_path):
    report = train("elastic-net", None, problem[0], tmp_path / "run", {"max_gap": 1e-15})
    model = Model(report.model)
    given_up = np.array([STATUS[status] == "step limit" for status in model.labels["status"]])
    assert given_up.any() and (given_up == (model.labels["gap"] > 1e-15)).all()
    assert model.labels["steps"].max() < 30 and model.labels["gap"].max() < 1e-6
    assert "the weight precision" in str(report)


def test_rare_label_visits_few_rows(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = sp.lil_matrix((20000, 301)), np.zeros((20000, 1))
    X[np.arange(20000), rng.integers(0, 300, 20000)] = 1
    X[rng.choice(20000, 40, False), 300] = 1
    Y[X[:, 300].toarray().ravel() != 0] = 1
    options = {"show_gaps": True, "max_gap": 1e-6}
    report = train("elastic-net", None, dataset(tmp_path / "data.h5", X.tocsr(), sp.csr_matrix(Y)), tmp_path / "run", options)
    assert report.gaps[0][2] <= 1e-6 and report.visited < 0.01


@pytest.mark.parametrize(("loss", "solver"), [("logistic", "fobos"), ("squared", "sgd")])
def test_descent_comes_within_2_percent_and_by_default_within_3(tmp_path, loss, solver):
    rng, n, d = np.random.default_rng(0), 800, 300
    words = np.minimum(np.exp(rng.uniform(0, np.log(d), 25 * n)).astype(int), d) - 1
    X = sp.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), 25), words)), (n, d)).log1p()
    X = normalize(X @ sp.diags(np.log(n / np.maximum(1, X.getnnz(axis=0)))))
    scores = X @ (rng.normal(size=(d, 4)) * (rng.random((d, 4)) < 0.1)) + 0.04 * rng.normal(size=(n, 4))
    Y = scores > np.diagonal(np.quantile(scores, [0.7, 0.9, 0.95, 0.98], axis=0))
    data = dataset(tmp_path / "data.h5", X.tocsr(), sp.csr_matrix(Y.astype(float)))
    for strengths, most in (({"l1": "0.1/m", "lam": "0.01/m"}, 1.02), ({}, 1.03)):
        options = {"loss": loss, **strengths}
        exact = Model(train("elastic-net", None, data, tmp_path / f"exact-{most}", options).model)
        model = Model(train("elastic-net", None, data, tmp_path / f"run-{most}", options | {"solver": solver}).model)
        assert (model.labels["f_min"] <= most * exact.labels["f_min"]).all()


def test_path_of_strengths(problem, tmp_path):
    data = problem[0]
    strengths, precise = ("2/m", "0.5/m", "0.1/m"), {"precision": "double", "max_gap": 1e-8}
    report = train("elastic-net", None, data, tmp_path / "path", precise | {"path": strengths})
    assert report.model == tmp_path / "path" / "path-3" / "model.h5"
    header, *lines = (tmp_path / "path" / "path.csv").read_text().splitlines()
    features = []
    for number, (l1, line) in enumerate(zip(strengths, lines, strict=True), 1):
        alone = Model(train("elastic-net", None, data, tmp_path / l1[:-2], precise | {"l1": l1}).model)
        model = Model(tmp_path / "path" / f"path-{number}" / "model.h5")
        np.testing.assert_allclose(model.labels["f_min"], alone.labels["f_min"], rtol=2e-8)
        told = dict(zip(header.split(","), line.split(","), strict=True))
        assert (told["run"], told["l1"]) == (f"path-{number}", l1)
        assert float(told["features"]) == pytest.approx(np.mean([model.row(k)[0].size for k in range(model.n_labels)]), rel=1e-3)
        features.append(float(told["features"]))
    assert features[0] < features[1] < features[2]


def test_rejects_an_initial_model_of_other_rows(problem, tmp_path):
    X, Y = random_data(5, M - 1, D, L, density=0.1)
    model = train("elastic-net", None, dataset(tmp_path / "other.h5", X, Y), tmp_path / "other", {}).model
    with pytest.raises(ConfigError, match="expected an elastic-net model of the same rows"):
        train("elastic-net", None, problem[0], tmp_path / "run", {"initial_model": model})
    assert not (tmp_path / "run").exists()
    few = train("elastic-net", None, problem[0], tmp_path / "few", {"label": ("label0",)}).model
    with pytest.raises(ConfigError, match="has no label label1"):
        train("elastic-net", None, problem[0], tmp_path / "run", {"initial_model": few})


def test_small_gains_do_not_end_a_label_far_from_its_minimum(tmp_path, monkeypatch):
    """Whatever gap is asked, only what the weights' precision cannot tell is no gain."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.eye(2000)[rng.permutation(2000)])  # a feature for each row: a round gains little
    Y = sp.csr_matrix((np.arange(2000) < 1000)[:, None])
    monkeypatch.setattr(newton, "VALUES", 0)  # so that a round adds one feature
    options = {"l1": "0.001/m", "max_gap": 0.95, "max_steps": 5000}
    report = train("elastic-net", None, dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", options)
    assert report.max_gap <= 0.95


@pytest.mark.parametrize(("text", "value"), [("N/m", 0.03), ("0.1N/m", 0.003), ("2/m", 0.02), ("0.5", 0.5), ("0", 0.0)])
def test_l1(text, value):
    assert parse_l1(text, 3.0, 100) == pytest.approx(value)


def test_default_strengths_do_not_depend_on_the_scale_of_the_rows():
    X, Y = random_data(5, 300, 40, 3, density=0.2)
    X, y = abs(sp.csr_matrix(X)), (Y.toarray() != 0).astype(int)
    once, large = (ElasticNetClassifier(max_gap=1e-10, precision="double").fit(factor * X, y) for factor in (1, 64))
    assert np.count_nonzero(once.coef_)
    np.testing.assert_allclose(64 * large.coef_, once.coef_, atol=1e-5)
    np.testing.assert_allclose(large.intercept_, once.intercept_, atol=1e-5)


@pytest.mark.parametrize(("density", "warns"), [(0.5, True), (0.005, False)])
def test_warns_of_frequent_features(tmp_path, density, warns):
    X, Y = random_data(7, 400, 60, 2, density=density)
    data, run = dataset(tmp_path / "data.h5", abs(sp.csr_matrix(X)), Y), tmp_path / "run"
    train("elastic-net", None, data, run, {})
    lines, warning = (run / "log.txt").read_text().splitlines(), "elastic-net is slow on such rows"
    told = [number for number, line in enumerate(lines) if warning in line]
    assert len(told) == warns
    if warns:
        (share,) = (float(word) for word in lines[told[0]].split(" % of the rows")[0].split()[-1:])
        assert share == pytest.approx(100 * np.count_nonzero(sp.csr_matrix(X).toarray()) / (400 * 60), abs=1)
        assert "training 2 labels" in lines[told[0] - 2]

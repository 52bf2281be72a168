"""Rare labels: objective, certificate, and independence of other labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.dual_problems import DATA, HINGES, WEIGHTS, asked, f_of, finish, minimum, risk_of, trainable

from hpcml.kernels.rows import FREQUENT
from hpcml.methods.dual import dual, rare
from hpcml.methods.linear.solver import CONVERGED, SparseWeightsOf


@pytest.fixture(autouse=True)
def all_alone(monkeypatch):
    monkeypatch.setattr(dual, "VALUES_PER_POSITIVE", 1e-9)
    for name, value in {"MORE": 5, "EACH": 1}.items():
        monkeypatch.setattr(rare, name, value)


def weights_of(done, risk):
    assert isinstance(done.w, SparseWeightsOf)  # those of a panel are not
    w = np.zeros(risk.rows.n_columns, np.float32)
    w[done.w.columns] = done.w.values
    if risk.rows.bias:
        w[-1] = done.w.intercept
    return w


def texts(seed, signed=False, n_rows=300):
    rng, n_columns = np.random.default_rng(seed), FREQUENT + 1500
    p = 1 / (10 + np.arange(n_columns))
    X = np.zeros((n_rows, n_columns), np.float32)
    for row in X:
        chosen = rng.choice(n_columns, 80, replace=False, p=p / p.sum())
        row[chosen] = rng.random(80) * (np.sign(rng.normal(size=80)) if signed else 1)
    X[rng.integers(0, n_rows, (2, n_columns)), np.arange(n_columns)] = 0.5  # so that none is folded
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = np.zeros((n_rows, 7), np.bool_)
    for label, row in enumerate(Y.T):
        row[rng.choice(n_rows, label + 1, replace=False)] = True
    return sp.csr_matrix(X), Y


@pytest.mark.parametrize("loss", HINGES)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("bias", [False, True])
def test_near_the_minimum_and_certified(name, loss, bias):
    for weight in WEIGHTS:
        options = asked(loss, bias=bias, positive_weight=weight, max_gap=1e-4)
        risk = risk_of(*DATA[name](), options)
        for label, done in finish(risk, options).items():
            f = f_of(risk, options, label, weights_of(done, risk))
            least, _ = minimum(risk, options, label)
            assert done.f == pytest.approx(f, rel=1e-6)
            assert done.status == CONVERGED and done.gap <= 1e-4
            assert f * (1 - done.gap) <= least * (1 + 1e-6)


@pytest.mark.parametrize("loss", HINGES)
@pytest.mark.parametrize("signed", [False, True])
def test_rows_in_more_columns_than_are_frequent(loss, signed):
    options = asked(loss, bias=True)
    risk = risk_of(*texts(1, signed), options)
    assert risk.rows.n_columns > FREQUENT + 1000
    for label, done in finish(risk, options).items():
        f = f_of(risk, options, label, weights_of(done, risk))
        least, _ = minimum(risk, options, label)
        assert done.f == pytest.approx(f, rel=1e-6) and done.gap <= rare.RARE_GAP * options.dual_tol
        assert f * (1 - done.gap) <= least * (1 + 1e-6)


@pytest.mark.parametrize("loss", HINGES)
def test_label_does_not_depend_on_the_other_labels_of_a_turn(loss):
    options = asked(loss, bias=True)
    risk = risk_of(*texts(2), options)
    labels = trainable(risk)
    together = finish(risk, options)
    for widest, some in ((16, labels[::2]), (2, labels), (4, labels[::-1]), (1, labels[3:4])):
        for label, done in finish(risk, options, some, widest).items():
            np.testing.assert_array_equal(weights_of(done, risk), weights_of(together[label], risk))
            assert (done.f, done.gap, done.steps) == (together[label].f, together[label].gap, together[label].steps)


def test_weights_of_rows():
    X, Y = texts(4, n_rows=120)
    counts = np.random.default_rng(0).integers(1, 4, X.shape[0])
    options = asked("squared-hinge", bias=True, max_gap=1e-5, lam="0.01")
    copied, weighted = (
        risk_of(X[np.repeat(np.arange(120), counts)], Y[np.repeat(np.arange(120), counts)], options),
        risk_of(X, Y, options),
    )
    weighted.rows.weights = counts.astype(float)
    weighted = type(weighted)(weighted.rows, options, weighted.profile)
    of_copies = finish(copied, options)
    for label, done in finish(weighted, options).items():
        assert done.f == pytest.approx(of_copies[label].f, rel=1e-4)


def test_only_labels_with_few_rows_are_rare(monkeypatch):
    options = asked("hinge", bias=True)
    risk = risk_of(*texts(7), options)
    monkeypatch.setattr(dual, "VALUES_PER_POSITIVE", risk.rows.data.size / 3.5)
    monkeypatch.setattr(dual, "RARE_ROWS", 0)
    found = finish(risk, options)
    assert {label for label, done in found.items() if isinstance(done.w, SparseWeightsOf)} == {0, 1, 2}
    for other in (asked("logistic", bias=True), asked("hinge", bias=True, precision="double")):
        risk = risk_of(*texts(7), other)
        assert not any(isinstance(done.w, SparseWeightsOf) for done in finish(risk, other).values())


@pytest.mark.parametrize(("loss", "lam"), [("hinge", "1e-3/m"), ("squared-hinge", "1e-6/m")])
def test_step_limit_counts_visited_rows_and_gaps_hold(loss, lam):
    """With passes counted, whatever they visited, labels ended with gaps of 0.98, and some were said to have converged."""
    options = asked(loss, bias=True, lam=lam, positive_weight="balanced", max_steps=30)
    risk = risk_of(*texts(9), options)
    for label, done in finish(risk, options).items():
        f = f_of(risk, options, label, weights_of(done, risk))
        assert done.f == pytest.approx(f, rel=1e-6)
        assert done.steps * done.visited <= options.max_steps + 1
        if done.status == CONVERGED:
            assert done.gap <= rare.RARE_GAP * options.dual_tol
        least, _ = minimum(risk, options, label)
        assert f * (1 - done.gap) <= least * (1 + 1e-6)


def test_labels_with_the_same_rows_are_trained_once(monkeypatch):
    trained, make = [], rare.RareLabelSolver._make
    monkeypatch.setattr(rare.RareLabelSolver, "_make", lambda *given: trained.append(given[2]) or make(*given))
    X, Y = texts(3)
    options = asked("hinge", bias=True)
    risk = risk_of(X, Y[:, [0, 1, 1, 2, 0]], options)
    found = finish(risk, options)
    assert sorted(trained) == [0, 1, 3] and sorted(found) == list(range(5))
    for label, done in found.items():
        alone = finish(risk, options, [label])[label]
        np.testing.assert_array_equal(weights_of(done, risk), weights_of(alone, risk))
        assert (done.f, done.gap, done.steps) == (alone.f, alone.gap, alone.steps)

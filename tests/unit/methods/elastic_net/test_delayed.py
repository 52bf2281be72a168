"""Delayed regularisation equals eager regularisation."""

import numpy as np
import pytest
import scipy.sparse as sp

from hpcml.methods.elastic_net import delayed_kernels as kernels
from hpcml.methods.elastic_net.certifier_kernels import Vectors
from hpcml.methods.elastic_net.delayed import table_bounds
from hpcml.methods.elastic_net.delayed_kernels import LANES, DelayedLanes, OwnRates, SharedRates, Shrinkage

STRENGTHS = [(0.0, 0.0), (1e-2, 0.0), (0.0, 1e-2), (1e-2, 1e-2)]


def rows(seed, n=400, d=60):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.08, random_state=rng, format="csr", data_rvs=lambda size: 0.4 * rng.normal(size=size))
    X.sort_indices()
    positive = rng.integers(0, 1 << LANES, n).astype(np.uint16)
    return X, positive, rng.permutation(np.repeat(np.arange(n), 5))  # 2,000 steps


def csr(X):
    return Vectors(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)


def own_rates(d, alpha):
    return OwnRates(alpha, np.full(d * LANES, alpha), np.ones(LANES), np.zeros(d, np.int64))


def filled(etas, l2, truncated):
    tables = SharedRates(etas, *np.empty((2, etas.size + 1)))
    kernels.tables(tables, l2, truncated)
    return tables


def slope(z, y, squared):
    return z - y if squared else -y / (1 + np.exp(y * z))


def eager(X, positive, order, rate, etas, l1, l2, truncated, squared):
    dense, W, b = X.toarray(), np.zeros((X.shape[1], LANES)), np.zeros(LANES)
    squares, b_squares = np.ones_like(W), np.ones(LANES)
    for step, row in enumerate(order):
        x = dense[row]
        y = np.where((positive[row] >> np.arange(LANES)) & 1, 1.0, -1.0)
        g = slope(b + x @ W, y, squared)
        move = np.outer(x, g)
        if rate == "adagrad":
            squares += move**2
            b_squares += g**2
            eta, b_eta = etas[step] / np.sqrt(squares), etas[step] / np.sqrt(b_squares)
        else:
            eta, b_eta = etas[step], 0.1 * etas[step]
        b = b - b_eta * g
        W = W - eta * move
        size = np.abs(W) * (1 - eta * l2) - eta * l1 if truncated else (np.abs(W) - eta * l1) / (1 + eta * l2)
        W = np.sign(W) * np.maximum(size, 0)
    return W, b


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("rate", ["constant", "decaying", "adagrad"])
@pytest.mark.parametrize(("l1", "l2"), STRENGTHS)
def test_delayed_updates_equal_eager_updates(rate, l1, l2, truncated, squared):
    X, positive, order = rows(3)
    etas = 0.3 / np.sqrt(1 + np.arange(order.size) / 400) if rate == "decaying" else np.full(order.size, 0.3)
    matrix, n, shrinkage = csr(X), order.size, Shrinkage(l1, l2, truncated)
    lanes = DelayedLanes(positive, np.zeros(X.shape[1] * LANES), np.zeros(LANES), squared)
    if rate == "adagrad":
        rates = own_rates(X.shape[1], 0.3)
        for part in (slice(0, 700), slice(700, n)):
            kernels.sweep_adagrad(order[part], matrix, lanes, rates, part.start, shrinkage)
        kernels.flush_adagrad(lanes.w, rates, n, shrinkage)
        assert (rates.psi == 0).all()
    else:
        seen = np.tile([1.0, 0.0], (X.shape[1], 1))
        for begin, end in ((0, 900), (900, n)):  # the tables begin anew in between
            tables = filled(etas[begin:end], l2, truncated)
            for part in (slice(begin, begin + 100), slice(begin + 100, end)):
                kernels.sweep_tables(order[part], matrix, lanes, seen, tables, part.start - begin, l1)
            kernels.flush_tables(lanes.w, seen, tables.phi[-1], tables.beta[-1], l1)
            assert (seen == [1, 0]).all()
    W, b = lanes.w.reshape(-1, LANES), lanes.b
    expected, intercept = eager(X, positive, order, rate, etas, l1, l2, truncated, squared)
    scale = np.abs(expected).max()
    assert np.abs(W - expected).max() <= 1e-12 * scale
    assert np.abs(b - intercept).max() <= 1e-12 * max(1, np.abs(intercept).max())
    assert (expected == 0).any() == bool(l1)


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 7, 100000])
def test_closed_form_for_many_steps(rate, n, truncated):
    l1, l2, w = 1e-12, 1.0, np.linspace(-1, 1, LANES)
    expected = w.copy()
    for _ in range(n):
        size = np.abs(expected) * (1 - rate * l2) - rate * l1 if truncated else (np.abs(expected) - rate * l1) / (1 + rate * l2)
        expected = np.sign(expected) * np.maximum(size, 0)
    kernels.update_column(w, np.full(LANES, rate), rate, n, Shrinkage(l1, l2, truncated))
    assert np.abs(w - expected).max() <= 1e-10 * np.abs(expected).max() + 1e-15


@pytest.mark.parametrize("truncated", [False, True])
def test_tables_never_underflow(truncated):
    etas = np.concatenate([np.full(5000, 0.5), np.full(3000, 1e-9)])
    bounds = table_bounds(etas, 1.5, truncated)
    assert [begin for begin, _ in bounds] == [0, *[end for _, end in bounds[:-1]]] and bounds[-1][1] == etas.size
    assert len(bounds) > 5
    for begin, end in bounds:
        tables = filled(etas[begin:end], 1.5, truncated)
        assert tables.phi.min() > 1e-90 and np.isfinite(tables.beta).all()
    assert table_bounds(etas, 0.0, truncated) == [(0, etas.size)]

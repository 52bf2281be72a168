"""λ, the block size, and the objective's refusal of numbers that are not finite."""

import math

import numpy as np
import pytest
from make import dataset, random_data
from oracles import hinge_objective, hinge_pass

from hpcml import mpi
from hpcml.convex.objective import BlockObjective, block_size, parse_lambda
from hpcml.data.schema import Dataset
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError, NonFiniteError


@pytest.mark.parametrize(("text", "value"), [("X/m", 0.02), ("X/1e8", 2e-8), ("X/4", 0.5), ("0.125", 0.125), ("1e-3", 1e-3)])
def test_lambda(text, value):
    assert parse_lambda(text, 2.0, 100) == pytest.approx(value)


@pytest.mark.parametrize("text", ["X", "X/0", "X/", "-1", "0", "nan", "inf", "m/X", "X/m2"])
def test_bad_lambda_is_named(text):
    with pytest.raises(ConfigError, match="--lambda " + text):
        parse_lambda(text, 2.0, 100)


def test_block_is_narrow_for_wide_data_and_never_wider_than_the_labels():
    assert block_size(5_000_000, 100) == 1
    assert block_size(20_000, 100) == 32
    assert block_size(20_000, 5) == 5
    assert block_size(10**9, 3) == 1


def objective(tmp_path, X, Y, lam="X/m", bias=False):
    with Dataset(dataset(tmp_path / "d.h5", X, Y)) as data:
        shard = load_shard(mpi.self_comm(), data, "all")
    return BlockObjective(mpi.self_comm(), shard, "hinge", lam, bias, 1)


@pytest.mark.parametrize("bias", [False, True])
def test_value_and_scale(tmp_path, bias):
    X, Y = random_data(1, 60, 12, 3)
    o = objective(tmp_path, X, Y, bias=bias)
    o.slots[0] = 1
    dense = np.hstack([X.toarray().astype(float), np.ones((60, int(bias)))])
    norms = np.linalg.norm(X.toarray().astype(float), axis=1)
    assert o.lam == pytest.approx(norms.mean() ** 2 / 60, rel=1e-12)
    w = np.random.default_rng(0).normal(size=12 + bias)
    f, _ = o.evaluate(w[:, None].copy(), np.array([w @ w]))
    sign = np.where(Y.toarray()[:, 1] != 0, 1.0, -1.0)
    assert f[0] == pytest.approx(hinge_objective(dense, sign, w, o.lam), rel=1e-12)


def test_not_finite_is_an_error_and_names_the_label(tmp_path):
    X, Y = random_data(1, 20, 5, 2)
    o = objective(tmp_path, X, Y)
    o.slots[0] = 1
    with pytest.raises(NonFiniteError, match="label number 1"):
        o.evaluate(np.full((5, 1), np.inf), np.array([math.inf]))
    with pytest.raises(NonFiniteError, match="label number 1"):
        o.evaluate(np.full((5, 1), math.nan), np.array([math.nan]))


def test_data_without_features_is_refused(tmp_path):
    X, Y = random_data(1, 20, 5, 2, density=0.0)
    with pytest.raises(DataError, match="no usable features"):
        objective(tmp_path, X, Y)


def test_features_of_very_different_size_keep_their_precision(tmp_path):
    X, Y = random_data(1, 200, 6, 2, density=0.9)
    X = X.tolil()
    X[:, 3], X[:, 4] = 0, X[:, 4] * 1e-20
    X[7, 3] = 1e13
    o = objective(tmp_path, X.tocsr(), Y)
    assert o.one_shift == 0
    o.slots[0] = 0
    w = np.random.default_rng(0).normal(size=6) * 1e-3
    dense, sign = X.toarray().astype(np.float32).astype(float), np.where(Y.toarray()[:, 0] != 0, 1.0, -1.0)
    loss, grad, _ = hinge_pass(dense, sign, w)
    f, _ = o.evaluate(w[:, None].copy(), np.array([w @ w]))
    assert f[0] == pytest.approx(loss / 200 + o.lam / 2 * (w @ w), rel=1e-12)
    np.testing.assert_allclose(o.grad[:, 0], grad, rtol=1e-6)

"""λ, panel widths, values and gradients of the objective, and errors for non-finite numbers."""

import math

import numpy as np
import pytest
from support.make import dataset, random_data
from support.oracles import pass_over_rows

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import NonFiniteError
from hpcml.losses import FIRST_ORDER
from hpcml.methods.linear.objective import Objective, Panel, panel_widths, parse_lambda
from hpcml.methods.probe.options import ProbeOptions
from hpcml.run.profile import Profile


@pytest.mark.parametrize(
    ("text", "value"),
    [("X/m", 0.02), ("X/1e8", 2e-8), ("X/4", 0.5), ("0.1X/m", 0.002), ("3/m", 0.03), ("0.125", 0.125), ("1e-3", 1e-3)],
)
def test_lambda(text, value):
    assert parse_lambda(text, 2.0, 100) == pytest.approx(value)


def test_panels_are_as_few_cache_lines_as_possible():
    found = [panel_widths(n, "single") for n in (0, 1, 19, 40)]
    assert found == [[], [1], [16, 4], [16, 16, 8]] and panel_widths(19, "double") == [8, 8, 4]


def objective(tmp_path, X, Y, loss="hinge", lam="X/m", bias=False, precision="double"):
    with DataFile(dataset(tmp_path / "d.h5", X, Y)) as data:
        rows, columns = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, "all"), bias)
    return Objective(rows, ProbeOptions(loss=loss, lam=lam, precision=precision), Profile()), columns.tables(mpi.self_comm())


def evaluate(objective, label, w):
    panel = Panel(objective, 1)
    panel.assign(0, label)
    panel.w[:] = w
    panel.update_norms()
    objective.evaluate([panel])
    f, grad_sq = panel.gather()
    gradient = objective.lam * w + panel.g / objective.rows.n_global
    assert grad_sq[0] == pytest.approx(gradient @ gradient, rel=1e-10)
    return f[0], panel.g


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", FIRST_ORDER)
def test_value_gradient_and_scale(tmp_path, loss, bias):
    X, Y = random_data(1, 60, 50, 3, density=0.05)  # many features that one row has, or none
    o, (columns, factors) = objective(tmp_path, X, Y, loss, bias=bias)
    counts = np.diff(X.tocsc().indptr)
    assert (counts == 1).any()
    assert o.rows.n_columns == (counts > 1).sum() + np.unique(X[:, counts == 1].nonzero()[0]).size + bias
    assert ((factors == 0) == (counts == 0)).all()
    dense = X.toarray().astype(float)
    assert o.lam == pytest.approx(np.linalg.norm(dense, axis=1).mean() ** 2 / 60, rel=1e-12)
    w = np.random.default_rng(0).normal(size=o.rows.n_columns)
    full = np.append(w[columns] * factors, w[-1:] if bias else [])
    dense = np.hstack([dense, np.ones((60, int(bias)))])
    sign = np.where(Y.toarray()[:, 1] != 0, 1.0, -1.0)
    value, grad, _ = pass_over_rows(loss, dense, sign, full)
    f, g = evaluate(o, 1, w)
    assert f == pytest.approx(value / 60 + o.lam / 2 * (w @ w), rel=1e-7)  # folded values are float32
    np.testing.assert_allclose(np.append(g[columns] * factors, g[-1:] if bias else []), grad, rtol=1e-6, atol=1e-6)
    assert o.value(w, 1) == pytest.approx(f, rel=1e-12)


def test_not_finite_is_an_error_and_names_the_label(tmp_path):
    X, Y = random_data(1, 20, 5, 2)
    o, _ = objective(tmp_path, X, Y)
    for bad in (math.inf, math.nan):
        with pytest.raises(NonFiniteError, match="label number 1"):
            evaluate(o, 1, np.full(o.rows.n_columns, bad))


def test_features_of_very_different_size_keep_their_precision(tmp_path):
    X, Y = random_data(1, 200, 6, 2, density=0.9)
    X = X.tolil()
    X[:, 3], X[:, 4] = 0, X[:, 4] * 1e-20
    X[7, 3] = X[8, 3] = 1e13
    o, (columns, _) = objective(tmp_path, X.tocsr(), Y)
    assert o.rule.rounded
    w = np.random.default_rng(0).normal(size=6) * 1e-3
    dense, sign = X.toarray().astype(np.float32).astype(float), np.where(Y.toarray()[:, 0] != 0, 1.0, -1.0)
    loss, grad, _ = pass_over_rows("hinge", dense, sign, w)
    ordered = np.empty(6)
    ordered[columns] = w
    f, g = evaluate(o, 0, ordered)
    assert f == pytest.approx(loss / 200 + o.lam / 2 * (w @ w), rel=1e-12)
    np.testing.assert_allclose(g[columns], grad, rtol=1e-6)

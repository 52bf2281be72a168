"""Method `dual` with the logistic loss against a row-by-row reference and NumPy (hinges: test_dual.py)."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import entr, expit, logit
from support import dual_problems
from support.dual_problems import DATA, f_of, finish, minimum, risk_of, twin_of
from support.make import random_data

from hpcml.kernels.lanes import certify, combine
from hpcml.methods.dual import kernels, newton
from hpcml.methods.dual import train as path_of_dual
from hpcml.methods.dual.options import BALANCED
from hpcml.methods.linear.solver import CONVERGED, STEP_LIMIT
from hpcml.run.stop import NEVER

asked = partial(dual_problems.asked, "logistic")


@pytest.mark.parametrize("name", ["conflicts", "duplicates", "random", "six_decades", "two rows", "wide"])
def test_takes_the_steps_of_the_reference(name, monkeypatch):
    monkeypatch.setattr(newton, "PASSES_PER_ITERATION", 10**9)  # no Newton's method
    for number, (weight, lam) in enumerate([("1", "X/m"), ("3.5", "X/m"), (BALANCED, "0.01"), ("1", "0.001/m")]):
        options = asked(lam=lam, positive_weight=weight, precision="double", bias=number % 2 == 0, seed=number, max_steps=25)
        options = replace(options, dual_tol=0.001 if number == 1 else 0.1)
        risk = risk_of(*DATA[name](), options)
        for label, ours in finish(risk, options).items():
            theirs = twin_of(risk, options, label, max_steps=25)
            assert ours.steps == theirs.steps
            if theirs.converged:
                np.testing.assert_allclose(ours.w, theirs.w, rtol=0, atol=1e-8 * max(1, np.abs(theirs.w).max()))
            assert theirs.converged or ours.f <= theirs.f * (1 + 1e-8)  # ours may be earlier weights, if they are better
            gap = pytest.approx(theirs.gap, rel=1e-4, abs=1e-8)
            assert not theirs.converged or (ours.f, ours.gap) == (pytest.approx(theirs.f, rel=1e-8), gap)
            np.testing.assert_allclose([line[5] for line in ours.history], theirs.violations, rtol=1e-4, atol=1e-7)
            assert ours.status == (CONVERGED if theirs.converged else STEP_LIMIT)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_certificate_sums_equal_numpy(lanes, precision):
    rng, dtype, n = np.random.default_rng(lanes), np.dtype("f4" if precision == "single" else "f8"), 150
    X = sp.random(n, 30, 0.3, "csr", random_state=rng, data_rvs=lambda k: rng.standard_normal(k)).astype(np.float32)
    csr = X.indptr.astype(np.int64), X.indices, X.data
    w = (rng.standard_normal((30, lanes)) * 10.0 ** rng.integers(-6, 4, lanes)).astype(dtype)
    u = (rng.standard_normal((n, lanes)) * 10.0 ** rng.integers(-3, 3, (n, 1))).clip(-79, 79).astype(dtype)
    positive, costs = rng.integers(0, 1 << lanes, n).astype(np.uint16), 10.0 ** rng.uniform(-2, 2, (2, lanes))
    is_positive = (positive[:, None] >> np.arange(lanes)) & 1 == 1
    C, sign = np.where(is_positive, costs[0], costs[1]), np.where(is_positive, 1.0, -1.0)
    sums, z, near = np.zeros((certify.N_SUMS, lanes)), np.empty(u.size), np.zeros_like(positive)
    kernels.certificate_scores(*csr, w.ravel(), z, lanes, False)
    nothing, norms = np.zeros(lanes), rng.random((n, 2)).astype(dtype)
    C = C * norms[:, 1:]
    tables = nothing.astype(w.dtype), costs.ravel(), nothing
    certify.logistic_certify((z, u.ravel()), positive, norms, tables, near, sums.reshape(-1), lanes, 0.0)
    assert (near == (1 << lanes) - 1).all()
    margin, wide = sign * (X.astype(float) @ w.astype(float)), u.astype(float)
    np.testing.assert_allclose(sums[certify.LOSSES], (C * np.logaddexp(0, -margin)).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sums[certify.ENTROPY], (C * (entr(expit(wide)) + entr(expit(-wide)))).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sums[certify.WORST], np.abs(margin + wide).max(axis=0), rtol=1e-12)
    for first in range(0, lanes, 8):
        some = slice(first, first + min(lanes, 8))
        v = np.zeros((30, some.stop - first))
        combine.logistic_combine(csr, norms, u.ravel(), positive, costs, first, v)
        expected = X.T.astype(float) @ (sign * C * expit(wide))[:, some]
        np.testing.assert_allclose(v, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@given(st.lists(st.floats(-70, 70), min_size=1, max_size=20), st.floats(1e-3, 1e3), st.floats(1.0001, 1e4))
def test_logistic_duals_at_another_cost(u, cost, ratio):
    wide = np.array(u)
    alpha = np.empty_like(wide)
    combine.duals(wide, cost, alpha)
    np.testing.assert_allclose(alpha, cost * expit(wide), rtol=1e-14)
    narrow = wide.astype(np.float32)
    combine.duals(narrow, cost, single := np.empty_like(narrow))
    np.testing.assert_allclose(single, cost * expit(narrow.astype(float)), rtol=1e-7)
    moved = wide.copy()
    combine.divide(moved, ratio)
    np.testing.assert_allclose(cost * ratio * expit(moved), cost * expit(wide), rtol=1e-11)
    np.testing.assert_allclose(moved, logit(expit(wide) / ratio), rtol=0, atol=1e-10)


def test_converges_with_very_different_costs():
    """κ = C ‖x‖² up to 1e8, where Newton's method from the wrong side would go astray."""
    X, Y = random_data(1, 30, 40, 2, density=0.5)  # separable
    options = asked(lam="1e-9", precision="double", max_steps=3000)
    for ours in finish(risk_of(X, Y, options), options).values():
        assert ours.status == CONVERGED
        assert ours.gap < 0.01
    options = asked(lam="1e-3", positive_weight="1e6", bias=True, max_steps=3000)
    risk = risk_of(*DATA["random"](), options)
    for label, ours in finish(risk, options).items():
        least, _ = minimum(risk, options, label)
        assert ours.f * (1 - ours.gap) <= least * (1 + 1e-9)
        assert ours.gap < 0.01


def test_path_comes_near_the_solutions_at_every_setting(monkeypatch):
    monkeypatch.setattr(path_of_dual, "TOLERANCE", 1e-4)
    monkeypatch.setattr(path_of_dual, "FIRST_SWEEPS", 60)
    X, Y = random_data(0, 60, 20, 3, density=0.3)
    options = asked(bias=True)
    risk = risk_of(X, Y, options)
    given = [{"lam": lam, "positive_weight": weight} for lam in (0.3, 0.1, 0.02) for weight in (1.0, 3.0)]
    fits = path_of_dual.DualFitter(None, risk, given, options, 16)
    fits.warm_up()
    seen = set()
    for found in fits.fit(np.arange(3), NEVER):
        w = found.w.reshape(-1, found.width).astype(float)
        for lane, (place, number) in enumerate(zip(found.places, found.settings, strict=True)):
            setting = given[number]
            own = replace(options, lam=repr(setting["lam"]), positive_weight=repr(setting["positive_weight"]))
            at = risk.at(own)
            assert f_of(at, own, place, w[:, lane]) == pytest.approx(minimum(at, own, place)[0], rel=1e-5)
            seen.add((int(place), int(number)))
    assert len(seen) == 18

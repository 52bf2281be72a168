"""Cutting planes of one label: bounds against LIBLINEAR, and dropped planes."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from hpcml.errors import HpcmlError
from hpcml.methods.svmperf.svmperf import IDLE_LIMIT, CuttingPlanes


def problem(seed, m=60, d=6, lam=0.01):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(m, d))
    return x, np.where(x @ rng.normal(size=d) + rng.normal(size=m) > 0, 1.0, -1.0), lam


def risk(x, y, w):
    z = y * (x @ w)
    return np.maximum(0, 1 - z).mean(), -x.T @ (y * (z < 1)) / len(y)


def objective(x, y, lam, w):
    return lam / 2 * w @ w + risk(x, y, w)[0]


def independent_minimum(x, y, lam):
    model = LinearSVC(loss="hinge", C=1 / (lam * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000_000, random_state=0)
    return objective(x, y, lam, model.fit(x, y).coef_[0])


class Run:
    def __init__(self, x, y, lam, clones=()):
        self.x, self.y, self.lam, self.clones = x, y, lam, clones
        self.planes, self.vectors, self.w, self.f = CuttingPlanes(lam), np.zeros((0, x.shape[1])), np.zeros(x.shape[1]), np.inf

    def add(self, a, b):
        self.planes.add(np.append(self.vectors @ a, a @ a), b)
        self.vectors = np.vstack([self.vectors, a])

    def step(self):
        r, a = risk(self.x, self.y, self.w)
        b = r - a @ self.w
        for scale in (1.0, *self.clones):  # R ≥ max(0, plane) ≥ scale · plane for scale ≤ 1
            self.add(scale * a, scale * b)
        self.w = -self.planes.solve() @ self.vectors / self.lam
        self.f = min(self.f, objective(self.x, self.y, self.lam, self.w))
        return self.f - self.planes.lower_bound

    def drop(self, *idle):
        gone = self.planes.drop(*idle)
        self.vectors = np.delete(self.vectors, gone, axis=0)
        return gone


@pytest.mark.parametrize("lam", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("clones", [(), (1.0, 1 - 1e-9)])
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_closes_and_the_bound_never_exceeds_the_minimum(seed, clones, lam):
    x, y, lam = problem(seed, lam=lam)
    run, minimum = Run(x, y, lam, clones), independent_minimum(x, y, lam)
    for _ in range(300):
        gap = run.step()
        alpha = run.planes.alpha
        assert (alpha >= 0).all()
        assert alpha.sum() <= 1 + 1e-15
        assert run.planes.lower_bound <= minimum * (1 + 1e-12)
        run.drop()
        if gap < 1e-6 * run.f:
            break
    assert gap < 1e-6 * run.f
    assert run.f == pytest.approx(minimum, rel=1e-6)


def test_one_plane_by_hand():
    planes = CuttingPlanes(0.5)  # a = (2), b = 1: min w²/4 + max(0, 2w + 1) is 1/16 at w = −1/2, α = 1/8
    planes.add(np.array([4.0]), 1.0)
    assert planes.lower_bound == 0
    assert planes.solve() == pytest.approx([0.125])
    assert planes.lower_bound == pytest.approx(0.0625)
    assert planes.slack == pytest.approx(0, abs=1e-12)


def test_planes_that_were_idle_long_enough_are_dropped():
    run, history = Run(*problem(1, lam=1e-4)), []
    for _ in range(IDLE_LIMIT + 20):
        run.step()
        history.append(run.planes.alpha)
    last = np.array([np.pad(alpha, (0, len(history) - len(alpha)), constant_values=1) for alpha in history[-IDLE_LIMIT:]])
    inactive, bound, offsets = np.flatnonzero((last == 0).all(axis=0)), run.planes.lower_bound, run.planes.offsets
    gone = run.drop()
    assert len(gone) > 0
    assert gone.tolist() == inactive.tolist()
    assert run.planes.offsets.tolist() == np.delete(offsets, gone).tolist()
    assert run.planes.gram == pytest.approx(run.vectors @ run.vectors.T)
    assert run.planes.lower_bound == pytest.approx(bound, rel=1e-12)
    assert run.drop().size == 0


def test_raises_when_the_program_has_no_solution():
    planes = CuttingPlanes(1.0)
    planes.add(np.array([np.nan]), 1.0)
    with pytest.raises(HpcmlError, match="of 1 cutting planes was not solved"):
        planes.solve()


def test_the_bound_holds_even_for_an_infeasible_answer_of_the_solver(monkeypatch):
    x, y, lam = problem(4)
    run = Run(x, y, lam)
    for _ in range(5):
        run.step()
    monkeypatch.setattr("daqp.solve", lambda *_, **__: (np.array([0.9, -0.5, 0.9, 1e-13, 0.2]), 0.0, 1, {}))
    assert run.planes.solve() == pytest.approx([0.45, 0, 0.45, 0, 0.1])
    assert run.planes.lower_bound <= independent_minimum(x, y, lam)

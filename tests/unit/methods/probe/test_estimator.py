"""PROBE against Algorithm 1 as published, and ProbeClassifier in scikit-learn (test_estimators.py tests all classifiers)."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from mpi4py import MPI
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from support.oracles import probe

from hpcml import ProbeClassifier
from hpcml.methods.linear.panels import Step
from hpcml.methods.linear.solver import CYCLES
from hpcml.methods.probe.probe import ProbeState


def blobs(n_classes, n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return (4 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d))).astype(np.float32), y


def same(a, b):
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("coef_", "intercept_", "n_iter_", "f_min_"))


def test_same_bits_for_any_form_of_the_input():
    X, y = blobs(3)
    alone = ProbeClassifier().fit(X, y)
    doubled = sp.coo_matrix((np.tile(X.ravel() / 2, 2), np.tile(np.indices(X.shape).reshape(2, -1), 2)), X.shape)
    twice = sp.csr_matrix((np.tile(X / 2, 2).ravel(), np.tile(np.arange(4), 240), np.arange(121) * 8), X.shape)
    forms = [X.astype(float), X.tolist(), np.asfortranarray(X), sp.csc_matrix(X), sp.csr_array(X), doubled, twice, pd.DataFrame(X)]
    for other in forms:
        before = other.copy() if sp.issparse(other) else None
        assert same(alone, ProbeClassifier(labels_per_pass=2).fit(other, pd.Series(y)))
        assert before is None or (before.data.tobytes() == other.data.tobytes() and before.nnz == other.nnz)


def test_dormant_rows_depend_on_the_seed():
    X, y = blobs(3)
    first, again = (ProbeClassifier(random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2))
    assert same(first, again) and (first.visited_ < 1).all()
    assert not same(first, ProbeClassifier(random_state=4).fit(X, y))
    assert ProbeClassifier(dormant=False).fit(X, y).visited_.tolist() == [1, 1, 1]


def test_clones_keep_the_communicator_and_pickles_do_not():
    comm = MPI.COMM_SELF.Dup()
    try:
        original = ProbeClassifier(loss="logistic", comm=comm).fit(*blobs(3))
        twin = clone(make_pipeline(original))[-1]
        assert twin.comm is comm and twin.loss == "logistic" and not hasattr(twin, "coef_")
        copied = pickle.loads(pickle.dumps(original))
        assert copied.comm is None and original.comm is comm and same(copied, original)
    finally:
        comm.Free()


X, Y = blobs(2)
LARGE = X.astype(float)
LARGE[3, 2] = 1e300


@pytest.mark.parametrize(
    ("parameters", "rows", "labels", "names"),
    [
        *(({name: value}, X, Y, name) for name, value in (("loss", "hing"), ("lam", "X/q"), ("lam", -1), ("epsilon", 1))),
        *(({name: value}, X, Y, name) for name, value in (("max_iter", 2.5), ("max_iter", 0), ("random_state", -1), ("comm", "a"))),
        *(({}, X * 0, Y, "no usable features"), ({}, LARGE, Y, "too large"), ({}, sp.csr_matrix(LARGE), Y, "too large")),
        *(({}, X, Y[:-1], "inconsistent numbers"), ({}, X, Y + 0.5, "continuous"), ({}, X[:0], Y[:0], "minimum of 1")),
        *(({}, X, np.stack([Y, Y + 1], axis=1), "the value 2"), ({}, X, None, "requires y")),
    ],
)
def test_rejects_invalid_parameters_and_data(parameters, rows, labels, names):
    with warnings.catch_warnings(), pytest.raises((ValueError, TypeError), match=names):
        warnings.simplefilter("ignore", RuntimeWarning)
        ProbeClassifier(**parameters).fit(rows, labels)


def follow(f_and_g, d):
    state, w, w_min, trace = ProbeState(), np.zeros(d), None, []
    while True:
        f, g = f_and_g(w)
        step = state.advance(f, float(g @ g))
        if step.improved:
            w_min = w
        trace.append((f, state.phi, CYCLES[state.cycle]))
        if step.done:
            return state.f_min, w_min, trace
        w = w - step.eta * g


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_follows_the_published_algorithm(seed, d):
    rng = np.random.default_rng(seed)
    A, b, c = rng.normal(size=(3 * d, d)), rng.normal(size=3 * d), rng.random() + 0.1

    def f_and_g(w):  # a convex, non-smooth, positive function
        r = A @ w - b
        return c + np.abs(r).sum() + w @ w, A.T @ np.sign(r) + 2 * w

    ours, theirs = follow(f_and_g, d), probe(f_and_g, d)
    assert ours[2] == theirs[2]
    assert ours[0] == theirs[0]
    assert (ours[1] == theirs[1]).all()


def test_stops_at_once_where_the_gradient_vanishes_or_the_loss_is_zero():
    assert ProbeState().advance(0.7, 0.0) == Step(0.0, improved=True, done=True)
    assert ProbeState().advance(0.0, 1.0).done

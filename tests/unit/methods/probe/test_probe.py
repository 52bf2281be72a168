"""PROBE against Algorithm 1 as published, and edge cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import probe

from hpcml.methods.linear.panels import Step
from hpcml.methods.linear.solver import CYCLES
from hpcml.methods.probe.probe import ProbeState


def follow(f_and_g, d):
    """Run ProbeState on a function: (f_min, w_min, trace) like the oracle."""
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


@pytest.mark.parametrize("steps", [0, 1, 17, 60])
def test_packed_state_continues_the_same_way(steps):
    rng = np.random.default_rng(5)
    values = 1 + rng.random(120)
    state = ProbeState()
    for f in values[:steps]:
        state.advance(f, 2.0)
    copy = ProbeState()
    copy.unpack(state.pack())
    assert copy == state
    for f in values[steps:]:
        assert copy.advance(f, 2.0) == state.advance(f, 2.0)

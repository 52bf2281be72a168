"""The ranking measures against brute force over all orders of ties, and against scikit-learn."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from support import oracles_ranking as oracles

from hpcml.measures import COUNTS, MEASURES, _tie_sums

BRUTE_FORCE = {"average_precision": oracles.average_precision, "break_even": oracles.break_even}
SKLEARN = {
    "average_precision": metrics.average_precision_score,
    "auc": metrics.roc_auc_score,
    "f1": lambda y, s: metrics.f1_score(y, s > 0),
    "precision": lambda y, s: metrics.precision_score(y, s > 0),
    "recall": lambda y, s: metrics.recall_score(y, s > 0),
    "misclassified": lambda y, s: metrics.zero_one_loss(y, s > 0, normalize=False),
}
ITEMS = st.lists(st.tuples(st.integers(-1, 2), st.booleans()), min_size=1, max_size=7)


@pytest.mark.parametrize("name", sorted(BRUTE_FORCE))
@settings(max_examples=30, deadline=None)
@given(items=ITEMS.filter(lambda items: any(p for _, p in items)))
def test_ties_are_averaged_over_all_orders(name, items):
    scores, positive = zip(*items, strict=True)
    expected = oracles.over_ties(BRUTE_FORCE[name], scores, positive)
    assert MEASURES[name](oracles.ranking(scores, positive)) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("name", sorted(SKLEARN))
def test_agrees_with_sklearn(name):
    rng = np.random.default_rng(7)
    y = rng.random(300) < 0.3
    for scores in (rng.standard_normal(300) + y, *([rng.integers(-2, 3, 300)] if name != "average_precision" else [])):
        assert MEASURES[name](oracles.ranking(scores, y)) == pytest.approx(SKLEARN[name](y, scores), abs=1e-13)


@pytest.mark.parametrize("name", sorted(set(MEASURES) - COUNTS))
@settings(max_examples=30, deadline=None)
@given(items=ITEMS)
def test_every_measure_is_a_share_or_undefined(name, items):
    scores, positive = zip(*items, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = MEASURES[name](oracles.ranking(scores, positive))
    assert math.isnan(value) or -1e-15 <= value <= 1 + 1e-15
    if not any(positive) and name != "precision" and not (name == "f1" and max(scores) > 0):
        assert math.isnan(value)


def test_perfect_and_constant_rankings():
    perfect = oracles.ranking([3, 2, -1, -2], [1, 1, 0, 0])
    assert {name: measure(perfect) for name, measure in MEASURES.items()} == {name: float(name not in COUNTS) for name in MEASURES}
    constant = oracles.ranking([0.0] * 4, [1, 0, 0, 0])
    assert MEASURES["auc"](constant) == 0.5
    assert MEASURES["break_even"](constant) == 0.25
    assert MEASURES["average_precision"](constant) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


@pytest.mark.parametrize("t", [0, 1, 17, 1000, 10**9])
@pytest.mark.parametrize("n", [1, 2, 16, 17, 100, 20000])
def test_sums_over_long_ties(t, n):
    i = np.arange(1, n + 1)
    reciprocals, weighted = _tie_sums(np.array([t]), np.array([n]))
    assert reciprocals[0] == pytest.approx(math.fsum(1 / (t + i)), rel=1e-14)
    # what matters is the error relative to n, since average precision divides by it
    assert weighted[0] / n == pytest.approx(math.fsum((i - 1) / (t + i)) / n, abs=1e-15)

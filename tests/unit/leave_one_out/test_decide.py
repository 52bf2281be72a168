"""Thresholds from counts of scores: against a plain twin, and their properties."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracles_decide as oracles

from hpcml.leave_one_out.cells import EDGES, N_CELLS, ScoreCounts
from hpcml.leave_one_out.decide import KAPPA, LOWEST, PRIOR, decide, order_by_frequency
from hpcml.mpi.single import COMM_SELF


def make_counts(scores, truth):
    """Return counts of scores (n × L)."""
    cells = np.searchsorted(EDGES, scores, "right")
    dense = np.zeros((2, scores.shape[1], N_CELLS), dtype=np.int64)
    for label in range(scores.shape[1]):
        dense[0, label] = np.bincount(cells[:, label], minlength=N_CELLS)
        dense[1, label] = np.bincount(cells[truth[:, label], label], minlength=N_CELLS)
    return pack(dense), dense


def pack(dense):
    labels, cells = np.nonzero(dense[0])
    indptr = np.searchsorted(labels, np.arange(dense.shape[1] + 1)).astype(np.int64)
    values = (dense[kind][labels, cells].astype(np.int32) for kind in range(2))
    return ScoreCounts(indptr, cells.astype(np.int16), *values)


def draw(seed, n_rows=400, n_labels=30, noise=0.3):
    """Return scores and truth of labels, rare ones first, whose log-odds are not linear in the score."""
    rng = np.random.default_rng(seed)
    means = np.linspace(-1.1, -0.5, n_labels)
    scores = np.clip(means + noise * rng.standard_exponential((n_rows, n_labels)), -1.3, 1.3)
    truth = rng.random(scores.shape) < 1 / (1 + np.exp(-6 * np.tanh(2 * scores) - 1))
    truth[0] = True
    truth[1] = False
    return scores, truth


def decide_all(counts, truth, names=None):
    n_positive = truth.sum(axis=0)
    names = [f"label {number:03}" for number in range(n_positive.size)] if names is None else names
    return decide(COMM_SELF, counts, 0, n_positive, len(truth), order_by_frequency(n_positive, names))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), n_labels=st.integers(1, 60))
def test_agrees_with_the_plain_twin(seed, n_labels):
    scores, truth = draw(seed, n_labels=n_labels)
    counts, dense = make_counts(scores, truth)
    decision = decide_all(counts, truth)
    rows, positives = (oracles.merge_lowest(each) for each in dense)
    n_positive = truth.sum(axis=0)
    order = sorted(range(n_labels), key=lambda label: (n_positive[label], label))
    group, sums = oracles.pool(order, n_positive, rows, positives)
    for label in range(n_labels):
        of_rows, of_positives = sums[:, group[label]]
        x = oracles.curve(of_rows, of_positives)
        np.testing.assert_allclose(decision.curves[decision.groups[label]], x, rtol=1e-9, atol=1e-9)
        prior = oracles.prior_precision(x, of_rows, of_positives, KAPPA)
        own = rows[label] * (n_positive[label] > 1), positives[label] * (n_positive[label] > 1)
        found = oracles.fit(x, *own, prior)
        loss = oracles.sigmoid_loss(decision.sigmoids[label], x, *own, prior)
        assert loss <= found.fun + 1e-6 * abs(found.fun)
        p = 1 / (1 + np.exp(-decision.sigmoids[label, 0] * x - decision.sigmoids[label, 1]))
        together = rows[label] + PRIOR / max(1, of_positives.sum()) * of_rows
        values = [oracles.expected_f1(p[20:], together[20:], cell - 20) for cell in range(21, N_CELLS)]
        chosen = int(np.searchsorted(EDGES, np.nextafter(decision.thresholds[label], np.inf), "right"))
        assert values[chosen - 21] == pytest.approx(max(values), rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_log_odds_increase_with_the_score(seed):
    scores, truth = draw(seed, n_labels=12)
    decision = decide_all(make_counts(scores, truth)[0], truth)
    assert (np.diff(decision.curves, axis=1) > 0).all() and (decision.sigmoids[:, 0] >= 0).all()


def test_the_lowest_cell():
    assert EDGES[LOWEST - 1] < -1.005 < EDGES[LOWEST] and abs(EDGES[LOWEST] + 1) < 1e-9


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_labels_has_no_effect(seed):
    scores, truth = draw(seed, n_labels=25)
    truth[:, 5:10] = truth[:, 5:6]  # equal numbers of positives
    names = [f"{number * 7919 % 1009}" for number in range(25)]
    first = decide_all(make_counts(scores, truth)[0], truth, names)
    new = np.random.default_rng(seed).permutation(25)
    other = decide_all(make_counts(scores[:, new], truth[:, new])[0], truth[:, new], [names[label] for label in new])
    for name in ("thresholds", "sigmoids", "groups"):
        np.testing.assert_array_equal(getattr(first, name)[new], getattr(other, name))
    np.testing.assert_array_equal(first.curves, other.curves)


@pytest.mark.parametrize("bounds", [[0, 7, 25], [0, 1, 1, 20, 25]])
def test_ranges_of_labels_give_the_same_bits(bounds, monkeypatch):
    scores, truth = draw(3, n_labels=25)
    counts, _ = make_counts(scores, truth)
    n_positive, parts, sums = truth.sum(axis=0), [], []
    order, whole = order_by_frequency(n_positive, list("abcdefghijklmnopqrstuvwxy")), decide_all(counts, truth)
    for begin, end in pairwise(bounds):
        parts.append((counts.rows(begin, end), begin))
    monkeypatch.setattr("hpcml.mpi.allreduce_sum", lambda comm, values: sums.append(values.copy()) or values)
    for part, begin in parts:
        decide(COMM_SELF, part, begin, n_positive, len(truth), order)
    total = np.sum(sums, axis=0)
    monkeypatch.setattr("hpcml.mpi.allreduce_sum", lambda comm, values: total.copy())
    found = [decide(COMM_SELF, part, begin, n_positive, len(truth), order) for part, begin in parts]
    for name in ("thresholds", "sigmoids", "groups"):
        np.testing.assert_array_equal(np.concatenate([getattr(each, name) for each in found]), getattr(whole, name))
    np.testing.assert_array_equal(found[0].curves, whole.curves)


def test_equal_f1_takes_the_highest_threshold():
    dense = np.zeros((2, 1, N_CELLS), dtype=np.int64)
    dense[0, 0, 0], dense[:, 0, 200] = 1000, 10  # cells 21 to 200 predict the same rows
    truth = np.zeros((1010, 1), dtype=bool)
    truth[:10] = True
    assert decide_all(pack(dense), truth).thresholds[0] == np.nextafter(EDGES[199], -np.inf)


def test_labels_without_positive_or_negative_rows():
    scores, truth = draw(1, n_labels=8)
    scores[:, 0], truth[:, 0], scores[:, 7], truth[:, 7] = -1.25, False, 1.0, True
    counts, _ = make_counts(scores, truth)
    decision = decide_all(counts, truth)
    others = decide_all(make_counts(scores[:, 1:7], truth[:, 1:7])[0], truth[:, 1:7])
    np.testing.assert_array_equal(decision.thresholds[1:7], others.thresholds)
    np.testing.assert_array_equal(decision.curves, others.curves)
    assert decision.groups[0] == 0 and decision.groups[7] == decision.groups.max()
    assert (scores[:, 0] < decision.thresholds[0]).all() and (scores[:, 7] > decision.thresholds[7]).all()


@pytest.mark.parametrize("value", [False, True])
def test_constant_labels_alone(value):
    scores, truth = np.full((50, 2), 1.0 if value else -1.25), np.full((50, 2), value)
    decision = decide_all(make_counts(scores, truth)[0], truth)
    assert np.isfinite(decision.thresholds).all() and np.isfinite(decision.sigmoids).all()
    assert ((scores > decision.thresholds) == value).all()


def test_rare_labels_borrow():
    rng = np.random.default_rng(0)
    truth = rng.random((20_000, 40)) < 0.0003
    counts, dense = make_counts(np.where(truth, -0.4, -0.95) + 0.2 * rng.standard_normal(truth.shape), truth)

    def find_best(rows, positives):
        above, hits = (np.cumsum(each[..., ::-1], axis=-1)[..., ::-1][..., 1:] for each in (rows, positives))
        return EDGES[np.argmax(2 * hits / (above + positives.sum(axis=-1, keepdims=True)), axis=-1)]

    alone, best, decision = find_best(*dense), find_best(*dense.sum(axis=1)), decide_all(counts, truth)
    has_positives = truth.any(axis=0)
    errors = [np.square(values - best)[has_positives].mean() for values in (decision.thresholds, alone)]
    assert errors[0] < 0.5 * errors[1]


def test_a_frequent_label_keeps_its_own():
    rng = np.random.default_rng(1)
    truth = rng.random((20_000, 12)) < 0.1
    scores = np.where(truth, 0.2, -0.8) + 0.2 * rng.standard_normal(truth.shape)
    scores[:, 5] -= 0.3
    thresholds = decide_all(make_counts(scores, truth)[0], truth).thresholds
    assert np.delete(thresholds, 5) == pytest.approx(np.full(11, -0.2), abs=0.05)
    assert thresholds[5] == pytest.approx(-0.5, abs=0.05)

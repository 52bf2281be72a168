"""Summaries of scores against all scores; thresholds and sigmoids against brute force and scikit-learn; what shrinking does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from support import oracles_thresholds as oracles

from hpcml.errors import DataError, NonFiniteError
from hpcml.evaluation.decision import KAPPA, TAU, decide, decide_together, own_threshold, summarise
from hpcml.kernels import platt
from hpcml.measures import MEASURES, auc, average_precision


def drawn(seed, n=300, positives=9, ties=False, shift=1.5):
    rng = np.random.default_rng(seed)
    truth = np.zeros(n, dtype=bool)
    truth[rng.permutation(n)[:positives]] = True
    scores = rng.standard_normal(n) + shift * truth
    return (np.round(3 * scores) / 3 if ties else scores).astype(np.float32), truth


def logistic(seed, n, offset, slope=2.0):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(n) * 1.5
    return scores.astype(np.float32), rng.random(n) < 1 / (1 + np.exp(-slope * scores - offset))


def sums(cases):
    return [summarise(scores, np.flatnonzero(truth)) for scores, truth in cases]


def sigmoid(scores, pair):
    return 1 / (1 + np.exp(-pair[0] * np.asarray(scores, dtype=np.float64) - pair[1]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), positives=st.integers(1, 64), ties=st.booleans(), shift=st.sampled_from([0.0, 1.5, 8.0, -3.0]))
def test_a_summary_of_few_positives_says_all(seed, positives, ties, shift):
    scores, truth = drawn(seed, 200, positives, ties, shift)
    exactly = scores.astype(np.float64)  # numpy rounds a threshold to float32 scores
    summary = summarise(scores, np.flatnonzero(truth))
    assert (summary.ranking().n_items, summary.points["positive"].sum()) == (200, positives) and summary.points.nbytes <= 4096
    ranking = summary.ranking()
    assert auc(ranking) == pytest.approx(roc_auc_score(truth, scores))
    if not ties:  # scikit-learn takes ties as one step
        assert average_precision(ranking) == pytest.approx(average_precision_score(truth, scores))
    threshold = own_threshold(summary)
    best = oracles.best_f1(scores[:, None].astype(np.float64), truth[:, None], "micro")
    assert f1_score(truth, exactly > threshold) == pytest.approx(best)
    assert MEASURES["f1"](summary.ranking(threshold)) == pytest.approx(best, abs=0.05)
    order = np.random.default_rng(seed + 1).permutation(scores.size)
    again = summarise(scores[order], np.flatnonzero(truth[order]))
    assert again.points.tobytes() == summary.points.tobytes()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 300), offset=st.floats(-4, 2))
def test_a_sigmoid_is_platts(seed, n, offset):
    scores, truth = logistic(seed, n, offset)
    truth[:2] = True, False
    n_positive, out = int(truth.sum()), np.empty(2)
    targets = np.where(truth, (n_positive + 1) / (n_positive + 2), 1 / (n - n_positive + 2))
    platt.fit_sigmoid(scores.astype(np.float64), np.ones(n), targets, np.zeros(5), out)
    peer = _SigmoidCalibration().fit(scores.astype(np.float64), truth)
    if -peer.a_ >= 0:
        assert sigmoid(scores, out) == pytest.approx(peer.predict(scores.astype(np.float64)), abs=2e-3)
    else:  # probabilities never fall where scores rise
        assert out[0] == 0 and sigmoid(scores, out) == pytest.approx(np.full(n, targets.mean()), abs=1e-6)


def test_a_threshold_lies_between_its_own_and_that_of_labels_as_frequent():
    summaries = sums([drawn(seed, 400, positives) for seed, positives in enumerate([2, 2, 3, 5, 40, 44, 200])])
    own, mixed, shared = (decide(summaries, tau).thresholds for tau in (0.0, TAU, 1e15))
    n = np.array([summary.ranking().n_positive for summary in summaries])
    assert own.tolist() == [own_threshold(summary) for summary in summaries]
    assert mixed == pytest.approx((n * own + TAU * shared) / (n + TAU))
    assert shared[0] == pytest.approx(shared[1]) and shared[0] != pytest.approx(shared[6])
    assert decide(summaries).rarest[0] == pytest.approx(shared[0])


def test_scores_on_scales_of_their_own_are_standardised():
    cases = [drawn(seed, 1_000, 3 + seed % 5, shift=4.0) for seed in range(30)]
    rng = np.random.default_rng(1)
    shift, scale = 20 * rng.standard_normal(30), np.exp(rng.standard_normal(30))
    moved = [((scores * b + a).astype(np.float32), truth) for (scores, truth), a, b in zip(cases, shift, scale, strict=True)]
    plain, found = decide(sums(cases)), decide(sums(moved))

    def mean(cases, thresholds):
        return np.mean([f1_score(truth, scores > cut) for (scores, truth), cut in zip(cases, thresholds, strict=True)])

    assert mean(moved, found.thresholds) > 0.5 and mean(moved, found.thresholds) > mean(cases, plain.thresholds) - 0.05
    for (scores, _), (far, _), a, b in zip(cases, moved, plain.sigmoids, found.sigmoids, strict=True):
        assert sigmoid(far, b) == pytest.approx(sigmoid(scores, a), abs=0.25)
        assert sigmoid(far, b).mean() == pytest.approx(sigmoid(scores, a).mean(), abs=0.002)


def test_rare_labels_gain_on_other_rows():
    n, offsets = 2_000, np.linspace(-9.5, -8, 80)
    cases, fresh = ([logistic(1000 * k + seed, n, offset) for seed, offset in enumerate(offsets)] for k in (1, 2))
    alone, together = decide(sums(cases), 0, 0), decide(sums(cases))

    def value(found):
        some = ((s, t, cut) for (s, t), cut in zip(fresh, found.thresholds, strict=True) if t.any())
        return np.mean([f1_score(t, s > cut, zero_division=0) for s, t, cut in some])

    assert value(together) > value(alone) + 0.02

    def loss(found):
        p = np.concatenate([sigmoid(s, pair) for (s, _), pair in zip(fresh, found.sigmoids, strict=True)])
        y = np.concatenate([truth for _, truth in fresh])
        return -np.mean(np.where(y, np.log(p), np.log1p(-p))), p.mean() / y.mean()

    assert loss(together)[0] < loss(alone)[0]
    assert 0.8 < loss(together)[1] < 1.25


def test_one_probability_for_all_labels_has_nearly_the_largest_micro_f1():
    cases = [
        logistic(seed, 400, offset, slope) for seed, (offset, slope) in enumerate([(-1, 3), (-3, 2), (-5, 2), (-6, 1), (0, -2)])
    ]
    decision = decide(sums(cases))
    shared, together = decide_together(sums(cases), decision)
    truth = np.stack([truth for _, truth in cases])
    p = np.stack([sigmoid(scores, pair) for (scores, _), pair in zip(cases, decision.sigmoids, strict=True)])
    assert decision.sigmoids[4, 0] == 0 and (decision.sigmoids[:4, 0] > 0).all() and p[4].min() > shared > 0  # all rows have it

    def micro(given):
        return 2 * (given & truth).sum() / (given.sum() + truth.sum())

    def above(thresholds):
        return np.stack([scores > threshold for (scores, _), threshold in zip(cases, thresholds, strict=True)])

    assert np.array_equal(above(together.thresholds), p > shared)
    best = max(micro(p > each) for each in np.unique(p))
    assert best - 0.01 < micro(p > shared) <= best and micro(p > shared) > micro(above(decision.thresholds))
    assert np.array_equal(together.sigmoids, decision.sigmoids)

    def with_missed(given):
        return 2 * (given & truth).sum() / (given.sum() + truth.sum() + 3000)

    lower, _ = decide_together(sums(cases), decision, 3000)  # pairs of labels that the model does not know
    assert max(with_missed(p > each) for each in np.unique(p)) - 0.01 < with_missed(p > lower)
    assert with_missed(p > lower) > with_missed(p > shared) and lower < shared


def test_labels_without_positives_and_constant_scores():
    cases = [drawn(1, 100, 3), (np.full(100, -1, np.float32), drawn(2, 100, 2)[1]), (drawn(3)[0][:100], np.zeros(100, dtype=bool))]
    cases.append((np.zeros(100, np.float32), np.ones(100, dtype=bool)))
    for kappa in (0.0, KAPPA):
        found = decide(sums(cases), kappa=kappa)
        assert np.isfinite(found.thresholds).all() and np.isfinite(found.sigmoids).all() and (found.sigmoids[:, 0] >= 0).all()
    assert found.thresholds[2] == found.rarest[0]
    assert sigmoid(cases[2][0], found.sigmoids[2]).mean() < 0.05
    assert sigmoid(-1.0, found.sigmoids[1]) == pytest.approx(0.02, abs=0.02)


def test_what_cannot_be_decided_is_refused():
    with pytest.raises(DataError, match="the rows have none of the labels"):
        decide(sums([(drawn(1)[0], np.zeros(300, dtype=bool))]))
    for bad in (np.nan, np.inf):
        scores, truth = drawn(1)
        scores[5] = bad
        with pytest.raises(NonFiniteError, match="expected finite numbers"):
            summarise(scores, np.flatnonzero(truth))
    with pytest.raises(DataError, match="no rows"):
        summarise(np.empty(0), np.empty(0, dtype=np.int64))

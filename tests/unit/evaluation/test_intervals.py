"""Bootstrap intervals against an ordinary bootstrap in NumPy, over rows, groups of rows and labels."""

import h5py
import numpy as np
import pytest
from support import make
from support import oracles_thresholds as oracles
from support.judged import judged

from hpcml.evaluation.intervals import BLOCKS, Interval, bootstrap_mean


def files(folder, n_rows, n_copies=1):
    """Paths of a dataset, whose rows are repeated, and of a model; scores and truth of the rows without copies."""
    X, Y = make.random_data(0, n_rows, 12, 6)
    W = np.random.default_rng(1).standard_normal((6, 12))
    scores, truth = X.astype(np.float64) @ W.T, Y.toarray() > 0
    copies = np.tile(np.arange(n_rows), n_copies)
    data = make.dataset(folder / "data.h5", X[copies], Y[copies])
    return data, make.model(folder / "model.h5", W), scores, truth


def check_against_numpy(intervals, scores, truth, tolerance=0.15):
    """Compare with 2,000 samples of rows with replacement, from the numerator and denominator of each row."""
    given, n = scores > 0, len(scores)
    hits = np.take_along_axis(truth, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    ndcg = [oracles.ndcg(scores[[row]], truth[[row]], 5) if truth[row].any() else 0.0 for row in range(n)]
    f1 = np.array([oracles.f1(given[[row]], truth[[row]], "instance") for row in range(n)])
    n_hits, n_given, n_true = ((given & truth).sum(axis=1), given.sum(axis=1), truth.sum(axis=1))
    ratios = {
        ("precision_at", 3): (hits[:, :3].sum(axis=1), np.full(n, 3)),
        ("ndcg_at", 5): (np.array(ndcg), truth.any(axis=1)),
        ("micro", "f1"): (2 * n_hits, n_given + n_true),
        ("micro", "recall"): (n_hits, n_true),
        ("instance", "f1"): (np.nan_to_num(f1), ~np.isnan(f1)),
    }
    rows = np.random.default_rng(5).integers(0, n, (2000, n))
    for (kind, name), (above, below) in ratios.items():
        found = intervals[kind][name]
        low, high = np.percentile(above[rows].sum(axis=1) / below[rows].sum(axis=1), [2.5, 97.5])
        assert found.value == pytest.approx(above.sum() / below.sum(), rel=1e-8), (kind, name)
        assert (found.low, found.high) == pytest.approx((low, high), abs=tolerance * (high - low)), (kind, name)


def test_intervals_over_rows_are_those_of_numpy(tmp_path):
    data, model, scores, truth = files(tmp_path, 150)
    result = judged(model, data)
    check_against_numpy(result.intervals, scores, truth)
    assert result.intervals["micro"]["f1"].value == pytest.approx(result.micro["f1"])
    assert " ± " in str(result) and "over rows" in str(result)


def test_copies_of_rows_in_one_group_do_not_narrow_the_interval(tmp_path):
    data, model, scores, truth = files(tmp_path, 60, n_copies=20)
    without = judged(model, data).intervals["micro"]["f1"]
    with h5py.File(data, "r+") as file:
        file["row_groups"] = np.tile(np.arange(60, dtype=np.uint64) << np.uint64(40), 20)
    result = judged(model, data)
    assert "over groups of rows" in str(result) and result.as_dict()["intervals"]["over"] == "groups"
    assert result.intervals["micro"]["f1"].half_width > 3 * without.half_width
    check_against_numpy(result.intervals, scores, truth, tolerance=0.3)


def test_many_items_in_blocks_have_the_interval_of_the_normal_distribution():
    values = np.random.default_rng(0).exponential(2, 40 * BLOCKS + 7)
    found, half = bootstrap_mean(values), 1.96 * values.std() / values.size**0.5
    assert found.value == values.mean() and found.half_width == pytest.approx(half, rel=0.12)


def test_means_without_an_interval():
    assert np.isnan(bootstrap_mean(np.zeros(0)).value)
    one = bootstrap_mean(np.array([0.3]))
    assert one.value == 0.3 and np.isnan([one.low, one.high]).all() and not one.excludes_zero
    assert bootstrap_mean(np.full(9, 0.5)) == Interval(0.5, 0.5, 0.5) and bootstrap_mean(np.full(9, -0.5)).excludes_zero


def test_a_single_label_has_intervals_over_rows_only(tmp_path):
    data, model, *_ = files(tmp_path, 80)
    result = judged(model, data, labels=[0])
    assert result.intervals["micro"]["f1"].half_width > 0 and "precision_at" not in result.intervals
    assert np.isnan(result.intervals["macro"]["f1"].low) and "this label" in str(result)

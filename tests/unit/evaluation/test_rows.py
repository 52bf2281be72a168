"""Measures that are means over rows: against scikit-learn and slow twins, with thresholds and without."""

import math

import h5py
import numpy as np
import pytest
from sklearn import metrics
from support import make
from support import oracles_thresholds as oracles
from support.judged import judged

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.evaluation.intervals import BLOCKS, Interval, bootstrap_mean
from hpcml.evaluation.rows import PERCENT
from hpcml.log import Log
from hpcml.model import scoring
from hpcml.model.linear import Model

SELF, QUIET = mpi.self_comm(), Log(1)
N_POSITIVE = np.array([9, 4, 30, 1, 4, 17, 0, 25, 2, 2, 3])


@pytest.fixture(params=[False, True])
def case(request, tmp_path, monkeypatch):
    X, Y = make.random_data(3, 70, 12, 11)
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((11, 12)), rng.standard_normal(11)
    if request.param:
        X, W, bias = X.astype(bool).astype(np.float32), rng.integers(-1, 2, (11, 12)).astype(float), np.zeros(11)
        monkeypatch.setattr(scoring, "MAX_LANES", 3)
        monkeypatch.setattr(scoring, "SCORE_BYTES", 200)
    data, model = make.dataset(tmp_path / "data.h5", X, Y), make.model(tmp_path / "model.h5", W, bias)
    with h5py.File(model, "r+") as file:
        file["labels/n_positive"][:] = N_POSITIVE
        file.attrs["n_rows"] = 100
    return data, Model(model), X.astype(np.float64) @ W.T + bias, Y.toarray() > 0


def of_case(case, threshold=None, labels=None):
    return judged((case[1] if threshold is None else case[1].with_threshold(threshold)), case[0], labels=labels)


@pytest.mark.parametrize("threshold", [None, 0.4, 100.0, -100.0])
def test_f1_by_frequency_equals_sklearn_and_the_twin(case, threshold):
    _, _, scores, truth = case
    given, result = scores > (threshold or 0.0), of_case(case, threshold)
    order = np.argsort(-N_POSITIVE, kind="stable")
    assert [line.percent for line in result.by_frequency] == list(PERCENT)
    assert [line.n_labels for line in result.by_frequency] == [11, 4, 2, 1, 1]
    for line in result.by_frequency:
        some = order[: line.n_labels]
        g, t = given[:, some], truth[:, some]
        assert line.instance_f1 == pytest.approx(oracles.f1(g, t, "instance"), rel=1e-14)
        assert line.micro_f1 == pytest.approx(oracles.f1(g, t, "micro"), rel=1e-14)
        assert line.macro_f1 == pytest.approx(oracles.f1(g, t, "label"), rel=1e-14)
        assert line.micro_f1 == pytest.approx(metrics.f1_score(t.ravel(), g.ravel(), zero_division=np.nan), rel=1e-13)
        if line.n_labels > 1:
            for average, value in (("samples", line.instance_f1), ("macro", line.macro_f1)):
                assert value == pytest.approx(metrics.f1_score(t, g, average=average, zero_division=np.nan), rel=1e-13)
    assert result.instance_f1 == result.by_frequency[0].instance_f1
    assert result.micro["f1"] == pytest.approx(oracles.f1(given, truth, "micro"), rel=1e-14)
    assert result.thresholds == ("" if threshold is None else f"{threshold:g} for all labels")


def test_ndcg_and_propensity_scored_precision(case):
    _, _, scores, truth = case
    result, some = of_case(case), truth.any(axis=1)
    assert 0 < some.sum() < 70
    for k in (1, 3, 5):
        assert result.ndcg_at[k] == pytest.approx(oracles.ndcg(scores, truth, k), rel=1e-13)
        expected = oracles.propensity_scored(scores, truth, N_POSITIVE, 100, k)
        assert result.propensity_scored_at[k] == pytest.approx(expected, rel=1e-13)
        if np.unique(scores).size == scores.size:  # scikit-learn has ties in another order
            expected = metrics.ndcg_score(truth[some], scores[some], k=k)
            assert result.ndcg_at[k] == pytest.approx(expected, rel=1e-12)


def test_one_label_and_models_that_do_not_tell(case, tmp_path):
    result = of_case(case, labels=[2])
    assert (result.by_frequency, result.ndcg_at, result.propensity_scored_at) == ([], {}, {})
    assert math.isnan(result.instance_f1)
    with h5py.File(case[1].path, "r+") as file:
        file["labels/n_positive"][:] = 0
    untold = (case[0], Model(case[1].path), *case[2:])
    result = of_case(untold)
    assert (result.frequency_from, result.propensity_scored_at) == ("evaluated rows", {})
    counts = case[3].sum(axis=0)
    some = np.argsort(-counts, kind="stable")[:4]
    assert result.by_frequency[1].micro_f1 == pytest.approx(oracles.f1(case[2][:, some] > 0, case[3][:, some], "micro"))
    with pytest.raises(ConfigError, match="--threshold nan"):
        of_case(case, math.nan)


def files(folder, n_rows, n_copies=1):
    X, Y = make.random_data(0, n_rows, 12, 6)
    W = np.random.default_rng(1).standard_normal((6, 12))
    scores, truth = X.astype(np.float64) @ W.T, Y.toarray() > 0
    copies = np.tile(np.arange(n_rows), n_copies)
    data = make.dataset(folder / "data.h5", X[copies], Y[copies])
    return data, make.model(folder / "model.h5", W), scores, truth


def check_against_numpy(intervals, scores, truth, tolerance=0.15):
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

"""Intervals, learning curves and differences of runs; what the files of a run say."""

import json

import h5py
import numpy as np
import pytest
from support import make
from support.pages import evaluation

from hpcml.errors import ConfigError, DataError
from hpcml.model.linear import Model
from hpcml.reporting import statistics
from hpcml.reporting.facts import data_of, facts_of
from hpcml.reporting.gather import probability_of
from hpcml.reporting.statistics import bootstrap_mean, common_labels, counts_of, differences, learning_curve, measures_of

NAMES = [f"label {k}" for k in range(300)]


def test_the_interval_of_a_mean_is_near_that_of_the_normal_distribution(monkeypatch):
    values = np.random.default_rng(0).normal(3, 2, 400)
    found, half = bootstrap_mean(values), 1.96 * values.std() / 20
    assert found.value == values.mean()
    assert found.low == pytest.approx(found.value - half, abs=0.15 * half)
    assert found.high == pytest.approx(found.value + half, abs=0.15 * half)
    monkeypatch.setattr(statistics, "AT_ONCE", 999)  # in parts: other draws, nearly the same interval
    assert bootstrap_mean(values).low == pytest.approx(found.low, abs=0.15 * half)
    none = bootstrap_mean(values[:0])
    assert np.isnan(none.value) and not none.is_apart_from_0
    one = bootstrap_mean(values[:1])  # of one label there is nothing to draw
    assert one.value == values[0] and np.isnan(one.low) and np.isnan(one.high)
    assert bootstrap_mean(np.full(9, 2.0)) == statistics.Interval(2.0, 2.0, 2.0)


def test_micro_measures_follow_from_counts():
    e = evaluation(NAMES)
    hits, given, true = counts_of(e)
    assert (hits <= np.minimum(given, true)).all()
    by_name = {each.name: each for each in measures_of(e)}
    for name, key in (("F1", "f1"), ("precision", "precision"), ("recall", "recall")):
        found = by_name[name]
        assert found.micro.value == pytest.approx(e.micro[key], rel=1e-12)
        assert found.micro.low < found.micro.value < found.micro.high
        assert found.macro.value == pytest.approx(e.macro(key), rel=1e-12)
    assert np.isnan(by_name["average precision"].micro.low)
    assert by_name["average precision"].n_labels == len(NAMES) - 1
    e.n_missed = 1000  # of labels that the model does not know
    found = {each.name: each.micro for each in measures_of(e)}
    assert found["recall"].value == pytest.approx(hits.sum() / (true.sum() + 1000), rel=1e-12)
    assert found["F1"].value == pytest.approx(2 * hits.sum() / (given.sum() + true.sum() + 1000), rel=1e-12)
    assert found["F1"].low < found["F1"].value < found["F1"].high
    assert found["precision"] == by_name["precision"].micro


def test_very_many_labels_have_nearly_the_intervals_of_their_resamples(monkeypatch):
    e = evaluation([f"label {k}" for k in range(2000)])
    e.n_missed = 700
    drawn = measures_of(e)
    monkeypatch.setattr(statistics, "MANY", 1000)
    for found, of_draws in zip(measures_of(e), drawn, strict=True):
        for one, other in ((found.macro, of_draws.macro), (found.micro, of_draws.micro)):
            assert one.value == other.value
            if not np.isnan(other.low):
                width = other.high - other.low
                assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=0.15 * width)  # few labels have most pairs


def test_very_many_labels_that_are_never_given_have_no_precision(monkeypatch):
    monkeypatch.setattr(statistics, "MANY", 3)
    hits, given, true = np.zeros(5, np.int64), np.zeros(5, np.int64), np.arange(5)
    found = statistics.micro_intervals(np.stack([hits, given, true]), 0)
    assert all(np.isnan([found["precision"].value, found["precision"].low, found["precision"].high]))
    assert found["recall"] == found["f1"] == statistics.Interval(0.0, 0.0, 0.0)


def test_differences_are_paired():
    """Label by label the second is 0.01 better: however labels differ, the interval is that difference."""
    one, other = evaluation(NAMES), evaluation(NAMES[::-1])
    other.n_positive = one.n_positive[::-1]
    other.values = {name: values[::-1].copy() for name, values in one.values.items()}
    other.values["auc"] += 0.01
    found = {each.measure: each for each in differences(one, other)}
    auc = found["AUC (ROC)"]
    assert auc.n_labels == 299 and auc.interval.is_apart_from_0
    assert (auc.interval.low, auc.interval.high) == pytest.approx((0.01, 0.01))
    assert auc.verdict == "good" and found["F1"].verdict == ""
    for e in (one, other):
        e.values["brier"] = e.values["auc"]
    assert {each.measure: each.verdict for each in differences(one, other)}["Brier score"] == "bad"  # more error
    assert found["F1"].interval.value == 0 and not found["F1"].interval.is_apart_from_0
    assert common_labels([one, evaluation(["x", "label 7"])]).tolist() == [[7], [1]]


def test_points_of_the_learning_curve_hold_all_labels_once():
    rng = np.random.default_rng(1)
    counts = np.concatenate([np.full(100, 3), rng.integers(4, 500, 77)])
    values = rng.random(counts.size)
    points = learning_curve(counts, values)
    assert sum(point.n_labels for point in points) == counts.size
    assert [p.n_positive for p in points] == sorted(p.n_positive for p in points)
    assert points[0].n_labels >= 100  # labels of as many rows stay together
    assert sum(p.mean * p.n_labels for p in points) == pytest.approx(values.sum())
    assert all(p.quartiles[0] <= p.quartiles[1] <= p.quartiles[2] for p in points)
    assert learning_curve(counts[:4], values[:4]) == []


def test_sigmoids_are_turned_round(tmp_path):
    """The scores of some probabilities have these probabilities; a flat sigmoid gives all scores the same one."""
    model = Model(make.model(tmp_path / "m.h5", np.ones((3, 2))))
    assert probability_of(model) is None
    model.labels = dict(model.labels, sigmoid_slope=np.array([2.0, 0.5, 0.0]), sigmoid_offset=np.array([1.0, -3.0, 0.4]))
    p, scores_of = np.linspace(0.01, 0.99, 50), probability_of(model)
    for label in range(2):
        slope, offset = model.sigmoids[0][label], model.sigmoids[1][label]
        np.testing.assert_allclose(1 / (1 + np.exp(-slope * scores_of(label, p) - offset)), p)
    below = 1 / (1 + np.exp(-0.4)) >= p
    assert scores_of(2, p).tolist() == np.where(below, -np.inf, np.inf).tolist()


def start(**more):
    return {
        "time": "2026-01-31T23:59:00+0000", "hpcml": "1", "python": "3", "packages": {"numpy": "2", "skops": None}, "system": "s",
        "mpi": "m", "ranks": 8, "nodes": {"a": 4, "b": 4}, "variables": {"OMP_NUM_THREADS": "1"}, "arguments": ["train", "dual"],
    } | more  # fmt: skip


def test_a_run_says_when_where_and_how_much(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    data = make.dataset(tmp_path / "d.h5", np.ones((2, 3)), np.ones((2, 2)))
    make.model(run / "model.h5", np.ones((2, 3)))
    with h5py.File(run / "model.h5", "r+") as file:
        file.attrs["n_rows"], file.attrs["split"] = 2000, "train"
        file.attrs.pop("made-by", None)
    (run / "config.toml").write_text(f'method = "dual"\ndata = "{data}"\nlabel = []\nbias = true\n')
    ended = start(finished="2026-02-01T00:01:05+0000", peak_mib=[100.0, 300.0, 200.0, 120.0, 101.0])
    (run / "environment.jsonl").write_text(f"{json.dumps(start())}\n{json.dumps(ended)}\n")
    assert data_of(run, None) == data and data_of(run / "model.h5", None) == data
    found = facts_of(run, Model(run / "model.h5"))
    said = dict([*found.about, *found.options, *found.environment])
    assert said["finished"] == "2026-02-01T00:01:05+0000, 125 s after the last start, with the reading of the data"
    assert said["ranks"] == "8 on 2 nodes" and said["continued"].startswith("1 times")
    assert said["peak of memory"] == "100 to 300 MiB a rank, 0.8 GiB in all"
    assert said["packages"] == "numpy 2" and said["bias"] == "yes" and said["label"] == "none"
    assert found.method == "probe" and found.trained == "2026-02-01 00:01 UTC by hpcml 1, on 2,000 rows of split train of d.h5"
    (run / "environment.jsonl").write_text(json.dumps(start(finished="2026-02-01T00:30:00+0200")))
    assert facts_of(run, Model(run / "model.h5")).trained.startswith("2026-01-31 22:30 UTC by hpcml 1, on ")
    (run / "environment.jsonl").unlink()
    assert facts_of(run, Model(run / "model.h5")).trained == "on 2,000 rows of split train of d.h5"
    with h5py.File(run / "model.h5", "r+") as file:
        file.attrs["made-by"] = "2"
    (run / "config.toml").unlink()
    assert facts_of(run, Model(run / "model.h5")).trained == "by hpcml 2, on 2,000 rows of split train"
    (run / "config.toml").write_text(f'data = "{data}"\n')
    (run / "environment.jsonl").write_text("[1]\n")
    with pytest.raises(DataError, match=r"environment.jsonl: damaged"):
        facts_of(run, Model(run / "model.h5"))
    data.unlink()
    with pytest.raises(ConfigError, match="are no longer there; name a dataset with --data"):
        data_of(run, None)
    (run / "model.h5").unlink()
    with pytest.raises(DataError, match="this run is not finished"):
        data_of(run, None)

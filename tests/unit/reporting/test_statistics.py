"""Measures, learning curves and differences of runs; facts from the files of a run."""

import json

import h5py
import numpy as np
import pytest
from support import make
from support.pages import evaluation

import hpcml
from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.reporting.gather import find_data, gather, invert_sigmoids, read_facts
from hpcml.reporting.statistics import common_labels, compare_measures, learning_curve, list_measures, list_row_measures

NAMES = [f"label {k}" for k in range(300)]


def test_measures_have_the_intervals_of_the_evaluation():
    e = evaluation(NAMES)
    e.block_sums = {("micro", "f1"): np.array([[30, 50, 10], [60, 70, 20]]), ("ndcg_at", 3): np.ones((2, 9), dtype=np.int64)}
    measures, row_measures = list_measures(e), list_row_measures(e)
    assert measures["f1"].macro.value == pytest.approx(e.macro("f1")) and measures["f1"].micro.half_width > 0
    assert measures["average_precision"].n_labels == len(NAMES) - 1 and np.isnan(measures["average_precision"].micro.low)
    assert row_measures["nDCG@3"] == (0.8, 1.0, 1.0) and row_measures["F1 per row"].value == 0.6


def test_differences_are_paired():
    one, other = evaluation(NAMES), evaluation(NAMES[::-1])
    other.n_positive = one.n_positive[::-1]
    other.values = {name: values[::-1].copy() for name, values in one.values.items()}
    other.values["auc"] += 0.01
    found = {each.measure: each for each in compare_measures(one, other)}
    auc = found["ROC AUC"]
    assert auc.n_labels == 299 and auc.interval.excludes_zero
    assert (auc.interval.low, auc.interval.high) == pytest.approx((0.01, 0.01))
    assert auc.verdict == "good" and found["F1"].verdict == ""
    for e in (one, other):
        e.values["brier"] = e.values["auc"]
    assert {each.measure: each.verdict for each in compare_measures(one, other)}["Brier score"] == "bad"  # more error
    assert found["F1"].interval.value == 0 and not found["F1"].interval.excludes_zero
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
    model = Model(make.model(tmp_path / "m.h5", np.ones((3, 2))))
    assert invert_sigmoids(model) is None
    model.labels = dict(model.labels, sigmoid_slope=np.array([2.0, 0.5, 0.0]), sigmoid_offset=np.array([1.0, -3.0, 0.4]))
    p, scores_of = np.linspace(0.01, 0.99, 50), invert_sigmoids(model)
    for label in range(2):
        slope, offset = model.sigmoids[0][label], model.sigmoids[1][label]
        np.testing.assert_allclose(1 / (1 + np.exp(-slope * scores_of(label, p) - offset)), p)
    below = 1 / (1 + np.exp(-0.4)) >= p
    assert scores_of(2, p).tolist() == np.where(below, -np.inf, np.inf).tolist()


def test_status_is_that_of_the_evaluated_labels(tmp_path):
    X, Y = make.random_data(1, 60, 9, 3)
    hpcml.train("dual", make.dataset(tmp_path / "all.h5", X, Y), tmp_path / "run")
    with h5py.File(tmp_path / "run" / "model.h5", "r+") as file:
        names = file["label_names"].asstr()[1:]
        file["labels/status"][:] = [0, 2, 2]
    some = make.dataset(tmp_path / "some.h5", X, Y[:, 1:], label_names=names)
    report = gather(mpi.self_comm(), tmp_path / "run", some, "all", Log(0), None, False)
    assert report.status == ["step limit"] * 2


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
    assert find_data(run, None) == data and find_data(run / "model.h5", None) == data
    found = read_facts(run, Model(run / "model.h5"))
    said = dict([*found.about, *found.options, *found.environment])
    assert said["finished"] == "2026-02-01T00:01:05+0000, 125 s after the last start, including reading"
    assert said["ranks"] == "8 on 2 nodes" and said["bias"] == "yes" and said["label"] == "none"
    assert found.method == "probe" and found.trained == "2026-02-01 00:01 UTC by hpcml 1, on 2,000 rows of split train of d.h5"
    (run / "environment.jsonl").write_text(json.dumps(start(finished="2026-02-01T00:30:00+0200")))
    assert read_facts(run, Model(run / "model.h5")).trained.startswith("2026-01-31 22:30 UTC by hpcml 1, on ")
    (run / "environment.jsonl").unlink()
    assert read_facts(run, Model(run / "model.h5")).trained == "on 2,000 rows of split train of d.h5"
    with h5py.File(run / "model.h5", "r+") as file:
        file.attrs["made-by"] = "2"
    (run / "config.toml").unlink()
    assert read_facts(run, Model(run / "model.h5")).trained == "by hpcml 2, on 2,000 rows of split train"
    (run / "config.toml").write_text(f'data = "{data}"\n')
    (run / "environment.jsonl").write_text("[1]\n")
    with pytest.raises(DataError, match=r"environment.jsonl: damaged"):
        read_facts(run, Model(run / "model.h5"))
    data.unlink()
    with pytest.raises(ConfigError, match="does not exist; name one with --data"):
        find_data(run, None)
    (run / "model.h5").unlink()
    with pytest.raises(DataError, match="the run is not finished"):
        find_data(run, None)

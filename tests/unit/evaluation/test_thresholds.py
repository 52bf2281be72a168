"""Thresholds: against trying every score, the guard, the file, and who uses them."""

import shutil

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import make
from support import oracles_thresholds as oracles
from support.edits import attributes, edit, entry
from support.judged import judged, labels_of_rows, predicted
from support.training import merge, train

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation import instance_search
from hpcml.evaluation.thresholds import ThresholdSearch, between, find_thresholds, threshold
from hpcml.log import Log
from hpcml.model import scoring
from hpcml.model.linear import Model
from hpcml.model.open import format_model, open_model
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)


def files(folder, seed, ties, n_rows=60, n_labels=7, **more):
    """(dataset, model, scores, truth)"""
    rng = np.random.default_rng(seed)
    X, Y = make.random_data(seed, n_rows, 12, n_labels)
    W, bias = rng.standard_normal((n_labels, 12)), rng.standard_normal(n_labels)
    if ties:
        X, W, bias = X.astype(bool).astype(np.float32), rng.integers(-2, 3, (n_labels, 12)) / 3.0, np.zeros(n_labels)
    splits = {"train": range(0, n_rows, 2), "valid": range(1, n_rows, 2)}
    data = make.dataset(folder / "data.h5", X, Y, splits=splits, row_ids=[f"row{n}" for n in range(n_rows)])
    model = make.model(folder / "model.h5", W, bias, **more)
    return data, model, X.astype(np.float64) @ W.T + bias, Y.toarray() > 0


def found(case, measure, split="all", **options):
    with DataFile(case[0]) as dataset:
        return find_thresholds(SELF, open_model(case[1]), dataset, split, ThresholdSearch(measure, **options))


def stored(case, measure="micro", split="all", output=None, force=False, **options):
    with DataFile(case[0]) as dataset:
        return threshold(SELF, open_model(case[1]), dataset, split, ThresholdSearch(measure, **options), output, force)


@pytest.mark.parametrize("measure", ["micro", "instance", "label"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), ties=st.booleans(), edges=st.integers(1, 5), pairs=st.sampled_from([0, 7, 10**6]))
def test_no_threshold_is_better(tmp_path_factory, measure, seed, ties, edges, pairs):
    case = files(tmp_path_factory.mktemp("case"), seed, ties)
    _, _, scores, truth = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance_search, "EDGES", edges)
        patch.setattr(instance_search, "PAIRS", pairs)
        patch.setattr(scoring, "MAX_LANES", 3)
        patch.setattr(scoring, "SCORE_BYTES", 200)
        result = found(case, measure, chance=1.0)
    if measure == "label":
        some = truth.any(axis=0)
        best = [oracles.best_f1(scores[:, [label]], truth[:, [label]], "micro") for label in np.flatnonzero(some)]
        expected = sum(best) / len(best)
        assert result.own.tolist() == np.flatnonzero(some).tolist()
    else:
        expected = oracles.best_f1(scores, truth, measure)
        assert np.unique(result.thresholds).tolist() == [result.shared]
    assert result.after == pytest.approx(expected, rel=1e-13)
    assert oracles.f1(scores > result.thresholds, truth, measure) == pytest.approx(expected, rel=1e-13)
    assert result.before == pytest.approx(oracles.f1(scores > 0, truth, measure), rel=1e-13)


@pytest.mark.parametrize("measure", ["micro", "instance"])
def test_labels_that_the_model_does_not_know_are_missed(tmp_path, measure):
    for seed in range(2):
        (folder := tmp_path / str(seed)).mkdir()
        data, model, scores, truth = files(folder, seed, ties=False, n_labels=4)
        unknown = np.random.default_rng(seed).random((60, 3)) < np.linspace(0.0, 1.0, 60)[:, None]
        with DataFile(data) as dataset:
            names = dataset.label_names()
        X, _ = make.random_data(seed, 60, 12, 4)
        data = make.dataset(folder / "more.h5", X, np.hstack([truth, unknown]), label_names=[*names, "x", "y", "z"])
        result = found((data, model), measure)
        together, behind = np.hstack([truth, unknown]), np.hstack([scores, np.full((60, 3), -np.inf)])
        cuts = np.unique(scores)
        best = max(oracles.f1(behind >= cut, together, measure) for cut in cuts)
        assert result.after == pytest.approx(best, rel=1e-13)
        assert oracles.f1(behind > result.shared, together, measure) == pytest.approx(best, rel=1e-13)
        assert result.before == pytest.approx(oracles.f1(behind > 0, together, measure), rel=1e-13)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_threshold_divides_two_scores(a, b):
    below, cut = min(a, b), max(a, b)
    if below < cut and np.finfo(float).min < cut:
        middle = between(below, cut)
        assert np.isfinite(middle) and middle < cut
        assert below <= middle


def test_labels_that_chance_explains_share_the_threshold(tmp_path):
    rng, n = np.random.default_rng(0), 400
    truth = np.zeros((n, 5))
    truth[:60, 0], truth[rng.permutation(n)[:5], 1], truth[:3, 2], truth[7, 3] = 1, 1, 1, 1
    scores = rng.standard_normal((n, 5))  # of label 1 they say nothing
    scores[:60, 0] += 2
    scores[:3, 2] += 6
    scores[7, 3] = -10  # the best is to give it to all
    data = make.dataset(tmp_path / "data.h5", scores, truth)
    case = (data, make.model(tmp_path / "model.h5", np.eye(5)))
    result = found(case, "label", method="search")
    assert result.own.tolist() == [0, 2]
    assert result.borrowed == {"with fewer than 1 positive row": 1, "no better than chance": 2, "not in the data": 0}
    assert (result.thresholds[[1, 3, 4]] == result.shared).all() and result.shared == found(case, "micro").shared
    assert found(case, "label", min_positives=4).own.tolist() == [0]
    assert found(case, "label", chance=1.0).own.tolist() == [0, 1, 2, 3]


def test_labels_are_matched_by_name_and_others_share(tmp_path):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(2, 50, 8, 3), label_names=["c", "x", "a"])
    W = np.random.default_rng(3).standard_normal((3, 8))
    case = (data, make.model(tmp_path / "model.h5", W, label_names=list("abc")))
    result = found(case, "label", chance=1.0)
    assert (result.own.tolist(), result.borrowed["not in the data"]) == ([0, 2], 1)
    assert result.thresholds[1] == result.shared


def test_half_of_the_best_f1(tmp_path):
    case = files(tmp_path, 1, False)
    edit(case[1], attributes({"loss": "logistic"}))
    for measure in ("micro", "instance", "label"):
        best, half = (found(case, measure, method=method, chance=1.0) for method in ("search", "half"))
        if measure != "label":
            assert 1 / (1 + np.exp(-half.shared)) == pytest.approx(best.after / 2, rel=1e-12)
        else:
            own = [oracles.best_f1(case[2][:, [k]], case[3][:, [k]], "micro") for k in half.own]
            assert 1 / (1 + np.exp(-half.thresholds[half.own])) == pytest.approx(np.array(own) / 2, rel=1e-12)
        assert half.after == pytest.approx(oracles.f1(case[2] > half.thresholds, case[3], measure), rel=1e-13)
        assert half.after <= best.after + 1e-13
    edit(case[1], attributes({"positive_weight": "5"}))
    with pytest.raises(ConfigError, match="without --positive-weight"):
        found(case, "micro", method="half")


@pytest.mark.parametrize("sparse", [False, True])
def test_the_file_keeps_every_other_bit(tmp_path, sparse):
    case = files(tmp_path, 4, False, sparse=sparse)
    before = Model(shutil.copy(case[1], tmp_path / "before.h5"))
    report = stored(case, "label", "valid", output=tmp_path / "out.h5", chance=1.0)
    assert Model(case[1]).threshold_source == ""
    stored(case, "label", "valid", chance=1.0)
    after = Model(case[1])
    assert (tmp_path / "out.h5").read_bytes() == case[1].read_bytes()
    assert after.thresholds.tolist() == report.found.thresholds.tolist() and len(set(after.thresholds)) > 1
    assert before.thresholds.tolist() == [0.0] * 7
    with h5py.File(before.path) as old, h5py.File(after.path) as new:
        names = []
        old.visit(names.append)
        for name in names:
            if isinstance(old[name], h5py.Dataset):
                assert old[name].dtype == new[name].dtype and old[name][:].tolist() == new[name][:].tolist(), name
        assert {name: value for name, value in new.attrs.items() if not name.startswith("threshold_")} == dict(old.attrs)
    with pytest.raises(ConfigError, match=r"has thresholds \(measure label\); use --force"):
        stored(case)
    with pytest.raises(ConfigError, match="exists already"):
        stored(case, output=tmp_path / "out.h5")
    stored(case, "micro", force=True)
    assert np.unique(Model(case[1]).thresholds).size == 1
    assert "measure micro" in format_model(open_model(case[1])) and "0 for all labels" in format_model(before)


def test_evaluate_and_predict_use_them(tmp_path, capsys):
    case = files(tmp_path, 5, False)
    stored(case, "label", "valid", chance=1.0)
    model = open_model(case[1])
    given = case[2] > model.thresholds
    assert (given != (case[2] > 0)).any()
    result = judged(model, case[0])
    assert result.values["f1"] == pytest.approx([oracles.f1(given[:, [k]], case[3][:, [k]], "micro") for k in range(7)])
    assert result.micro["f1"] == pytest.approx(oracles.f1(given, case[3], "micro"))
    assert result.instance_f1 == pytest.approx(oracles.f1(given, case[3], "instance"))
    assert result.micro["misclassified"] == (given != case[3]).sum()
    assert "measure label" in result.thresholds

    def best_first(flags):
        return [[f"label{k}" for k in np.argsort(-scores) if row[k]] for row, scores in zip(flags, case[2], strict=True)]

    ids = [f"row{n}" for n in range(60)]
    for name, judge, top, flags in (
        ("labels", model, None, given),
        ("zero", model.with_threshold(0), None, case[2] > 0),
        ("top", model, 7, np.ones_like(given)),
    ):
        output = predicted(judge, case[0], tmp_path / f"{name}.h5", top=top, log=Log(0))
        assert labels_of_rows(output, ids) == best_first(flags)
        assert ("measure label" in capsys.readouterr().err) == (name == "labels")


def columns_and_source(path, what):
    model = Model(path)
    if what == "thresholds":
        return [model.thresholds.tolist()], model.threshold_source
    return [] if model.sigmoids is None else [values.tolist() for values in model.sigmoids], model.probability_source


@pytest.mark.parametrize(
    ("what", "source", "differs"),
    [
        ("thresholds", "chosen on split valid (measure label, method search)", "threshold_measure .none; label"),
        ("probabilities", "calibrated (sigmoid, on split valid)", "calibration_method .none; sigmoid"),
    ],
)
def test_prune_and_merge_keep_them(tmp_path, what, source, differs):
    def made(model):
        if what == "thresholds":
            stored((case[0], model), "label", "valid", chance=1.0)
        else:
            hpcml.calibrate(model, case[0])

    case = files(tmp_path, 6, False)
    made(case[1])
    with DataFile(case[0]) as dataset:
        prune(SELF, open_model(case[1]), dataset, "all", [0.2], tmp_path / "few.h5", False, QUIET)
    assert columns_and_source(tmp_path / "few.h5", what) == columns_and_source(case[1], what)
    runs = [tmp_path / f"run{k}" for k in (1, 2)]
    for k, run in enumerate(runs, 1):
        train("dual", None, case[0], run, label_part=f"{k}/2", min_positives=0)
    made(runs[0] / "model.h5")
    with pytest.raises(ConfigError, match=rf"run2 and .*run1 differ in {differs}"):
        merge(None, runs, tmp_path / "both")
    made(runs[1] / "model.h5")
    merge(None, runs, tmp_path / "both")
    parts = [columns_and_source(run / "model.h5", what)[0] for run in runs]
    together = [[*first, *second] for first, second in zip(*parts, strict=True)]
    assert columns_and_source(tmp_path / "both" / "model.h5", what) == (together, source)
    assert len(together) == (1 if what == "thresholds" else 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers(tmp_path, n_classes):
    names = ["one"] if n_classes == 2 else list("abc")
    X, y, Y = make.class_data(3, 90, 10, n_classes)
    data = make.dataset(tmp_path / "data.h5", X, Y, label_names=names)
    case = (data, make.classifier(tmp_path / "model.h5", "linear-svm", X[:60], y[:60], names))
    if n_classes == 3:
        with pytest.raises(ConfigError, match="3 classes predicts exactly one per row"):
            stored(case)
        return
    with h5py.File(predicted(case[1], data, tmp_path / "scores.h5", "scores")) as file:
        scores = file["scores"][:]
    report = stored(case, "label", chance=1.0)
    assert report.found.after == pytest.approx(oracles.best_f1(scores, Y.toarray() > 0, "micro"))
    assert judged(case[1], data).values["f1"][0] == pytest.approx(report.found.after)
    assert "measure label" in format_model(open_model(case[1]))
    with pytest.raises(ConfigError, match="--method half needs scores that are log-odds"):
        stored(case, method="half", force=True)


def test_what_does_not_fit_is_refused(tmp_path):
    case = files(tmp_path, 7, False)
    for options, sentence in (
        ({"method": "half"}, "--method half needs scores that are log-odds"),
        ({"measure": "label", "method": "shrink", "chance": 0.5}, "--chance 0.5: applies to --method search and half; remove it"),
        ({"method": "shrink"}, "--method shrink: applies to --measure label; use --method search for micro"),
        ({"split": "nowhere"}, "no split"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            stored(case, **options)
    assert Model(case[1]).threshold_source == ""
    empty = make.dataset(tmp_path / "empty.h5", np.ones((3, 12)), np.zeros((3, 7)))
    with pytest.raises(DataError, match="no row of split all has a label"):
        stored((empty, case[1]))
    with pytest.raises(ConfigError, match=r"empty\.h5 has no split valid; use --split .*\(splits: none\)"):
        stored((empty, case[1]), split=None)
    (tmp_path / "nan").mkdir()
    poisoned = make.model(tmp_path / "nan" / "model.h5", np.full((7, 12), np.nan))
    with pytest.raises(NonFiniteError, match="is not a finite number"):
        stored((case[0], poisoned))
    for value in (np.nan, np.inf):
        stored(case, force=True)
        with pytest.raises(DataError, match="damaged model"):
            Model(edit(case[1], entry("labels/threshold", 2, value)))
        edit(case[1], entry("labels/threshold", 2, 0))


def test_scores_that_tell_nothing_are_noticed(tmp_path):
    X = np.ones((6, 2))
    case = (
        make.dataset(tmp_path / "data.h5", X, np.eye(6, 2) + np.eye(6, 2, 1)),
        make.model(tmp_path / "model.h5", np.ones((2, 2))),
    )
    for measure in ("micro", "instance"):
        report = stored(case, measure, force=True)
        assert report.found.everything and "predicts every label for every row" in str(report)
        assert report.found.shared < 2.0

"""Thresholds: against trying every score, the guard, the file, and who uses them."""

import json
import shutil

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import make
from support import oracles_thresholds as oracles
from support.edits import attributes, edit, entry
from support.judged import judged, labels_of_rows, lines_of, predicted
from support.training import merge, train

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation import instance_search
from hpcml.evaluation.thresholds import ThresholdSearch, between, calibrate, find_thresholds, threshold
from hpcml.log import Log
from hpcml.model import scoring
from hpcml.model.linear import Model
from hpcml.model.open import format_model, open_model
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)


def files(folder, seed, ties, n_rows=60, n_labels=7, **more):
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
@given(seed=st.integers(0, 10**6), ties=st.booleans(), pairs=st.sampled_from([0, 7, 10**6]))
def test_no_threshold_is_better(tmp_path_factory, measure, seed, ties, pairs):
    case = files(tmp_path_factory.mktemp("case"), seed, ties)
    _, _, scores, truth = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instance_search, "PAIRS", pairs)
        patch.setattr(instance_search, "PAIRS_PER_ROW", 0)
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
        ("thresholds", "chosen on split valid (measure label, method search)", "threshold_method .leave-one-out; search"),
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


SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture
def case(tmp_path):
    X, Y = make.random_data(3, 80, 12, 6)
    rng = np.random.default_rng(4)
    W, bias = rng.standard_normal((6, 12)), rng.standard_normal(6)
    data = make.dataset(tmp_path / "data.h5", X, Y, splits={"train": range(0, 80, 2), "valid": range(1, 80, 2)})
    return data, make.model(tmp_path / "model.h5", W, bias), X.astype(np.float64) @ W.T + bias, Y.toarray() > 0


def done(case, split="all", **options):
    with DataFile(case[0]) as dataset:
        return calibrate(SELF, open_model(case[1]), dataset, split, **options)


def test_calibration_keeps_every_other_bit(case, tmp_path):
    report = done(case, output=tmp_path / "out.h5")
    assert Model(case[1]).sigmoids is None and report.sigmoids.shape == (6, 2) and "split all" in str(report)
    done(case)
    assert (tmp_path / "out.h5").read_bytes() == case[1].read_bytes()
    slope, offset = Model(case[1]).sigmoids
    assert np.stack([slope, offset], axis=1).tolist() == report.sigmoids.tolist()
    assert "calibrated (sigmoid, on split all)" in format_model(open_model(case[1]))
    with pytest.raises(ConfigError, match=r"has probabilities \(calibrated .*use --force"):
        done(case)
    done(case, split="valid", force=True)
    assert "on split valid" in Model(case[1]).probability_source


def test_predictions_have_probabilities(case, tmp_path):
    model = case[1]
    hpcml.predict(model, case[0], tmp_path / "scores.h5")
    with h5py.File(tmp_path / "scores.h5") as file:
        assert "score" in file and "probability" not in file
    hpcml.calibrate(model, case[0], split="all")
    hpcml.threshold(model, case[0], "label", split="all")
    slope, offset = open_model(model).sigmoids
    p = 1 / (1 + np.exp(-case[2] * slope - offset))
    for top in (None, 2):
        expected = [
            (row, label)
            for row in range(len(p))
            for label in np.argsort(-(case[2][row] * slope + offset), kind="stable")[:top].tolist()
            if top or case[2][row, label] > open_model(model).thresholds[label]
        ]
        ids, labels, values = lines_of(hpcml.predict(model, case[0], tmp_path / f"{top}.h5", top=top))
        assert list(zip(ids, labels.tolist(), strict=True)) == expected and len(expected) > 50
        assert values == pytest.approx(p[tuple(np.transpose(expected))], rel=1e-12)
        header, *lines = hpcml.predict(model, case[0], tmp_path / f"{top}.csv", top=top).read_text().splitlines()
        assert header == "id,label,probability"
        assert [np.float32(line.rsplit(",")[-1]) for line in lines] == values.astype(np.float32).tolist()
    with h5py.File(hpcml.predict(model, case[0], tmp_path / "all.h5", all_scores=True)) as file:
        columns = [file[f"labels/{name}"][:].tolist() for name in ("sigmoid_slope", "sigmoid_offset", "threshold")]
        assert file["scores"][:] == pytest.approx(case[2]) and "calibrated" in file.attrs["probabilities"]
    assert columns == [slope.tolist(), offset.tolist(), open_model(model).thresholds.tolist()]


def test_evaluate_judges_them(case, tmp_path):
    before = judged(case[1], case[0])
    assert "brier" not in before.values and not before.calibration and "Brier" not in str(before)
    done(case)
    found = judged(case[1], case[0])
    slope, offset = open_model(case[1]).sigmoids
    p = 1 / (1 + np.exp(-case[2] * slope - offset))
    assert found.values["brier"] == pytest.approx(((p - case[3]) ** 2).mean(axis=0), abs=1e-9)
    assert found.micro["brier"] == pytest.approx(((p - case[3]) ** 2).mean(), abs=1e-9)
    bins = np.minimum((10 * p).astype(int), 9)
    gaps = np.array([[(p - case[3])[bins[:, k] == b, k].sum() for b in range(10)] for k in range(6)])
    assert found.values["ece"] == pytest.approx(np.abs(gaps).sum(axis=1) / len(p), abs=1e-9)
    assert found.micro["ece"] == pytest.approx(np.abs(gaps.sum(axis=0)).sum() / p.size, abs=1e-9)
    assert sum(line.n_labels for line in found.calibration) == 6
    mean = sum(line.n_labels * line.mean_probability for line in found.calibration) / 6
    assert mean == pytest.approx(p.mean())
    text = str(found)
    assert "calibrated (sigmoid, on split all)" in text and "Brier" in text
    found.write_json(tmp_path / "all.json")
    content = json.loads((tmp_path / "all.json").read_text())
    assert content["micro"]["brier"] == found.micro["brier"]
    assert content["probabilities"]["by_positives"][0].keys() >= {"positives", "mean_probability", "frequency", "brier", "ece"}


def test_log_odds_are_probabilities_of_their_own(case):
    edit(case[1], attributes({"loss": "logistic"}))
    assert [values.tolist() for values in Model(case[1]).sigmoids] == [[1.0] * 6, [0.0] * 6]
    assert "not calibrated" in format_model(open_model(case[1]))
    edit(case[1], attributes({"positive_weight": "4"}))
    assert Model(case[1]).sigmoids is None
    edit(case[1], attributes({"positive_weight": "1", "loss": "hinge"}))
    assert Model(case[1]).sigmoids is None


def test_labels_that_are_not_in_the_data_have_the_sigmoid_of_the_rarest(tmp_path):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(2, 50, 8, 2), label_names=["c", "a"])
    model = make.model(tmp_path / "model.h5", np.random.default_rng(3).standard_normal((3, 8)), label_names=list("abc"))
    report = done((data, model))
    assert report.n_without == 1 and np.isfinite(report.sigmoids).all() and "1 label without a positive row" in str(report)


def test_calibration_rejects_what_does_not_fit(case, tmp_path):
    X, y, Y = make.class_data(3, 90, 12, 2)
    two = make.classifier(tmp_path / "two.h5", "linear-svm", X, y, ["one"])
    with pytest.raises(ConfigError, match=r"a classifier of .* cannot be calibrated"):
        done((make.dataset(tmp_path / "two-data.h5", X, Y, label_names=["one"]), two))
    with pytest.raises(ConfigError, match="no split"):
        done(case, split="nowhere")
    (tmp_path / "inf").mkdir()
    endless = make.model(tmp_path / "inf" / "model.h5", np.zeros((6, 12)), np.full(6, np.inf))
    with pytest.raises(DataError, match="a factor or a bias is not a finite number"):
        done((case[0], endless))
    done(case)
    for name, value in (("sigmoid_slope", -1.0), ("sigmoid_offset", np.inf)):
        with pytest.raises(DataError, match="damaged model"):
            Model(edit(case[1], entry(f"labels/{name}", 2, value)))
        edit(case[1], entry(f"labels/{name}", 2, 0))

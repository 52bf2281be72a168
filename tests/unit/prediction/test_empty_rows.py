"""Texts without known words get no labels from `predict` and `serve`; `evaluate`, `tune`, `cv` and `explain` count them so."""

import csv
import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import f1_score
from support.converted import label_sets, made
from support.judged import labels_of_rows, lines_of

import hpcml
from hpcml import mpi
from hpcml.crossval.tasks import assign_folds
from hpcml.data.dataset import DataFile
from hpcml.data.row_keys import draw_keys
from hpcml.log import Log
from hpcml.serving.suggest import Question, Suggester

SELF = mpi.self_comm()
EMPTY = ["", "   ", "Привет, мир", "xyzzy 12345", "?!"]  # no text, unknown words, no words
WORDS = {"sea": "ship port storm harbour", "farm": "corn wheat plough grain"}


def documents(n, seed, split):
    rng = np.random.default_rng(seed)
    for number in range(n):
        topics = [topic for topic in WORDS if rng.random() < 0.6] or ["sea"]
        words = [str(rng.choice(WORDS[topic].split())) for topic in topics for _ in range(4)] + ["the", "of"]
        labels = topics + ["common"] * (rng.random() < 0.95)
        yield {"id": f"{split}{number}", "text": " ".join(words), "labels": labels, "split": split}


def new_documents(n=40):
    for number, each in enumerate(documents(n, 2, "test")):
        yield {**each, "text": EMPTY[number // 8 % len(EMPTY)]} if number % 8 == 3 else each


IDS = [each["id"] for each in new_documents()]
KINDS = {
    "logistic": ("dual", {"loss": "logistic"}),
    "sparse": ("dual", {"loss": "logistic", "drop": 1e-3}),
    "calibrated": ("dual", {"loss": "hinge"}),
    "bayes": ("bernoulli-nb", {}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    train = made(folder, "jsonl", list(documents(120, 1, "train")), "train")[1]
    return train, made(folder, "jsonl", list(new_documents()), "new", like=train)[1]


def model_of(data, folder, kind="logistic"):
    method, options = KINDS[kind]
    model = hpcml.train(method, data[0], folder / "run", force=True, **options).model
    if kind == "calibrated":
        hpcml.calibrate(model, data[0], split="train")
    return model


def is_empty(data):
    with h5py.File(data[1]) as file:
        return np.diff(file["X/indptr"][:]) == 0


@pytest.mark.parametrize(("kind", "threshold"), [("logistic", -30.0), ("sparse", None), ("calibrated", None)])
def test_predict_and_serve_agree(data, tmp_path, kind, threshold):
    model = model_of(data, tmp_path, kind)
    opened = hpcml.open_model(model)
    suggester = Suggester(hpcml.LoadedModel(opened if threshold is None else opened.with_threshold(threshold)))
    texts = [each["text"] for each in new_documents()]
    answers = suggester([Question([[], [text]], limit=99, only_given=True) for text in texts])
    given = labels_of_rows(hpcml.predict(model, data[1], tmp_path / "out.h5", threshold=threshold), IDS)
    names = hpcml.open_model(model).label_names
    assert [[names[each.label] for each in answer or []] for answer in answers] == given
    assert [answer is None for answer in answers] == is_empty(data).tolist() and is_empty(data).sum() == 5
    assert sum(map(len, given)) > 30


@pytest.mark.parametrize("kind", ["logistic", "bayes"])
def test_formats(data, tmp_path, kind, capsys):
    model, empty = model_of(data, tmp_path, kind), is_empty(data)
    for ending in ("csv", "json", "h5"):
        for options in ({}, {"top": 2}):
            out = hpcml.predict(model, data[1], tmp_path / f"x.{ending}", force=True, log=Log(0), **options)
            assert "5 rows without known features" in capsys.readouterr().err
            if ending == "csv":
                ids = {line["id"] for line in csv.DictReader(out.open())}
                has_labels = [name in ids for name in IDS]
            elif ending == "json":
                has_labels = [bool(each["labels"]) for each in json.loads(out.read_text())["documents"]]
            else:
                has_labels = list(map(bool, labels_of_rows(out, IDS)))
            assert not np.any(np.array(has_labels)[empty]) and np.mean(np.array(has_labels)[~empty]) > 0.9
    hpcml.predict(model, data[1], tmp_path / "scores.h5", all_scores=True, log=Log(0))
    assert "5 rows without known features" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["logistic", "calibrated", "bayes"])
def test_evaluate_uses_the_labels_of_predict(data, tmp_path, kind):
    model, empty = model_of(data, tmp_path, kind), is_empty(data)
    found = hpcml.evaluate(model, data[1])
    names, true = found.label_names, label_sets(data[1])
    given = labels_of_rows(hpcml.predict(model, data[1], tmp_path / "x.h5", force=True), IDS)
    with h5py.File(hpcml.predict(model, data[1], tmp_path / "s.h5", all_scores=True, force=True)) as file:
        scores = file["scores"][:]
    true, given = (np.array([[name in labels for name in names] for labels in sets]) for sets in (true, given))
    assert (true[empty].sum(), found.n_empty) == (true[empty].sum(), 5) and true[empty].sum() >= 5
    assert found.micro["f1"] == pytest.approx(f1_score(true, given, average="micro"))
    assert found.values["f1"] == pytest.approx(f1_score(true, given, average=None))
    assert np.array_equal(found.values["misclassified"], (true != given).sum(axis=0))
    scored = hpcml.evaluate_scores(scores[~empty], true[~empty]).values["average_precision"]
    share = true[~empty].sum(axis=0) / true.sum(axis=0)  # positives without a known feature are never retrieved
    assert found.values["average_precision"] == pytest.approx(scored * share)
    rows = (true | given).any(axis=1)
    each = 2 * (true & given).sum(axis=1)[rows] / (true.sum(axis=1) + given.sum(axis=1))[rows]
    assert found.instance_f1 == pytest.approx(each.mean())
    if kind == "logistic":
        best = np.argmax(scores, axis=1)
        assert found.precision_at[1] == pytest.approx((true[np.arange(40), best] & ~empty).mean())
    if found.calibration:
        slope, offset = hpcml.open_model(model).sigmoids
        p = np.where(empty[:, None], 0.0, 1 / (1 + np.exp(-slope * scores - offset)))
        assert found.micro["brier"] == pytest.approx(np.mean((p - true) ** 2), abs=1e-6)
    hpcml.evaluate(model, data[1], labels=[0])


@pytest.mark.parametrize(("measure", "kind"), [("label", "logistic"), ("micro", "calibrated"), ("instance", "logistic")])
def test_thresholds_maximise_the_measure_of_predictions(data, tmp_path, measure, kind):
    model = model_of(data, tmp_path, kind)
    report = hpcml.threshold(model, data[1], measure, split="test", output=tmp_path / "t.h5", method="search")
    judged = hpcml.evaluate(tmp_path / "t.h5", data[1])
    value = {"label": judged.macro("f1"), "micro": judged.micro["f1"], "instance": judged.instance_f1}[measure]
    assert report.found.after == pytest.approx(value)
    assert np.isfinite(report.found.thresholds).all() and report.found.after >= report.found.before


def test_explain_and_calibrate(data, tmp_path):
    model, empty = model_of(data, tmp_path), is_empty(data)
    hpcml.calibrate(model, data[1], split="test", output=tmp_path / "c.h5")
    hpcml.threshold(model, data[1], "label", split="test", output=tmp_path / "s.h5")
    most_wrong = hpcml.explain(model, data[1], wrong=40)
    assert "5 rows" in str(most_wrong)
    wrong = most_wrong.as_dict()["wrong"][0]
    rows = {each["row"] for kind in ("missed", "given") for each in wrong[kind]}
    assert rows.isdisjoint(np.flatnonzero(empty).tolist())
    assert "Infinity" not in json.dumps(wrong)
    (why,) = hpcml.explain(model, data[1], row=["test3"], label=["common"]).scores
    assert why.score > why.threshold and not why.is_given


def test_numeric_rows_of_zeros_get_labels(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)) - 0.5, np.repeat(["a", "b"], 30)
    X[::10] = 0
    hpcml.Dataset.from_sparse(X, y, tmp_path / "x.h5")
    model = hpcml.train("dual", tmp_path / "x.h5", tmp_path / "run").model
    assert lines_of(hpcml.predict(model, tmp_path / "x.h5", tmp_path / "p.h5", top=1))[0] == list(range(60))
    assert hpcml.evaluate(model, tmp_path / "x.h5").n_empty == 0


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    folder, lines = tmp_path_factory.mktemp("clear"), []
    for number in range(180):
        labels = [name for name, every in (("sea", 2), ("farm", 3)) if number % every == 0]
        words = [word for name in labels for word in WORDS[name].split()]
        text = "" if number % 9 == 0 else " ".join(["the", "of", *words])
        lines.append({"id": str(number), "text": text, "labels": labels + ["lost"] * (number % 18 == 0)})
    return made(folder, "jsonl", lines, "clear")[1], lines


@pytest.mark.parametrize("by", ["map", "f1"])
def test_tune_uses_the_labels_of_predict(clear, tmp_path, by, capsys):
    """Rows with words are ranked perfectly, and the others are never retrieved."""
    data, lines = clear
    hpcml.tune(data, tmp_path / "run", by=by, lambdas=(1.0,), weights=(1.0,), thresholds="micro", log=Log(0))
    assert "20 rows" in capsys.readouterr().err
    with (tmp_path / "run" / "choice.csv").open() as file:
        found = {line["label"]: float(line[by]) for line in csv.DictReader(file)}
    for name in ("sea", "farm", "lost"):
        n = sum(name in line["labels"] for line in lines)
        hits = sum(name in line["labels"] and bool(line["text"]) for line in lines)
        assert found[name] == pytest.approx(hits / n if by == "map" else 2 * hits / (hits + n), abs=1e-5)
    given = labels_of_rows(hpcml.predict(tmp_path / "run", data, tmp_path / "x.h5"), [line["id"] for line in lines])
    assert [set(labels) for labels in given] == [set(line["labels"]) if line["text"] else set() for line in lines]


def test_cv_uses_the_labels_of_predict(clear, capsys):
    data, lines = clear
    table = hpcml.cross_validate(["dual"], [data], label=["farm"], folds=3, log=Log(0))
    assert "20 rows" in capsys.readouterr().err
    with DataFile(data) as dataset:
        keys = draw_keys(dataset, np.arange(len(lines)))
    true = np.array(["farm" in line["labels"] for line in lines])
    fold, values = assign_folds(0, keys, true.astype(np.int64), 3), []
    for part in range(3):
        n = np.count_nonzero(true & (fold == part))
        hits = np.count_nonzero(true & (fold == part) & [bool(line["text"]) for line in lines])
        values.append(100 * 2 * hits / (hits + n))
    assert table.f1[0][0, :, 0] == pytest.approx(values)
    assert min(values) < 90

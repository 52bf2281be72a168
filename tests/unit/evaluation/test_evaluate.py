"""Evaluating a model: against scikit-learn on the full matrix of scores, and the edges of what is legal."""

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support import oracles_ranking as oracles
from support.judged import judged
from support.tables import table

import hpcml
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation import MEASURES
from hpcml.log import joined
from hpcml.model import scoring


def run(tmp_path, X, Y, W, bias=None, split="all", labels=None, model_labels=None, **data):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    model = make.model(folder / "model.h5", W, bias, model_labels)
    return judged(model, make.dataset(folder / "data.h5", X, Y, **data), split, labels)


def scores_of(X, W, bias):
    return X.astype(np.float64) @ W.T + bias


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_every_value_equals_the_oracle(tmp_path, monkeypatch, ties, small_blocks):
    if small_blocks:
        monkeypatch.setattr(scoring, "MAX_LANES", 2)
        monkeypatch.setattr(scoring, "SCORE_BYTES", 100)
    X, Y = make.random_data(0, 60, 12, 7)
    rng = np.random.default_rng(1)
    W, bias = rng.standard_normal((7, 12)), rng.standard_normal(7)
    if ties:
        X, W, bias = X.astype(bool).astype(np.float32), rng.integers(-1, 2, (7, 12)).astype(float), np.zeros(7)
    rows = np.arange(0, 60, 2)
    result = run(tmp_path, X, Y, W, bias, "odd", splits={"odd": rows}, ones=ties)
    scores, truth = scores_of(X, W, bias)[rows], Y.toarray()[rows] > 0
    assert result.n_positive.tolist() == truth.sum(axis=0).tolist()
    rankings = [oracles.ranking(scores[:, label], truth[:, label]) for label in range(7)]
    pool = oracles.ranking(scores.ravel(), truth.ravel())
    for name, measure in MEASURES.items():
        np.testing.assert_allclose(result.values[name], [measure(ranking) for ranking in rankings], rtol=1e-14)
        assert result.micro[name] == pytest.approx(measure(pool), rel=1e-14)
        assert result.macro(name) == pytest.approx(np.nanmean(result.values[name][result.n_positive > 0]), rel=1e-14)


def test_labels_are_matched_by_name(tmp_path):
    X, Y = make.random_data(2, 50, 8, 4)
    W = np.random.default_rng(3).standard_normal((4, 8))
    straight = run(tmp_path, X, Y, W, label_names=list("abcd"), model_labels=list("abcd"))
    swapped = run(tmp_path, X, Y[:, [3, 1, 0]], W, label_names=["d", "b", "x"], model_labels=list("abcd"))
    assert swapped.label_names == ["b", "d"]
    assert (swapped.not_in_data, swapped.n_not_in_model) == (["a", "c"], 1)
    for name in MEASURES:
        assert swapped.values[name].tobytes() == straight.values[name][[1, 3]].tobytes()
    assert "2 labels of the model not in the data" in str(swapped)
    n = int((Y[:, 0] != 0).sum())
    assert swapped.n_missed == n
    assert f"1 label of these rows unknown to the model; their {n} occurrences count as missed" in str(swapped)


@pytest.mark.parametrize("ties", [False, True])
def test_labels_that_the_model_does_not_know_are_missed(tmp_path, ties):
    X, Y = make.random_data(6, 60, 10, 7)
    rng = np.random.default_rng(7)
    W, bias = rng.standard_normal((5, 10)), rng.standard_normal(5)
    if ties:
        X, W, bias = X.astype(bool).astype(np.float32), rng.integers(-1, 2, (5, 10)).astype(float), np.zeros(5)
    rows, names = np.arange(0, 60, 2), list("abcdefg")
    result = run(tmp_path, X, Y, W, bias, "odd", model_labels=list("gbadc"), label_names=names, splits={"odd": rows}, ones=ties)
    scores, truth = scores_of(X, W, bias)[rows][:, [2, 1, 4, 3, 0]], Y.toarray()[rows] > 0
    known, missed = truth[:, [0, 1, 2, 3, 6]], truth[:, [4, 5]]
    assert (result.n_not_in_model, result.n_missed) == (2, missed.sum())
    ranking, share = oracles.ranking(scores.ravel(), known.ravel()), known.sum() / truth.sum()
    hits, n_given = (known & (scores > 0)).sum(axis=1), (scores > 0).sum(axis=1)
    expected = {
        "average_precision": share * MEASURES["average_precision"](ranking),
        "auc": share * MEASURES["auc"](ranking),
        "recall": hits.sum() / truth.sum(),
        "precision": hits.sum() / n_given.sum(),
        "f1": 2 * hits.sum() / (n_given.sum() + truth.sum()),
        "misclassified": n_given.sum() + truth.sum() - 2 * hits.sum(),
    }
    for name, value in expected.items():
        assert result.micro[name] == pytest.approx(value, rel=1e-12), name
    if not ties:
        first = np.argsort(-scores.ravel())[: truth.sum()]
        assert result.micro["break_even"] == pytest.approx(known.ravel()[first].sum() / truth.sum(), rel=1e-12)
        places = np.argsort(-scores, axis=1)[:, :3]
        gained = (np.take_along_axis(known, places, axis=1) / np.log2([2, 3, 4])).sum(axis=1)
        ideal = np.array([sum(1 / np.log2(k + 2) for k in range(min(3, n))) for n in truth.sum(axis=1)])
        assert result.ndcg_at[3] == pytest.approx((gained[ideal > 0] / ideal[ideal > 0]).mean(), rel=1e-12)
    together = n_given + truth.sum(axis=1)
    assert result.instance_f1 == pytest.approx((2 * hits[together > 0] / together[together > 0]).mean(), rel=1e-12)
    assert result.by_frequency[0].micro_f1 == result.micro["f1"]
    some = run(tmp_path, X, Y, W, bias, "odd", [1, 2], list("gbadc"), label_names=names, splits={"odd": rows}, ones=ties)
    assert (some.n_not_in_model, some.n_missed) == (0, 0)


def test_labels_without_positives_or_negatives_and_constant_scores(tmp_path):
    Y = np.zeros((6, 3))
    Y[:, 1], Y[:2, 2] = 1, 1
    result = run(tmp_path, np.eye(6), Y, np.zeros((3, 6)))
    assert result.n_without_positives == 1
    assert math.isnan(result.values["average_precision"][0])
    assert math.isnan(result.values["auc"][1])
    assert (result.values["auc"][2], result.macro("auc"), result.in_macro("auc").sum()) == (0.5, 0.5, 1)
    assert result.values["break_even"].tolist()[1:] == [1.0, pytest.approx(1 / 3)]
    assert math.isnan(result.macro("precision"))
    text = str(result)
    assert "nan" not in text
    assert "1 label without a positive row in this split" in text


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(DataError, match="has 3 features but"):
        run(tmp_path, np.eye(3), np.eye(3), np.ones((3, 4)))
    with pytest.raises(DataError, match="none of the labels"):
        run(tmp_path, np.eye(3), np.eye(3), np.ones((3, 3)), model_labels=list("xyz"))
    with pytest.raises(NonFiniteError, match="label 'label1' is not a finite number"):
        run(tmp_path, np.eye(3), np.eye(3), np.array([[1.0, 0, 0], [np.nan, 0, 0], [0, 0, 0]]))


def test_reports_hold_every_value(tmp_path):
    X, Y = make.random_data(6, 50, 8, 12)
    Y = sp.csr_matrix(Y.toarray() * (np.arange(12) != 3))
    names = [f'label, "{i}"' for i in range(12)]
    result = run(tmp_path, X, Y, np.random.default_rng(7).standard_normal((12, 8)), label_names=names, model_labels=names)
    (out := tmp_path / "out").mkdir()
    result.write_csv(out / "out.csv")
    result.write_json(out / "out.json")
    lines = table(out / "out.csv")
    content = json.loads((out / "out.json").read_text())
    for name in MEASURES:
        values = [None if math.isnan(v) else v for v in result.values[name]]
        assert [float(row[name]) if row[name] else None for row in lines] == values
        assert [label[name] for label in content["labels"]] == values
        assert content["macro"][name] == {"value": result.macro(name), "n_labels": int(result.in_macro(name).sum())}
    assert [row["label"] for row in lines] == names
    text = joined(result.describe(best=2)).splitlines()
    order = np.argsort(-np.nan_to_num(result.values["average_precision"], nan=-1), kind="stable")
    shown = [line.split('"')[1] for line in text if line.startswith('  label, "')]
    assert shown == [str(label) for label in [*order[:2], *order[9:11]]]
    (out / "folder").mkdir()
    for write in (result.write_csv, result.write_json):
        with pytest.raises(ConfigError, match="folder is a folder; name a file"):
            write(out / "folder")
        with pytest.raises(DataError, match=r"out: the folder .*nowhere does not exist; create it first"):
            write(out / "nowhere" / "out")
    assert sorted(path.name for path in out.iterdir()) == ["folder", "out.csv", "out.json"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(3)
    X = sp.random(90, 40, 0.2, "csr", np.float32, random_state=5)
    Y = sp.csr_matrix(rng.random((90, 5)) < [0.5, 0.3, 0.2, 0.1, 0.4], dtype=np.float32)
    splits = ["train" if k % 3 else "test" for k in range(90)]
    dataset = hpcml.Dataset.from_sparse(X, Y, folder / "made.h5", splits=splits)
    hpcml.train("dual", folder / "made.h5", folder / "run")
    yield X, Y, np.array(splits), dataset, hpcml.Model(folder / "run" / "model.h5")
    dataset.file.close()


def test_rows_and_labels_of_a_split(made):
    X, Y, splits, dataset, _ = made
    for split in ("train", "test", "all"):
        chosen = np.flatnonzero(splits == split) if split != "all" else np.arange(90)
        assert (dataset.matrix(split) != X[chosen]).nnz == 0 and (dataset.labels(split) != Y[chosen]).nnz == 0
    assert dataset.matrix("test").dtype == dataset.labels("test").dtype == np.float32


def test_weights_of_all_labels_and_of_some(made):
    model = made[-1]
    np.testing.assert_array_equal(model.weight_matrix().toarray(), model.weights())
    np.testing.assert_array_equal(model.weight_matrix(np.array([3, 1])).toarray(), model.weights(np.array([3, 1])))
    assert model.weight_matrix(np.array([], dtype=int)).shape == (0, 40)


def test_measures_are_those_of_evaluate(made):
    *_, dataset, model = made
    scores = dataset.matrix("test") @ model.weight_matrix().T + model.bias
    found, expected = hpcml.evaluate_scores(scores, dataset.labels("test")), hpcml.evaluate(model.path, dataset.path, threshold=0.0)
    for name, values in found.values.items():
        np.testing.assert_allclose(values, expected.values[name], rtol=1e-12)
        assert found.macro(name) == pytest.approx(expected.macro(name))
    assert found.micro == pytest.approx(expected.micro) and found.precision_at == pytest.approx(expected.precision_at)


@pytest.mark.parametrize(("scores", "words"), [([[1.0, 2.0]], "expected the same"), ([[np.nan], [1.0]], "not a finite number")])
def test_scores_that_do_not_fit(scores, words):
    with pytest.raises(DataError, match=words):
        hpcml.evaluate_scores(scores, [[0], [1]])

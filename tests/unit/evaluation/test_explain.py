"""The features of labels by squared weight, against all weights of the model; what is shown, written and refused."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import precision_recall_curve
from support import make
from support.edits import attributes, edit
from support.judged import judged

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation.curves import FINE, Curves
from hpcml.evaluation.explain import Features, explain, explain_rows
from hpcml.evaluation.unlearnt import LEVEL, find_unlearnt, simulate_chance
from hpcml.evaluation.wrong import WrongRows, most_wrong
from hpcml.files.atomic import write_json
from hpcml.log import Log
from hpcml.model import scoring
from hpcml.model.linear import Model
from hpcml.model.open import open_model

SELF = mpi.self_comm()


@pytest.fixture
def weights():
    W = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32).round(1)
    W[3] = 0
    W[:, 4] = 0
    return W, *make.compact_columns(1, 50, 30)


def slow_largest(w, top):
    present = [j for j in range(w.size) if w[j] != 0]
    return sorted(present, key=lambda j: (-(w[j] ** 2), j))[:top]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("precision", ["<f4", "<f8"])
@pytest.mark.parametrize("top", [3, 200])
def test_features_are_those_of_all_weights(tmp_path, weights, sparse, precision, top):
    W, columns, factors = weights
    path = make.model(tmp_path / "model.h5", W, columns=columns, factors=factors, precision=precision, sparse=sparse)
    model = Model(path)
    features = Features(model)
    for label in range(7):
        w, found = model.weights(label), features.largest(label, top)
        assert found.features.tolist() == slow_largest(w, top)
        assert np.array_equal(found.weights, w[found.features])
        assert found.n_weights == np.count_nonzero(w)
        assert found.mass == pytest.approx((w**2).sum(), rel=1e-12)
        rest = np.delete(w, found.features)
        assert found.remaining == pytest.approx((rest**2).sum(), rel=1e-12, abs=0)


def named_model(folder, W, names, **options):
    data = make.dataset(folder / "data.h5", np.ones((2, len(names))), np.ones((2, W.shape[0])), names)
    return make.model(folder / "model.h5", W, feature_names=names, **options), data


def test_what_people_and_programs_see(tmp_path):
    W = np.array([[3.0, -4.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
    model, _ = named_model(tmp_path, W, ["a", "b", "c", "d"], bias=[-0.5, 1.0], label_names=["sea", "farm"])
    found = explain(SELF, open_model(model), [], 2, False)
    lines = [line.split() for line in str(found).splitlines()]
    assert lines[3] == ["sea:", "0", "training", "rows,", "3", "features,", "intercept", "-0.5"]
    assert lines[5:7] == [["b", "-4", "16", "63.37"], ["a", "3", "9", "35.64"]]
    assert lines[7] == ["(1", "other", "feature)", "0.25", "0.99"]
    assert " ".join(lines[-1]) == "no weights: all rows have the same score"
    write_json(tmp_path / "out.json", found.as_dict())
    content = json.loads((tmp_path / "out.json").read_text())
    sea = content["labels"][0]
    assert [(each["name"], each["feature"], each["squared"]) for each in sea["features"]] == [("b", 1, 16.0), ("a", 0, 9.0)]
    assert sea["remaining"] == {"n_features": 1, "squared": 0.25, "share": pytest.approx(0.25 / 25.25)}
    assert (sea["mass"], sea["intercept"], sea["n_features"]) == (25.25, -0.5, 3)
    assert content["labels"][1]["remaining"]["share"] is None


def test_which_labels(tmp_path):
    W = np.arange(1.0, 9.0).reshape(8, 1)
    path = make.model(tmp_path / "model.h5", W, label_names=[*"abcdefg", "b"])
    model = Model(path)
    model.labels = model.labels | {"n_positive": np.array([1, 5, 2, 9, 5, 0, 3, 4])}
    shown = explain(SELF, model, [], 1, False)
    assert [each.label for each in shown.labels] == shown.shown.tolist() == [3, 1, 4, 7, 6]
    assert [each.label for each in explain(SELF, model, [], 1, True).labels] == list(range(8))
    named = explain(SELF, model, ["g", "b", "g"], 1, True)
    assert [each.label for each in named.labels] == [6, 1, 7]
    assert "feature 0" in str(named)
    with pytest.raises(ConfigError, match="no label 'x'; run `hpcml evaluate --csv` for the list"):
        explain(SELF, model, ["x"], 1, False)
    with pytest.raises(ConfigError, match="top=0: expected at least 1"):
        hpcml.explain(path, top=0)


def test_what_does_not_fit(tmp_path):
    model, _ = named_model(tmp_path, np.ones((1, 3)), ["a", "b", "c"])
    other = make.dataset(tmp_path / "other.h5", np.ones((2, 3)), np.ones((2, 1)), ["a", "b", "x"])
    with pytest.raises(DataError, match="has other features"):
        hpcml.explain(model, other, row=["0"])
    with pytest.raises(ConfigError, match="has no effect without row or wrong or unlearnt"):
        hpcml.explain(model, other)
    huge = make.model(tmp_path / "huge.h5", np.full((1, 2), 1e200))
    with pytest.raises(NonFiniteError, match="the squared weights of label 'label0' are not finite"):
        explain(SELF, open_model(huge), [], 1, False)
    X, y, _ = make.class_data(0, 30, 6, 2)
    classifier = make.classifier(tmp_path / "classifier.h5", "kernel-nb", X, y)
    with pytest.raises(ConfigError, match="a classifier has no weights of features"):
        explain(SELF, open_model(classifier), [], 1, False)


SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(scoring, "MAX_LANES", 2)
    monkeypatch.setattr(scoring, "SCORE_BYTES", 100)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["plain", "normalised", "binary"])
def test_contributions_add_up_to_the_score(tmp_path, sparse, kind):
    X, Y = make.random_data(0, 12, 50, 7, 0.3)
    X = abs(X)
    W = np.random.default_rng(1).standard_normal((7, 30))
    W[np.abs(W) < 0.4] = 0
    columns, factors = make.compact_columns(2, 50, 30)
    factors = abs(factors)
    path = make.model(tmp_path / "m.h5", W, np.arange(7) / 7, columns=columns, factors=factors, sparse=sparse)
    if kind != "plain":
        edit(path, attributes({kind: True}))
    model, names = Model(path), [f"label{k}" for k in range(7)]
    with DataFile(make.dataset(tmp_path / "d.h5", X, Y)) as dataset:
        found = explain_rows(SELF, model, dataset, [str(row) for row in range(12)], names, 5).scores
    assert [(each.row, each.label) for each in found] == [(row, name) for row in range(12) for name in names]
    dense = model.weights()
    for each in found:
        x = np.asarray(X[each.row].todense()).ravel().astype(float)
        x = (x != 0).astype(float) if kind == "binary" else x
        label = names.index(each.label)
        divisor = 1 + x[factors != 0].sum() if kind == "normalised" else 1.0
        assert each.score == pytest.approx((dense[label] @ x + label / 7) / divisor, rel=1e-12, abs=1e-12)
        assert each.total == pytest.approx(each.score, rel=1e-12, abs=1e-12)
        assert np.array_equal(np.sort(each.features), np.flatnonzero((x != 0) & (dense[label] != 0)))
        np.testing.assert_allclose(each.contributions, dense[label, each.features] * x[each.features] / divisor, rtol=1e-12)
        assert (np.diff(np.abs(each.contributions)) <= 0).all()
        assert each.n_without == np.count_nonzero((x != 0) & (dense[label] == 0))
        assert each.is_true == bool(Y[each.row, label])


def test_labels_of_a_row_are_its_own_those_given_and_the_best(tmp_path):
    X, Y = sp.csr_matrix(np.eye(3, 6)), np.zeros((3, 9))
    Y[0, 8] = 1
    W = np.zeros((9, 6))
    W[:, 0] = np.arange(9, 0, -1) - 8.5  # labels 0 is given, 1 and 2 are next, 8 is the last
    model = Model(make.model(tmp_path / "m.h5", W))
    with DataFile(make.dataset(tmp_path / "d.h5", X, Y, row_ids=["a", "b", "a"])) as dataset:
        found = explain_rows(SELF, model, dataset, ["a"], [], 5)
        assert [each.label for each in found.scores] == ["label0", "label1", "label2", "label8"]
        assert {each.row for each in found.scores} == {0}  # the first of that id
        assert "a, label label8: not predicted, true label" in str(found)
        with pytest.raises(ConfigError, match="no row with the id 'c'"):
            explain_rows(SELF, model, dataset, ["c"], [], 5)
    with DataFile(make.dataset(tmp_path / "e.h5", X, Y)) as dataset:
        for row in ("3", "-1", "x", "²"):
            with pytest.raises(ConfigError, match="name them by number, 0 to 2"):
                explain_rows(SELF, model, dataset, [row], [], 5)


@pytest.mark.parametrize("ties", [False, True])
def test_wrong_rows_are_those_of_all_scores(tmp_path, small_blocks, ties):
    X, Y = make.random_data(3, 60, 12, 7)
    rng = np.random.default_rng(4)
    W = rng.integers(-1, 2, (7, 12)).astype(float) if ties else rng.standard_normal((7, 12))
    X = X.astype(bool).astype(np.float32) if ties else X
    thresholds = rng.integers(-1, 2, 7).astype(float)
    path, rows = make.model(tmp_path / "m.h5", W), np.arange(1, 60, 2)
    edit(path, lambda file: file.create_dataset("labels/threshold", data=thresholds))
    model, data = Model(path), make.dataset(tmp_path / "d.h5", X, Y, splits={"odd": rows})
    judged(model, data, "odd", observers=[watch := WrongRows(model.thresholds, 4)])
    with DataFile(data) as dataset:
        some = most_wrong(SELF, model, dataset, "odd", ["label2", "label5"], 4, QUIET)
    scores, truth = X.toarray().astype(float) @ W.T, Y.toarray() > 0
    every = {"missed": [], "given": []}
    for label in range(7):
        for kind, sign in (("missed", -1), ("given", 1)):
            beyond = sign * (scores[:, label] - thresholds[label])
            wrong = (truth[:, label] & (beyond >= 0)) if kind == "missed" else (~truth[:, label] & (beyond > 0))
            expected = sorted((-beyond[row], row) for row in rows.tolist() if wrong[row])[:4]
            got = watch.worst(kind, 9, label)
            assert [each.row for each in got] == [row for _, row in expected]
            np.testing.assert_allclose([each.beyond for each in got], [-b for b, _ in expected], atol=1e-12)
            np.testing.assert_allclose([each.score for each in got], scores[[each.row for each in got], label], atol=1e-12)
            every[kind] += [(b, row, label) for b, row in expected]
    for kind, pairs in every.items():
        assert len(pairs) > 8
        if ties:  # equal scores are exact: rows, then labels decide
            assert [(each.row, each.label) for each in watch.worst(kind, 9)] == [
                (row, label) for _, row, label in sorted(pairs)[:9]
            ]
    assert [each["label"] for each in some.wrong] == ["label2", "label5"]
    expected = [{"row": each.row, "beyond": each.beyond, "score": each.score} for each in watch.worst("given", 9, 5)]
    assert some.wrong[1]["given"] == [{**each, "id": None, "title": None, "label": "label5"} for each in expected]


def test_curves_are_scikit_learns(tmp_path, small_blocks):
    X, Y = make.random_data(5, 80, 12, 6)
    W = np.random.default_rng(6).integers(-2, 3, (6, 12)).astype(float)
    X = X.astype(bool).astype(np.float32)
    model = Model(make.model(tmp_path / "m.h5", W))
    positives = np.array([3, 3, 50, 50, 50, 2000])
    curves = Curves(positives, lambda label, p: np.log(p / (1 - p)))
    data = make.dataset(tmp_path / "d.h5", X, Y)
    assert judged(model, data, observers=[curves]).micro == judged(model, data).micro  # watching changes nothing
    scores, truth = X.toarray().astype(float) @ W.T, Y.toarray() > 0
    assert [curve.name for curve in curves.of_groups] == ["0 to 9", "30 to 99", "1,000 to 2,999"]
    for curve, labels in zip([curves.micro, *curves.of_groups], [slice(None), slice(0, 2), slice(2, 5), slice(5, 6)], strict=True):
        precision, recall, thresholds = precision_recall_curve(truth[:, labels].ravel(), scores[:, labels].ravel())
        places = np.searchsorted(thresholds, curve.scores)
        np.testing.assert_allclose(thresholds[places], curve.scores)
        np.testing.assert_allclose(curve.precision, precision[places])
        np.testing.assert_allclose(curve.recall, recall[places])
        thin = curve.thinned(5)
        assert thin.f1.max() == curve.f1.max() and thin.recall[-1] == 1
    p = 1 / (1 + np.exp(-scores.ravel()))
    for found, low in zip(curves.reliability(4), np.arange(4) / 4, strict=True):
        inside = (p >= low) & (p < low + 0.25)
        assert found.n == inside.sum()
        assert found.share_true == pytest.approx(truth.ravel()[inside].mean())
        assert found.probability == pytest.approx(p[inside].mean(), abs=0.5 / FINE)


def test_chance_is_exceeded_as_often_as_said():
    rng, ranks = np.random.default_rng(9), np.arange(1, 8)
    values = [(ranks / (np.sort(rng.choice(500, 7, replace=False)) + 1)).mean() for _ in range(2000)]
    assert np.mean(values > simulate_chance(np.array([7]), 500)[0]) < 1.6 * LEVEL


def test_labels_that_are_not_learnt_have_reasons(tmp_path):
    rng, n = np.random.default_rng(7), 400
    X, Y = (rng.random((n, 30)) < 0.2).astype(float), np.zeros((n, 5))
    for label, feature in ((0, 0), (3, 3)):
        Y[:, label] = rng.random(n) < 0.1
        X[:, feature] = Y[:, label]
    Y[:, 1] = rng.random(n) < 0.1
    Y[:, 4] = Y[:, 3]
    train, test = np.arange(0, n, 2), np.arange(1, n, 2)
    Y[train, 2], Y[train[5], 2], Y[test[:12], 2] = 0, 1, 1
    W, bias = np.zeros((5, 30)), np.zeros(5)
    W[0, 0] = 1
    path = make.model(tmp_path / "m.h5", W, bias)
    edit(path, attributes({"split": "train"}))
    with DataFile(make.dataset(tmp_path / "d.h5", X, Y, splits={"train": train, "test": test})) as dataset:
        found = find_unlearnt(SELF, Model(path), dataset, "test", QUIET)
    reasons = {each.label: each.reason for each in found.unlearnt}
    assert reasons == {
        "label1": "no feature is typical of its rows",
        "label2": "only 1 positive training row",
        "label3": "nearly the rows of label4",
        "label4": "nearly the rows of label3",
    }
    (each,) = (each for each in found.unlearnt if each.label == "label3")
    assert each.features == [(3, None)]
    (twins,) = found.twins
    assert (twins.labels, twins.jaccard) == (("label3", "label4"), 1.0)
    assert "label2" in str(found) and found.as_dict()["n_judged"] == 5


def test_a_perfect_ranking_of_few_rows_is_no_failure(tmp_path):
    X, Y = np.eye(5), np.zeros((5, 1))
    Y[2] = 1
    with DataFile(make.dataset(tmp_path / "d.h5", X, Y)) as dataset:
        good = find_unlearnt(SELF, Model(make.model(tmp_path / "a.h5", Y.T)), dataset, "all", QUIET)
        bad = find_unlearnt(SELF, Model(make.model(tmp_path / "b.h5", -Y.T)), dataset, "all", QUIET)
    assert good.unlearnt == [] and [each.label for each in bad.unlearnt] == ["label0"]


def test_a_stored_zero_adds_nothing(tmp_path):
    X = sp.csr_matrix((np.array([0.0, 2.0], np.float32), ([0, 0], [0, 1])), (1, 3))
    model = Model(make.model(tmp_path / "m.h5", np.ones((1, 3))))
    with DataFile(make.dataset(tmp_path / "d.h5", X, np.ones((1, 1)))) as dataset:
        (found,) = explain_rows(SELF, model, dataset, ["0"], ["label0"], 3).scores
    assert found.score == found.total == 2

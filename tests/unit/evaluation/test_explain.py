"""The features of labels by squared weight, against all weights of the model; what is shown, written and refused."""

import json

import numpy as np
import pytest
from support import make

import hpcml
from hpcml import mpi
from hpcml.errors import ConfigError, DataError, NonFiniteError
from hpcml.evaluation.explain import Features, explain
from hpcml.files.atomic import write_json
from hpcml.model.linear import Model
from hpcml.model.open import open_model

SELF = mpi.self_comm()


@pytest.fixture
def weights():
    """W with zeros, ties and a label without weights; its features' columns and factors."""
    W = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32).round(1)
    W[3] = 0
    W[:, 4] = 0
    return W, *make.compact_columns(1, 50, 30)


def slow_largest(w, top):
    """The `top` features of a weight vector by squared weight, of equal ones the lower number first."""
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

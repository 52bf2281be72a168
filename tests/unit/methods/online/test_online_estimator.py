"""The single-pass learners as a scikit-learn classifier: scikit-learn's checks, the bits of `hpcml train`, passes in pieces."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.make import dataset

from hpcml import Model, OnlineClassifier, train
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_slab
from hpcml.methods.online.options import LEARNERS
from hpcml.methods.registry import METHODS
from hpcml.model.scoring import Scorer

KINDS = [(method, number % 2 > 0) for number, method in enumerate([*LEARNERS, "mbw"])]  # voted or not
CHECKED = [OnlineClassifier("bw", voted=True), OnlineClassifier("pa"), OnlineClassifier("romma", shuffle=True)]
every_method = pytest.mark.parametrize(("method", "voted"), KINDS)


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def blobs(n_classes=3, n=150, d=12, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    X[np.arange(n), y] += 1
    X[:, -1] = 0
    return X.astype(np.float32), y


def same(a, b):
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("coef_", "intercept_", "n_updates_"))


@every_method
@pytest.mark.parametrize("bias", [False, True])
def test_has_the_bits_and_scores_of_training_from_a_file(tmp_path, method, voted, bias):
    winnow = LEARNERS[method].winnow
    if winnow and not bias:
        with pytest.raises(ValueError, match=rf"^fit_intercept=False: method='{method}' always has an intercept; expected True$"):
            OnlineClassifier(method, voted, fit_intercept=False).fit(*blobs())
        return
    X, y = blobs()
    Y = (y[:, None] == np.arange(3)).astype(int)
    Y[:, 0] |= y == 2
    data = dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(100), "test": np.arange(100, 150)})
    asked = {"alpha": 1.25, "beta": 0.75, "theta": 0.5, "margin": 0.5, "epsilon": 0.5, "gamma": 0.5}
    parameters = {name: value for name, value in asked.items() if name in METHODS[method].option_names}
    options = {"voted": voted, **parameters} | ({} if winnow else {"bias": bias})
    model = Model(train(method, data, tmp_path / "run", **options).model)
    opened = DataFile(data)
    shard = read_slab(opened, opened.split("test"), 0, 50)
    scorer = Scorer(model, shard, np.arange(3))
    scores = scorer.score_rows(shard.rows, *scorer.weights(0, 3))
    for target in (Y, sp.csr_matrix(Y)):
        found = OnlineClassifier(method, voted, fit_intercept=bias, **parameters).fit(X[:100], target[:100])
        assert found.coef_[:, :-1].tobytes() == model.weights()[:, :-1].tobytes()
        assert not found.coef_[:, -1].any() and found.intercept_.tobytes() == np.asarray(model.bias).tobytes()
        assert found.n_updates_.tolist() == model.labels["steps"].tolist()
        np.testing.assert_allclose(found.decision_function(X[100:]), scores, rtol=1e-12, atol=1e-13)
        predicted = found.predict(X[100:])
        assert sp.issparse(predicted) == sp.issparse(target)
        assert ((predicted.toarray() if sp.issparse(predicted) else predicted) == (scores > 0)).all()


@pytest.mark.parametrize(("method", "voted"), [("mbw", True), ("romma", False)])
def test_form_of_the_input_does_not_matter_and_is_not_touched(method, voted):
    X, y = blobs()
    alone = OnlineClassifier(method, voted).fit(X, y)
    doubled = sp.coo_matrix((np.tile(X.ravel() / 2, 2), np.tile(np.indices(X.shape).reshape(2, -1), 2)), X.shape)
    backwards = sp.csr_matrix(X[:, ::-1])
    backwards.indices, backwards.has_sorted_indices = 11 - backwards.indices, False
    explicit = sp.csr_matrix((X.ravel(), np.tile(np.arange(12), 150), np.arange(151) * 12), X.shape)
    forms = [X.astype(float), X.tolist(), np.asfortranarray(X), sp.csc_matrix(X), sp.csr_array(X), doubled, backwards, explicit]
    for other in [*forms, pd.DataFrame(X)]:
        before = pickle.dumps(other)
        found = OnlineClassifier(method, voted).fit(other, pd.Series(y))
        assert same(found, alone)
        np.testing.assert_allclose(found.decision_function(other), alone.decision_function(X), rtol=1e-6, atol=1e-6)
        assert pickle.dumps(other) == before


@every_method
def test_pieces_have_the_bits_of_the_whole(method, voted):
    X, y = blobs()
    whole = OnlineClassifier(method, voted).fit(X, y)
    for cuts in ([1], [40, 40, 149], range(1, 150, 31)):
        pieces = OnlineClassifier(method, voted)
        for i, (some, labels) in enumerate(zip(np.split(X, cuts), np.split(y, cuts), strict=True)):
            if some.shape[0]:
                pieces.partial_fit(some, labels, classes=[2, 0, 1] if i == 0 else None)
        assert same(pieces, whole) and pieces.n_rows_ == 150
        assert pieces.decision_function(X).tobytes() == whole.decision_function(X).tobytes()
    assert same(OnlineClassifier(method, voted).fit(X[:90], y[:90]).partial_fit(X[90:], y[90:]), whole)
    assert same(whole.fit(X, y), OnlineClassifier(method, voted).fit(X, y))  # anew


def test_pieces_that_lack_classes():
    X, y = blobs()
    order = np.argsort(y, kind="stable")
    for names in (np.arange(3), np.array(["a", "bb", "ccc"], dtype=object)):
        whole, pieces = OnlineClassifier().fit(X[order], names[y[order]]), OnlineClassifier()
        for k in range(3):
            pieces.partial_fit(X[y == k], names[y[y == k]], classes=names if k == 0 else None)
        assert same(pieces, whole) and pieces.predict(X).tolist() == whole.predict(X).tolist()
    one = OnlineClassifier().partial_fit(X, 0 * y, classes=[0, 1])
    assert (one.predict(X) == 0).all()
    assert (OnlineClassifier().fit(X, 0 * y + 7).predict(X) == 7).all()


def test_unseen_features_do_not_count():
    X, y = blobs()
    changed = X.copy()
    changed[:, -1] = 1000
    for method in LEARNERS:
        model = OnlineClassifier(method).fit(X, y)
        np.testing.assert_allclose(model.decision_function(changed), model.decision_function(X), rtol=1e-12)
        if LEARNERS[method].winnow:
            with pytest.raises(ValueError, match="Negative values"):
                model.predict(-changed)


@pytest.mark.parametrize(
    ("parameters", "arguments", "words"),
    [
        ({"method": "winnow"}, None, "method='winnow': expected one of pw, bw"),
        ({"alpha": 1}, None, "^alpha=1.0"),
        ({"margin": np.nan}, None, "^margin=nan"),
        ({"gamma": "small"}, None, "gamma='small'"),
        ({}, lambda X, y: (X, y, [0, 1]), "classes"),
        ({}, lambda X, y: (X, y + 1), "y has the class .*3.*"),
        ({}, lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        ({}, lambda X, y: (X[:, :-1], y), "X has 11 features"),
        ({}, lambda X, y: (X, np.eye(3, dtype=int)[y]), "number of columns"),
        ({}, lambda X, y: (-X, y), "Negative values in data"),
        ({"voted": True}, lambda X, y: (X, y), "parameters differ"),
    ],
)
def test_rejects_invalid_arguments_and_keeps_the_model(parameters, arguments, words):
    X, y = blobs()
    model = OnlineClassifier(**parameters if arguments is None else {})
    if arguments is None:
        with pytest.raises(ValueError, match=words):
            model.fit(X, y)
        return
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    before = pickle.dumps(model.partial_fit(X, y, classes=[0, 1, 2]).coef_)
    with pytest.raises(ValueError, match=words):
        model.set_params(**parameters).partial_fit(*arguments(X, y))
    assert pickle.dumps(model.coef_) == before and model.n_rows_ == 150
    with pytest.raises(NotFittedError):
        OnlineClassifier().predict(X)


def test_warns_once_of_rows_grouped_by_class_and_of_wrong_labels(tmp_path):
    rng = np.random.default_rng(1)
    X, coins = (rng.random((3000, 60)) < 0.2).astype(np.float32), rng.random(3000) < 0.5
    for model, y, words in (
        (OnlineClassifier("pa"), np.repeat([0, 1], 1500), "grouped by label .* shuffle the rows"),
        (OnlineClassifier(), coins, "at their lower bound .* voted=True averages"),
        (OnlineClassifier(voted=True), coins, "at their lower bound .* call fit again"),
    ):
        with pytest.warns(UserWarning, match=words) as caught:
            for part in np.split(np.arange(3000), 4):
                model.partial_fit(X[part], y[part], classes=[0, 1])
        assert [each.filename for each in caught] == [__file__]
    report = train("mbw", dataset(tmp_path / "data.h5", X, coins[:, None].astype(float)), tmp_path / "run")
    assert "at their lower bound" in report.bound_warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        order = np.argsort(X[:, 0])
        OnlineClassifier(shuffle=True).fit(X[order], X[order, 0])
        OnlineClassifier("pa").fit(X, coins)

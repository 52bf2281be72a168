"""The single-pass learners as a scikit-learn classifier: its checks, the bits of `hpcml train`, passes in pieces."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.make import dataset

from hpcml import Model, OnlineClassifier, train
from hpcml.data.dataset import DataFile
from hpcml.data.shard import slab_of
from hpcml.methods.online.options import LEARNERS
from hpcml.methods.registry import METHODS
from hpcml.model.scoring import Scorer

KINDS = [(method, voted) for method in LEARNERS for voted in (False, True)]
MORE = [OnlineClassifier(method="mbw", shuffle=True), OnlineClassifier(method="romma", fit_intercept=True)]
every_method = pytest.mark.parametrize(("method", "voted"), KINDS)


@parametrize_with_checks([*(OnlineClassifier(method, voted=number % 2 > 0) for number, method in enumerate(LEARNERS)), *MORE])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def blobs(n_classes=3, n=150, d=12, seed=0):
    """Sparse rows of positive values; each class has features of its own, and the last feature is in no row."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    X[np.arange(n), y] += 1
    X[:, -1] = 0
    return X.astype(np.float32), y


def same(a, b):
    """Two classifiers have learnt the same bits."""
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("coef_", "intercept_", "n_updates_"))


@every_method
@pytest.mark.parametrize("bias", [False, True])
def test_the_bits_and_scores_of_training_from_a_file(tmp_path, method, voted, bias):
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
    shard = slab_of(opened, opened.split("test"), 0, 50)
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


@every_method
def test_two_classes_are_one_learner_and_more_are_one_each(method, voted):
    for n_classes in (2, 3):
        X, y = blobs(n_classes)
        found = OnlineClassifier(method, voted).fit(X, np.array(["ant", "bee", "cat"])[y])
        scores = found.decision_function(X)
        if n_classes == 3:
            assert same(found, OnlineClassifier(method, voted).fit(X, (y[:, None] == np.arange(3)).astype(int)))
            assert (found.coef_.shape, scores.shape) == ((3, 12), (150, 3))
            expected = scores.argmax(axis=1)
        else:
            sets = OnlineClassifier(method, voted).fit(X, np.column_stack([y, y]))
            assert found.coef_.tobytes() == sets.coef_[:1].tobytes()
            assert (found.coef_.shape, scores.shape) == ((1, 12), (150,))
            expected = (scores > 0).astype(int)
        assert found.classes_.tolist() == ["ant", "bee", "cat"][:n_classes] and found.n_rows_ == 150
        assert found.predict(X).tolist() == found.classes_[expected].tolist()


@every_method
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
    for cuts in ([1], [40, 40, 149], range(1, 150, 7)):
        pieces = OnlineClassifier(method, voted)
        for i, (some, labels) in enumerate(zip(np.split(X, cuts), np.split(y, cuts), strict=True)):
            if some.shape[0]:
                pieces.partial_fit(some, labels, classes=[2, 0, 1] if i == 0 else None)
        assert same(pieces, whole) and pieces.n_rows_ == 150
        assert pieces.decision_function(X).tobytes() == whole.decision_function(X).tobytes()
    assert same(OnlineClassifier(method, voted).fit(X[:90], y[:90]).partial_fit(X[90:], y[90:]), whole)
    assert same(whole.fit(X, y), OnlineClassifier(method, voted).fit(X, y))  # anew


@every_method
def test_pieces_of_label_sets(method, voted):
    X, y = blobs()
    Y = (y[:, None] <= np.arange(3)).astype(int)  # the last label is in all rows
    whole, pieces = OnlineClassifier(method, voted).fit(X, Y), OnlineClassifier(method, voted)
    for begin in range(0, 150, 50):
        pieces.partial_fit(sp.csr_matrix(X[begin : begin + 50]), sp.csr_matrix(Y[begin : begin + 50]))
    assert same(pieces, whole)


def test_pieces_that_lack_classes():
    X, y = blobs()
    order = np.argsort(y, kind="stable")
    for names in (np.arange(3), np.array(["ant", "bee", "caterpillar"]), np.array(["a", "bb", "ccc"], dtype=object)):
        whole, pieces = OnlineClassifier().fit(X[order], names[y[order]]), OnlineClassifier()
        for k in range(3):
            pieces.partial_fit(X[y == k], names[y[y == k]], classes=names if k == 0 else None)
        assert same(pieces, whole) and pieces.predict(X).tolist() == whole.predict(X).tolist()
    one = OnlineClassifier().partial_fit(X, 0 * y, classes=[0, 1])
    assert (one.predict(X) == 0).all()
    assert (OnlineClassifier().fit(X, 0 * y + 7).predict(X) == 7).all()


def test_rules_of_classes():
    X, y = blobs()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        OnlineClassifier().partial_fit(X, y)
    started = OnlineClassifier().partial_fit(X, y, classes=[0, 1, 2])
    before = pickle.dumps(started.coef_)
    for arguments, sentence in (
        ((X, y, [0, 1]), "are not those of the first call"),
        ((X, y + 1), "y has the class .*3.*, which is not among classes"),
        ((X, y[:-1]), "inconsistent numbers of samples"),
        ((X[:, :-1], y), "X has 11 features, but OnlineClassifier is expecting 12"),
        ((X, np.eye(3, dtype=int)[y]), "another number of columns"),
        ((-X, y), "Negative values in data"),
        ((X, None), "requires y"),
    ):
        with pytest.raises(ValueError, match=sentence):
            started.partial_fit(*arguments)
        assert pickle.dumps(started.coef_) == before and started.n_rows_ == 150
    started.partial_fit(X, y, classes=[2, 1, 0, 0])
    with pytest.raises(ValueError, match="another number of columns"):
        OnlineClassifier().fit(X, np.eye(3, dtype=int)[y]).partial_fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match=r"y has the class .*2"):
        OnlineClassifier().partial_fit(X, y, classes=[0, 1])


def test_parameters_are_checked():
    X, y = blobs()
    for parameters, sentence in (
        ({"method": "winnow"}, "method='winnow': expected one of pw, bw"),
        ({"alpha": 1}, "^alpha=1.0: expected a number above 1"),
        ({"beta": 1.0}, "^beta=1.0"),
        ({"theta": -1}, "^theta=-1.0"),
        ({"margin": np.nan}, "^margin=nan"),
        ({"gamma": "small"}, "gamma='small': expected a number"),
    ):
        with pytest.raises(ValueError, match=sentence):
            OnlineClassifier(**parameters).fit(X, y)
    with pytest.raises(NotFittedError):
        OnlineClassifier().predict(X)


def test_shuffling():
    X, y = blobs()
    plain = OnlineClassifier("perceptron").fit(X, y)
    shuffled = OnlineClassifier("perceptron", shuffle=True, random_state=3).fit(X, y)
    order = np.random.RandomState(3).permutation(150)
    assert same(shuffled, OnlineClassifier("perceptron").fit(X[order], y[order])) and not same(shuffled, plain)
    assert same(plain, OnlineClassifier("perceptron", random_state=9).fit(X, y))


def test_parameters_set_later_change_no_predictions_and_must_stay_for_partial_fit():
    model = OnlineClassifier("pa").partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1])
    with pytest.raises(ValueError, match="parameters are not those of the first call"):
        model.set_params(voted=True).partial_fit([[1.0]], [0])
    X, y = blobs()
    for method, other in (("mbw", "perceptron"), ("perceptron", "mbw")):
        model = OnlineClassifier(method).fit(X, y)
        before = model.decision_function(X)
        model.set_params(method=other)
        assert model.decision_function(X).tobytes() == before.tobytes()


def test_pipeline_and_grid_search():
    X, y = blobs(n=300)
    grid = {"onlineclassifier__method": list(LEARNERS), "onlineclassifier__voted": [False, True]}
    search = GridSearchCV(make_pipeline(MinMaxScaler(), OnlineClassifier()), grid, cv=3, error_score="raise")
    assert search.fit(X, y).best_score_ > 0.95
    assert cross_val_score(OnlineClassifier("pa"), X, y, cv=3, error_score="raise").mean() > 0.9


def test_unseen_features_do_not_count():
    """They are dropped before a Winnow's row is divided by its sum."""
    X, y = blobs()
    changed = X.copy()
    changed[:, -1] = 1000
    for method in LEARNERS:
        model = OnlineClassifier(method).fit(X, y)
        np.testing.assert_allclose(model.decision_function(changed), model.decision_function(X), rtol=1e-12)
        if LEARNERS[method].winnow:
            with pytest.raises(ValueError, match="Negative values"):
                model.predict(-changed)


def warnings_in_pieces(learner, X, y, words):
    """The warnings of a pass in pieces, which have these words."""
    with pytest.warns(UserWarning, match=words) as told:
        for some in np.split(np.arange(y.size), 4):
            learner.partial_fit(X[some], y[some], classes=np.unique(y))
    return told


def test_rows_sorted_by_class_are_warned_of():
    X, y = np.random.default_rng(0).random((400, 5)), np.repeat(["no", "yes"], 200)
    said = r"the rows come sorted by label, or in blocks \(1 of 1 labels; the 200 rows with 'yes' in 1 runs, where random order has"
    with pytest.warns(UserWarning, match=said + r" about 100\).*; shuffle the rows, or use fit with shuffle=True$") as told:
        OnlineClassifier().fit(X, y)
    assert [each.filename for each in told] == [__file__]
    assert len(warnings_in_pieces(OnlineClassifier(), X, y, "sorted by label")) == 1
    with pytest.warns(UserWarning, match="3 of 3 labels; the 100 rows with 'a' in 1 runs"):
        OnlineClassifier("pa").fit(X[:300], np.repeat(["a", "b", "c"], 100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineClassifier(shuffle=True).fit(X, y)
        OnlineClassifier().fit(X, np.tile(["no", "yes"], 200))


@pytest.mark.parametrize("voted", [False, True])
def test_weights_at_the_bound_are_warned_of_as_by_the_command(tmp_path, voted):
    rng = np.random.default_rng(1)
    X, coins = (rng.random((3000, 60)) < 0.2).astype(np.float32), rng.random(3000) < 0.5
    names = np.where(coins, "label0", "absent")
    again = "; the average still holds what was learnt before; rows with better labels need a new fit"
    advice = again if voted else "; voted=True averages"
    said = str(train("mbw", dataset(tmp_path / "data.h5", X, coins[:, None].astype(float)), tmp_path / "run", voted=voted))
    (sentence,) = re.findall(r"warning: (.* are at their bound of 2\^-10 .* where labels are wrong); ", said)
    with pytest.warns(UserWarning) as told:
        OnlineClassifier(voted=voted).fit(X, names)
    assert [(each.filename, str(each.message).startswith(sentence + advice)) for each in told] == [(__file__, True)]
    assert len(warnings_in_pieces(OnlineClassifier(voted=voted), X, names, "at their bound")) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineClassifier(voted=voted).fit(X, X[:, 0])
        OnlineClassifier("pa", voted).fit(X, names)

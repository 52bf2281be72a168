"""Base learners: names and options, scores and confidences."""

import sys
import types
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from support import make

from hpcml.errors import ConfigError, NonFiniteError
from hpcml.model import learner as module
from hpcml.model.learner import LEARNERS, LOWEST, confidence, fit, parse_learner, scores

OTHERS = [
    "sklearn.linear_model.LogisticRegression C=0.5",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.ensemble.AdaBoostClassifier n_estimators=5",
    "sklearn.ensemble.RandomForestClassifier n_estimators=4",
    "sklearn.svm.SVC",
]
BASES = [*LEARNERS, *OTHERS]


class Settable(ClassifierMixin, BaseEstimator):
    def __init__(self, values=None, probabilities=None, classes=(0, 1, 2)):
        self.values, self.probabilities, self.classes = values, probabilities, classes
        self.classes_ = np.array(classes)

    def fit(self, X, y):
        raise ValueError("invalid\n  rows")


class Deciding(Settable):
    def decision_function(self, X):
        return np.asarray(self.values, dtype=float)


class Guessing(Settable):
    def predict_proba(self, X):
        return np.asarray(self.probabilities, dtype=float)


class Both(Deciding, Guessing):
    pass


def rows(n):
    return np.zeros((n, 1), dtype=np.float32)


def test_names_and_options():
    tree = parse_learner(["tree", "criterion=gini", "max_depth=5", "class_weight=None"])
    assert str(tree) == "tree criterion=gini min_samples_leaf=2 max_depth=5 class_weight=None"
    classifier = tree.make(7)
    assert isinstance(classifier, DecisionTreeClassifier)
    parameters = (classifier.criterion, classifier.min_samples_leaf, classifier.max_depth, classifier.random_state)
    assert parameters == ("gini", 2, 5, 7) and classifier is not tree.make(7)
    assert parse_learner(["stump"]).make(2**32 + 5).random_state == 5
    assert parse_learner(["sklearn.svm.LinearSVC", "random_state=3", "C=0.5"]).make(7).random_state == 3
    assert dict(parse_learner(["sklearn.svm.LinearSVC", "C=1e-3"]).options) == {"C": 0.001}
    svm = parse_learner(["linear-svm"]).make(0)
    assert isinstance(svm, LinearSVC) and svm.loss == "squared_hinge"


INVALID = {  # part of the message
    **{
        "": "linear-svm",
        "tre": "'tree'",
        "nowhere.Classifier": "nowhere",
        ".Classifier": "import",
        "sklearn.svm.LinearSVCC": "'LinearSVC'",
    },
    **{
        "sklearn.linear_model.LinearRegression": "classifier",
        "numpy.mean": "classifier",
        "sklearn.ensemble.VotingClassifier": "estimators",
    },
    **{
        "tree depth=3": "'max_depth'",
        "tree max_depth": "KEY=VALUE",
        "tree =3": "KEY=VALUE",
        "tree max_depth=3 max_depth=4": "twice",
    },
    **{"tree max_depth=-3": "max_depth", "tree criterion=entropie": "criterion", "test_learners.Settable": "predict_proba"},
    "sklearn.svm.SVC decision_function_shape=ovo": "decision_function_shape=ovo",
}


@pytest.mark.parametrize("text", INVALID)
def test_rejects_invalid_learners(text, monkeypatch):
    monkeypatch.setitem(sys.modules, "test_learners", types.SimpleNamespace(Settable=Settable))
    with pytest.raises(ConfigError, match=rf"^--base[^\n]*{INVALID[text]}[^\n]*$"):
        parse_learner(text.split())


def test_dense_rows_depend_on_the_whole_data_set():
    tree, svm, gauss = (parse_learner([name]) for name in ("tree", "linear-svm", "sklearn.naive_bayes.GaussianNB"))
    assert [learner.accepts_sparse for learner in (tree, svm, gauss)] == [True, True, False]
    for nnz, expected in ((0, (False, False, True)), (49, (False, False, True)), (50, (True, False, True)), (500, (True,) * 3)):
        assert tuple(learner.wants_dense(100, 10, nnz) for learner in (tree, svm, gauss)) == expected
    assert not tree.wants_dense(0, 0, 0)


@pytest.mark.parametrize(("base", "n_classes"), [*((base, 3) for base in BASES), *((base, 2) for base in LEARNERS)])
def test_only_the_predicted_class_has_a_positive_score(base, n_classes):
    X, y, _ = make.class_data(1, 120, 6, n_classes)
    learner = parse_learner(base.split())
    X = X if learner.accepts_sparse else X.toarray()
    classifier = fit(learner, X, y, 0)
    values = scores(classifier, X, n_classes)
    predicted = classifier.predict(X)
    if isinstance(classifier, SVC) and n_classes > 2:  # it votes
        predicted = classifier.decision_function(X).argmax(axis=1)
    assert values.shape == (120, 1 if n_classes == 2 else 3)
    expected = predicted[:, None] == (np.array([1]) if n_classes == 2 else np.arange(3))
    assert np.array_equal(values > 0, expected)
    gaps = confidence(classifier, X)
    assert gaps.shape == (120,) and (gaps >= 0).all()
    if hasattr(classifier, "predict_proba"):
        first, second = np.sort(classifier.predict_proba(X).astype(float), axis=1)[:, ::-1][:, :2].T
        assert np.array_equal(gaps, first - second)


@pytest.mark.parametrize("base", list(LEARNERS))
@pytest.mark.parametrize(("dense", "n_classes"), [(False, 2), (True, 3)])
def test_bits_do_not_depend_on_other_rows(base, dense, n_classes):
    X, y, _ = make.class_data(2, 90, 33, n_classes)
    X = X.toarray() if dense else X
    classifier = fit(parse_learner([base]), X, y, 0)
    whole, gaps = scores(classifier, X, n_classes), confidence(classifier, X)
    for step in (1, 7, 64):
        parts = [slice(begin, begin + step) for begin in range(0, 90, step)]
        assert np.concatenate([scores(classifier, X[part], n_classes) for part in parts]).tobytes() == whole.tobytes()
        assert np.concatenate([confidence(classifier, X[part]) for part in parts]).tobytes() == gaps.tobytes()


def test_scores_of_two_classes():
    assert scores(Deciding([-1.5, 0, 2], classes=(0, 1)), rows(3), 2).tolist() == [[-1.5], [0], [2]]
    p = np.array([0.2, 0.5, 0.9])
    assert scores(Guessing(probabilities=np.c_[1 - p, p], classes=(0, 1)), rows(3), 2)[:, 0].tolist() == (2 * p - 1).tolist()
    # class 1 is the larger one though its probability rounds to less than a half, and the other way round
    crossed = Guessing(probabilities=[[0.5 - 2e-16, 0.5 - 1e-16], [0.5 + 2e-16, 0.5 + 1e-16]], classes=(0, 1))
    assert (scores(crossed, rows(2), 2)[:, 0] > 0).tolist() == [True, False]
    # the decision function wins over probabilities in scores, and loses in confidence
    both = Both([-3], [[0.6, 0.4]], (0, 1))
    assert scores(both, rows(1), 2).tolist() == [[-3]]
    assert confidence(both, rows(1)) == pytest.approx(0.2)
    assert confidence(Deciding([-3, 2], classes=(0, 1)), rows(2)).tolist() == [3, 2]


def test_scores_of_more_classes():
    tiny = np.nextafter(0, 1)
    deciding = Deciding([[1, 4, 2], [5, 5, 0], [-1, -2, -1]])
    assert scores(deciding, rows(3), 3).tolist() == [[-3, 2, -2], [tiny, 0, -5], [tiny, -1, 0]]
    assert confidence(deciding, rows(3)).tolist() == [2, 0, 0]
    assert scores(Guessing(probabilities=[[0.5, 0.25, 0.25]]), rows(1), 3).tolist() == [[0.25, -0.25, -0.25]]
    pairs = Both(np.zeros((1, 6)), [[0.1, 0.2, 0.3, 0.4]], (0, 1, 2, 3))
    assert scores(pairs, rows(1), 4)[0] == pytest.approx([-0.3, -0.2, -0.1, 0.1])
    with pytest.raises(ConfigError, match="no value per class"):
        scores(Deciding(np.zeros((1, 6)), classes=(0, 1, 2, 3)), rows(1), 4)


def test_scores_of_unseen_classes():
    assert scores(Deciding([[1, 4, 2]], classes=(0, 2, 4)), rows(1), 5).tolist() == [[-3, LOWEST, 2, LOWEST, -2]]
    assert scores(Deciding([3, -1, 0], classes=(1, 3)), rows(3), 4).tolist() == [
        [LOWEST, -3, LOWEST, 3],
        [LOWEST, 1, LOWEST, -1],
        [LOWEST, np.nextafter(0, 1), LOWEST, 0],
    ]
    assert np.isfinite(np.float32(LOWEST))


def test_rejects_non_finite_scores():
    for classifier in (Deciding([1, np.nan], classes=(0, 1)), Deciding([1, np.inf], classes=(0, 1))):
        with pytest.raises(NonFiniteError, match="Deciding: decision_function"):
            confidence(classifier, rows(2))
        with pytest.raises(NonFiniteError, match="decision_function"):
            scores(classifier, rows(2), 2)
    with pytest.raises(NonFiniteError, match="predict_proba"):
        confidence(Guessing(probabilities=[[np.nan, 0, 1]]), rows(1))


def test_reports_errors_of_learners(monkeypatch):
    monkeypatch.setitem(sys.modules, "test_learners", types.SimpleNamespace(Guessing=Guessing))
    learner = module.Learner("mine", "test_learners.Guessing", ())
    with pytest.raises(ConfigError, match=r"^--base mine: .*: invalid rows$"):
        fit(learner, rows(2), np.array([0, 1]), 0)


def test_suppresses_warnings_of_learners():
    X, y, _ = make.class_data(5, 80, 30, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = fit(parse_learner(["linear-svm", "max_iter=1"]), X, y, 0)
    assert classifier.n_iter_ == 1 < fit(parse_learner(["linear-svm"]), X, y, 0).n_iter_

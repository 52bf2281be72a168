"""Base learners: how they are named, and what their classifiers say of rows."""

import sys
import types
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from support import make
from threadpoolctl import threadpool_info, threadpool_limits

from hpcml.data.shard import rows_of
from hpcml.errors import ConfigError, NonFiniteError
from hpcml.model import learner as module
from hpcml.model.learner import LEARNERS, LOWEST, Constant, confidence, fit, parse_learner, scores

OTHERS = [
    "sklearn.linear_model.LogisticRegression C=0.5",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.ensemble.AdaBoostClassifier n_estimators=5",
    "sklearn.ensemble.RandomForestClassifier n_estimators=4",
    "sklearn.svm.SVC",
]
BASES = [*LEARNERS, *OTHERS]


class Settable(ClassifierMixin, BaseEstimator):
    """A classifier that says what the test wants it to say."""

    def __init__(self, values=None, probabilities=None, classes=(0, 1, 2)):
        self.values, self.probabilities, self.classes = values, probabilities, classes
        self.classes_ = np.array(classes)

    def fit(self, X, y):
        raise ValueError("the rows\n  are not to my liking")

    def _say(self, what):
        return np.asarray(what, dtype=float)


class Deciding(Settable):
    def decision_function(self, X):
        return self._say(self.values)


class Guessing(Settable):
    def predict_proba(self, X):
        return self._say(self.probabilities)


class Both(Deciding, Guessing):
    pass


def rows(n):
    return np.zeros((n, 1), dtype=np.float32)


def test_names_and_options():
    tree = parse_learner(["tree", "criterion=gini", "max_depth=5", "class_weight=None"])
    assert str(tree) == "tree criterion=gini min_samples_leaf=2 max_depth=5 class_weight=None"
    made = tree.make(7)
    assert isinstance(made, DecisionTreeClassifier)
    assert (made.criterion, made.min_samples_leaf, made.max_depth, made.random_state) == ("gini", 2, 5, 7)
    assert made is not tree.make(7)
    assert parse_learner(["stump"]).make(2**32 + 5).random_state == 5
    assert parse_learner(["sklearn.svm.LinearSVC", "random_state=3", "C=0.5"]).make(7).random_state == 3
    assert dict(parse_learner(["sklearn.svm.LinearSVC", "C=1e-3"]).options) == {"C": 0.001}
    assert isinstance(parse_learner(["linear-svm"]).make(0), LinearSVC)
    assert parse_learner(["linear-svm"]).make(0).loss == "squared_hinge"


WRONG = {
    "": "name a learner: gaussian-nb, kernel-nb, linear-svm, stump, tree",
    "tre": "no such learner; did you mean 'tree'?",
    "nowhere.Classifier": "cannot import nowhere: No module named 'nowhere'",
    ".Classifier": "cannot import .Classifier: ",
    "sklearn.svm.LinearSVCC": "has no LinearSVCC; did you mean 'LinearSVC'?",
    "sklearn.linear_model.LinearRegression": "is not a scikit-learn classifier",
    "numpy.mean": "is not a scikit-learn classifier",
    "sklearn.ensemble.VotingClassifier": "'estimators'",
    "tree depth=3": "no option 'depth'; did you mean 'max_depth'?",
    "tree max_depth": "'max_depth' is not an option; expected KEY=VALUE",
    "tree =3": "'=3' is not an option; expected KEY=VALUE",
    "tree max_depth=3 max_depth=4": "max_depth is given twice",
    "tree max_depth=-3": "'max_depth' parameter of DecisionTreeClassifier must be an int",
    "tree criterion=entropie": "'criterion' parameter of DecisionTreeClassifier must be a str among",
    "sklearn.svm.SVC decision_function_shape=ovo": "decision_function_shape=ovo has no value for each class",
    "test_learners.Settable": "neither predict_proba nor decision_function",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_in_one_line(text, monkeypatch):
    monkeypatch.setitem(sys.modules, "test_learners", types.SimpleNamespace(Settable=Settable))
    with pytest.raises(ConfigError) as raised:
        parse_learner(text.split())
    assert str(raised.value).startswith("--base")
    assert WRONG[text] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_dense_rows_are_a_matter_of_the_whole_data():
    tree, svm, gauss = (parse_learner([name]) for name in ("tree", "linear-svm", "sklearn.naive_bayes.GaussianNB"))
    assert [learner.accepts_sparse for learner in (tree, svm, gauss)] == [True, True, False]
    for nnz, expected in ((0, (False, False, True)), (49, (False, False, True)), (50, (True, False, True)), (500, (True,) * 3)):
        assert tuple(learner.wants_dense(100, 10, nnz) for learner in (tree, svm, gauss)) == expected
    assert not tree.wants_dense(0, 0, 0)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_score_is_positive_for_the_predicted_class_alone(base, n_classes):
    X, y, _ = make.class_data(1, 120, 6, n_classes)
    learner = parse_learner(base.split())
    X = X if learner.accepts_sparse else X.toarray()
    classifier = fit(learner, X, y, 0)
    found = scores(classifier, X, n_classes)
    predicted = classifier.predict(X)
    if isinstance(classifier, SVC) and n_classes > 2:  # it votes
        predicted = classifier.decision_function(X).argmax(axis=1)
    assert found.shape == (120, 1 if n_classes == 2 else 3)
    expected = predicted[:, None] == (np.array([1]) if n_classes == 2 else np.arange(3))
    assert np.array_equal(found > 0, expected)
    sure = confidence(classifier, X)
    assert sure.shape == (120,)
    assert (sure >= 0).all()
    if hasattr(classifier, "predict_proba"):
        first, second = np.sort(classifier.predict_proba(X).astype(float), axis=1)[:, ::-1][:, :2].T
        assert np.array_equal(sure, first - second)


@pytest.mark.parametrize("base", list(LEARNERS))
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_bits_do_not_depend_on_the_rows_around(base, dense, n_classes):
    X, y, _ = make.class_data(2, 90, 33, n_classes)
    X = X.toarray() if dense else X
    classifier = fit(parse_learner([base]), X, y, 0)
    whole, sure = scores(classifier, X, n_classes), confidence(classifier, X)
    for step in (1, 7, 64):
        parts = [slice(begin, begin + step) for begin in range(0, 90, step)]
        assert np.concatenate([scores(classifier, X[part], n_classes) for part in parts]).tobytes() == whole.tobytes()
        assert np.concatenate([confidence(classifier, X[part]) for part in parts]).tobytes() == sure.tobytes()


@pytest.mark.parametrize("base", list(LEARNERS))
def test_the_same_seed_gives_the_same_classifier(base):
    X, y, _ = make.class_data(3, 90, 12, 3)
    learner = parse_learner([base])
    found = [scores(fit(learner, X, y, seed), X, 3).tobytes() for seed in (4, 4)]
    assert found[0] == found[1]


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
    with pytest.raises(ConfigError, match="no value for each class"):
        scores(Deciding(np.zeros((1, 6)), classes=(0, 1, 2, 3)), rows(1), 4)


def test_classes_that_were_not_seen():
    assert scores(Deciding([[1, 4, 2]], classes=(0, 2, 4)), rows(1), 5).tolist() == [[-3, LOWEST, 2, LOWEST, -2]]
    assert scores(Deciding([3, -1, 0], classes=(1, 3)), rows(3), 4).tolist() == [
        [LOWEST, -3, LOWEST, 3],
        [LOWEST, 1, LOWEST, -1],
        [LOWEST, np.nextafter(0, 1), LOWEST, 0],
    ]
    assert np.isfinite(np.float32(LOWEST))


def test_one_class_gives_a_constant():
    X, _, _ = make.class_data(4, 5, 3, 2)
    for label in (0, 1, 2):
        constant = fit(parse_learner(["tree"]), X, np.full(5, label), 0)
        assert isinstance(constant, Constant)
        assert constant.predict(X).tolist() == [label] * 5
        assert confidence(constant, X).tolist() == [np.inf] * 5
        assert scores(constant, X, 4).tolist() == [[1 if column == label else -1 for column in range(4)]] * 5
    assert [scores(Constant(label), X, 2)[0].tolist() for label in (0, 1)] == [[-1], [1]]


def test_what_is_not_a_number_is_refused():
    for classifier in (Deciding([1, np.nan], classes=(0, 1)), Deciding([1, np.inf], classes=(0, 1))):
        with pytest.raises(NonFiniteError, match="Deciding: decision_function is not a finite number"):
            confidence(classifier, rows(2))
        with pytest.raises(NonFiniteError, match="not a finite number"):
            scores(classifier, rows(2), 2)
    with pytest.raises(NonFiniteError, match="predict_proba"):
        confidence(Guessing(probabilities=[[np.nan, 0, 1]]), rows(1))


def test_a_learner_that_refuses_the_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "test_learners", types.SimpleNamespace(Guessing=Guessing))
    learner = module.Learner("mine", "test_learners.Guessing", ())
    with pytest.raises(ConfigError, match="--base mine: it cannot be trained on these rows: the rows are not to my liking"):
        fit(learner, rows(2), np.array([0, 1]), 0)


def test_a_learner_that_stops_early_is_quiet():
    X, y, _ = make.class_data(5, 80, 30, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = fit(parse_learner(["linear-svm", "max_iter=1"]), X, y, 0)
    assert classifier.n_iter_ == 1 < fit(parse_learner(["linear-svm"]), X, y, 0).n_iter_


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_of_a_shard(index):
    X, _ = make.random_data(6, 30, 9, 2)
    csr = (X.indptr.astype(np.int64), X.indices.astype(index), X.data)
    for chosen in (np.array([], dtype=np.int64), np.array([3]), np.array([29, 0, 7, 7]), np.arange(30)):
        for dense in (False, True):
            found = rows_of(csr, chosen, 9, dense)
            assert found.dtype == np.float32
            assert np.array_equal(found if dense else found.toarray(), X[chosen].toarray())
            if not dense:
                assert found.indices.dtype == found.indptr.dtype
    ones = (csr[0], csr[1], np.broadcast_to(np.float32(1), X.nnz))
    assert np.array_equal(rows_of(ones, np.arange(30), 9, False).toarray(), X.toarray() != 0)


def test_scores_of_naive_bayes_are_log_odds_in_double_precision():
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    y = np.arange(2000) % 2
    X = (rng.normal(size=(2000, 40)) + 0.8 * y[:, None]).astype(np.float32)
    learner = parse_learner(["sklearn.naive_bayes.GaussianNB"])
    found = scores(fit(learner, X, y, 0), X, 2)[:, 0]
    joint = GaussianNB().fit(X.astype(np.float64), y).predict_joint_log_proba(X.astype(np.float64))
    assert np.array_equal(found, joint[:, 1] - joint[:, 0])
    assert np.unique(found).size == 2000
    never = GaussianNB(priors=[0.0, 1.0]).fit(X, y)  # the logarithm of 0
    assert (scores(never, X, 2) > 0).all()


class Counting:
    """A classifier that notes how many threads BLAS and OpenMP have while it is trained and while it scores."""

    def __init__(self):
        self.threads = set()

    def fit(self, X, y):
        self.threads |= {each["num_threads"] for each in threadpool_info()}
        return self

    def predict_proba(self, X):
        self.fit(X, None)
        return np.full((X.shape[0], 2), 0.5)


def test_learners_have_one_thread_and_the_process_keeps_its_own():
    X, y, classifier = np.zeros((2, 1), np.float32), np.array([0, 1]), Counting()
    learner = types.SimpleNamespace(name="counting", unfitted=lambda seed, dense: classifier)
    with threadpool_limits(2):
        assert fit(learner, X, y, 0).threads == {1}
        classifier.threads.clear()
        confidence(classifier, X)
        assert classifier.threads == {1}
        assert {each["num_threads"] for each in threadpool_info()} == {2}

"""scikit-learn classifiers in files: all allowed classes are restored, other classes are rejected."""

import json

import pytest
from support import make
from support.edits import packed, unpacked

from hpcml.errors import DataError
from hpcml.model.learner import fit, parse_learner, scores
from hpcml.model.skops_file import dump, load

BASES = """
discriminant_analysis.LinearDiscriminantAnalysis solver=lsqr
discriminant_analysis.QuadraticDiscriminantAnalysis
dummy.DummyClassifier strategy=stratified
ensemble.AdaBoostClassifier n_estimators=3
ensemble.BaggingClassifier n_estimators=3 bootstrap_features=True oob_score=True
ensemble.ExtraTreesClassifier n_estimators=2
ensemble.RandomForestClassifier n_estimators=3 oob_score=True n_jobs=2 class_weight=balanced
linear_model.LogisticRegression fit_intercept=False
linear_model.LogisticRegressionCV Cs=2 cv=2
linear_model.PassiveAggressiveClassifier
linear_model.Perceptron
linear_model.RidgeClassifier fit_intercept=False
linear_model.RidgeClassifierCV alphas=(1,2)
linear_model.SGDClassifier average=True loss=log_loss
naive_bayes.BernoulliNB
naive_bayes.CategoricalNB
naive_bayes.ComplementNB
naive_bayes.GaussianNB
naive_bayes.MultinomialNB
neighbors.NearestCentroid shrink_threshold=0.1
svm.LinearSVC fit_intercept=False
tree.DecisionTreeClassifier class_weight=balanced max_depth=2
tree.ExtraTreeClassifier max_depth=3
"""
BASES = [f"sklearn.{base}" for base in BASES.split("\n") if base]


def rows(n_classes):
    X, y, _ = make.class_data(0, 40, 5, n_classes)
    return abs(X.toarray()), y


@pytest.mark.parametrize(("base", "n_classes"), [(base, 2 + number % 2) for number, base in enumerate(BASES)])
def test_restores_allowed_classes(base, n_classes):
    X, y = rows(n_classes)
    classifier = fit(parse_learner(base.split()), X, y, 0)
    read = load(dump(classifier), 5)
    assert scores(read, X, n_classes).tobytes() == scores(classifier, X, n_classes).tobytes()
    assert (dump(read) == dump(classifier)) != ("n_jobs" in base)  # n_jobs is reset
    assert getattr(read, "n_jobs", None) is None


@pytest.mark.parametrize(
    ("kind", "is_nested"), [("svm.SVC", False), ("svm.SVC", True), ("ensemble.GradientBoostingClassifier", True)]
)
def test_rejects_other_classes(kind, is_nested):
    X, y = rows(2)
    other = parse_learner([f"sklearn.{kind}"]).make(0).fit(X, y)
    forest = fit(parse_learner(["sklearn.ensemble.RandomForestClassifier", "n_estimators=2"]), X, y, 0)
    forest.estimator_ = other
    with pytest.raises(DataError, match=rf"sklearn\..*{kind.rpartition('.')[2]}"):
        load(dump(forest if is_nested else other), 5)


def test_rejects_nodes_with_identities():
    """skops replaces a node by an earlier one with the same identity, so the checked node would not be used."""
    X, y = rows(2)
    members = unpacked(dump(fit(parse_learner(["sklearn.tree.DecisionTreeClassifier"]), X, y, 0)))
    schema = json.loads(members["schema.json"])
    state = schema["content"]["content"]
    state["classes_"]["__id__"] = state["tree_"]["content"]["content"]["nodes"]["__id__"] = 7
    with pytest.raises(ValueError, match="identity"):
        load(packed(members | {"schema.json": json.dumps(schema).encode()}), 5)


def test_reports_rows_that_a_classifier_rejects():
    X, y = rows(2)
    classifier = fit(parse_learner(["sklearn.naive_bayes.CategoricalNB"]), X, y, 0)
    with pytest.raises(DataError, match=r"^CategoricalNB: "):
        scores(classifier, X + 7, 2)

"""scikit-learn's classifiers in files: each kind is read as it was written, and what is not of the lists is refused."""

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


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_is_read_as_it_was_written(base, n_classes):
    X, y = rows(n_classes)
    classifier = fit(parse_learner(base.split()), X, y, 0)
    read = load(dump(classifier), 5)
    assert scores(read, X, n_classes).tobytes() == scores(classifier, X, n_classes).tobytes()
    assert (dump(read) == dump(classifier)) != ("n_jobs" in base)  # threads are not taken over
    assert getattr(read, "n_jobs", None) is None


@pytest.mark.parametrize("place", ["classifier", "attribute"])
@pytest.mark.parametrize("kind", ["neural_network.MLPClassifier", "svm.SVC", "ensemble.GradientBoostingClassifier"])
def test_other_classes_are_refused_wherever_they_stand(kind, place):
    X, y = rows(2)
    other = parse_learner([f"sklearn.{kind}"]).make(0).fit(X, y)
    forest = fit(parse_learner(["sklearn.ensemble.RandomForestClassifier", "n_estimators=2"]), X, y, 0)
    forest.estimator_ = other
    with pytest.raises(DataError, match=rf"it holds a sklearn\..*{kind.rpartition('.')[2]}.* which is not supported"):
        load(dump(other if place == "classifier" else forest), 5)


def test_a_node_is_never_put_in_the_place_of_another():
    """skops gives every node with the identity of an earlier one that one: what was checked is not what is used."""
    X, y = rows(2)
    members = unpacked(dump(fit(parse_learner(["sklearn.tree.DecisionTreeClassifier"]), X, y, 0)))
    schema = json.loads(members["schema.json"])
    state = schema["content"]["content"]
    state["classes_"]["__id__"] = state["tree_"]["content"]["content"]["nodes"]["__id__"] = 7
    with pytest.raises(ValueError, match="has an identity"):
        load(packed(members | {"schema.json": json.dumps(schema).encode()}), 5)


def test_rows_that_a_classifier_refuses_are_a_sentence():
    X, y = rows(2)
    classifier = fit(parse_learner(["sklearn.naive_bayes.CategoricalNB"]), X, y, 0)
    with pytest.raises(DataError, match="CategoricalNB: it refuses the rows"):
        scores(classifier, X + 7, 2)

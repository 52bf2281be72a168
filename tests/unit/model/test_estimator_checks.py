"""The classes that a classifier's file may hold: each is read as it was written, and no variant of a file harms who opens it."""

import faulthandler
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from support import damage_classifier, make
from support.edits import edit, packed, replace, unpacked

from hpcml.errors import ConfigError, DataError
from hpcml.model.classifier import check_savable, dump_classifier, load_classifier
from hpcml.model.estimator_checks import KEPT, class_path, kept_classifiers
from hpcml.model.learner import fit, parse_learner, scores
from hpcml.model.open import open_model

VARIANTS = 80  # of each class; launch/lab/bench/fuzz.py --variants tries thousands
# Options that give other attributes.
MORE = """
ensemble.AdaBoostClassifier n_estimators=3
ensemble.BaggingClassifier n_estimators=3 bootstrap_features=True oob_score=True
ensemble.RandomForestClassifier n_estimators=3 oob_score=True n_jobs=2 class_weight=balanced
ensemble.ExtraTreesClassifier n_estimators=2
ensemble.GradientBoostingClassifier n_estimators=3 subsample=0.5 init=zero
ensemble.GradientBoostingClassifier n_iter_no_change=1 n_estimators=5
svm.SVC kernel=poly class_weight={0:1,1:2}
svm.LinearSVC fit_intercept=False
linear_model.SGDClassifier average=True loss=log_loss
linear_model.LogisticRegression fit_intercept=False
linear_model.RidgeClassifierCV alphas=(1,2)
linear_model.RidgeClassifier fit_intercept=False
discriminant_analysis.LinearDiscriminantAnalysis solver=lsqr
dummy.DummyClassifier strategy=stratified
neighbors.NearestCentroid shrink_threshold=0.1
tree.DecisionTreeClassifier class_weight=balanced max_depth=2
"""
MORE = [f"sklearn.{base}" for base in MORE.split("\n") if base]
BASES = [*MORE, *(path for path in damage_classifier.CLASSES if not path.endswith(("Constant", "DecisionTree")))]


def rows(n_classes, n_features=5):
    X, y, _ = make.class_data(0, 40, n_features, n_classes)
    return abs(X.toarray()), y


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_that_is_kept_is_read_as_it_was_written(base, n_classes):
    X, y = rows(n_classes)
    classifier = fit(parse_learner(f"{base} {damage_classifier.OPTIONS.get(base, '')}".split()), X, y, 0)
    dump = dump_classifier(classifier)
    read = load_classifier(dump, 5)
    assert scores(read, X, n_classes).tobytes() == scores(classifier, X, n_classes).tobytes()
    silenced = "n_jobs" in base  # threads are not taken over
    assert (dump_classifier(read) == dump) != silenced
    assert getattr(read, "n_jobs", None) is None


def test_every_class_that_is_kept_has_checks():
    for path, kept in KEPT.items():
        assert kept.reads, path
        assert not set(kept.reads) & set(kept.carries.split()) - {"fit_status_"}, path
        assert not path.startswith("sklearn.") or path == class_path(path.rpartition(".")[0], path.rpartition(".")[2])
    words = kept_classifiers()
    assert "sklearn.dummy.DummyClassifier" in words
    assert "Regressor" not in words


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_no_variant_of_a_file_crashes_hangs_or_grows(tmp_path, part):
    for path in damage_classifier.CLASSES[part::4]:
        counts, defects = damage_classifier.sweep(path, VARIANTS, tmp_path)
        assert defects == []
        assert counts["variants"] >= VARIANTS
        assert counts["refused"] > VARIANTS / 10 < counts["sound"], counts


def test_the_trial_of_variants_finds_what_it_should(tmp_path, monkeypatch):
    original = damage_classifier.Original("sklearn.dummy.DummyClassifier", 2, tmp_path)

    def abort():
        faulthandler.disable()  # pytest's would tell of it, and nothing is wrong
        os.abort()

    ends = {0: abort, 2: lambda: 1 / 0, 3: lambda: "sound"}
    monkeypatch.setattr(original, "variant", lambda number: (number, "it"))
    monkeypatch.setattr(original, "try_dump", lambda number: ends[number]())
    found = damage_classifier.trials(original, [3, 0, 2])
    assert {number: came for number, (came, _) in found.items()} == {
        3: "sound",
        0: "killed by SIGABRT",
        2: "ZeroDivisionError: division by zero",
    }


@pytest.fixture
def files(tmp_path):
    """A data set, and the file of a gradient boosting of 50 stages; all with 2 classes."""
    X, y, Y = make.class_data(0, 60, 5, 2)
    data = make.dataset(tmp_path / "data.h5", X, Y)
    base = "sklearn.ensemble.GradientBoostingClassifier n_estimators=50 max_depth=2"
    return data, make.classifier(tmp_path / "model.h5", base, X, y, ["label0"])


def reshaped(path, shape):
    """Give `estimators_` in a file another shape."""
    model = open_model(path)
    model.classifier.estimators_ = model.classifier.estimators_.reshape(shape)
    edit(path, replace("classifier", lambda _: np.frombuffer(dump_classifier(model.classifier), np.uint8)))


@pytest.mark.parametrize("shape", [(1, 50), (25, 2), (50,)])
def test_stages_of_another_shape_are_refused(files, shape):
    _, model = files
    reshaped(model, shape)
    with pytest.raises(DataError, match=r"damaged classifier.*: estimators_ of GradientBoostingClassifier is damaged"):
        open_model(model)


def test_predict_refuses_stages_of_another_shape(files, tmp_path):
    data, model = files
    reshaped(model, (1, 50))
    command = [sys.executable, "-m", "hpcml", "predict", str(model), str(data), "-o", str(tmp_path / "out.csv")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr
    assert "estimators_ of GradientBoostingClassifier is damaged" in ended.stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_part_is_never_put_in_the_place_of_another():
    """skops gives every part with the identity of an earlier one that one: what was looked at is not what is used."""
    X, y = rows(2)
    dump = dump_classifier(fit(parse_learner(["sklearn.tree.DecisionTreeClassifier"]), X, y, 0))
    members = unpacked(dump)
    schema = json.loads(members["schema.json"])
    state = schema["content"]["content"]
    state["classes_"]["__id__"] = state["tree_"]["content"]["content"]["nodes"]["__id__"] = 7
    with pytest.raises(ValueError, match="has an identity"):
        load_classifier(packed(members | {"schema.json": json.dumps(schema).encode()}), 5)


def test_what_prediction_does_not_read_is_taken_away():
    X, y = rows(2)
    classifier = fit(parse_learner(["linear-svm"]), X, y, 0)
    dump = dump_classifier(classifier)
    classifier.predict_proba, classifier.verbose = 3, 5
    assert dump_classifier(load_classifier(dump_classifier(classifier), 5)) == dump


@pytest.mark.parametrize("name", ["n_estimators", "max_depth"])
def test_an_option_that_sklearn_refuses_is_refused(name):
    X, y = rows(2)
    classifier = fit(parse_learner(["sklearn.ensemble.RandomForestClassifier", "n_estimators=2"]), X, y, 0)
    setattr(classifier, name, -3)
    with pytest.raises(ValueError, match=name):
        load_classifier(dump_classifier(classifier), 5)


def test_a_class_that_is_not_kept_is_named_and_so_are_those_that_are(tmp_path):
    from sklearn.neural_network import MLPClassifier

    X, y = rows(2)
    with pytest.raises(DataError, match=r"it holds a sklearn\.neural_network\..*MLPClassifier .*none of the kinds that are kept"):
        load_classifier(dump_classifier(MLPClassifier((2,), max_iter=2).fit(X, y)), 5)
    learner = parse_learner(["sklearn.neural_network.MLPClassifier"])
    with pytest.raises(ConfigError, match="cannot be saved; choose one of .*" + re.escape("sklearn.svm.{LinearSVC,NuSVC,SVC}")):
        check_savable(learner)
    check_savable(learner, save=False)


def test_rows_that_a_classifier_refuses_are_a_sentence():
    X, y = rows(2)
    classifier = fit(parse_learner(["sklearn.naive_bayes.CategoricalNB"]), X, y, 0)
    with pytest.raises(DataError, match="CategoricalNB: it refuses the rows"):
        scores(classifier, X + 7, 2)

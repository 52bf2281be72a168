"""Tests for all scikit-learn classifiers of the registry, and for the parameters of some."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.make import class_data, classifier_bytes, dataset
from support.methods import ESTIMATORS, SHORT, learnt, make

from hpcml import ClassifierModel, DualClassifier, PsbmlClassifier, cross_validate, open_model, train
from hpcml.estimators.parameters import OPTION_OF
from hpcml.methods.registry import METHODS

WORDS = np.array(["ant", "bee", "caterpillar"])

# Invalid values of parameters; other parameters, except booleans, get an arbitrary object.
INVALID = {
    **{"alpha": 0.5, "base": "treee", "beta": 2.0, "labels_per_pass": 0, "comm": "world", "cycles": 0, "epsilon": -1.0, "eta": 0.0},
    **{
        "chi_square": -1.0,
        "class_weight": "even",
        "cut": np.inf,
        "factor": np.nan,
        "min_weight": -1.0,
        "rounds": 0,
        "smoothing": 0.0,
        "stages": 1,
    },
    **{"svm_c": 0.0, "svm_tol": 0.0, "trim": 1.0, "patience": 0, "device": "tpu"},
    **{"gamma": -1.0, "grid": "3", "judge": "f1", "l1": "m", "lam": "X/q", "loss": "none", "margin": -1.0, "max_gap": -1.0},
    **{"max_iter": 0, "method": "none", "neighbourhood": "C1", "passes": 0, "positive_weight": "none", "precision": "half"},
    **{"random_state": -1, "rate": "none", "replace": 2.0, "solver": "none", "theta": -1.0, "tol": 0.0, "validation_share": 1.0},
}
BOOLEANS = {"dormant", "fit_intercept", "shuffle", "voted"}

each = pytest.mark.parametrize("name", ESTIMATORS)


def rows(n_classes=3):
    X, y, Y = class_data(5, 80, 12, n_classes)
    return abs(X), y, Y


@each
@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_equals_that_of_the_command(name, n_classes, tmp_path):
    X, y, Y = rows(n_classes)
    options = {"base": tuple(SHORT[name]["base"].split()), "grid": "2x1", "cycles": 3} if name in SHORT else {}
    model = open_model(train(name, dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", **options).model)
    found = make(name).fit(X, y)
    if isinstance(model, ClassifierModel):
        assert classifier_bytes(found.classifier_) == classifier_bytes(model.classifier)
        assert (found.margin_rows_ == model.margin_rows).all() and (found.margin_weights_ == model.margin_weights).all()
        assert (found.cycle_, found.validation_error_) == (model.cycle, model.attrs["validation_error"])
    else:
        assert found.coef_.tobytes() == model.weights().tobytes()
        assert found.intercept_.tobytes() == np.asarray(model.bias).tobytes()


@each
def test_classes(name):
    n_classes = 2 + len(name) % 2
    X, y, _ = rows(n_classes)
    found = make(name).fit(X.toarray(), WORDS[y])
    assert learnt(found) == learnt(make(name).fit(X, y)) and found.n_features_in_ == 12
    assert found.classes_.tolist() == WORDS[:n_classes].tolist()
    scores = found.decision_function(X)
    assert scores.shape == ((80,) if n_classes == 2 else (80, 3))
    assert (found.predict(X) == WORDS[scores.argmax(axis=1) if n_classes > 2 else (scores > 0).astype(int)]).all()
    if hasattr(found, "predict_proba"):
        chances = found.predict_proba(X)
        assert np.allclose(chances.sum(axis=1), 1)
        assert (found.classes_[chances.argmax(axis=1)] == found.predict(X)).all()


@each
def test_label_sets(name):
    X, _, Y = rows()
    Y = Y.astype(int).tolil()
    Y[::7] = 1
    if get_tags(make(name)).classifier_tags.multi_label:
        dense, sparse = make(name).fit(X, Y.toarray()), make(name).fit(X, Y.tocsr())
        assert learnt(dense) == learnt(sparse) and dense.predict(X).shape == (80, 3)
        assert sp.issparse(sparse.predict(X)) and (sparse.predict(X).toarray() == dense.predict(X)).all()
    else:
        with pytest.raises(ValueError, match="y has 3 columns"):
            make(name).fit(X, Y.toarray())


@each
def test_lists_of_names_of_labels(name):
    X, _, Y = rows()
    Y = Y.toarray().astype(int)
    Y[::7], Y[1::9] = 1, 0
    names = [WORDS[row > 0].tolist() for row in Y]
    kind = make(name)
    if not get_tags(kind).classifier_tags.multi_label:
        with pytest.raises(ValueError, match="y has 3 columns"):
            kind.fit(X, names)
        return
    matrix, found = make(name).fit(X, Y), kind.fit(X, names)
    assert learnt(found) == learnt(matrix) and found.classes_.tolist() == WORDS.tolist()
    assert found.predict(X) == [WORDS[row > 0].tolist() for row in matrix.predict(X)]
    assert found.score(X, names) == matrix.score(X, Y)
    for other in ([set(row) for row in names], [tuple(reversed(row)) for row in names], np.array([*names, None], object)[:-1]):
        assert learnt(make(name).fit(X, other)) == learnt(matrix)
    numbers = make(name).fit(X, [np.flatnonzero(row).tolist() for row in Y])
    assert learnt(numbers) == learnt(matrix) and numbers.classes_.tolist() == [0, 1, 2]
    assert learnt(make(name).fit(X, Y.tolist())) == learnt(matrix)  # equal lengths: an indicator matrix
    if hasattr(kind, "partial_fit"):
        pieces = make(name).partial_fit(X[:30], names[:30], classes=WORDS).partial_fit(X[30:], names[30:])
        assert learnt(pieces) == learnt(matrix) and pieces.predict(X) == found.predict(X)
        with pytest.raises(ValueError, match="'dog'"):
            pieces.partial_fit(X[:1], [["dog"]])
        with pytest.raises(ValueError, match="first call"):
            make(name).partial_fit(X, names)
    with pytest.raises((ValueError, TypeError), match="different types"):
        make(name).fit(X, [["ant", 1], *names[1:]])
    with pytest.raises(ValueError, match="there are no labels"):
        make(name).fit(X, [set()] * 80)


@each
def test_log_odds_are_probabilities(name):
    X, y, _ = rows(2)
    losses = [loss for loss in METHODS[name].losses if loss == "logistic"]
    assert all(not hasattr(make(name, loss=loss), "predict_proba") for loss in METHODS[name].losses if loss not in losses)
    for loss in losses:
        found = make(name, loss=loss).fit(X, y)
        assert np.allclose(found.predict_proba(X)[:, 1], 1 / (1 + np.exp(-found.decision_function(X))))
        three = make(name, loss=loss).fit(X, rows()[1]).predict_proba(X)
        assert three.shape == (80, 3) and np.allclose(three.sum(axis=1), 1)


@each
def test_copies(name):
    X, y, _ = rows()
    original = make(name).fit(X, y)
    copied, twin = pickle.loads(pickle.dumps(original)), clone(original)
    assert learnt(copied) == learnt(original) and (copied.predict(X) == original.predict(X)).all()
    assert twin.get_params() == original.get_params() and not hasattr(twin, "classes_")
    assert learnt(twin.fit(X, y)) == learnt(original)
    with pytest.raises(NotFittedError):
        clone(original).predict(X)


@each
def test_names_of_features(name):
    X, y, _ = rows()
    frame = pd.DataFrame(X.toarray(), columns=[f"word {j}" for j in range(12)])
    found = make(name).fit(frame, y)
    assert found.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame[frame.columns[::-1]])


@each
def test_errors_name_the_parameter(name):
    X, y, _ = rows(2)
    parameters = set(make(name).get_params()) - BOOLEANS
    known = {"comm", "method", *METHODS[name].option_names} - ({"seed"} if "shuffle" in make(name).get_params() else set())
    for parameter in sorted(parameters):
        if OPTION_OF.get(parameter, parameter) in known:
            with pytest.raises((ValueError, TypeError)) as error:
                make(name, **{parameter: INVALID.get(parameter, object())}).fit(X, y)
            assert re.match(rf"{parameter}=.*: ", str(error.value)) and "--" not in str(error.value)


CHECKED = [
    DualClassifier(),
    DualClassifier(loss="logistic", fit_intercept=False, positive_weight="balanced"),
    PsbmlClassifier("tree max_depth=3", "2x1", cycles=2),
    PsbmlClassifier("gaussian-nb", "1x1", cycles=1),
]


REASON = "repeated rows change the order of rows, so results are equal only within the tolerance"
WITHIN = {f"check_sample_weight_equivalence_on_{kind}_data": REASON for kind in ("dense", "sparse")}
NO_INTERCEPT = {"check_class_weight_classifiers": "class weights cannot replace the missing intercept (as for LinearSVC)"}


def expected_to_fail(estimator):
    if not isinstance(estimator, DualClassifier):
        return {}
    return WITHIN if estimator.fit_intercept else WITHIN | NO_INTERCEPT


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_to_fail)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({"loss": "hinge", "positive_weight": 2}, {"loss": "hinge", "positive_weight": "2.0"}),
        ({"fit_intercept": False, "tol": 0.01, "random_state": 7}, {"bias": False, "dual_tol": 0.01, "seed": 7}),
        (
            {"positive_weight": "balanced", "max_gap": 1e-3, "precision": "double", "lam": 0.01, "labels_per_pass": 2},
            {"positive_weight": "balanced", "max_gap": 1e-3, "precision": "double", "lam": "0.01", "labels_per_pass": 2},
        ),
    ],
)
def test_dual_equals_the_command(parameters, options, tmp_path):
    X, _, Y = rows()
    Y = sp.hstack([Y, np.ones((80, 1)), sp.csr_matrix((80, 1))]).tocsr()
    model = open_model(
        train("dual", dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", **{"min_positives": 0, **options}).model
    )
    found = DualClassifier(**parameters).fit(X, Y.astype(int))
    assert found.coef_[:3].tobytes() == model.weights(np.arange(3)).tobytes() and not found.coef_[3:].any()
    assert found.intercept_.tobytes() == np.asarray(model.bias).tobytes() and found.intercept_[3:].tolist() == [1, -1]
    for ours, theirs in ((found.gap_, "gap"), (found.f_min_, "f_min"), (found.n_iter_, "steps"), (found.visited_, "visited")):
        assert ours.tolist() == model.labels[theirs].tolist()
    assert (found.gap_ <= parameters.get("max_gap", 1)).all()


EXACT = {"lam": 0.02, "precision": "double", "tol": 1e-6, "max_gap": 1e-9, "max_iter": 100_000}


def liblinear(loss, C, **more):
    if loss == "logistic":
        return LogisticRegression(C=C, solver="liblinear", tol=1e-10, max_iter=10_000, **more)
    return LinearSVC(C=C, loss=loss.replace("-", "_"), tol=1e-10, max_iter=10**6, **more)


def same_weights(found, peer):
    return np.allclose(found.coef_, peer.coef_, atol=1e-3) and np.allclose(found.intercept_, peer.intercept_, atol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_dual_row_weights_equal_liblinear(loss):
    X, y, Y = rows(2)
    whole = np.random.default_rng(1).integers(0, 4, 80)
    again = DualClassifier(loss, **EXACT).fit(sp.csr_matrix(X.toarray().repeat(whole, axis=0)), y.repeat(whole))
    assert same_weights(DualClassifier(loss, **EXACT).fit(X, y, whole), again)
    weights = whole * np.random.default_rng(2).random(80)
    found = DualClassifier(loss, **EXACT).fit(X, y, weights)
    assert found.gap_.max() <= 1e-9
    assert same_weights(found, liblinear(loss, 1 / (0.02 * weights.sum())).fit(X.toarray(), y, weights))
    names = [["yes"] if has else [] for has in y]
    for twin in (Y.toarray().astype(int), names):
        assert learnt(DualClassifier(loss, **EXACT).fit(X, twin, weights)) == learnt(found)
    assert learnt(DualClassifier(loss).fit(X, y, np.ones(80))) == learnt(DualClassifier(loss).fit(X, y))
    with pytest.raises(ValueError, match=r"^sample_weight\[3\]=-0\.5: "):
        DualClassifier().fit(X, y, np.where(np.arange(80) == 3, -0.5, 1))
    with pytest.raises(ValueError, match="no rank has rows"):
        DualClassifier().fit(X, y, np.zeros(80))


@pytest.mark.parametrize(("loss", "weights"), [("hinge", {0: 0.4, 1: 3.0}), ("squared-hinge", "balanced"), ("logistic", {0: 7})])
def test_dual_class_weights_equal_liblinear(loss, weights):
    X, y, _ = rows(2)
    C = 1 / (0.02 * 80)
    found = DualClassifier(loss, class_weight=weights, **EXACT).fit(X, y)
    assert same_weights(found, liblinear(loss, C, class_weight=weights).fit(X.toarray(), y))
    three = np.minimum(y + 2 * (np.arange(80) % 5 == 0), 2)
    found = DualClassifier(loss, class_weight=weights, **EXACT).fit(X, three)
    each = 80 / (3 * np.bincount(three)) if weights == "balanced" else [weights.get(label, 1.0) for label in range(3)]
    for label in range(3):
        twin = liblinear(loss, C, class_weight={1: each[label]}).fit(X.toarray(), three == label)
        assert np.allclose(found.coef_[label], twin.coef_[0], atol=1e-3)
    if loss != "logistic":  # scikit-learn's LIBLINEAR supports only two classes
        assert same_weights(found, liblinear(loss, C, class_weight=weights).fit(X.toarray(), three))
    assert not hasattr(found, "predict_proba")


@pytest.mark.parametrize("class_weight", [{0: 2, 5: 1}, {0: 0}, "even"], ids=str)
def test_dual_rejects_invalid_class_weights(class_weight):
    X, y, Y = rows()
    with pytest.raises(ValueError, match=r"^class_weight"):
        DualClassifier(class_weight=class_weight).fit(X, np.minimum(y, 1))
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        DualClassifier(class_weight="balanced").fit(X, Y.toarray().astype(int))


def test_dual_warns_of_labels_that_did_not_converge():
    X, y, _ = rows()
    with pytest.warns(ConvergenceWarning, match="3 of 3 labels reached max_iter=1 steps; raise max_iter") as told:
        DualClassifier(max_iter=1, tol=1e-9).fit(X, y)
    assert told[0].filename == __file__


@pytest.mark.parametrize(("base", "gives"), [("tree", True), (("stump", "max_depth=2"), True), ("linear-svm C=0.5", False)])
def test_psbml_base_learners_equal_the_command(base, gives, tmp_path):
    X, y, Y = rows()
    tokens = tuple(base.split()) if isinstance(base, str) else base
    options = {"base": tokens, "grid": "3x2", "neighbourhood": "L5", "cycles": 4, "replace": 0.5, "validation_share": 0.3}
    run = train("psbml", dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", **options, seed=3)
    model = open_model(run.model)
    found = PsbmlClassifier(**{**options, "base": base}, random_state=3)
    assert hasattr(found, "predict_proba") == gives
    assert classifier_bytes(found.fit(X, y).classifier_) == classifier_bytes(model.classifier) and found.cycle_ == model.cycle
    if not gives:
        with pytest.raises(AttributeError, match="predict_proba"):
            found.predict_proba(X)


def test_psbml_rejects_invalid_parameters():
    X, y, _ = rows()
    with pytest.raises(ValueError, match=r"^y: all 80 rows are of one class, 0; "):
        make("psbml").fit(X, 0 * y)
    for name, values in {
        "grid": ("9x9",),
        "judge": ("auc",),
        "base": ("tree max_dept=3", 3),
        "patience": (20, 0, 1.5),
        "device": ("tpu", "gpu"),
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^{name}={str(value).split()[0]}: [^\n]+$"):
                make("psbml", **{name: value}).fit(X, y)


def test_cross_validation_of_all_methods(tmp_path):
    X, y, Y = rows(2)
    words = np.random.default_rng(2).random((80, 4)) < np.where(y, 0.8, 0.1)[:, None]  # predict the classes
    X = sp.hstack([X, words], format="csr", dtype=np.float32)
    names = [*ESTIMATORS, "svm"]
    found = cross_validate(names, [dataset(tmp_path / "data.h5", X, Y)], folds=2)
    assert found.f1[0].shape == (1, 2, len(names)) and (found.f1[0].mean(axis=1) > 20).all()


def test_default_torus_of_psbml_has_a_row_per_node():
    X, y, _ = class_data(5, 80, 12, 2)
    grids = [PsbmlClassifier(cycles=1, validation_share=0.3).fit(X[:n], np.arange(n) % 2).grid_ for n in (80, 13, 12, 11, 5, 4)]
    assert grids == ["3x3", "3x3", "2x2", "2x2", "1x1", "1x1"]
    found = PsbmlClassifier(cycles=2).fit(X, y)
    assert found.grid_ == "3x3" and learnt(found) == learnt(PsbmlClassifier(grid="3x3", cycles=2).fit(X, y))
    with pytest.raises(ValueError, match=r"^grid=3x3: 9 nodes, but only 8 training rows; choose a smaller grid$"):
        PsbmlClassifier(grid="3x3", cycles=1).fit(X[:10], np.arange(10) % 2)

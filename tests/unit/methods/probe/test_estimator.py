"""The scikit-learn classifier: scikit-learn's own checks, the bits of `hpcml train probe`, and what users put it into."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from mpi4py import MPI
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.make import dataset, random_data

from hpcml import Model, ProbeClassifier, train

KINDS = [ProbeClassifier(), ProbeClassifier(loss="logistic", fit_intercept=False)]


@parametrize_with_checks(KINDS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def blobs(n_classes, n=120, d=4, seed=0, spread=1.0):
    """Rows around one corner of a cube per class."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(n_classes, d))
    y = np.arange(n) % n_classes
    return (centres[y] + spread * rng.normal(size=(n, d))).astype(np.float32), y


def same(a, b):
    """Two classifiers have learned the same bits."""
    names = ("coef_", "intercept_", "n_iter_", "f_min_", "visited_")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in names)


# the model that the command line trains


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "huber", "logistic"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_multilabel_model_has_the_bits_of_training_from_a_file(tmp_path, loss, bias, precision):
    X, Y = random_data(3, 70, 40, 6, density=0.05)  # sparse enough for features that one row has, and that none has
    Y = (Y != 0).astype(int).tolil()
    Y[:, 1], Y[:, 2] = 0, 1
    options = {"min_positives": 0, "loss": loss, "bias": bias, "precision": precision, "seed": 5, "lam": "X/50"}
    model = Model(train("probe", dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", **options).model)
    assert (model.factors == 0).any() and (~np.isin(model.factors, (0, 1))).any()
    parameters = {"loss": loss, "fit_intercept": bias, "precision": precision, "random_state": 5, "lam": "X/50"}
    for target in (Y.toarray(), Y.tocsr()):
        found = ProbeClassifier(**parameters).fit(X, target)
        assert found.coef_[[0, 3, 4, 5]].tobytes() == model.weights(np.array([0, 3, 4, 5])).tobytes()
        assert found.intercept_.tobytes() == np.asarray(model.bias).tobytes()
        for ours, name in ((found.n_iter_, "steps"), (found.f_min_, "f_min"), (found.visited_, "visited")):
            assert ours.tolist() == model.labels[name].tolist()
    assert found.intercept_[[1, 2]].tolist() == [-1, 1] and not found.coef_[[1, 2]].any()


def test_form_of_the_input_does_not_matter():
    X, y = blobs(3)
    alone = ProbeClassifier().fit(X, y)
    doubled = sp.coo_matrix((np.tile(X.ravel() / 2, 2), np.tile(np.indices(X.shape).reshape(2, -1), 2)), X.shape)
    twice = sp.csr_matrix((np.tile(X / 2, 2).ravel(), np.tile(np.arange(4), 240), np.arange(121) * 8), X.shape)
    forms = [X.astype(float), X.tolist(), np.asfortranarray(X), sp.csc_matrix(X), sp.csr_array(X), doubled, twice, pd.DataFrame(X)]
    for other in forms:
        before = other.copy() if sp.issparse(other) else None
        assert same(alone, ProbeClassifier(labels_per_pass=2).fit(other, pd.Series(y)))
        assert before is None or (before.data.tobytes() == other.data.tobytes() and before.nnz == other.nnz)


def test_dormant_rows_and_their_draws():
    X, y = blobs(3)
    first, again = (ProbeClassifier(random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2))
    assert same(first, again) and (first.visited_ < 1).all()
    assert not same(first, ProbeClassifier(random_state=4).fit(X, y))
    assert ProbeClassifier(dormant=False).fit(X, y).visited_.tolist() == [1, 1, 1]


def test_the_objective_is_near_the_least():
    X, y = blobs(2, spread=6.0)
    lam = 0.1
    found = ProbeClassifier(lam=lam, epsilon=1e-3, precision="double").fit(X, y)
    best = LinearSVC(loss="hinge", C=1 / (lam * len(y)), tol=1e-8, max_iter=10**6).fit(X, y)

    def objective(model):
        w = np.append(model.coef_[0], model.intercept_)
        loss = np.maximum(0, 1 - np.where(y == 1, 1, -1) * model.decision_function(X))
        return lam / 2 * w @ w + loss.mean()

    assert found.f_min_[0] == pytest.approx(objective(found), rel=1e-9)
    assert objective(best) * (1 - 1e-6) <= objective(found) <= objective(best) * 1.01


# what scikit-learn does with it


TEXTS = [f"{animal} {sound} number{i}" for i in range(30) for animal, sound in (("cat", "mew"), ("dog", "bark"), ("cow", "moo"))]
ANIMALS = [text.split()[0] for text in TEXTS]


def test_pipeline_and_grid_search():
    pipe = make_pipeline(TfidfVectorizer(), ProbeClassifier())
    grid = {"probeclassifier__lam": ["X/m", 0.5, "X/10"], "probeclassifier__loss": ["hinge", "logistic"]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(TEXTS, ANIMALS)
    assert search.best_score_ == 1.0
    assert search.predict(["the cow says moo"]).tolist() == ["cow"]


def test_clones_keep_the_communicator_and_copies_do_not():
    comm = MPI.COMM_SELF.Dup()
    try:
        original = ProbeClassifier(loss="logistic", comm=comm).fit(*blobs(3))
        twin = clone(make_pipeline(original))[-1]
        assert twin.comm is comm and twin.loss == "logistic" and not hasattr(twin, "coef_")
        assert twin.get_params()["comm"] is comm
        copied = pickle.loads(pickle.dumps(original))
        assert copied.comm is None and original.comm is comm and same(copied, original)
        assert same(copied.fit(*blobs(3)), twin.fit(*blobs(3)))
    finally:
        comm.Free()


def test_probabilities_only_where_there_are_any():
    X, y = blobs(3, spread=4.0)
    assert not hasattr(ProbeClassifier().fit(X, y), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        ProbeClassifier(loss="huber").predict_proba(X)
    found = ProbeClassifier(loss="logistic").fit(X, y)
    assert np.allclose(found.predict_proba(X).sum(axis=1), 1)
    assert (found.predict_proba(X).argmax(axis=1) == found.predict(X)).all()
    assert np.isfinite(found.predict_proba(1e6 * X)).all()
    binary = ProbeClassifier(loss="logistic", epsilon=1e-3, lam=0.1).fit(X, y == 0)
    peer = LogisticRegression(C=1 / (0.1 * len(y)), tol=1e-8, solver="liblinear").fit(X, y == 0)  # it regularises the intercept too
    assert np.allclose(binary.predict_proba(X), peer.predict_proba(X), atol=0.02)
    Y = np.stack([y == 0, np.zeros(120), np.ones(120)], axis=1).astype(int)
    assert ProbeClassifier(loss="logistic").fit(X, Y).predict_proba(X)[:, 1:].tolist() == [[0, 1]] * 120


def test_one_class_only():
    X, _ = blobs(2)
    found = ProbeClassifier(loss="logistic").fit(X, ["yes"] * 120)
    assert set(found.predict(X)) == {"yes"} and found.predict_proba(X).tolist() == [[1.0]] * 120
    assert found.n_iter_.tolist() == [0] and found.intercept_.tolist() == [1] and not found.coef_.any()


# mistakes


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"loss": "hing"}, "loss=hing: expected hinge or huber or logistic"),
        ({"loss": None}, "loss=None: expected a string"),
        ({"lam": "X/q"}, "lam=X/q: expected X/m, 0.1X/m, X/NUMBER, NUMBER/m or a number above 0"),
        ({"lam": -1}, "lam=-1.0: expected X/m, 0.1X/m, X/NUMBER, NUMBER/m or a number above 0"),
        ({"lam": None}, "lam=None: expected a string or a number"),
        ({"epsilon": 1}, "epsilon=1.0: expected a number between 0 and 2/3"),
        ({"epsilon": "small"}, "epsilon='small': expected a number"),
        ({"precision": "half"}, "precision=half: expected single or double"),
        ({"max_iter": 0}, "max_iter=0: expected at least 1"),
        ({"max_iter": 2.5}, "max_iter=2.5: expected a whole number"),
        ({"labels_per_pass": 0}, "labels_per_pass=0: expected at least 1"),
        ({"random_state": -1}, "random_state=-1: expected at least 0"),
        ({"random_state": "x"}, "'x' cannot be used to seed a numpy.random.RandomState instance"),
    ],
)
def test_parameters_that_make_no_sense(parameters, sentence):
    with pytest.raises(ValueError) as error:
        ProbeClassifier(**parameters).fit(*blobs(2))
    assert str(error.value) == sentence


def test_data_that_cannot_be_trained_on():
    X, y = blobs(2)
    large = X.astype(float)
    large[3, 2] = 1e300
    cases = [
        (X * 0, y, "no usable features"),
        (large, y, "Input X contains infinity or a value too large for dtype"),
        (sp.csr_matrix(large), y, "too large for dtype"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X, y + 0.5, "Unknown label type: continuous"),
        (X, np.stack([y, y + 1], axis=1), "where 0 and 1 are expected, but found 2"),
        (X, sp.csr_matrix(np.stack([y, -y], axis=1)), "where 0 and 1 are expected, but found -1"),
        (X, np.array([["a", "b"]] * 120), "where 0 and 1 are expected, but found 'a'"),
        (X[:0], y[:0], "minimum of 1 is required"),
        (X, None, "requires y to be passed"),
    ]
    for X_bad, y_bad, sentence in cases:
        with warnings.catch_warnings(), pytest.raises(ValueError, match=sentence):
            warnings.simplefilter("ignore", RuntimeWarning)
            ProbeClassifier().fit(X_bad, y_bad)
    with pytest.raises(TypeError, match="comm='world': expected an mpi4py communicator or None"):
        ProbeClassifier(comm="world").fit(X, y)
    with pytest.raises(NotFittedError):
        ProbeClassifier().predict(X)


def test_labels_that_were_given_up_are_told():
    with pytest.warns(ConvergenceWarning, match="3 of 3 labels were given up after max_iter=2 steps"):
        found = ProbeClassifier(max_iter=2).fit(*blobs(3))
    assert found.n_iter_.tolist() == [2, 2, 2]


def test_importing_hpcml_starts_neither_mpi_nor_scikit_learn():
    code = "import sys, hpcml; print([m for m in ('mpi4py.MPI', 'sklearn', 'numba', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

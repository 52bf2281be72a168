"""Naive Bayes against sums over all training values."""

import io
import lzma

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from support.oracles import gaussian_naive_bayes, kernel_naive_bayes

from hpcml.model.naive_bayes import GaussianNB, KernelNB

FEATURES = {  # name -> (rng, labels) -> values
    "normal": lambda rng, y: rng.normal(size=y.size) + y,
    "lognormal": lambda rng, y: np.exp(3 * rng.normal(size=y.size)),
    "narrow class": lambda rng, y: rng.normal(size=y.size) * np.where(y == 1, 1, 1e-3) + 5,
    "clumps": lambda rng, y: 50.0 * (rng.random(y.size) < 0.02) + 1e-3 * rng.normal(size=y.size),
    "many integers": lambda rng, y: 1.0 * rng.integers(0, 300, y.size),
    "few integers": lambda rng, y: np.round(2 * rng.normal(size=y.size)) + y,
    "binary": lambda rng, y: 1.0 * (rng.random(y.size) < 0.1 + 0.2 * y),
    "mostly zero": lambda rng, y: rng.normal(size=y.size) * (rng.random(y.size) < 0.1),
    "constant": lambda rng, y: np.full(y.size, 3.0),
    "large": lambda rng, y: 1e9 + rng.random(y.size),
}


def make_rows(names, n_rows=1500, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, min(n_classes, 2), n_rows)
    y[: n_classes - 2] = np.arange(2, n_classes)
    return np.column_stack([FEATURES[name](rng, y) for name in names]), y


def make_queries(X, seed=1):
    rng = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    known = rng.permuted(X[rng.integers(0, len(X), 300)], axis=0)
    beside = known + rng.normal(size=known.shape) * (high - low) / 300
    inside = rng.uniform(low, high, known.shape)
    outside = rng.uniform(3 * low - 2 * high, 3 * high - 2 * low, known.shape)
    return np.vstack([known, beside, inside, outside, [high + 1e6 * (1 + high - low)]])


@pytest.mark.parametrize(("n_classes", "weighted"), [(2, False), (3, True)])
@pytest.mark.parametrize("name", FEATURES)
def test_kernel_densities_equal_sums_over_all_values(name, n_classes, weighted):
    X, y = make_rows([name], n_rows=1000, n_classes=n_classes)
    weights = np.random.default_rng(5).exponential(size=y.size) ** 3 if weighted else np.ones(y.size)
    weights[10:20] *= not weighted  # rows without weight
    model = KernelNB().fit(X, y, weights if weighted else None)
    queries = make_queries(X)
    expected = kernel_naive_bayes(X, y, weights, queries)
    ratio = np.abs(np.expm1(model.predict_joint_log_proba(queries) - expected))
    assert ratio[expected > -15].max() < (1e-6 if name == "large" else 1e-8)  # 1e9 + x is itself rounded to 1e-7
    assert ratio[expected > -25].max() < 1e-6
    assert ratio.max() < 0.4  # where P is near 1e-75, and a table's series ends early
    assert (model.table_.size > 0) == (name not in ("few integers", "binary", "constant"))


@pytest.mark.parametrize("n_rows", [1, 2, 5, 12])
def test_few_rows(n_rows):
    X, y = make_rows(list(FEATURES), n_rows=n_rows)
    model = KernelNB().fit(X, y)
    queries = make_queries(X)
    labels = np.searchsorted(model.classes_, y)
    expected = kernel_naive_bayes(X, labels, np.ones(n_rows), queries)
    np.testing.assert_allclose(model.predict_joint_log_proba(queries), expected, atol=0.4 * len(FEATURES))
    likely = expected > -15 * len(FEATURES)
    np.testing.assert_allclose(model.predict_joint_log_proba(queries)[likely], expected[likely], rtol=1e-3)
    assert np.isfinite(model.predict_log_proba(queries)).all()


def test_rounds_values_as_weka():
    """Weka since December 2019: the value to classify is rounded, too, and the mass of its cell is divided by the width."""
    X, y = np.array([[0.0], [0.0], [4.0], [4.0], [2.0], [2.0]]), np.array([0, 0, 0, 1, 1, 1])
    model = KernelNB().fit(X, y)
    between, nearest = model.predict_joint_log_proba([[2.9], [3.1], [1.0]]), model.predict_joint_log_proba([[2.0], [4.0], [0.0]])
    np.testing.assert_array_equal(between, nearest)  # ties go to the even multiple
    h = 4 / np.sqrt(3)  # class 0: 0, 0, 4 with δ = 2
    mass = (2 * (ndtr(3 / h) - ndtr(1 / h)) + ndtr(-1 / h) - ndtr(-3 / h)) / 3
    np.testing.assert_allclose(np.exp(between[0, 0]), 0.5 * mass / 2, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense(dtype):
    X, y = make_rows(["binary", "mostly zero", "normal", "few integers", "constant"], n_classes=3)
    weights = np.random.default_rng(2).random(y.size)
    stored = sp.csr_array(X.astype(dtype))
    stored.data[::7] = 0  # explicit zeros
    X = stored.toarray()
    dense, sparse = KernelNB().fit(X, y, weights), KernelNB().fit(stored, y, weights)
    expected = dense.predict_joint_log_proba(X)
    np.testing.assert_allclose(sparse.predict_joint_log_proba(stored), expected, rtol=1e-10)
    np.testing.assert_allclose(dense.predict_joint_log_proba(sp.csr_matrix(X)), expected, rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_outputs_are_consistent(n_classes):
    X, y = make_rows(["normal", "few integers", "binary"], n_classes=n_classes)
    model = KernelNB().fit(X, np.array(["a", "b", "c", "d"])[y])
    p, odds = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))
    expected = np.log(p) - np.log(1 - p)
    np.testing.assert_allclose(odds, expected[:, 1] if n_classes == 2 else expected, rtol=1e-6)
    assert list(model.predict(X)) == list(model.classes_[p.argmax(axis=1)])


def test_odds_of_certain_classes_are_finite():
    X = np.repeat(np.arange(3.0), 300)[:, None] + np.zeros((1, 200))
    odds = KernelNB().fit(X, X[:, 0]).decision_function(X)
    assert np.isfinite(odds).all()
    assert odds.max() > 700  # where 1 − p is 0


@pytest.mark.parametrize(("kind", "n_rows"), [(KernelNB, 30), (KernelNB, 1500), (GaussianNB, 300)])
def test_weights_equal_repeated_rows(kind, n_rows):
    X, y = make_rows(["normal", "few integers", "mostly zero", "binary"], n_rows)
    weights = np.random.default_rng(3).integers(0, 5, y.size)
    X[weights == 0] = 77.0  # ignored
    repeated = X.repeat(weights, axis=0), y.repeat(weights)
    for one, other in ((X, repeated[0]), (sp.csr_array(X), sp.csr_array(repeated[0]))):
        model, expected = kind().fit(one, y, weights), kind().fit(other, repeated[1])
        np.testing.assert_allclose(model.predict_joint_log_proba(one), expected.predict_joint_log_proba(one), rtol=1e-7)


def test_gaussians_equal_sums_over_all_values():
    X, y = make_rows(list(FEATURES), n_rows=200, n_classes=3)
    weights = np.random.default_rng(5).exponential(size=y.size)
    queries = make_queries(X)[::40]
    model = GaussianNB().fit(X, y, weights)
    expected = gaussian_naive_bayes(X, y, weights, queries)
    np.testing.assert_allclose(model.predict_joint_log_proba(queries), expected, rtol=1e-6)
    sparse = GaussianNB().fit(sp.csr_array(X), y, weights).predict_joint_log_proba(sp.csr_array(queries))
    np.testing.assert_allclose(sparse, expected, rtol=1e-6)
    whole = model.predict_joint_log_proba(X)
    assert np.array_equal(model.predict_joint_log_proba(X[7:40]), whole[7:40])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # scikit-learn adds numbers that are too large
def test_rejects_invalid_training_rows():
    X, y = make_rows(["normal"])
    with pytest.raises(ValueError, match=r"every weight is 0|at least one non-zero"):
        KernelNB().fit(X, y, np.zeros(y.size))
    with pytest.raises(ValueError, match="Negative values"):
        KernelNB().fit(X, y, -np.ones(y.size))
    for kind in (KernelNB, GaussianNB):
        with pytest.raises(ValueError, match="feature 0"):
            kind().fit(np.linspace(-1, 1, 1000)[:, None] * 1e308, np.arange(1000) % 2)
    with pytest.raises(NotFittedError):
        clone(KernelNB().fit(X, y)).predict(X)


@parametrize_with_checks([KernelNB(), GaussianNB()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_auc_on_real_data(data_dir):
    files = (io.BytesIO(lzma.decompress((data_dir / f"{name}.svm.xz").read_bytes())) for name in ("a9a", "a9a.t"))
    (X, y), (X_test, y_test) = (load_svmlight_file(file, n_features=123) for file in files)
    assert roc_auc_score(y_test, KernelNB().fit(X, y).decision_function(X_test)) == pytest.approx(0.888, abs=0.002)

"""Naive Bayes with kernel densities against sums over all training values."""

import io
import lzma

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import AdaBoostClassifier
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
    """X, y with a class of one row if there are more than two."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, min(n_classes, 2), n_rows)
    y[: n_classes - 2] = np.arange(2, n_classes)
    return np.column_stack([FEATURES[name](rng, y) for name in names]), y


def make_queries(X, seed=1):
    """Training values, values between them, beside them and far from them."""
    rng = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    known = rng.permuted(X[rng.integers(0, len(X), 300)], axis=0)
    beside = known + rng.normal(size=known.shape) * (high - low) / 300
    inside = rng.uniform(low, high, known.shape)
    outside = rng.uniform(3 * low - 2 * high, 3 * high - 2 * low, known.shape)
    return np.vstack([known, beside, inside, outside, [high + 1e6 * (1 + high - low)]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", FEATURES)
def test_probability_of_a_feature(name, n_classes, weighted):
    X, y = make_rows([name], n_classes=n_classes)
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


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 12])
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


@pytest.mark.parametrize("kind", [KernelNB, GaussianNB])
def test_a_value_far_away_has_the_least_probability(kind):
    X, y = np.array([[0.0], [1.0], [2.0], [0.5]]), np.array([0, 0, 0, 1])
    got = kind().fit(X, y).predict_joint_log_proba([[1e300]])
    np.testing.assert_allclose(got, [[np.log(4 / 6) + np.log(1e-75), np.log(2 / 6) + np.log(1e-75)]])


def test_a_value_between_is_judged_as_the_nearest_one():
    """Weka since December 2019: the value that is judged is rounded as well, and the mass of its cell divided by the width."""
    X, y = np.array([[0.0], [0.0], [4.0], [4.0], [2.0], [2.0]]), np.array([0, 0, 0, 1, 1, 1])
    model = KernelNB().fit(X, y)
    between, nearest = model.predict_joint_log_proba([[2.9], [3.1], [1.0]]), model.predict_joint_log_proba([[2.0], [4.0], [0.0]])
    np.testing.assert_array_equal(between, nearest)  # of two that are as near the even multiple
    h = 4 / np.sqrt(3)  # class 0: 0, 0, 4 with δ = 2
    mass = (2 * (ndtr(3 / h) - ndtr(1 / h)) + ndtr(-1 / h) - ndtr(-3 / h)) / 3
    np.testing.assert_allclose(np.exp(between[0, 0]), 0.5 * mass / 2, rtol=1e-9)


def test_mass_of_two_values_by_hand():
    X, y = np.array([[0.0], [0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 0, 0, 1])
    joint = KernelNB().fit(X, y).predict_joint_log_proba([[0.0]])
    h = 1 / 2  # range 1, 4 rows; the other class has range 0 and thus δ/6
    own, other = ndtr(0.5 / h) - ndtr(-0.5 / h), ndtr(-0.5 / h) - ndtr(-1.5 / h)
    first = 0.75 * own + 0.25 * other
    second = ndtr(-0.5 * 6) - ndtr(-1.5 * 6)
    np.testing.assert_allclose(np.exp(joint), [[5 / 7 * first, 2 / 7 * second]], rtol=1e-12)


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


def test_duplicates_and_order_of_stored_values_do_not_matter():
    X, y = make_rows(["mostly zero", "binary", "normal"])
    tidy = sp.csr_array(X)
    rows = np.repeat(tidy.tocoo().row, 2)
    order = np.lexsort((-np.arange(rows.size), rows))  # every row backwards, every value in two halves
    loose = sp.csr_array((np.repeat(tidy.data / 2, 2)[order], np.repeat(tidy.indices, 2)[order], 2 * tidy.indptr), shape=X.shape)
    assert not loose.has_canonical_format
    model = KernelNB().fit(loose, y)
    expected = KernelNB().fit(tidy, y).predict_joint_log_proba(tidy)
    assert np.array_equal(model.predict_joint_log_proba(loose), expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 12])
def test_same_bits_in_any_batch(sparse, n_classes):
    X, y = make_rows(list(FEATURES), n_rows=2500, n_classes=n_classes)
    X = sp.csr_array(X) if sparse else X
    model = KernelNB().fit(X, y)
    for method in (model.predict_joint_log_proba, model.predict_log_proba, model.predict_proba, model.decision_function):
        whole = method(X)
        for begin, end in ((0, 1), (3, 40), (1000, 1100), (2499, 2500)):
            assert np.array_equal(method(X[begin:end]), whole[begin:end])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_outputs_agree(n_classes):
    X, y = make_rows(["normal", "few integers", "binary"], n_classes=n_classes)
    model = KernelNB().fit(X, np.array(["a", "b", "c", "d"])[y])
    p, odds = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))
    expected = np.log(p) - np.log(1 - p)
    np.testing.assert_allclose(odds, expected[:, 1] if n_classes == 2 else expected, rtol=1e-6)
    assert list(model.predict(X)) == list(model.classes_[p.argmax(axis=1)])


def test_odds_of_certain_classes_are_finite():
    X = np.repeat(np.arange(3.0), 2000)[:, None] + np.zeros((1, 200))
    odds = KernelNB().fit(X, X[:, 0]).decision_function(X)
    assert np.isfinite(odds).all()
    assert odds.max() > 700  # where 1 − p is 0


def test_weights():
    X, y = make_rows(["normal", "binary", "few integers"], n_classes=3)
    weights = np.random.default_rng(3).integers(0, 3, y.size) * 1.0
    weights[:3] = 1
    joint = KernelNB().fit(X, y, weights).predict_joint_log_proba(X)
    kept = weights > 0
    without = KernelNB().fit(X[kept], y[kept], weights[kept])
    assert np.array_equal(without.predict_joint_log_proba(X), joint)
    shares = 1e-3 * weights  # as boosting gives them: they are scaled to the number of rows
    scaled = weights * (np.count_nonzero(weights) / weights.sum())
    np.testing.assert_allclose(
        KernelNB().fit(X, y, shares).predict_joint_log_proba(X), KernelNB().fit(X, y, scaled).predict_joint_log_proba(X), rtol=1e-10
    )
    equal = KernelNB().fit(X, y, np.full(y.size, 0.3)).predict_joint_log_proba(X)
    np.testing.assert_allclose(equal, KernelNB().fit(X, y).predict_joint_log_proba(X), rtol=1e-10)


@pytest.mark.parametrize("kind", [KernelNB, GaussianNB])
@pytest.mark.parametrize("n_rows", [30, 1500])
def test_a_weight_of_2_is_a_row_twice(kind, n_rows):
    X, y = make_rows(["normal", "few integers", "mostly zero", "binary"], n_rows)
    weights = np.random.default_rng(3).integers(0, 5, y.size)
    X[weights == 0] = 77.0  # which nobody sees
    repeated = X.repeat(weights, axis=0), y.repeat(weights)
    for one, other in ((X, repeated[0]), (sp.csr_array(X), sp.csr_array(repeated[0]))):
        found, expected = kind().fit(one, y, weights), kind().fit(other, repeated[1])
        np.testing.assert_allclose(found.predict_joint_log_proba(one), expected.predict_joint_log_proba(one), rtol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gaussians_are_those_of_sums_over_all_values(n_classes):
    X, y = make_rows(list(FEATURES), n_rows=200, n_classes=n_classes)
    weights = np.random.default_rng(5).exponential(size=y.size)
    queries = make_queries(X)[::40]
    model = GaussianNB().fit(X, y, weights)
    expected = gaussian_naive_bayes(X, y, weights, queries)
    np.testing.assert_allclose(model.predict_joint_log_proba(queries), expected, rtol=1e-6)
    sparse = GaussianNB().fit(sp.csr_array(X), y, weights).predict_joint_log_proba(sp.csr_array(queries))
    np.testing.assert_allclose(sparse, expected, rtol=1e-6)
    whole = model.predict_joint_log_proba(X)
    assert np.array_equal(model.predict_joint_log_proba(X[7:40]), whole[7:40])


def test_a_class_without_weight_keeps_its_place():
    X, y = make_rows(["normal", "binary"], n_classes=3)
    model = KernelNB().fit(X, y, 1.0 * (y != 1))
    assert list(model.classes_) == [0, 1, 2]
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert model.class_size_[1] == 0


def test_boosting_uses_the_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] + X[:, 1] > 0.3).astype(int)  # an oblique boundary is beyond one naive Bayes
    alone, boosted = KernelNB().fit(X, y), AdaBoostClassifier(KernelNB(), n_estimators=20).fit(X, y)
    assert boosted.score(X, y) > alone.score(X, y) + 0.02


def test_stored_without_pickle():
    skops = pytest.importorskip("skops.io", reason="needs skops")
    X, y = make_rows(list(FEATURES), n_classes=3)
    model = KernelNB().fit(X, y)
    stored = skops.dumps(model)
    again = skops.loads(stored, trusted=["hpcml.model.naive_bayes.KernelNB"])
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert all(type(value) in (np.ndarray, int, float, bool) for value in vars(model).values())


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # scikit-learn adds numbers that are too large
def test_mistakes_are_named():
    X, y = make_rows(["normal"])
    with pytest.raises(ValueError, match=r"every weight is 0|at least one non-zero"):
        KernelNB().fit(X, y, np.zeros(y.size))
    with pytest.raises(ValueError, match="Negative values"):
        KernelNB().fit(X, y, -np.ones(y.size))
    for kind in (KernelNB, GaussianNB):
        with pytest.raises(ValueError, match=r"feature 0: the mean gap .* scale it"):
            kind().fit(np.linspace(-1, 1, 1000)[:, None] * 1e308, np.arange(1000) % 2)
    with pytest.raises(NotFittedError):
        clone(KernelNB().fit(X, y)).predict(X)


@parametrize_with_checks([KernelNB(), GaussianNB()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("name", "auc"), [("a9a", 0.888), ("ijcnn1", 0.897)])
def test_real_data(data_dir, name, auc):
    def load(file, n_features):
        return load_svmlight_file(io.BytesIO(lzma.open(data_dir / f"{file}.svm.xz").read()), n_features=n_features)

    if name == "a9a":
        (X, y), (X_test, y_test) = load("a9a", 123), load("a9a.t", 123)
    else:
        X, y = load(name, 22)
        order = np.random.default_rng(0).permutation(y.size)
        first, last = np.split(order, [int(0.7 * y.size)])
        X, y, X_test, y_test = X[first], y[first], X[last], y[last]
    scores = KernelNB().fit(X, y).decision_function(X_test)
    assert roc_auc_score(y_test, scores) == pytest.approx(auc, abs=0.002)


@pytest.mark.parametrize("name", ["value_start_", "table_start_", "table_", "zero_log_", "value_mass_"])
def test_arrays_that_do_not_fit_are_noticed(name):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(300), rng.integers(0, 3, 300)])
    model = KernelNB().fit(X, rng.integers(0, 2, 300))
    model.check_arrays()
    setattr(model, name, getattr(model, name)[:-1])
    with pytest.raises(ValueError, match="damaged"):
        model.check_arrays()

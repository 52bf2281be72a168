import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.metrics import f1_score
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from support.make import dataset, random_data

import hpcml
from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.scaling import feature_factors, multiply_features, scaled
from hpcml.data.shard import Shard, load_shard
from hpcml.log import Log
from hpcml.methods.registry import methods_with_option
from hpcml.tuning.folds import deal, fold_rows

KINDS = ("standard", "max-abs")
METHODS_WITH_SCALE = {"dual": {}, "probe": {}, "pegasos": {"max_steps": 20}, "svmperf": {}, "liblinear": {}, "elastic-net": {}}
WARNING = "the scales of features differ"


def uneven(seed, n=90, d=14):
    X, Y = random_data(seed, n, d, 3, density=0.4)
    X = X.toarray() * np.logspace(-3, 4, d)
    X[:, 1] = 5.0
    X[:, 2] = np.where(np.arange(n) == 7, 40.0, 0.0)
    X[:, 3] = 0.0
    X[:, 4] = 1700.0 + 100.0 * X[:, 4]
    return sp.csr_matrix(X.astype(np.float32)), Y


def shard_of(X):
    X = sp.csr_matrix(X)
    return Shard.of_csr((X.indptr, X.indices, X.data), X.shape[1], 0)


def test_factors_match_scikit_learn():
    X, _ = uneven(0)
    found = {kind: feature_factors(mpi.self_comm(), shard_of(X), kind) for kind in KINDS}
    dense = X.toarray().astype(np.float64)
    np.testing.assert_allclose(found["max-abs"], 1.0 / MaxAbsScaler().fit(dense).scale_, rtol=1e-6)
    expected = 1.0 / StandardScaler(with_mean=False).fit(dense).scale_
    expected[1] = 1 / 5  # a constant feature is divided by its magnitude
    np.testing.assert_allclose(found["standard"], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_values_give_finite_factors(kind):
    X = np.array([[3e38, 1e-45, 1e-38], [-3e38, 0, 2e-38], [1, 1e-45, 3e-38]], np.float32)
    factors = feature_factors(mpi.self_comm(), shard_of(X), kind)
    assert np.isfinite(factors).all() and (factors > 0).all()
    assert np.isfinite(multiply_features(shard_of(X), factors).data).all()


@pytest.mark.parametrize(("method", "kind"), [("dual", "max-abs"), *((method, "standard") for method in METHODS_WITH_SCALE)])
def test_model_equals_that_of_rows_scaled_before(tmp_path, method, kind):
    X, Y = uneven(2)
    shard = scaled(mpi.self_comm(), shard_of(X), kind)
    before = dataset(tmp_path / "scaled.h5", sp.csr_matrix((shard.data, X.indices, X.indptr), X.shape), Y)
    as_is = dataset(tmp_path / "data.h5", X, Y)
    models = [
        hpcml.Model(hpcml.train(method, data, tmp_path / data.stem, **options, **METHODS_WITH_SCALE[method]).model)
        for data, options in ((before, {}), (as_is, {"scale": kind}))
    ]
    weights = [[model.row(label) for label in range(model.n_labels)] for model in models]
    for first, second in zip(*weights, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    np.testing.assert_allclose(models[1].weights(), models[0].weights() * shard.factors, rtol=1e-6)
    files = [
        hpcml.predict(tmp_path / data.stem, data, tmp_path / f"{data.stem}-scores.h5", all_scores=True) for data in (before, as_is)
    ]
    scores = [h5py.File(path)["scores"][:] for path in files]
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5 * np.abs(scores[0]).max())


def test_all_methods_with_scale_are_tested():
    assert set(methods_with_option("scale")) == set(METHODS_WITH_SCALE)


def classes(path, load):
    X, y = load(return_X_y=True)
    test = np.arange(y.size) % 3 == 0
    Y = np.eye(y.max() + 1)[y]
    splits = {"train": np.flatnonzero(~test), "test": np.flatnonzero(test)}
    return dataset(path, X.astype(np.float32), Y, splits=splits), X, y, test


def test_scaling_improves_real_measurements(tmp_path, capsys):
    data, X, y, test = classes(tmp_path / "data.h5", load_wine)
    found = {}
    for scale in (None, "none", *KINDS):
        report = hpcml.train("dual", data, tmp_path / "run", force=True, log=Log(0), scale=scale)
        assert (WARNING in capsys.readouterr().err) == (scale is None)
        model = hpcml.Model(report.model)
        scores = X[test].astype(np.float32) @ model.weights().T + model.bias
        found[scale] = f1_score(y[test], scores.argmax(axis=1), average="macro")
    assert found[None] == found["none"] < 0.6
    assert min(found[kind] for kind in KINDS) > 0.88
    assert found["max-abs"] > 0.93


def test_warning_compares_frequent_features(tmp_path, capsys):
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 1)) < 0.5).astype(float)

    def says(X):
        data = dataset(tmp_path / "data.h5", X.astype(np.float32), Y, feature_names=[f"f{j}" for j in range(X.shape[1])])
        hpcml.train("dual", data, tmp_path / "run", force=True, log=Log(0))
        (tmp_path / "data.h5").unlink()
        return [line for line in capsys.readouterr().err.splitlines() if WARNING in line]

    X = rng.uniform(0.5, 1.0, (200, 5))
    assert not says(X * [1, 1, 50, 1, 1])
    (line,) = says(X * [1, 1, 1, 300, 1])
    assert "f3" in line and "--scale max-abs or --scale standard" in line and "(--scale none" in line
    rare = X.copy()
    rare[:, 2] = np.where(np.arange(200) < 9, 1e-5, 0)
    assert not says(rare)
    weighted = X * [1, 1e-4, 1, 1, 1]
    assert says(weighted)
    assert not says(weighted / np.linalg.norm(weighted, axis=1, keepdims=True))  # as tf-idf


@pytest.mark.parametrize("kind", KINDS)
def test_each_fold_has_own_factors(tmp_path, kind):
    X, Y = uneven(4)
    alone = mpi.self_comm()
    with DataFile(dataset(tmp_path / "data.h5", X, Y)) as data:
        rows, columns = compact_rows(alone, scaled(alone, load_shard(alone, data, "all"), kind), True)
        keys = np.array(data.map("row_keys"))
    fold = deal(rows, np.arange(3), 4, 0, keys)
    folds = fold_rows(alone, rows, fold, 4, kind)
    shared = np.flatnonzero(columns.column_of >= 0)
    for number, each in enumerate(folds):
        own = feature_factors(alone, shard_of(X[fold != number]), kind)
        dense = np.zeros((np.count_nonzero(fold == number), rows.n_columns))
        indptr, indices, values = each.held_out
        dense[np.repeat(np.arange(dense.shape[0]), np.diff(indptr)), indices] = values
        expected = (X[each.numbers].toarray() * own)[:, shared]
        np.testing.assert_allclose(dense[:, columns.column_of[shared]], expected, rtol=1e-5)
        training = each.training
        norms = [np.linalg.norm(training.data[a:b]) for a, b in zip(training.indptr, training.indptr[1:], strict=False)]
        assert max(norms) <= training.max_norm
        sizes = np.abs(training.data)
        assert (sizes <= training.largest[training.indices]).all() and sizes.min() >= training.smallest

"""The best labels by an index of bounds: against every score added up in the order of the row's values, and sorted."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import make

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.evaluation import top
from hpcml.evaluation.comparable import Comparable
from hpcml.evaluation.top import make_top_finder
from hpcml.model.linear import Model
from hpcml.model.scoring import make_scorer

SELF = mpi.self_comm()
N_FEATURES, N_COLUMNS, N_ROWS = 60, 40, 12


def weights_of(rng, n_labels, n_columns):
    W = rng.lognormal(-1, 1, (n_labels, n_columns)) * (rng.random((n_labels, n_columns)) < 0.08)
    many = rng.choice(n_labels, n_labels // 50, replace=False)
    W[many] = rng.standard_normal((many.size, n_columns)) * 3
    W[rng.random(W.shape) < 0.005] *= -1
    W[rng.choice(n_labels, n_labels // 4)] = W[rng.choice(n_labels, n_labels // 4)]
    return W


def files(folder, seed, n_labels=700, precision="<f4", below=0.1, sigmoids=False):
    rng = np.random.default_rng(seed)
    X = sp.random(N_ROWS, N_FEATURES, 0.3, "csr", random_state=rng, data_rvs=rng.random).toarray()
    X[0], X[1] = 0, X[1] * 1e4
    X[rng.random(N_ROWS) < below] *= -1
    columns, factors = make.compact_columns(seed, N_FEATURES, N_COLUMNS)
    bias = np.round(rng.standard_normal(n_labels) / 10, 1) - 1
    more = {"columns": columns, "factors": np.abs(factors), "precision": precision, "sparse": True}
    model = make.model(folder / "model.h5", weights_of(rng, n_labels, N_COLUMNS), bias, **more)
    if sigmoids:
        with h5py.File(model, "r+") as file:
            file["labels/sigmoid_slope"] = np.where(rng.random(n_labels) < 0.1, 0.0, rng.lognormal(0, 0.5, n_labels))
            file["labels/sigmoid_offset"] = np.round(rng.standard_normal(n_labels), 1)
            file.attrs.update({"calibration_method": "sigmoid", "calibration_split": "all"})
    data = make.dataset(folder / "data.h5", sp.csr_matrix(X.astype(np.float32)), np.eye(N_ROWS, 3))
    return data, model


def opened(data, path):
    model = Model(path)
    with DataFile(data) as dataset:
        return model, make_scorer(model, load_shard(SELF, dataset, "all"), np.arange(model.n_labels))


def expected(model, scorer, size):
    indptr, indices, data = scorer.csr
    W = sp.csr_matrix((model.W.data, model.W.indices, model.W.indptr), (model.n_labels, model.n_columns)).toarray().astype(float)
    scores = np.zeros((indptr.size - 1, model.n_labels))
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            j = indices[k]
            scores[row] += float(data[k]) * (W[:, model.columns[j]] * float(model.factors[j]))
        scores[row] += model.bias
    values = Comparable(model, np.arange(model.n_labels)).values(scores, slice(None))
    order = np.argsort(-values, axis=1, kind="stable")[:, :size]
    return order, np.take_along_axis(scores, order, axis=1)


def check(model, scorer, found, size, rows=None):
    rows = scorer.rows if rows is None else rows
    best = found.best(scorer, rows)
    labels, scores = expected(model, scorer, size)
    assert best.labels.tolist() == labels[rows].tolist()
    assert best.scores.tobytes() == scores[rows].tobytes()


def indexed(model, scorer, size):
    found = make_top_finder(SELF, scorer, size, keeps=False)
    found._index = top.make_index(model, found.comparable, model.W, model.n_columns)
    assert found._index is not None
    return found


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(top, "MOST_BEST", 1)
    monkeypatch.setattr(top, "MOST_HEAVY", 1)


@pytest.mark.parametrize("rare", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("dense", [0.0, 1.0])
@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize(("sigmoids", "precision"), [(False, "<f8"), (True, "<f4")])
def test_the_best_labels(tmp_path, monkeypatch, few, rare, dense, size, sigmoids, precision):
    monkeypatch.setattr(top, "RARE", rare)
    monkeypatch.setattr(top, "DENSE", dense)
    monkeypatch.setattr(top, "TABLE_BYTES", 1000)
    model, scorer = opened(*files(tmp_path, size, precision=precision, sigmoids=sigmoids))
    check(model, scorer, indexed(model, scorer, size), size)


@pytest.mark.parametrize("seed", range(6))
def test_of_other_models(tmp_path, monkeypatch, few, seed):
    monkeypatch.setattr(top, "TABLE_BYTES", 1 + seed % 3 * 100)
    monkeypatch.setattr(top, "DENSE", seed % 2)
    n_labels, size = 30 + 1500 * (seed % 4), 1 + seed % 6
    model, scorer = opened(*files(tmp_path, 100 + seed, n_labels, below=seed % 3 * 0.3, sigmoids=seed % 2 == 1))
    check(model, scorer, indexed(model, scorer, size), size)


def all_labels(scorer, rows):
    raise AssertionError("all labels are scored")


@pytest.mark.parametrize("dense", [0, 1])
def test_bounds_exclude_most_labels(tmp_path, monkeypatch, few, dense):
    monkeypatch.setattr(top, "DENSE", dense)
    rng = np.random.default_rng(0)
    W = rng.random((5000, 600)) * (rng.random((5000, 600)) < 0.01)
    X = 3 * W[rng.choice(5000, N_ROWS)]
    data = make.dataset(tmp_path / "data.h5", sp.csr_matrix(X.astype(np.float32)), np.eye(N_ROWS, 3))
    model, scorer = opened(data, make.model(tmp_path / "model.h5", W, -rng.random(5000), precision="<f4", sparse=True))
    found = indexed(model, scorer, 1)
    monkeypatch.setattr(found, "all_scores", all_labels)
    check(model, scorer, found, 1, rows=np.resize(scorer.rows, 150))  # at most 1/128 of the labels is scored


@pytest.mark.parametrize("n_rows", [3, 64, 150])
def test_few_and_many_rows(tmp_path, monkeypatch, few, n_rows):
    monkeypatch.setattr(top, "LEAST_LABELS", 1)
    model, scorer = opened(*files(tmp_path, 5, 6000))
    found = make_top_finder(SELF, scorer, 2, keeps=False)
    check(model, scorer, found, 2, rows=np.resize(scorer.rows, n_rows))
    assert (found._index is None) == (n_rows == 3)
    scores = found.all_scores(scorer, scorer.rows)
    labels, best = expected(model, scorer, 6000)
    assert np.take_along_axis(scores, labels, axis=1).tobytes() == best.tobytes()


def test_bounds_that_do_not_hold(tmp_path, monkeypatch):
    model, _ = opened(*files(tmp_path, 3))
    comparable = Comparable(model, np.arange(model.n_labels))
    too_large = model.W._replace(data=np.where(np.arange(model.W.data.size) == 7, 1e16, model.W.data))
    assert top.make_index(model, comparable, too_large, model.n_columns) is None
    monkeypatch.setattr(model, "normalised", True)
    assert top.make_index(model, comparable, model.W, model.n_columns) is None

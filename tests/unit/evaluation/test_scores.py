"""The scoring kernels: against the plain sum, and against each other bit for bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from support import make

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.evaluation import count_kernels
from hpcml.evaluation.scored_rows import Counts
from hpcml.kernels.scores import expand_weights, score_pairs, score_rows, score_rows_by_column
from hpcml.model import scoring
from hpcml.model.linear import Model, SparseRows


def csr(seed, n_rows, n_features, index, ones):
    X = sp.random(n_rows, n_features, 0.3, "csr", random_state=np.random.default_rng(seed)).astype(np.float32)
    data = np.broadcast_to(np.float32(1), X.nnz) if ones else X.data
    arrays = X.indptr.astype(np.int64), X.indices.astype(index), data
    for array in arrays:
        array.flags.writeable = False
    return arrays


def expanded(W, columns, factors, labels):
    out = np.empty((columns.size, labels.size))
    expand_weights(W, labels, columns, factors, out)
    return out


def textbook(indptr, indices, data, row, w, columns, factors, bias):
    total = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        total += float(data[k]) * (float(w[columns[indices[k]]]) * float(factors[indices[k]]))
    return total + bias


def stored(seed, n_labels, n_features, n_columns, precision):
    columns, factors = make.compact_columns(seed, n_features, n_columns)
    W = np.random.default_rng(seed).standard_normal((n_labels, n_columns)).astype(precision)
    arrays = W, columns.astype(np.int32), factors
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_kernels_give_the_textbook_bits(index, ones, precision):
    arrays = csr(0, 40, 30, index, ones)
    W, columns, factors = stored(1, 7, 30, 16, precision)
    bias, rows = np.random.default_rng(2).standard_normal(7), np.array([3, 0, 39, 3])
    out = np.empty((rows.size, 7))
    score_rows(*arrays, rows, expanded(W, columns, factors, np.arange(7)), bias, out)
    expected = [[textbook(*arrays, row, W[label], columns, factors, bias[label]) for label in range(7)] for row in rows]
    assert np.array_equal(out, expected)
    pairs = np.empty(out.size)
    score_pairs(*arrays, np.repeat(rows, 7), np.tile(np.arange(7), rows.size), W, (columns, factors), bias, pairs)
    assert pairs.tobytes() == out.tobytes()


@pytest.mark.parametrize("width", [1, 2, 5, 8, 33])
def test_bits_do_not_depend_on_the_block(width):
    arrays = csr(2, 25, 50, np.int32, False)
    tables, bias = stored(3, 33, 50, 20, "<f4"), np.random.default_rng(4).standard_normal(33)
    rows = np.arange(25)
    whole = np.empty((25, 33))
    score_rows(*arrays, rows, expanded(*tables, np.arange(33)), bias, whole)
    for begin in range(0, 33, width):
        labels = np.arange(begin, min(begin + width, 33))
        part = np.empty((25, labels.size))
        score_rows(*arrays, rows, expanded(*tables, labels), bias[labels], part)
        assert part.tobytes() == np.ascontiguousarray(whole[:, labels]).tobytes()


@pytest.mark.parametrize("precision", ["<f4", "<f8"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("labels", [[0, 1, 2], [2], [0, 3, 5], []])
def test_weights_by_column_give_the_bits_of_all_weights(labels, index, precision):
    arrays = csr(5, 25, 50, index, False)
    W, columns, factors = stored(6, 6, 50, 20, precision)
    W = np.where(np.random.default_rng(7).random(W.shape) < 0.8, 0, W)
    W[5], W[:, 3] = 0, 0
    stored_rows, labels, bias = sp.csr_matrix(W), np.array(labels, dtype=np.int64), np.random.default_rng(8).standard_normal(6)
    inverted = scoring.transpose_weights(SparseRows(stored_rows.indptr, stored_rows.indices, stored_rows.data), labels, 20)
    by_column = sp.csr_matrix((inverted[2], inverted[1], inverted[0]), (20, labels.size)).toarray()
    assert np.array_equal(by_column.T, W[labels])
    rows = np.array([3, 0, 24, 3])
    found, expected = np.empty((4, labels.size)), np.empty((4, labels.size))
    assert score_rows_by_column(arrays, rows, (inverted, columns, factors, bias[labels]), np.ones(4), found) == -1
    score_rows(*arrays, rows, expanded(W, columns, factors, labels), bias[labels], expected)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("frequent", [0.1, 0.5, 2.0])
def test_a_pruned_model_is_scored_by_column_with_the_bits_of_a_dense_one(tmp_path, monkeypatch, frequent):
    monkeypatch.setattr(scoring, "FREQUENT", frequent)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((4, 30)) * (rng.random((4, 30)) < 0.2)
    X = sp.random(20, 30, 0.5, "csr", random_state=np.random.default_rng(2)).toarray()
    data = DataFile(make.dataset(tmp_path / "data.h5", X, np.eye(20, 4)))
    shard, found = load_shard(mpi.self_comm(), data, "all"), []
    left = np.where(np.abs(W) < 0.7, 0.0, W)
    assert 0 < np.count_nonzero(left) < np.count_nonzero(W)
    pruned = Model(make.model(tmp_path / "sparse.h5", W, np.arange(4.0), sparse=True)).pruned(0.7)
    for model in (pruned, Model(make.model(tmp_path / "dense.h5", left, np.arange(4.0)))):
        scorer = scoring.make_scorer(model, shard, np.array([0, 1, 3]))
        assert scorer.weights(0, 0)[1].size == 0
        weights = scorer.weights(0, 3)
        assert isinstance(weights[0], tuple) == (model is pruned)
        found.append(scorer.score_rows(np.arange(20), *weights))
    assert found[0].tobytes() == found[1].tobytes()


def test_no_rows_and_empty_rows():
    arrays = np.zeros(3, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    out = np.full((2, 3), 7.0)
    score_rows(*arrays, np.arange(2), np.ones((4, 3)), np.array([1.0, 2.0, 3.0]), out)
    assert out.tolist() == [[1.0, 2.0, 3.0]] * 2
    score_rows(*arrays, np.arange(0), np.ones((4, 3)), np.ones(3), out[:0])
    score_rows(*arrays, np.arange(2), np.ones((4, 0)), np.ones(0), out[:, :0].copy())


@pytest.mark.parametrize(
    "values", [[], [0.0], [-0.0, 3.0], [5e-324, 1e-323], [-1e308, 0.0, 1e308], np.arange(9.0), "dense", "skewed"]
)
def test_counts_between_and_at_values(values):
    rng = np.random.default_rng(0)
    if isinstance(values, str):
        few, wide = [-50.0, 1e30], 1.7e308 * np.linspace(-1, 1, 20)
        skewed = np.append(rng.exponential(1e-12, 300), few)
        values = {"dense": -1 + rng.normal(0, 1e-9, 700), "skewed": skewed, "wide": wide}[values]
    values = np.repeat(values, 2)
    near = [np.nextafter(values, limit) for limit in (np.inf, -np.inf)]
    others = np.concatenate([*near, values, [0.0, -0.0, -np.inf], rng.normal(size=99)])
    counts = Counts(np.append(values, -np.inf), np.append(np.full(values.size, 1), 0), np.array([0.0, 0.5]))
    scores = np.stack([others, rng.permutation(others)], axis=1)
    for part in np.array_split(scores, 3):
        counts.add(np.ascontiguousarray(part), np.arange(2))
    ranking, distinct = counts.ranking(others.size, 1), np.unique(values)[::-1]
    assert ranking.greater.tolist() == [int((others > v).sum()) for v in distinct]
    assert ranking.equal.tolist() == [int((others == v).sum()) for v in distinct]
    assert (ranking.relevant == 2).all() and counts.n_missed.tolist() == [1, 0]
    assert counts.n_predicted.tolist() == [int((others > 0).sum()), int((others > 0.5).sum())]
    assert counts.ranking(others.size).n_items == others.size - 1


def test_counts_of_many_values_in_one_ranking():
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(-1, 1e-3, 40_000), rng.normal(0, 3, 400))
    assert values.size > count_kernels.MANY
    near = [np.nextafter(values[::3], limit) for limit in (np.inf, -np.inf)]
    scores = rng.permutation(np.concatenate([*near, values, values, [-np.inf, -99.0, 99.0], rng.normal(-1, 1e-3, 200_000)]))
    counts, distinct = Counts(values, 0, 0.5), np.unique(values)[::-1]
    for part in (scores[:1000], scores[1000:]):
        counts.add(part.reshape(-1, 1), np.zeros(1, dtype=np.int64))
    assert scores.size > 2 * count_kernels.SORTED
    ranking, ordered = counts.ranking(scores.size), np.sort(scores)
    at_most = np.searchsorted(ordered, distinct, "right")
    assert np.array_equal(ranking.greater, scores.size - at_most)
    assert np.array_equal(ranking.equal, at_most - np.searchsorted(ordered, distinct))
    assert counts.n_predicted.tolist() == [int((scores > 0.5).sum())]

"""Rows grouped by label cause a warning; rows in random order never do."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset
from support.online import resumed, shard_of
from support.training import asked, train

import hpcml.methods.online.source as source_module
from hpcml import mpi
from hpcml.methods.online.order import RowOrder


def order_of(Y, pieces=1):
    """What is counted of rows that come in so many pieces."""
    shard, n_labels = shard_of(sp.csr_matrix((len(Y), 0)), Y), Y.shape[1]
    order = RowOrder(np.arange(n_labels), n_labels)
    for rows in np.array_split(shard.rows, pieces):
        order.add(shard, rows)
    return order


def warning_for(Y):
    return order_of(Y).block_warning(mpi.self_comm(), [f"l{k}" for k in range(Y.shape[1])])


@pytest.mark.parametrize("seed", range(6))
def test_random_order_causes_no_warning(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 3000))
    shares = np.concatenate([[0.0, 1.0, 0.5, 2 / m, 1 - 2 / m], rng.random(10), 10.0 ** -rng.random(400) / 5])
    Y = (rng.random((m, shares.size)) < shares).astype(float)
    assert warning_for(Y) == ""
    exact = np.zeros((m, 20))  # exactly so many positive rows
    for k, n in enumerate(rng.integers(0, min(m, 100), 20)):
        exact[rng.permutation(m)[:n], k] = 1
    assert warning_for(exact) == ""


@pytest.mark.parametrize(("m", "n"), [(64, 32), (1000, 30), (1000, 900)])
@pytest.mark.parametrize("end", ["first", "last", "middle"])
def test_warns_of_sorted_rows(m, n, end):
    y = np.zeros((m, 1))
    begin = {"first": 0, "last": m - n, "middle": (m - n) // 2}[end]
    y[begin : begin + n] = 1
    assert f"{n:,} rows in 1 runs" in warning_for(y)


@pytest.mark.parametrize("pieces", [1, 7])
def test_runs_are_counted_over_any_pieces(pieces):
    Y = (np.random.default_rng(1).random((300, 6)) < [0.5, 0.1, 0.9, 0.0, 1.0, 0.02]).astype(float)
    order = order_of(Y, pieces)
    assert order.runs.tolist() == [int(((y > 0) & (np.append(0, y[:-1]) == 0)).sum()) for y in Y.T]
    assert order.positives.tolist() == Y.sum(axis=0).tolist()
    other = RowOrder(np.arange(6), 6)
    other.restore(order.pack())
    assert (other.n_rows, other.pack().tolist()) == (300, order.pack().tolist())


@pytest.fixture
def data(tmp_path):
    """Features that tell nothing, and labels in two blocks."""
    return dataset(tmp_path / "data.h5", np.random.default_rng(0).random((400, 5)), np.repeat([1.0, 0.0], 200)[:, None])


def test_resumed_pass_gives_the_same_warning(data, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "PIECE_NNZ", 500)
    whole = train("mbw", None, data, tmp_path / "whole", {})
    assert resumed(data, tmp_path / "run", asked("mbw")).warning == whole.warning != ""

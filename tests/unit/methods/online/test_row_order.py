"""Rows that come sorted by label, or in blocks, are noticed; rows in random order never are."""

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


def note(Y):
    return order_of(Y).blocks(mpi.self_comm(), [f"l{k}" for k in range(Y.shape[1])])


@pytest.mark.parametrize("seed", range(40))
def test_random_order_is_no_alarm(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 3000))
    shares = np.concatenate([[0.0, 1.0, 0.5, 2 / m, 1 - 2 / m], rng.random(10), 10.0 ** -rng.random(400) / 5])
    Y = (rng.random((m, shares.size)) < shares).astype(float)
    assert note(Y) == ""
    exact = np.zeros((m, 20))  # exactly so many positive rows
    for k, n in enumerate(rng.integers(0, min(m, 100), 20)):
        exact[rng.permutation(m)[:n], k] = 1
    assert note(exact) == ""


@pytest.mark.parametrize(("m", "n"), [(64, 32), (1000, 500), (1000, 30), (5000, 20), (1000, 900)])
@pytest.mark.parametrize("end", ["first", "last", "middle"])
def test_sorted_rows_are_told(m, n, end):
    y = np.zeros((m, 1))
    begin = {"first": 0, "last": m - n, "middle": (m - n) // 2}[end]
    y[begin : begin + n] = 1
    found = note(y)
    assert "the rows come sorted by label, or in blocks (1 of 1 labels" in found
    assert f"the {n:,} rows with 'l0' in 1 runs" in found


def test_classes_in_blocks_are_told_with_the_worst():
    classes = np.repeat(np.arange(5), 200)
    Y = (classes[:, None] == np.arange(5)).astype(float)
    Y[:, 0] = np.random.default_rng(0).random(1000) < 0.2
    assert "(4 of 5 labels; the 200 rows with 'l1' in 1 runs, where random order has about 160)" in note(Y)


@pytest.mark.parametrize("pieces", [1, 2, 7, 300])
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


def test_training_warns_once_at_the_end(data, tmp_path):
    report = train("mbw", None, data, tmp_path / "run", {})
    assert str(report).count("sorted by label") == 1
    assert report.warning.endswith("use --shuffle")
    shuffled = train("mbw", None, data, tmp_path / "shuffled", {"shuffle": True})
    assert (shuffled.warning, "sorted" in str(shuffled)) == ("", False)


def test_stream_is_to_be_shuffled_first(tmp_path):
    (tmp_path / "rows.svm").write_text("+1 1:0.5 2:0.25\n" * 200 + "-1 2:0.5\n" * 200)
    report = train("perceptron", None, tmp_path / "rows.svm", tmp_path / "run", {})
    assert report.warning.endswith("shuffle the lines first, for instance with shuf")


def test_pass_that_is_continued_knows_the_rows_before(data, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "PIECE_NNZ", 500)
    whole = train("mbw", None, data, tmp_path / "whole", {})
    assert resumed(data, tmp_path / "run", asked("mbw")).warning == whole.warning != ""

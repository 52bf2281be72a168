"""The best labels of rows: against sorting all scores, from dense and sparse models, in every format; precision at k."""

import json

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import make
from support.edits import attributes, edit
from support.judged import judged, lines_of, predicted

from hpcml import mpi
from hpcml.errors import NonFiniteError
from hpcml.evaluation.top import Best
from hpcml.log import Log
from hpcml.model import scoring as scoring_module
from hpcml.prediction import predict as module

SELF, QUIET = mpi.self_comm(), Log(1)
NAMES = ["plain", 'quo"te, comma', "ünï;code", "back\\slash", "co:lon", "f", "g"]
ROWS = np.arange(1, 40, 2)


def sorted_best(scores, k):
    order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores), axis=1)
    return order[:, :k]


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9), st.integers(1, 4))
def test_best_of_blocks_in_any_order(seed, n_labels, width, levels):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, (6, n_labels)) / 3.0
    scores[rng.random(scores.shape) < 0.1] = rng.choice([-np.inf, np.inf])
    for k in (1, min(3, n_labels), n_labels):
        best = Best(6, k)
        for begin in rng.permutation(np.arange(0, n_labels, width)):
            block = np.ascontiguousarray(scores[:, begin : begin + width])
            best.add(0, block[:2], begin)
            best.add(2, block[2:], begin)
        best.sort()
        expected = sorted_best(scores, k)
        assert best.labels.tolist() == expected.tolist()
        assert np.array_equal(best.scores, np.take_along_axis(scores, expected, axis=1))


def test_a_row_of_score_minus_infinity_has_a_label_whose_probability_is_constant():
    best = Best(1, 2)
    best.sigmoids = np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.25, 0.0])
    best.add(0, np.array([[-1.0, -np.inf, -np.inf]]), 0)
    assert best.sort().labels.tolist() == [[1, 0]]


@pytest.fixture(params=["dense", "sparse"])
def files(request, tmp_path):
    X, Y = make.random_data(0, 40, 30, 7)
    X.data = np.round(X.data)
    rng = np.random.default_rng(1)
    W = np.where(rng.random((7, 12)) < 0.4, np.round(2 * rng.standard_normal((7, 12))), 0)
    W[3], W[5], bias = W[1], 0, np.array([0.5, 0, 0.1, 0, 0.5, 0, -2])
    columns, factors = make.compact_columns(2, 30, 12)
    more = {"columns": columns, "factors": np.round(2 * factors), "precision": "<f4"}
    data = make.dataset(tmp_path / "data.h5", X, Y, row_ids=[f"doc {i}, ö" for i in range(40)], splits={"test": ROWS})
    dense = make.model(tmp_path / "dense.h5", W, bias, NAMES, **more)
    model = dense if request.param == "dense" else make.model(tmp_path / "sparse.h5", W, bias, NAMES, sparse=True, **more)
    with h5py.File(predicted(dense, data, tmp_path / "all.h5", "scores", "test")) as file:
        return data, model, file["scores"][:]


def run(files, output, top, split="test"):
    return predicted(files[1], files[0], output, "labels" if top else "scores", split, top=top)


@pytest.fixture(params=[False, True])
def small_chunks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "CHUNK_BYTES", 100)
        monkeypatch.setattr(module, "WEIGHT_BYTES", 0)
        monkeypatch.setattr("hpcml.prediction.table.BLOCK", 5)
        monkeypatch.setattr(scoring_module, "MAX_LANES", 2)


def best_values(path, k):
    _, labels, values = lines_of(path)
    return labels.reshape(-1, k), values.reshape(-1, k)


@pytest.mark.parametrize("top", [1, 3, 7, 100])
def test_h5(files, tmp_path, small_chunks, top):
    output, expected = run(files, tmp_path / "out.h5", top), sorted_best(files[2], top)
    labels, scores = best_values(output, expected.shape[1])
    assert labels.tolist() == expected.tolist()
    assert scores.tobytes() == np.take_along_axis(files[2], expected, axis=1).tobytes()
    assert lines_of(output)[0] == [f"doc {i}, ö" for i in ROWS for _ in range(expected.shape[1])]


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_that_are_no_numbers(tmp_path, sparse):
    W = np.ones((3, 4))
    W[1, 2] = np.nan
    files = make.dataset(tmp_path / "data.h5", np.eye(4), np.eye(4, 3)), make.model(tmp_path / "model.h5", W, sparse=sparse)
    with pytest.raises(NonFiniteError, match="label 'label1' is not a finite number"):
        run(files, tmp_path / "out.csv", 2, split="all")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_normalised_model(tmp_path, sparse):
    X, Y = make.random_data(5, 30, 9, 4)
    X.data = np.abs(X.data)
    data = make.dataset(tmp_path / "data.h5", X, Y)
    model = make.model(tmp_path / "model.h5", np.random.default_rng(0).standard_normal((4, 9)), np.ones(4), sparse=sparse)
    edit(model, attributes({"normalised": True}))
    with h5py.File(run((data, model), tmp_path / "all.h5", None, split="all")) as file:
        scores = file["scores"][:]
    _, best = best_values(run((data, model), tmp_path / "top.h5", 4, split="all"), 4)
    assert best.tobytes() == np.take_along_axis(scores, sorted_best(scores, 4), axis=1).tobytes()


@pytest.mark.parametrize("lanes", [3, 32])
@pytest.mark.parametrize("n_labels", [2, 9])
def test_precision_of_the_best_labels(tmp_path, monkeypatch, n_labels, lanes):
    monkeypatch.setattr(scoring_module, "MAX_LANES", lanes)
    X, Y = make.random_data(n_labels, 50, 8, n_labels + 2, density=0.4)
    rng = np.random.default_rng(0)
    X.data = np.round(X.data)
    W = rng.integers(-2, 3, (n_labels, 8)).astype(float)
    order = rng.permutation(n_labels + 2)
    data = make.dataset(tmp_path / "data.h5", X, Y, label_names=[f"label{k}" for k in order], splits={"test": ROWS})
    result = judged(make.model(tmp_path / "model.h5", W), data, "test")
    true = np.zeros((50, n_labels + 2))
    true[:, order] = Y.toarray() > 0
    best = sorted_best((X @ W.T)[ROWS], n_labels)
    hits = np.take_along_axis(true[ROWS], best, axis=1)
    assert list(result.precision_at) == [1, 3, 5]
    for k, value in result.precision_at.items():
        assert value == pytest.approx(hits[:, :k].mean(), abs=1e-15)
    line = next(line.split() for line in str(result).splitlines() if line.startswith("P@k"))
    assert line[1::3] == [f"{value:.4f}" for value in result.precision_at.values()]
    result.write_json(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["precision_at"] == {str(k): v for k, v in result.precision_at.items()}

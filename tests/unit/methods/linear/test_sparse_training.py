"""Sparse training equals training and pruning; progress counts labels by their costs."""

import numpy as np
import pytest
from support import make
from support.make import dataset, random_data
from support.training import minimisers
from support.training import train as train_method

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.log import Log, Progress
from hpcml.model.linear import Model, is_smaller_sparse
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = make.random_data(3, 60, 40, 7)
    Y = Y.tolil()
    Y[:, 6] = 0
    return make.dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y.tocsr())


def train(method, data, run, **options):
    return train_method(method, None, data, run, dict(min_positives=0, **options), log=QUIET)


@pytest.mark.more("methods", one_in=2)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("method", minimisers())
def test_training_sparse_is_training_and_pruning(data, tmp_path, method, precision):
    options = {"precision": precision, "max_steps": 40} | ({"no_scores": True} if method == "dual" else {})  # lost by pruning
    dense = train(method, data, tmp_path / "dense", **options)
    for below in (0.0, 0.02, 1e9):
        report = train(method, data, tmp_path / f"sparse{below}", drop=below, **options)
        with DataFile(data) as dataset:
            pruned = prune(SELF, Model(dense.model), dataset, "all", [below], tmp_path / f"{below}.h5", False, QUIET)
        assert report.model.read_bytes() == (tmp_path / f"{below}.h5").read_bytes()
        model, line = Model(report.model), pruned.lines[1]
        n_weights = sum(model.row(label)[1].size for label in range(7))
        assert report.kept == line.n_weights / line.n_all == n_weights / (7 * model.n_columns)
        assert model.sparse == is_smaller_sparse(7, model.n_columns, n_weights, model.precision) == (below > 1)
        assert f"{100 * report.kept:.3g} % of the weights are not 0" in str(report)
        assert not (tmp_path / f"sparse{below}" / "checkpoint").exists()
    assert np.array_equal(Model(tmp_path / "0.0.h5").weights(), Model(dense.model).weights())
    assert (dense.kept, model.n_weights) == (None, 0)


def test_reports_labels_without_weights(data, tmp_path):
    assert "no weight" not in str(train("probe", data, tmp_path / "some", drop=1e-6))
    assert "warning: 6 of 7 labels keep no weight" in str(train("probe", data, tmp_path / "none", drop=1e9))


N_ROWS, N_LABELS = 60, 7


@pytest.mark.parametrize(("method", "costs"), [("elastic-net", lambda n: (n + 1) ** 0.4), ("liblinear", lambda n: n**0.25)])
def test_progress_counts_labels_by_their_costs(tmp_path, monkeypatch, method, costs):
    X, _ = random_data(0, N_ROWS, 12, 1)
    n_positive = np.array([3, 40, 0, 12, 60, 1, 7])  # the third and the fifth are not trained
    data = dataset(tmp_path / "data.h5", X, np.arange(N_ROWS)[:, None] < n_positive)
    shown = {}
    monkeypatch.setattr(Progress, "update", lambda self, done, note, share: shown.setdefault(done, share))
    train_method(method, None, data, tmp_path / "run", min_positives=0)
    trained = np.sort(n_positive[(n_positive > 0) & (n_positive < N_ROWS)])[::-1]  # the costly ones come first
    expected = np.cumsum(costs(trained)) / costs(trained).sum()
    assert {done: share for done, share in shown.items() if done > 2} == pytest.approx(
        dict(zip(range(3, 8), expected, strict=True))
    )

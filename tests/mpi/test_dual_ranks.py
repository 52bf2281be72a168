"""Method `dual` on several ranks: the bits of one rank if labels are distributed, a certified gap if rows are shared."""

from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import by_one_rank, dataset_for_all, random_data
from support.oracles import objective
from support.training import changed, same_as_alone, train

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import Interrupted
from hpcml.methods.dual import dual
from hpcml.model.linear import STATUS, Model

pytestmark = pytest.mark.mpi


def history(run):
    return [line.rsplit(",", 2)[0] for line in (run / "history.csv").read_text().splitlines()]  # but for the seconds


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_rare_labels_have_the_bits_of_one_rank(comm, mpi_tmp_path, monkeypatch, loss):
    X, _ = random_data(4, 120, 30, 1, density=0.3)
    Y = np.arange(120)[:, None] % 40 < np.arange(1, 14)[None] * 2  # labels of 6, 12 … 78 rows
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y)
    options = {"loss": loss, "bias": True, "show_gaps": True}
    in_panels = train("dual", comm, data, mpi_tmp_path / "panels", options)
    monkeypatch.setattr(dual, "VALUES_PER_POSITIVE", (X.nnz + 120) / 40)
    monkeypatch.setattr(dual, "RARE_ROWS", 0)
    report, alone = same_as_alone(comm, "dual", data, mpi_tmp_path, options)
    assert report.gaps == alone.gaps and history(mpi_tmp_path / "ranks") == history(mpi_tmp_path / "alone")
    ours, before = Model(report.model), Model(in_panels.model)
    rare = ours.labels["n_positive"] <= 40
    assert 0 < rare.sum() < rare.size
    same = [(ours.W[label] == before.W[label]).all() for label in range(ours.n_labels)]
    np.testing.assert_array_equal(same, ~rare)
    np.testing.assert_allclose(ours.labels["f_min"], values_at(data, options, ours), rtol=1e-10)
    assert (ours.labels["gap"][rare] <= 5e-3).all()


def test_labels_with_the_same_rows_share_a_rank_and_a_resumed_run_keeps_their_bits(comm, mpi_tmp_path, monkeypatch):
    X, _ = random_data(4, 60, 30, 1, density=0.3)
    Y = np.arange(60)[:, None] == np.arange(40)[None] // 4 * 3  # every row set four times
    data, trained = dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y), list[int]()
    solve = dual.DualSolver._solve

    def count(self, labels, stop):
        trained.extend(labels if self.labels.size == 40 else ())  # not those of the warm-up
        return solve(self, labels, stop)

    monkeypatch.setattr(dual.DualSolver, "_solve", count)
    options = {"bias": True}
    report = train("dual", comm, data, mpi_tmp_path / "ranks", options)
    assert comm.allreduce(len(trained)) == 10
    alone = by_one_rank(comm, lambda: train("dual", None, data, mpi_tmp_path / "alone", options).model)
    assert report.model.read_bytes() == alone.read_bytes()
    model = Model(report.model)
    for label in range(40):
        np.testing.assert_array_equal(model.W[label], model.W[label // 4 * 4])
    with suppress(Interrupted):
        train("dual", comm, data, mpi_tmp_path / "stopped", options | {"time_limit": 1e-9})
    resumed = train("dual", comm, data, mpi_tmp_path / "stopped", options, resume=True)
    assert resumed.model.read_bytes() == report.model.read_bytes()
    for label in range(40):
        _, n_rows, n_positives = model.scores.row(label)
        assert (n_rows.sum(), n_positives.sum()) == (60, 1)
    without = Model(train("dual", comm, data, mpi_tmp_path / "without", options | {"no_scores": True}).model)
    assert without.scores is None and not without.thresholds.any() and model.threshold_source and model.thresholds.all()
    np.testing.assert_array_equal(without.W, model.W)


def test_scores_of_ranks_that_share_the_rows(comm, mpi_tmp_path):
    X, Y = random_data(4, 60, 30, 3, density=0.3)
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y)
    options = {"dual_tol": 1e-4, "max_gap": 1e-7}
    shared = Model(train("dual", comm, data, mpi_tmp_path / "shared", options | {"ranks_per_group": comm.size}).model).scores
    own = Model(train("dual", comm, data, mpi_tmp_path / "own", options).model).scores
    for label in range(3):
        counts = np.zeros((2, 2, 242), int)
        for each, scores in zip(counts, (shared, own), strict=True):
            cells, *numbers = scores.row(label)
            each[:, cells] = numbers
        assert counts.sum(axis=2).tolist() == [[60, Y[:, label].nnz]] * 2
        assert np.abs(np.cumsum(counts[0] - counts[1], axis=1)).max() <= 2  # a score may be on the other side of an edge


def values_at(data, options, model):
    with DataFile(data) as opened:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), opened, "all"), options["bias"])
    X = sp.csr_matrix((rows.data.astype(float), rows.indices, rows.indptr), (rows.n_local, rows.n_columns))
    found = []
    for label in range(model.n_labels):
        sign = np.full(rows.n_local, -1.0)
        sign[rows.rows_of(label)] = 1
        w = np.append(model.W[label], model.bias[label]) if options["bias"] else np.asarray(model.W[label])
        lam, w = float(model.attrs["lambda"]), w.astype(float)
        found.append(objective(options["loss"], X, sign, w, lam))
    return np.array(found)


def uneven():
    X, Y = random_data(6, 60, 30, 5, density=0.1)
    X, Y = X.tolil(), Y.tolil()
    X[0] = np.random.default_rng(0).normal(size=30)
    X[[3, 4, 5, 50]] = 0
    return X, Y


def hardly_any():
    X = np.random.default_rng(1).normal(size=(2, 4))
    return X, np.eye(2)


SHARED = {"even": lambda: random_data(3, 90, 25, 5, density=0.3), "uneven": uneven, "fewer rows than ranks": hardly_any}


@pytest.mark.parametrize(("loss", "precision"), [("hinge", "single"), ("squared-hinge", "double"), ("logistic", "single")])
@pytest.mark.parametrize("name", sorted(SHARED))
def test_ranks_that_share_the_rows_certify_what_they_find(comm, mpi_tmp_path, name, loss, precision):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *SHARED[name]())
    options = {"loss": loss, "precision": precision, "bias": name != "even", "max_gap": 5e-3}
    options |= {"ranks_per_group": comm.size, "lam": "0.05"}
    report = train("dual", comm, data, mpi_tmp_path / "shared", options)
    again = train("dual", comm, data, mpi_tmp_path / "again", options)
    assert report.model.read_bytes() == again.model.read_bytes()
    assert history(mpi_tmp_path / "shared") == history(mpi_tmp_path / "again")
    alone = by_one_rank(comm, lambda: train("dual", None, data, mpi_tmp_path / "alone", changed(options, ranks_per_group=1)).model)
    ours, theirs = Model(report.model), Model(alone)
    assert [STATUS[code] for code in ours.labels["status"]] == ["converged"] * ours.n_labels
    f, gap = ours.labels["f_min"], ours.labels["gap"]
    assert (gap <= 5e-3).all()
    np.testing.assert_allclose(f, values_at(data, options, ours), rtol=1e-10)
    np.testing.assert_allclose(f, theirs.labels["f_min"], rtol=1e-2)
    assert (f * (1 - gap) <= theirs.labels["f_min"] * (1 + 1e-12)).all()  # a bound on the minimum, which is below theirs
    assert (theirs.labels["f_min"] * (1 - theirs.labels["gap"]) <= f * (1 + 1e-12)).all()
    if comm.size == 1:
        assert report.model.read_bytes() == alone.read_bytes()

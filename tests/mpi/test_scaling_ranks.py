"""Scaled features and training warnings on several ranks equal those of one rank."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import by_one_rank, dataset, random_data

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import count_positives
from hpcml.data.leaks import warn_about_leaks
from hpcml.data.scaling import feature_factors
from hpcml.data.shard import load_shard

pytestmark = pytest.mark.mpi


@pytest.fixture
def data(comm, mpi_tmp_path):
    def made():
        X, Y = random_data(5, 130, 24, 5, density=0.3)
        Y = (Y.toarray() != 0).astype(float)
        X = X.toarray() * np.logspace(-3, 3, 24)
        X[:, 3], X[:, 8] = 5 * Y[:, 1], 2.0 - Y[:, 4]
        return dataset(mpi_tmp_path / "data.h5", sp.csr_matrix(X.astype(np.float32)), Y)

    return by_one_rank(comm, made)


@pytest.mark.parametrize(
    ("method", "kind"), [("dual", "standard"), ("probe", "max-abs"), ("elastic-net", "max-abs"), ("svmperf", "standard")]
)
def test_models(comm, mpi_tmp_path, data, method, kind):
    alone = by_one_rank(comm, lambda: hpcml.train(method, data, mpi_tmp_path / "alone", scale=kind)).model
    found = hpcml.train(method, data, mpi_tmp_path / "ranks", comm=comm, scale=kind).model
    assert found.read_bytes() == alone.read_bytes()


def test_tune_and_estimators(comm, mpi_tmp_path, data):
    kind = "standard"
    options = {"folds": 3, "lambdas": (1.0, 3.0), "weights": (1.0,), "scale": kind}
    alone = by_one_rank(comm, lambda: hpcml.tune(data, mpi_tmp_path / "alone", **options)).model
    assert hpcml.tune(data, mpi_tmp_path / "ranks", comm=comm, **options).model.read_bytes() == alone.read_bytes()
    X, Y = random_data(6, 60, 9, 3, density=0.6)
    X, y = X.toarray(), (Y.toarray() != 0).astype(int)
    mine = np.array_split(np.arange(60), comm.size)[comm.rank]
    for estimator in (hpcml.DualClassifier, hpcml.ProbeClassifier):
        expected = estimator(scale=kind).fit(X, y)
        found = estimator(scale=kind, comm=comm).fit(X[mine], y[mine])
        assert np.array_equal(found.coef_, expected.coef_)


def test_factors_and_warnings(comm, data):
    found = []
    for by in (comm, mpi.self_comm()):
        with DataFile(data) as opened:
            shard, lines = load_shard(by, opened, "all"), []
            names, n_positive = opened.label_names(), count_positives(by, shard)
            warn_about_leaks(by, opened, shard, np.arange(5), names, n_positive, None, lines.append)
            found.append((lines, *(feature_factors(by, shard, kind) for kind in ("standard", "max-abs"))))
    assert found[0][0] == found[1][0]
    assert len(found[0][0]) >= 2 and "'label1'" in found[0][0][0] and "'label4'" in found[0][0][1]
    assert all(np.array_equal(*pair) for pair in zip(found[0][1:], found[1][1:], strict=True))

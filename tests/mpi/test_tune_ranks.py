"""`hpcml tune` on several ranks: the same bits, also through an interruption."""

import pytest
import scipy.sparse as sp
from support.make import by_one_rank, dataset_for_all, random_data

import hpcml
from hpcml.errors import ConfigError, Interrupted

pytestmark = pytest.mark.mpi
METHODS = {"dual": {"weights": (1.0, 3.0)}, "probe": {"loss": "logistic"}, "elastic-net": {}}


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("method", METHODS)
def test_same_bits_also_through_an_interruption(comm, mpi_tmp_path, monkeypatch, method):
    X, Y = random_data(4, 150, 30, 12, density=0.2)
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", sp.hstack([X, Y.astype("f4")]).tocsr(), Y)  # a label can be learnt
    options = {"method": method, "folds": 3, "lambdas": (0.3, 1.0, 3.0), **METHODS[method]}
    alone = by_one_rank(comm, lambda: hpcml.tune(data, mpi_tmp_path / "alone", **options)).model
    found = hpcml.tune(data, mpi_tmp_path / "ranks", comm=comm, **options).model
    assert found.read_bytes() == alone.read_bytes()
    for name in ("choice.csv", "tuning.csv"):
        assert (mpi_tmp_path / "ranks" / name).read_bytes() == (mpi_tmp_path / "alone" / name).read_bytes()
    monkeypatch.setattr("hpcml.tuning.cross.MAX_BATCH", 1)
    with pytest.raises(Interrupted):
        hpcml.tune(data, mpi_tmp_path / "run", comm=comm, **options, time_limit=1e-9)
    comm.Barrier()
    if comm.rank == 0:
        hpcml.tune(data, mpi_tmp_path / "run", resume=True, **options)
    comm.Barrier()
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == alone.read_bytes()


def test_user_errors_reach_all_ranks(comm, mpi_tmp_path):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 8, 6, 2, density=0.5))
    with pytest.raises(ConfigError, match="folds=9"):
        hpcml.tune(data, mpi_tmp_path / "run", comm=comm, folds=9)
    comm.Barrier()
    assert not (mpi_tmp_path / "run").exists()

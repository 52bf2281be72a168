"""`elastic-net` on several ranks: the same bits, also through an interruption and for rows that each rank gives."""

import numpy as np
import pytest
from support.make import by_one_rank, dataset, random_data
from support.training import train

from hpcml import ElasticNetClassifier, mpi
from hpcml.errors import Interrupted

pytestmark = pytest.mark.mpi
SOLVERS = {"newton": {}, "fobos": {"passes": 2, "eta": 0.2}, "sgd": {"passes": 2, "eta": 0.2, "rate": "adagrad"}}


@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("solver", SOLVERS)
def test_same_bits_also_through_an_interruption(comm, mpi_tmp_path, solver):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            dataset(mpi_tmp_path / "data.h5", *random_data(4, 150, 40, 40, density=0.2))
    data, options = mpi_tmp_path / "data.h5", {"solver": solver, **SOLVERS[solver]}
    alone = by_one_rank(comm, lambda: train("elastic-net", None, data, mpi_tmp_path / "alone", options)).model
    model = train("elastic-net", comm, data, mpi_tmp_path / "ranks", options).model
    assert model.read_bytes() == alone.read_bytes()
    with pytest.raises(Interrupted):
        train("elastic-net", comm, data, mpi_tmp_path / "run", options | {"time_limit": 1e-9})
    comm.Barrier()
    if comm.rank == 0:
        train("elastic-net", None, data, mpi_tmp_path / "run", options, resume=True)
    comm.Barrier()
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == alone.read_bytes()


def test_path_has_the_bits_of_one_rank(comm, mpi_tmp_path):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            dataset(mpi_tmp_path / "data.h5", *random_data(9, 90, 30, 11, density=0.2))
    data, options = mpi_tmp_path / "data.h5", {"path": ("1/m", "0.2/m")}
    alone = by_one_rank(comm, lambda: train("elastic-net", None, data, mpi_tmp_path / "alone", options)).model
    assert train("elastic-net", comm, data, mpi_tmp_path / "ranks", options).model.read_bytes() == alone.read_bytes()


def test_estimator_of_rows_that_ranks_give(comm):
    X, Y = random_data(8, 90, 20, 3, density=0.3)
    Y = (Y.toarray() != 0).astype(int)
    bounds = np.linspace(0, 90, comm.size + 1).astype(int)[comm.rank : comm.rank + 2]
    own = slice(*bounds.tolist())
    found = ElasticNetClassifier(comm=comm).fit(X[own], Y[own])
    alone = ElasticNetClassifier().fit(X, Y)
    assert found.coef_.tobytes() == alone.coef_.tobytes() and found.intercept_.tobytes() == alone.intercept_.tobytes()

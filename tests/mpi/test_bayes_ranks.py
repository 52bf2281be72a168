"""Naive Bayes, boosted and in stages, on several ranks: the same bits, also through an interruption and for rows of each rank."""

import numpy as np
import pytest
from support.make import by_one_rank, dataset, random_data
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.errors import Interrupted
from hpcml.methods.bayes import block
from hpcml.methods.registry import METHODS

pytestmark = pytest.mark.mpi
ROOM = ("bernoulli-nb", "boosted-bayes", "staged-bayes", "staged-svm")


@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("method", ROOM)
def test_same_bits_also_through_an_interruption(comm, mpi_tmp_path, method, monkeypatch):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            dataset(mpi_tmp_path / "data.h5", *random_data(4, 120, 40, 20, density=0.2))
    data, options = mpi_tmp_path / "data.h5", {"min_weight": 0.3}
    alone = by_one_rank(comm, lambda: train(method, None, data, mpi_tmp_path / "alone", options)).model
    model = train(method, comm, data, mpi_tmp_path / "ranks", options).model
    assert model.read_bytes() == alone.read_bytes()
    monkeypatch.setattr(block, "TURN", 1)
    with pytest.raises(Interrupted):
        train(method, comm, data, mpi_tmp_path / "run", options | {"time_limit": 1e-9})
    comm.Barrier()
    if comm.rank == 0:
        train(method, None, data, mpi_tmp_path / "run", options, resume=True)
    comm.Barrier()
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == alone.read_bytes()
    for who, name in ((comm, "ranks"), (mpi.self_comm(), f"alone-{comm.rank}")):
        hpcml.predict(alone, data, mpi_tmp_path / f"{name}.csv", comm=who)
    assert (mpi_tmp_path / "ranks.csv").read_bytes() == (mpi_tmp_path / f"alone-{comm.rank}.csv").read_bytes()


@pytest.mark.parametrize("method", ROOM)
def test_estimators_of_rows_that_ranks_give(comm, method):
    X, Y = random_data(8, 90, 20, 3, density=0.3)
    Y = (Y.toarray() != 0).astype(int)
    own = slice(*np.linspace(0, 90, comm.size + 1).astype(int)[comm.rank : comm.rank + 2].tolist())
    kind = METHODS[method].load(METHODS[method].estimator)
    found = kind(min_weight=0.1, comm=comm).fit(X[own], Y[own])
    alone = kind(min_weight=0.1).fit(X, Y)
    assert found.part_coef_.tobytes() == alone.part_coef_.tobytes() and found.intercept_.tobytes() == alone.intercept_.tobytes()
    assert found.decision_function(X).tobytes() == alone.decision_function(X).tobytes()

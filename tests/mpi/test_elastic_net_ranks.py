"""`elastic-net` on several ranks: the same bits, also through an interruption and for rows that each rank gives."""

import pytest
from support.make import by_one_rank, dataset, random_data
from support.training import train

from hpcml import mpi

pytestmark = pytest.mark.mpi


def test_path_has_the_bits_of_one_rank(comm, mpi_tmp_path):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            dataset(mpi_tmp_path / "data.h5", *random_data(9, 90, 30, 11, density=0.2))
    data, options = mpi_tmp_path / "data.h5", {"path": ("1/m", "0.2/m")}
    alone = by_one_rank(comm, lambda: train("elastic-net", None, data, mpi_tmp_path / "alone", options)).model
    assert train("elastic-net", comm, data, mpi_tmp_path / "ranks", options).model.read_bytes() == alone.read_bytes()

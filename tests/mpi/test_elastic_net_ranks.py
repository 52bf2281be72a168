"""`elastic-net` on several ranks: the same bits, also through an interruption and for rows that each rank gives."""

import pytest
from support.make import dataset_for_all, random_data
from support.training import same_as_alone

pytestmark = pytest.mark.mpi


def test_path_has_the_bits_of_one_rank(comm, mpi_tmp_path):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(9, 90, 30, 11, density=0.2))
    same_as_alone(comm, "elastic-net", data, mpi_tmp_path, {"path": ("1/m", "0.2/m")})

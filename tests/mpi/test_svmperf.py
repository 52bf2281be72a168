"""The methods PROBE is compared with, on any number of ranks: the bits of one rank."""

import pytest
from support.make import by_one_rank, dataset, random_data
from support.training import changed, train

from hpcml.methods.linear.block_kernels import CHUNK

pytestmark = pytest.mark.mpi


def write(comm, path, *args, **kwargs):
    """A dataset made by rank 0, for all."""
    if comm.rank == 0:
        dataset(path, *args, **kwargs)
    comm.Barrier()
    return path


@pytest.mark.parametrize("shards", ["one", "all"])
@pytest.mark.parametrize(("n_rows", "n_features"), [(2, 15), (80, 15), (40, 4 * CHUNK)])
def test_svmperf_has_the_bits_of_one_rank(comm, mpi_tmp_path, n_rows, n_features, shards):
    X, Y = random_data(n_rows, n_rows, n_features, 7, density=0.4)
    data = write(comm, mpi_tmp_path / "data.h5", X, Y)
    options = {"min_positives": 0, "bias": True, "labels_per_pass": 3, "ranks_per_group": comm.size if shards == "all" else 1}
    model = train("svmperf", comm, data, mpi_tmp_path / "ranks", options).model
    alone = by_one_rank(
        comm,
        lambda: train("svmperf", None, data, mpi_tmp_path / "alone", changed(options, ranks_per_group=None, labels_per_pass=7)),
    ).model
    assert model.read_bytes() == alone.read_bytes()

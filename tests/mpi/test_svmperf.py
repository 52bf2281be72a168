"""The methods PROBE is compared with, on any number of ranks: the bits of one rank."""

import pytest
from support.make import by_one_rank, dataset, random_data
from support.training import changed, train

from hpcml.errors import ConfigError, Interrupted
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


@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("method", ["svmperf", "liblinear"])
def test_interrupted_run_ends_with_the_same_bits(comm, mpi_tmp_path, method):
    X, Y = random_data(4, 200, 50, 20)
    data = write(comm, mpi_tmp_path / "data.h5", X, Y)
    alone = by_one_rank(comm, lambda: train(method, None, data, mpi_tmp_path / "alone", {})).model
    with pytest.raises(Interrupted):
        train(method, comm, data, mpi_tmp_path / "run", {"labels_per_pass": 4, "time_limit": 1e-9})
    model = train(method, comm, data, mpi_tmp_path / "run", {"labels_per_pass": 2}, resume=True).model
    assert model.read_bytes() == alone.read_bytes()


def test_liblinear_scatters_the_labels_and_never_divides_the_rows(comm, mpi_tmp_path):
    X, Y = random_data(8, 60, 15, 7, density=0.4)
    data = write(comm, mpi_tmp_path / "data.h5", X, Y)
    model = train("liblinear", comm, data, mpi_tmp_path / "ranks", {}).model
    alone = by_one_rank(comm, lambda: train("liblinear", None, data, mpi_tmp_path / "alone", {})).model
    assert model.read_bytes() == alone.read_bytes()
    if comm.size > 1:
        with pytest.raises(ConfigError, match="liblinear has no option 'ranks_per_group'"):
            train("liblinear", comm, data, mpi_tmp_path / "shards", {"ranks_per_group": comm.size})

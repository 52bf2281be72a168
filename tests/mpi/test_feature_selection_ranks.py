"""Feature selection on any number of ranks: the same features, files and errors."""

import h5py
import numpy as np
import pytest
from support import make

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.reduce.files import reduce_dataset
from hpcml.reduce.select import select
from hpcml.reduce.select_options import SelectOptions

pytestmark = pytest.mark.mpi


def make_data(comm, folder, n_rows, negative=None):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            X, Y = make.random_data(n_rows, n_rows, 40, 5)
            X.data = np.abs(X.data)
            if negative is not None:
                X.data[X.indptr[negative]] = -1
            names, ids = [f"word {j}" for j in range(40)], [f"row {i}" for i in range(n_rows)]
            splits = {"train": np.arange(0, n_rows, 2), "test": np.arange(1, n_rows, 2)}
            make.dataset(folder / "data.h5", X, Y, names, row_ids=ids, splits=splits)
    return folder / "data.h5"


def make_model(comm, folder):
    with mpi.agreed(comm, "making the model"):
        if comm.rank == 0:
            draws, features = np.random.default_rng(3), np.arange(0, 40, 3)
            columns, factors = np.zeros(40, np.int32), np.zeros(40)
            columns[features], factors[features] = np.arange(14), 1
            make.model(folder / "model.h5", draws.random((5, 14)), columns=columns, factors=factors)
            with h5py.File(folder / "model.h5", "r+") as file:
                file["state/features"] = features
                for name, width in {"u": 15, "v": 15, "lanes": 4, "counters": 4}.items():
                    file[f"state/{name}"] = draws.random((5, width))
    return folder / "model.h5"


def read(comm, path):
    return make.by_one_rank(comm, path.read_bytes)


@pytest.mark.parametrize("n_rows", [1, 200])
def test_reduced_dataset(comm, mpi_tmp_path, n_rows):
    path = make_data(comm, mpi_tmp_path, n_rows)
    features = np.array([3, 4, 30, 7])  # not in order, so that rows must be sorted again
    with DataFile(path) as data:
        reduce_dataset(comm, data, features, mpi_tmp_path / "together.h5", False)
        if comm.rank == 0:
            reduce_dataset(mpi.self_comm(), data, features, mpi_tmp_path / "alone.h5", False)
    assert read(comm, mpi_tmp_path / "together.h5") == read(comm, mpi_tmp_path / "alone.h5")


@pytest.mark.parametrize(
    "options", [{"by": "ig", "features": 6}, {"by": "chi2", "features": 6, "over": "mean"}, {"features": 9, "share": 0.5}]
)
def test_selected_files(comm, mpi_tmp_path, options):
    path = make_data(comm, mpi_tmp_path, 200) if "by" in options else make_model(comm, mpi_tmp_path)
    options = SelectOptions(**options)
    report = select(comm, path, mpi_tmp_path / "together.h5", options, False, Log(1))
    assert len(set(comm.allgather(report))) == 1
    if comm.rank == 0:
        select(mpi.self_comm(), path, mpi_tmp_path / "alone.h5", options, False, Log(1))
    for ending in (".h5", ".features.csv"):
        assert read(comm, mpi_tmp_path / f"together{ending}") == read(comm, mpi_tmp_path / f"alone{ending}")


def test_errors_are_the_same_on_all_ranks(comm, mpi_tmp_path):
    path, target = make_data(comm, mpi_tmp_path, 200, negative=100), mpi_tmp_path / "few.h5"
    cases = [
        (ConfigError, path, {"by": "ig", "features": 41}),
        (ConfigError, make_model(comm, mpi_tmp_path), {"features": 15}),
        (DataError, mpi_tmp_path / "absent.h5", {"by": "ig", "features": 2}),
        (DataError, path, {"like": mpi_tmp_path / "absent.h5"}),
    ]
    for kind, source, options in cases:
        with pytest.raises(kind) as error:
            select(comm, source, target, SelectOptions(**options), False, Log(1))
        assert len(set(comm.allgather(str(error.value)))) == 1
    comm.Barrier()  # rank 0 removes its files
    with mpi.agreed(comm, "looking"):
        assert {entry.name for entry in mpi_tmp_path.iterdir()} == {"data.h5", "model.h5"}

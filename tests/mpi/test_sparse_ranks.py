"""Sparse models, pruning and best labels have the same bytes on any number of ranks."""

import numpy as np
import pytest
from support import make

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, NonFiniteError
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.prediction.predict import predict
from hpcml.reduce.prune import prune

pytestmark = pytest.mark.mpi
QUIET = Log(1)


def make_files(comm, folder, n_rows, poison=False):
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            X, Y = make.random_data(n_rows, n_rows, 12, 40)
            rng = np.random.default_rng(1)
            W = rng.integers(-2, 3, (40, 12)) / 3.0 * (rng.random((40, 12)) < 0.5) + 0.0  # no −0
            W[39, 0] = np.nan if poison else 0.1
            make.dataset(folder / "data.h5", X, Y, row_ids=[f"id {i}" for i in range(n_rows)])
            for name in ("dense", "sparse"):
                make.model(folder / f"{name}.h5", W, np.zeros(40), sparse=name == "sparse")
    if poison:  # a sparse model is checked when it is opened, a dense one when it is used
        with pytest.raises(NonFiniteError, match="label 'label39'"):
            Model(folder / "sparse.h5")
        return folder / "data.h5", Model(folder / "dense.h5"), None
    return folder / "data.h5", Model(folder / "dense.h5"), Model(folder / "sparse.h5")


@pytest.mark.parametrize("n_rows", [1, 101])
def test_best_labels_and_their_precision(comm, mpi_tmp_path, n_rows):
    data, dense, sparse = make_files(comm, mpi_tmp_path, n_rows)
    with DataFile(data) as dataset:
        alone = evaluate(mpi.self_comm(), dense, dataset, "all", QUIET)
        for model in (dense, sparse):
            assert repr(evaluate(comm, model, dataset, "all", QUIET).precision_at) == repr(alone.precision_at)
        own, *others = (mpi_tmp_path / f"{name}.csv" for name in (f"alone-{comm.rank}", "dense-out", "sparse-out"))
        predict(mpi.self_comm(), dense, dataset, "all", own, False, QUIET, 4)
        for model, output in zip((dense, sparse), others, strict=True):
            predict(comm, model, dataset, "all", output, False, QUIET, 4)
            assert output.read_bytes() == own.read_bytes()


def test_pruning(comm, mpi_tmp_path):
    data, dense, sparse = make_files(comm, mpi_tmp_path, 60)
    with DataFile(data) as dataset:
        alone = prune(mpi.self_comm(), dense, dataset, "all", [0.0, 0.4], mpi_tmp_path / f"alone-{comm.rank}.h5", False, QUIET)
        for name, model in (("a", dense), ("b", sparse)):
            pruned = prune(comm, model, dataset, "all", [0.0, 0.4], mpi_tmp_path / f"{name}.h5", False, QUIET)
            assert (mpi_tmp_path / f"{name}.h5").read_bytes() == (mpi_tmp_path / f"alone-{comm.rank}.h5").read_bytes()
            assert [line.macro_map for line in pruned.lines] == [line.macro_map for line in alone.lines]
            assert pruned.lines[1:] == alone.lines[1:]
        with pytest.raises(ConfigError, match="exists already"):
            prune(comm, dense, dataset, "all", [0.4], mpi_tmp_path / "a.h5", False, QUIET)


def test_all_ranks_raise_the_same_error_and_leave_no_files(comm, mpi_tmp_path):
    data, model, _ = make_files(comm, mpi_tmp_path, 30, poison=True)
    with DataFile(data) as dataset:
        with pytest.raises(NonFiniteError, match="label 'label39'"):
            predict(comm, model, dataset, "all", mpi_tmp_path / "out.csv", False, QUIET, 3)
        with pytest.raises(NonFiniteError, match="label 'label39'"):
            prune(comm, model, dataset, "all", [0.1], mpi_tmp_path / "out.h5", False, QUIET)
    comm.Barrier()  # rank 0 removes its temporary files
    with mpi.agreed(comm, "looking"):
        assert {path.name for path in mpi_tmp_path.iterdir()} == {"data.h5", "dense.h5", "sparse.h5"}

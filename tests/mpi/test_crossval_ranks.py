"""Cross-validation gives the same numbers on any number of ranks, and fails alike on all."""

import numpy as np
import pytest
from support.make import class_data, dataset

from hpcml import cross_validate, mpi
from hpcml.errors import ConfigError, DataError

pytestmark = pytest.mark.mpi


def make_data(comm, folder, negative=False):
    """On rank 0 of `comm`: one file with four labels and one, of other sizes, with one label."""
    paths = [folder / "four.h5", folder / "one.h5"]
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            for path, n_classes, n_rows in zip(paths, (4, 2), (90, 50), strict=True):
                X, _, Y = class_data(n_rows, n_rows, 8, n_classes)
                dataset(path, X if negative else abs(X), Y)
            dataset(folder / "rare.h5", X, np.arange(50)[:, None] % 10 == 0)  # too few positive rows for NuSVC's default
    return paths


@pytest.mark.parametrize("methods", [["multinomial-nb"], ["svm", "tree", "multinomial-nb", "mbw"]])
def test_all_ranks_equal_one_rank(comm, mpi_tmp_path, methods):
    data = [*make_data(comm, mpi_tmp_path), f"{mpi_tmp_path / 'four.h5'}:label1"]
    alone = cross_validate(methods, data, folds=3, comm=mpi.self_comm())
    together = cross_validate(methods, data, folds=3, comm=comm)
    assert [a.tobytes() for a in together.f1] == [a.tobytes() for a in alone.f1]
    assert str(together) == str(alone)
    assert len({tuple(map(np.ndarray.tobytes, each)) for each in comm.allgather(together.seconds)}) == 1


@pytest.mark.parametrize(
    ("methods", "name", "error", "words"),
    [
        (["svm", "multinomial-nb"], "one.h5", ConfigError, "row .* multinomial-nb"),
        (["svm", "sklearn.svm.NuSVC"], "rare.h5", ConfigError, r"label 'label0', fold \d, sklearn.*: it cannot be"),
        (["svm"], "none.h5", DataError, "none.h5"),
        (["svm"], "one.h5:label7", ConfigError, "no label 'label7'"),
    ],
)
def test_all_ranks_fail_together(comm, mpi_tmp_path, methods, name, error, words):
    make_data(comm, mpi_tmp_path, negative=True)
    with pytest.raises(error, match=words) as failure:
        cross_validate(methods, [mpi_tmp_path / name], folds=3, comm=comm)
    assert len(set(comm.allgather(str(failure.value)))) == 1

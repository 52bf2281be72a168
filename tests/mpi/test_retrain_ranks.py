"""`hpcml retrain`: the same file as new training, on any number of ranks; only changed labels are trained."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import by_one_rank, dataset_for_all, random_data
from support.training import train

from hpcml import retrain
from hpcml.errors import ConfigError, DataError, Interrupted
from hpcml.model.linear import Model

pytestmark = pytest.mark.mpi
OPTIONS = {"min_positives": 0, "dual_tol": 0.01}


def headings(Y):
    Y = Y.toarray() > 0
    half = np.arange(Y.shape[0]) % 2 == 0
    columns = [Y[:, 4], Y[:, 0] | Y[:, 1], Y[:, 2] & half, Y[:, 2] & ~half, Y[:, 5]]
    return sp.csr_matrix(np.column_stack(columns).astype(float)), ["renamed", "merged", "first", "second", "label5"]


@pytest.mark.parametrize("drop", [None, 0.02])
def test_changed_label_sets(comm, mpi_tmp_path, drop):
    X, Y = random_data(1, 90, 20, 6, density=0.3)
    options = OPTIONS | {"drop": drop}
    old = dataset_for_all(comm, mpi_tmp_path / "old.h5", X, Y)
    after, names = headings(Y)
    new = dataset_for_all(comm, mpi_tmp_path / "new.h5", X, after, label_names=names)
    train("dual", comm, old, mpi_tmp_path / "run", options)
    again = retrain(mpi_tmp_path / "run", new, mpi_tmp_path / "again", comm=comm)
    anew = train("dual", comm, new, mpi_tmp_path / "anew", options)
    assert again.model.read_bytes() == anew.model.read_bytes()
    trained = {line.split(",")[0] for line in (mpi_tmp_path / "again" / "history.csv").read_text().splitlines()[1:]}
    assert trained == {"merged", "first", "second"}  # the others are copied


def test_changed_documents(comm, mpi_tmp_path):
    X, Y = random_data(2, 120, 20, 5, density=0.3)
    old = dataset_for_all(comm, mpi_tmp_path / "old.h5", X[:110], Y[:110, :4], label_names=[f"label{k}" for k in range(4)])
    new = dataset_for_all(comm, mpi_tmp_path / "new.h5", X[5:], Y[5:])
    moved = dataset_for_all(comm, mpi_tmp_path / "moved.h5", X[::-1][10:], Y[::-1][10:])  # as many rows, in another order
    train("dual", comm, old, mpi_tmp_path / "run", OPTIONS)
    for data in (new, moved):
        again = retrain(mpi_tmp_path / "run", data, mpi_tmp_path / f"again-{data.stem}", comm=comm)
        anew = train("dual", comm, data, mpi_tmp_path / f"anew-{data.stem}", OPTIONS)
        assert again.model.read_bytes() == anew.model.read_bytes()
    alone = by_one_rank(comm, lambda: retrain(mpi_tmp_path / "run", new, mpi_tmp_path / "alone"))
    assert (mpi_tmp_path / "again-new" / "model.h5").read_bytes() == alone.model.read_bytes()


def test_rejects_runs_that_cannot_be_retrained(comm, mpi_tmp_path):
    X, Y = random_data(3, 60, 12, 3, density=0.4)
    old = dataset_for_all(comm, mpi_tmp_path / "old.h5", X, Y)
    other = dataset_for_all(comm, mpi_tmp_path / "other.h5", X[:, :9], Y)
    train("dual", comm, old, mpi_tmp_path / "run", OPTIONS)
    train("probe", comm, old, mpi_tmp_path / "probe", {})
    for run, data, kind, words in (
        ("run", other, DataError, "other.h5"),
        ("probe", old, ConfigError, "probe"),
        ("nothing", old, ConfigError, "nothing"),
    ):
        with pytest.raises(kind, match=words):
            retrain(mpi_tmp_path / run, data, mpi_tmp_path / "again", comm=comm)
    with pytest.raises(ConfigError, match="another folder"):
        retrain(mpi_tmp_path / "run", old, mpi_tmp_path / "run", comm=comm, force=True)
    assert not (mpi_tmp_path / "again").exists()


def test_trains_all_labels_without_the_old_data(comm, mpi_tmp_path):
    """The path of the old data then has the same rows with other labels."""
    X, Y = random_data(4, 80, 15, 4, density=0.3)
    path = dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y)
    train("dual", comm, path, mpi_tmp_path / "run", OPTIONS)
    comm.Barrier()
    if comm.rank == 0:
        path.unlink()
    dataset_for_all(comm, path, X, sp.csr_matrix(1.0 * (Y.toarray()[::-1] > 0)))
    again = retrain(mpi_tmp_path / "run", path, mpi_tmp_path / "again", comm=comm)
    anew = train("dual", comm, path, mpi_tmp_path / "anew", OPTIONS)
    assert again.model.read_bytes() == anew.model.read_bytes()
    assert not (Model(again.model).W == Model(mpi_tmp_path / "run" / "model.h5").W).all()


def test_time_limit_writes_a_checkpoint(comm, mpi_tmp_path):
    X, Y = random_data(5, 80, 15, 4, density=0.3)
    old = dataset_for_all(comm, mpi_tmp_path / "old.h5", X, Y)
    new = dataset_for_all(comm, mpi_tmp_path / "new.h5", X[:70], Y[:70])
    train("dual", comm, old, mpi_tmp_path / "run", OPTIONS)
    with pytest.raises(Interrupted):
        retrain(mpi_tmp_path / "run", new, mpi_tmp_path / "again", comm=comm, time_limit=1e-9)
    again = retrain(mpi_tmp_path / "run", new, mpi_tmp_path / "again", comm=comm, resume=True)
    anew = train("dual", comm, new, mpi_tmp_path / "anew", OPTIONS)
    assert again.model.read_bytes() == anew.model.read_bytes()

"""Tuning, cross-validation and planning give the same results on any number of ranks."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import by_one_rank, class_data, dataset, dataset_for_all, random_data
from support.training import asked

import hpcml
from hpcml import cross_validate, mpi
from hpcml.errors import ConfigError, Interrupted
from hpcml.log import Log
from hpcml.methods.registry import METHODS
from hpcml.planning.options import PlanOptions
from hpcml.planning.plan import choose_cluster, plan
from hpcml.planning.sizes import read_sizes
from hpcml.run.session import open_session

pytestmark = pytest.mark.mpi


TUNED = {"dual": {"weights": (1.0, 3.0)}, "probe": {"loss": "logistic"}, "elastic-net": {}}


@pytest.mark.more("ranks", of=("comm",), one_in=2, keep=1)
@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("method", TUNED)
def test_same_bits_also_through_an_interruption(comm, mpi_tmp_path, monkeypatch, method):
    X, Y = random_data(4, 150, 30, 12, density=0.2)
    data = dataset_for_all(
        comm, mpi_tmp_path / "data.h5", sp.hstack([X, Y.astype("f4")]).tocsr(), Y
    )  # labels are features, so they can be learnt
    options = {"method": method, "folds": 3, "lambdas": (0.3, 1.0, 3.0), **TUNED[method]}
    alone = by_one_rank(comm, lambda: hpcml.tune(data, mpi_tmp_path / "alone", **options)).model
    found = hpcml.tune(data, mpi_tmp_path / "ranks", comm=comm, **options).model
    assert found.read_bytes() == alone.read_bytes()
    for name in ("choice.csv", "tuning.csv"):
        assert (mpi_tmp_path / "ranks" / name).read_bytes() == (mpi_tmp_path / "alone" / name).read_bytes()
    monkeypatch.setattr("hpcml.tuning.cross.MAX_BATCH", 1)
    with pytest.raises(Interrupted):
        hpcml.tune(data, mpi_tmp_path / "run", comm=comm, **options, time_limit=1e-9)
    comm.Barrier()
    if comm.rank == 0:
        hpcml.tune(data, mpi_tmp_path / "run", resume=True, **options)
    comm.Barrier()
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == alone.read_bytes()


def make_data(comm, folder):
    paths = [folder / "four.h5", folder / "one.h5"]
    with mpi.agreed(comm, "making the data"):
        if comm.rank == 0:
            for path, n_classes, n_rows in zip(paths, (4, 2), (90, 50), strict=True):
                X, _, Y = class_data(n_rows, n_rows, 8, n_classes)
                dataset(path, abs(X), Y)
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


def test_all_ranks_fail_together_in_cross_validation(comm, mpi_tmp_path):
    make_data(comm, mpi_tmp_path)
    with pytest.raises(ConfigError, match=r"label 'label0', fold \d, sklearn\.svm\.NuSVC: ") as failure:
        cross_validate(["svm", "sklearn.svm.NuSVC"], [mpi_tmp_path / "rare.h5"], folds=3, comm=comm)
    assert len(set(comm.allgather(str(failure.value)))) == 1


@pytest.mark.parametrize(
    ("method", "options"),
    [("dual", {"lam": "X/10"}), ("probe", {"ranks_per_group": -1}), ("pa", {}), ("psbml", {"label": "label3"})],
)
def test_plan_on_ranks(comm, mpi_tmp_path, monkeypatch, method, options):
    X, Y = random_data(5, 200, 90, 20, 0.05)
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", abs(X), Y, splits={"train": np.arange(150)})
    monkeypatch.chdir(mpi_tmp_path)  # a pilot of psbml writes runs there
    options = asked(method, **{name: comm.size if value == -1 else value for name, value in options.items()})
    with open_session(comm, Log(comm.rank)) as session:
        told = plan(session, METHODS[method], data, PlanOptions(), options).as_dict()
    assert comm.bcast(told) == told and told["total_seconds"] > 0 and told["rank_bytes"] > 10**8
    assert told["ranks_per_node"] == choose_cluster(comm, PlanOptions()).ranks_per_node
    comm.Barrier()
    assert [path.name for path in mpi_tmp_path.iterdir()] == ["data.h5"]
    if METHODS[method].linear:
        together, alone = (read_sizes(each, data, options) for each in (comm, mpi.self_comm()))
        assert together.n_positive.tolist() == alone.n_positive.tolist()
        assert {**vars(together), "n_positive": 0} == {**vars(alone), "n_positive": 0}

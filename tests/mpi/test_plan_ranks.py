"""Planning on several ranks: all ranks agree, and find what one rank finds."""

import numpy as np
import pytest
from support.make import dataset_for_all, random_data
from support.training import asked

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.registry import METHODS
from hpcml.planning.options import PlanOptions
from hpcml.planning.plan import choose_cluster, plan
from hpcml.planning.sizes import read_sizes
from hpcml.run.session import open_session

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(
    ("method", "options"),
    [("dual", {"lam": "X/10"}), ("probe", {"ranks_per_group": -1}), ("pa", {}), ("psbml", {"label": "label3"})],
)
def test_plan_on_ranks(comm, mpi_tmp_path, monkeypatch, method, options):
    X, Y = random_data(5, 200, 90, 20, 0.05)
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", abs(X), Y, splits={"train": np.arange(150)})
    monkeypatch.chdir(mpi_tmp_path)  # where a pilot of psbml has its runs
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

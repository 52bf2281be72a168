"""Measuring a machine and planning on several ranks: all ranks agree, and find what one rank finds."""

import numpy as np
import pytest
from support.make import dataset_for_all, random_data
from support.training import asked

from hpcml import mpi
from hpcml.log import Log
from hpcml.methods.registry import METHODS
from hpcml.planning.machine import write_machine
from hpcml.planning.measure import measure_machine
from hpcml.planning.options import PlanOptions
from hpcml.planning.plan import as_json, cluster_of, plan
from hpcml.planning.sizes import sizes_of

pytestmark = pytest.mark.mpi


def test_plan_on_ranks(comm, mpi_tmp_path):
    X, Y = random_data(5, 200, 90, 20, 0.05)
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", abs(X), Y, splits={"train": np.arange(150)})
    machine = measure_machine(comm, mpi_tmp_path, True, Log(comm.rank))
    with mpi.on_node(comm) as node:
        assert list(machine.curves) == [str(n) for n in dict.fromkeys((1, node.size))]
    assert (machine.about["latency"] is None) == (comm.size == 1)
    assert {len(curves) for curves in machine.curves.values()} == {len(machine.curves["1"])}
    assert machine.curves["1"]["start"] == comm.bcast(machine.curves["1"]["start"]) and machine("start", 1, 1) > 0.1
    if comm.rank == 0:
        write_machine(mpi_tmp_path / "machine.json", machine)
    comm.Barrier()
    options, file = asked("dual", lam="X/10"), mpi_tmp_path / "machine.json"
    wanted = PlanOptions(nodes=2, machine=file, pilot=True)
    told = as_json(plan(comm, METHODS["dual"], data, wanted, options, Log(comm.rank)))
    assert comm.bcast(told) == told
    assert told["ranks_per_node"] == cluster_of(comm, wanted).ranks_per_node and told["total_seconds"] > 0
    together, alone = (sizes_of(each, data, options)[0] for each in (comm, mpi.self_comm()))
    assert together.n_positive.tolist() == alone.n_positive.tolist()
    assert {**vars(together), "n_positive": 0} == {**vars(alone), "n_positive": 0}

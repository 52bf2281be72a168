import gc
from contextlib import suppress

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from support.dual_problems import asked, risk_of
from support.make import by_one_rank, random_data
from support.methods import FEW, LINEAR, WAYS, small_data
from support.training import train

from hpcml.errors import Interrupted
from hpcml.kernels.cache import CompiledOnce
from hpcml.methods.dual import dual
from hpcml.methods.dual.train import DualFitter
from hpcml.methods.linear import layout
from hpcml.methods.linear import train as linear
from hpcml.methods.registry import METHODS
from hpcml.run.stop import NEVER

pytestmark = pytest.mark.mpi
OPTIONS = {
    **{name: (FEW.get(name, {}), *WAYS.get(name, ())) for name in LINEAR},
    "dual": ({}, {"loss": "squared-hinge", "precision": "double"}, {"loss": "logistic"}),
    "staged-svm": ({"chi_square": 1.0},),
    "elastic-net": ({}, {"loss": "squared"}, *WAYS["elastic-net"]),
}


@pytest.fixture
def data(comm, mpi_tmp_path):
    return by_one_rank(comm, lambda: small_data(mpi_tmp_path / "data.h5", n=140))


@pytest.fixture
def late(monkeypatch):
    for kernel in (each for each in gc.get_objects() if isinstance(each, Dispatcher) and isinstance(each._cache, CompiledOnce)):
        kernel._reset_overloads()
    found, load, warm_up = [None], CompiledOnce.load_overload, linear.warm_up

    def counted(self, sig, context):
        if found[:1] != [None]:
            found.append(f"{self._py_func.__module__}.{self._py_func.__name__}{sig}")
        return load(self, sig, context)

    def ended(*given):
        warm_up(*given)
        found.clear()

    monkeypatch.setattr(CompiledOnce, "load_overload", counted)
    monkeypatch.setattr(linear, "warm_up", ended)
    return found


@pytest.mark.parametrize(("method", "way"), [(name, way) for name, ways in OPTIONS.items() for way in range(len(ways))])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.more("methods", one_in=4)
def test_kernels_of_rows(comm, mpi_tmp_path, monkeypatch, data, late, method, way, mapped):
    if mapped:
        monkeypatch.setattr("hpcml.data.shared_rows.room_per_rank", lambda comm: 0.0)
    shared = {"ranks_per_group": comm.size} if "ranks_per_group" in METHODS[method].option_names else {}
    train(method, comm, data, mpi_tmp_path / "run", OPTIONS[method][way] | shared)
    assert late == []


@pytest.mark.parametrize("loss", ["hinge", pytest.param("logistic", marks=pytest.mark.more("kernels"))])
def test_kernels_of_streamed_rows(comm, mpi_tmp_path, monkeypatch, data, late, loss):
    monkeypatch.setattr("hpcml.data.shared_rows.room_per_rank", lambda comm: 0.0)
    monkeypatch.setattr("hpcml.methods.linear.layout.kept_values", lambda *_: 300)
    monkeypatch.setattr(layout, "SMALLEST_CHUNK", 256)
    monkeypatch.setattr(layout, "node_memory", lambda: 0)
    train("dual", comm, data, mpi_tmp_path / "run", {"loss": loss, "ranks_per_group": 1})
    assert late == []


def test_kernels_of_rare_labels(comm, mpi_tmp_path, monkeypatch, data, late):
    monkeypatch.setattr(dual, "VALUES_PER_POSITIVE", 30)  # labels of up to 16 rows of 70
    train("dual", comm, data, mpi_tmp_path / "run", {"ranks_per_group": 1})
    assert late == []


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_kernels_of_a_path(comm, late, loss):
    options = asked(loss=loss, bias=True)
    risk = risk_of(*random_data(0, 60, 20, 3, density=0.3), options)
    settings = [{"lam": lam, "positive_weight": weight} for lam in (0.3, 0.1, 0.02) for weight in (1.0, 3.0)]
    fits = DualFitter(None, risk, settings, options, 16)
    fits.warm_up()
    late.clear()
    assert len(list(fits.fit(np.arange(3), NEVER))) == 3
    assert late == []


def test_kernels_of_a_resumed_label(comm, mpi_tmp_path, data, late):
    for time_limit in (1e-9, None):
        options = {"max_steps": 40, "time_limit": time_limit, "ranks_per_group": comm.size}
        with suppress(Interrupted):
            train("probe", comm, data, mpi_tmp_path / "run", options, resume=time_limit is None)
    assert late == []

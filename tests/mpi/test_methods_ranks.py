"""Every method on several ranks has the bits of one rank, also after interruptions and with scaled features."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.make import by_one_rank, class_data, dataset, dataset_for_all, random_data
from support.methods import (
    ESTIMATORS,
    EVERY,
    FEW,
    LINEAR,
    AtLook,
    every_way,
    having,
    history,
    learnt,
    make,
    options_of,
    small_data,
)
from support.training import same_as_alone, train

import hpcml
from hpcml import slices
from hpcml.errors import Interrupted
from hpcml.methods.linear import objective
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.panel_kernels import CHUNK
from hpcml.methods.registry import METHODS

pytestmark = pytest.mark.mpi
NEVER = 10**9


@pytest.fixture
def data(comm, mpi_tmp_path):
    return by_one_rank(comm, lambda: small_data(mpi_tmp_path / "data.h5", n=140))


@pytest.fixture
def short_slices(monkeypatch):
    monkeypatch.setattr(slices, "SLICE_VALUES", 100)
    monkeypatch.setattr(objective, "ROWS_BYTES", 8 * 50)


def stopped_often(comm, method, data, run, options, alone):
    stops, looks = 0, 1
    while True:
        signals, by_all = AtLook(looks if comm.rank == comm.size - 1 else NEVER), not (alone and stops % 3 == 2)
        try:
            if by_all:
                train(method, comm, data, run, options, resume=stops > 0, signals=signals)
            elif comm.rank == 0:
                train(method, None, data, run, alone, resume=True, signals=AtLook(looks))
        except Interrupted:
            pass
        if comm.bcast((run / "model.h5").exists()):
            return stops
        stops, looks = stops + 1, 1 + 5 * looks


@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
@every_way
def test_bits_are_those_of_one_rank_also_through_stops(comm, mpi_tmp_path, data, short_slices, method, way):
    options = options_of(method, way)
    alone = same_as_alone(comm, method, data, mpi_tmp_path, options)[1].model.read_bytes()
    stops = stopped_often(comm, method, data, mpi_tmp_path / "run", options, options)
    assert (stops > 1) == ("pause" in METHODS[method].supports)
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == alone
    assert history(mpi_tmp_path / "run") == history(mpi_tmp_path / "alone") == history(mpi_tmp_path / "ranks")


@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
@having("ranks_per_group")
def test_ranks_that_share_the_rows(comm, mpi_tmp_path, data, short_slices, method):
    options = options_of(method, ranks_per_group=2 if comm.size == 4 else comm.size, labels_per_pass=2)
    whole = train(method, comm, data, mpi_tmp_path / "whole", options).model.read_bytes()
    exact = METHODS[method].load(METHODS[method].linear).sharding is Sharding.EXACT
    if exact:
        alone = by_one_rank(comm, lambda: train(method, None, data, mpi_tmp_path / "alone", options_of(method))).model.read_bytes()
        assert whole == alone
    assert stopped_often(comm, method, data, mpi_tmp_path / "run", options, options | {"ranks_per_group": 1} if exact else None) > 1
    assert (mpi_tmp_path / "run" / "model.h5").read_bytes() == whole
    assert history(mpi_tmp_path / "run") == history(mpi_tmp_path / "whole")


@pytest.mark.more("ranks", one_in=2)
@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
@pytest.mark.parametrize("shape", [(2, 15), (40, 4 * CHUNK)])
@pytest.mark.parametrize("method", LINEAR)
def test_fewer_rows_than_ranks_and_many_features(comm, mpi_tmp_path, method, shape):
    path, known = mpi_tmp_path / "data.h5", METHODS[method].option_names
    data = dataset_for_all(comm, path, *random_data(shape[0], shape[0], shape[1], 7, density=0.4))
    common = {"min_positives": 0} | FEW.get(method, {})
    alone = by_one_rank(comm, lambda: train(method, None, data, mpi_tmp_path / "alone", common)).model.read_bytes()
    exact = METHODS[method].load(METHODS[method].linear).sharding is Sharding.EXACT and "ranks_per_group" in known
    for shards in {1, comm.size} if exact else {None}:
        options = {name: value for name, value in (("ranks_per_group", shards), ("labels_per_pass", 3)) if name in known and value}
        model = train(method, comm, data, mpi_tmp_path / f"ranks{shards}", common | options).model
        assert model.read_bytes() == alone


@pytest.mark.parametrize("method", [name for name in EVERY if "label_sets" in METHODS[name].supports])
def test_same_error_on_all_ranks(comm, mpi_tmp_path, data, method):
    for options in ({"min_positives": 999}, {"split": "tets"}, {"label": ("labl0",)}):
        with pytest.raises(hpcml.errors.ConfigError) as error:
            train(method, comm, data, mpi_tmp_path / "run", options)
        assert len(set(comm.allgather(str(error.value)))) == 1
    assert not (mpi_tmp_path / "run").exists()


@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
@pytest.mark.parametrize("method", [name for name in ESTIMATORS if "comm" in make(name).get_params()])
def test_estimators_equal_one_rank(comm, method):
    X, y, _ = class_data(5, 80, 12, 3)
    own = slice(*np.linspace(0, 80, comm.size + 1).astype(int)[comm.rank : comm.rank + 2].tolist())
    found, alone = make(method, comm=comm).fit(X[own], y[own]), make(method).fit(X, y)
    assert learnt(found) == learnt(alone)
    assert found.decision_function(X).tobytes() == alone.decision_function(X).tobytes()


@pytest.mark.mpi(min_size=2)  # alone it would compare a run with itself
def test_path_of_elastic_net_has_the_bits_of_one_rank(comm, mpi_tmp_path):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(9, 90, 30, 11, density=0.2))
    same_as_alone(comm, "elastic-net", data, mpi_tmp_path, {"path": ("1/m", "0.2/m")})


@pytest.fixture
def scaled_data(comm, mpi_tmp_path):
    def made():
        X, Y = random_data(5, 130, 24, 5, density=0.3)
        Y = (Y.toarray() != 0).astype(float)
        X = X.toarray() * np.logspace(-3, 3, 24)
        X[:, 3], X[:, 8] = 5 * Y[:, 1], 2.0 - Y[:, 4]
        return dataset(mpi_tmp_path / "scaled_data.h5", sp.csr_matrix(X.astype(np.float32)), Y)

    return by_one_rank(comm, made)


@pytest.mark.parametrize(
    ("method", "kind"), [("dual", "standard"), ("probe", "max-abs"), ("elastic-net", "max-abs"), ("svmperf", "standard")]
)
def test_scaled_models_equal_one_rank(comm, mpi_tmp_path, scaled_data, method, kind):
    alone = by_one_rank(comm, lambda: hpcml.train(method, scaled_data, mpi_tmp_path / "alone", scale=kind)).model
    found = hpcml.train(method, scaled_data, mpi_tmp_path / "ranks", comm=comm, scale=kind).model
    assert found.read_bytes() == alone.read_bytes()


def test_scaled_tuning_and_estimators_equal_one_rank(comm, mpi_tmp_path, scaled_data):
    kind = "standard"
    options = {"folds": 3, "lambdas": (1.0, 3.0), "weights": (1.0,), "scale": kind}
    alone = by_one_rank(comm, lambda: hpcml.tune(scaled_data, mpi_tmp_path / "alone", **options)).model
    assert hpcml.tune(scaled_data, mpi_tmp_path / "ranks", comm=comm, **options).model.read_bytes() == alone.read_bytes()
    X, Y = random_data(6, 60, 9, 3, density=0.6)
    X, y = X.toarray(), (Y.toarray() != 0).astype(int)
    mine = np.array_split(np.arange(60), comm.size)[comm.rank]
    for estimator in (hpcml.DualClassifier, hpcml.ProbeClassifier):
        expected = estimator(scale=kind).fit(X, y)
        found = estimator(scale=kind, comm=comm).fit(X[mine], y[mine])
        assert np.array_equal(found.coef_, expected.coef_)

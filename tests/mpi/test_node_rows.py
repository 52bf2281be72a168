"""One copy of the rows for the ranks of a node: what each would have read for itself."""

import errno
import os
import tempfile
from dataclasses import fields

import numpy as np
import pytest
from support import make

import hpcml.data.shared_rows as module
from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.data.shared_rows import node_rows, shared_array
from hpcml.errors import DataError

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def nothing_is_left(comm, mpi_tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(mpi_tmp_path))
    yield
    comm.Barrier()
    assert not list(mpi_tmp_path.glob("hpcml-rows-*"))


@pytest.mark.parametrize(("n_rows", "bias"), [(1, True), (2, False), (57, True)])
def test_equals_rows_of_one_rank(comm, mpi_tmp_path, monkeypatch, bias, n_rows):
    monkeypatch.setattr(module, "room_per_rank", lambda _node: 0)  # one rank, too, shares
    path = mpi_tmp_path / "data.h5"
    if comm.rank == 0:
        X, Y = make.random_data(n_rows, n_rows, 23, 4)
        X = X.tolil()
        X[0, 0] = 1.0  # at least one value
        make.dataset(path, X.tocsr(), Y)
    comm.Barrier()
    with DataFile(path) as data:
        shard = load_shard(comm, data, "all")
        found, columns = node_rows(comm, mpi.self_comm(), shard, bias)
        expected, alone = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, "all"), bias)
        tables = columns.tables(comm)
        expected_tables = alone.tables(mpi.self_comm())
    for field in fields(expected):
        if field.name not in ("comm", "mapped"):
            assert np.array_equal(getattr(found, field.name), getattr(expected, field.name)), field.name
    assert all(np.array_equal(a, b) for a, b in zip(tables, expected_tables, strict=True))
    assert found.comm.size == 1
    assert found.mapped
    assert not expected.mapped


def test_no_room_on_the_disk(comm, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DataError, match="cannot write: No space left on device"):
        shared_array(comm, 1000, np.float32)


def test_ranks_share_the_array(comm):
    array = shared_array(comm, 3 * comm.size, np.int64)
    assert not array.any()
    comm.Barrier()
    array[comm.rank :: comm.size] = comm.rank + 1
    comm.Barrier()
    assert np.array_equal(array, np.tile(np.arange(comm.size) + 1, 3))
    assert shared_array(comm, 0, np.float32).size == 0

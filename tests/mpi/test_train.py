"""Training on any number of ranks: the bits of one rank, also with more ranks than rows and after an interruption."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from support.make import dataset_for_all, random_data
from support.training import train

from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError

pytestmark = pytest.mark.mpi


def test_shards_are_disjoint_cover_the_split_and_balance_non_zeros(comm, mpi_tmp_path):
    X, Y = random_data(4, 400, 30, 3)
    rows = np.sort(np.random.default_rng(0).choice(400, 250, replace=False))
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y, splits={"train": rows, "first": np.arange(3)})
    with DataFile(data) as opened:
        for split, expected in (("train", rows), ("all", np.arange(400)), ("first", np.arange(3))):
            shard = load_shard(comm, opened, split)
            mine = shard.first_row + shard.rows
            assert np.concatenate(comm.allgather(mine)).tolist() == expected.tolist()
            for local, row in zip(shard.rows, mine, strict=True):
                begin, end = shard.indptr[local : local + 2]
                assert shard.indices[begin:end].tolist() == X[[row]].indices.tolist()
                assert shard.data[begin:end].tolist() == X[[row]].data.tolist()
            nnz = comm.allgather(int(np.diff(shard.indptr)[shard.rows].sum()))
            largest = max(X[[row]].nnz for row in expected)
            assert max(nnz) <= sum(nnz) / comm.size + largest


def test_rejects_model_larger_than_the_disk(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 60, 15, 4, density=0.4))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    for method in ("dual", "probe"):
        with pytest.raises(DataError, match=r"but the disk has 100 bytes left; --drop 0\.1"):
            train(method, comm, data, mpi_tmp_path / "run")
        comm.Barrier()
        assert not (mpi_tmp_path / "run").exists()
    train("dual", comm, data, mpi_tmp_path / "run", {"drop": 0.1})


def test_rejects_rows_larger_than_memory(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 60, 15, 4, density=0.4))
    monkeypatch.setattr("hpcml.methods.linear.layout.OWN_BYTES", 1 << 60)
    monkeypatch.setattr("hpcml.methods.linear.load.load_rank_rows", None)  # nothing is loaded
    with pytest.raises(ConfigError, match="not enough memory"):
        train("probe", comm, data, mpi_tmp_path / "run")
    assert not (mpi_tmp_path / "run").exists()

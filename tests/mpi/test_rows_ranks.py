import errno
import json
import os
import shutil
import tempfile
from dataclasses import fields
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from mpi4py import MPI
from support import make
from support.converted import converted_alike
from support.make import by_one_rank, dataset_for_all, random_data
from support.training import train

import hpcml
import hpcml.data.shared_rows as module
from hpcml import mpi
from hpcml.conversion.split import split
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.data.shared_rows import node_rows, shared_array
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation.evaluate import evaluate
from hpcml.log import Log
from hpcml.model.open import share_model

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


def test_warns_of_a_model_that_may_not_fit_the_disk(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 60, 15, 4, density=0.4))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    for options in ({}, {"drop": 0.1}):
        folder = mpi_tmp_path / f"run-{len(options)}"
        train("dual", comm, data, folder, options)
        comm.Barrier()
        assert ("100 bytes left" in (folder / "log.txt").read_text()) == (not options)


def test_rejects_rows_larger_than_memory(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 60, 15, 4, density=0.4))
    monkeypatch.setattr("hpcml.methods.linear.layout.OWN_BYTES", 1 << 60)
    monkeypatch.setattr("hpcml.methods.linear.load.load_rank_rows", None)  # nothing is loaded
    with pytest.raises(ConfigError, match="not enough memory"):
        train("probe", comm, data, mpi_tmp_path / "run")
    assert not (mpi_tmp_path / "run").exists()


QUIET = Log(1)


def document(number, with_id):
    words = np.random.default_rng(number).choice([f"word{n}" for n in range(40)], 9)
    names = {"id": f"d{number}"} if with_id else {}
    return {"text": " ".join(words), "labels": [f"label{number % 3}"], "work": f"w{number // 3}", **names}


def write(comm, path, documents):
    by_one_rank(comm, lambda: path.write_text("".join(json.dumps(each) + "\n" for each in documents)))
    return [path]


@pytest.mark.parametrize(("with_id", "group"), [(True, "work"), (False, None)])
def test_old_rows_keep_their_splits(comm, mpi_tmp_path, with_id, group):
    old = [document(n, with_id) for n in range(100)]
    both = [*(document(n, with_id) for n in range(500, 530)), *old[::-1]]
    paths = []
    for name, documents in (("old", old), ("both", both)):
        folder = by_one_rank(comm, lambda name=name: (mpi_tmp_path / name).mkdir() or mpi_tmp_path / name)
        inputs = write(comm, folder / "in.jsonl", documents)
        like = {"like": paths[0]} if paths else {}
        share = {"test_share": 0.4, "seed": 2} if not paths else {"test_share": 0.2, "seed": 3}
        paths.append(converted_alike(comm, "jsonl", inputs, folder, group=group, **share, **like)[2])
    sides = []
    for path in paths:
        with DataFile(path) as data:
            keys, groups = data.map("row_keys"), data.map("row_groups") if data.has_groups else None
            test = set(keys[data.split("test")].tolist())
            sides.append({key: key in test for key in keys.tolist()})
            if groups is not None:
                assert not set(groups[data.split("test")].tolist()) & set(groups[data.split("train")].tolist())
    assert (group is not None) == (groups is not None)
    assert sides[0].items() <= sides[1].items() and len(sides[1]) == 130

    train("dual", comm, paths[0], mpi_tmp_path / "run")
    model = share_model(comm, mpi_tmp_path / "run" / "model.h5")
    with DataFile(paths[1]) as data:
        found = evaluate(comm, model, data, "all", QUIET)
    assert found.seen == (sum(not in_test for in_test in sides[0].values()), False)


def test_splits_of_a_dataset(comm, mpi_tmp_path):
    folder = by_one_rank(comm, lambda: (mpi_tmp_path / "in").mkdir() or mpi_tmp_path / "in")
    inputs = write(comm, folder / "in.jsonl", [document(n, True) for n in range(90)])
    _, _, path = converted_alike(comm, "jsonl", inputs, folder, group="work")
    for by, output in ((comm, "ranks.h5"), (mpi.self_comm(), "alone.h5")):
        if by is comm or comm.rank == 0:
            split(by, path, mpi_tmp_path / output, 0.3, True, 7, False, QUIET, 0.2)
    comm.barrier()
    assert (mpi_tmp_path / "ranks.h5").read_bytes() == (mpi_tmp_path / "alone.h5").read_bytes()


def test_changed_value_raises_the_same_error_on_every_rank(comm, mpi_tmp_path):
    def make():
        path = mpi_tmp_path / "data.h5"
        X, Y = random_data(1, 300, 40, 3, density=0.5)
        hpcml.Dataset.from_sparse(X, (Y != 0).astype(np.float32), path).__exit__()
        with h5py.File(path, "r+") as file:
            file["X/data"][-1] += 1
        return path

    path = by_one_rank(comm, make)
    with DataFile(path) as data, pytest.raises(DataError, match="X/data does not have its checksum") as caught:
        load_shard(comm, data, "all")
    assert len(set(comm.allgather(str(caught.value)))) == 1


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


class LateNode(MPI.Intracomm):
    """The last rank goes on after `wait` when all others are at a barrier or have called `arrive`."""

    arrived = False

    def arrive(self):
        if not self.arrived and self.rank < self.size - 1:
            self.send(None, self.size - 1)
        self.arrived = True

    def wait(self):
        for rank in range(self.size - 1 if self.rank == self.size - 1 else 0):
            self.recv(source=rank)

    def Barrier(self):
        self.arrive()
        super().Barrier()


def test_no_rank_reads_rows_that_another_has_not_written(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(5, 57, 23, 4))
    node, sums = LateNode(comm), mpi.exclusive_sum
    # the sums of the four labels come just before their rows are written
    monkeypatch.setattr(mpi, "exclusive_sum", lambda by, n: (sums(by, n), by.wait() if by is node and len(n) == 4 else None)[0])
    monkeypatch.setattr(module, "room_per_rank", lambda _node: 0)
    with DataFile(data) as opened:
        found = node_rows(node, mpi.self_comm(), load_shard(comm, opened, "all"), True)[0].label_rows.copy()
        node.arrive()
        expected = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), opened, "all"), True)[0].label_rows
    assert found.tolist() == expected.tolist()


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

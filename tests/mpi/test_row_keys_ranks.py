"""Splits by keys of rows, groups, `--like`, known rows and checksums on any number of ranks: those of one rank."""

import json

import h5py
import numpy as np
import pytest
from support.converted import converted_alike
from support.make import by_one_rank, random_data
from support.training import train

import hpcml
from hpcml import mpi
from hpcml.conversion.split import split
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import DataError
from hpcml.evaluation.evaluate import evaluate
from hpcml.log import Log
from hpcml.model.open import share_model

pytestmark = pytest.mark.mpi
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


def test_a_changed_value_is_one_sentence_on_every_rank(comm, mpi_tmp_path):
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

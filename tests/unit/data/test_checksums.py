"""Values that are not those that were written, and a dataset that changed between a stop and its resumption."""

from itertools import pairwise

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import DataError, Interrupted
from hpcml.files.slabs import BLOCK, add_checksums


def made(path, m=4000, seed=0, **more):
    X = sp.random(m, 40, 0.5, random_state=seed, format="csr", dtype=np.float32)
    Y = sp.csr_matrix(np.random.default_rng(seed).random((m, 3)) < 0.3)
    hpcml.Dataset.from_sparse(X, Y, path, force=True, **more).__exit__()
    return path


@given(st.integers(1, 5), st.integers(0, 2**31), st.sampled_from(["<i4", "<f4", "<i8", "<u8"]))
def test_parts_add_up(n_parts, seed, dtype):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**31, 3 * BLOCK // 2).astype(dtype)
    size = -(-values.size * (values.itemsize // 4) // BLOCK)
    whole, parts = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    add_checksums(values, 0, whole)
    bounds = np.sort(np.concatenate([[0, values.size], rng.integers(0, values.size + 1, n_parts)]))
    for begin, end in pairwise(bounds.tolist()):
        add_checksums(values[begin:end], begin, parts[begin * (values.itemsize // 4) // BLOCK :])
    assert np.array_equal(whole, parts)
    changed = values.copy()
    changed[rng.integers(values.size)] += 1
    other = np.zeros(size, np.uint64)
    add_checksums(changed, 0, other)
    assert np.count_nonzero(other != whole) == 1 or np.array_equal(changed, values)


@pytest.mark.parametrize("place", [0, 1, 70_000, -1])
def test_a_changed_value_is_found_by_who_reads_it(tmp_path, place):
    path = made(tmp_path / "data.h5")
    with DataFile(path) as data:
        load_shard(mpi.self_comm(), data, "all")
    with h5py.File(path, "r+") as file:
        file["X/data"][place] = np.nextafter(file["X/data"][place], np.float32(2))
    with (
        DataFile(path) as data,
        pytest.raises(DataError, match="X/data does not have its checksum"),
    ):
        load_shard(mpi.self_comm(), data, "all")


def test_every_reader_finds_a_changed_value_in_the_block_of_its_rows(tmp_path):
    """Rows of a split may lie in the middle of a block."""
    path = made(tmp_path / "data.h5", 400, splits={"train": np.arange(200), "test": np.arange(200, 400)})
    hpcml.train("dual", path, output=tmp_path / "run")
    model = tmp_path / "run" / "model.h5"
    with h5py.File(path, "r+") as file:
        file["X/data"][-1] += 0.5
    with hpcml.Dataset(path) as data:
        calls = (
            lambda: data.matrix("test"),
            lambda: data.labels("test"),
            lambda: hpcml.evaluate(model, path, split="test"),
            lambda: hpcml.explain(model, path, row=["399"]),
            lambda: hpcml.cross_validate(["dual"], [path], folds=2),
        )
        for call in calls:
            with pytest.raises(DataError, match="X/data does not have its checksum"):
                call()


@pytest.mark.parametrize("command", ["train", "tune", "retrain"])
def test_a_finished_run_is_not_that_of_a_dataset_that_changed(tmp_path, command):
    path, run, base = made(tmp_path / "data.h5", 200), tmp_path / "run", tmp_path / "base"
    hpcml.train("dual", made(tmp_path / "before.h5", 200, 7), output=base)
    call = {
        "train": lambda **more: hpcml.train("dual", path, output=run, **more),
        "tune": lambda **more: hpcml.tune(path, run, method="dual", folds=3, **more),
        "retrain": lambda **more: hpcml.retrain(base, path, run, **more),
    }[command]
    call()
    call(resume=True)
    before = (run / "model.h5").read_bytes()
    made(path, 200, 1)
    with pytest.raises(DataError, match="this run was started on other data"):
        call(resume=True)
    assert (run / "model.h5").read_bytes() == before


def test_labels_that_move_to_another_row_are_found(tmp_path):
    path = made(tmp_path / "data.h5")
    with h5py.File(path, "r+") as file:
        row = int(np.flatnonzero(np.diff(file["Y/indptr"][:]) == 1)[0])
        place = int(file["Y/indptr"][row])
        file["Y/indices"][place] = (int(file["Y/indices"][place]) + 1) % 3
    with DataFile(path) as data, pytest.raises(DataError, match="Y/indices does not have its checksum"):
        load_shard(mpi.self_comm(), data, "all")


def test_the_fingerprint_is_that_of_the_content(tmp_path):
    prints = []
    for name, seed, more in (
        ("a", 0, {}),
        ("b", 0, {"splits": {"train": np.arange(9)}}),
        ("c", 1, {}),
        ("d", 0, {"ids": [f"r{n}" for n in range(4000)]}),
    ):
        with DataFile(made(tmp_path / f"{name}.h5", seed=seed, **more)) as data:
            prints.append(data.fingerprint)
    assert prints[0] == prints[1] and len(set(prints)) == 3


METHODS = {
    "dual": {},
    "probe": {},
    "elastic-net": {},
    "mbw": {"checkpoint_every": 1e-9},
    "psbml": {"label": "0", "base": "gaussian-nb", "cycles": 50, "checkpoint_every": 1e-9},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_dataset_that_changed_is_not_resumed_on(tmp_path, method):
    path, run = made(tmp_path / "data.h5"), tmp_path / "run"
    with pytest.raises(Interrupted):
        hpcml.train(method, path, output=run, time_limit=1e-9, **METHODS[method])
    before = sorted(each.name for each in run.rglob("*"))
    X = hpcml.Dataset(path).matrix()
    X.data[-1] += 1
    with hpcml.Dataset(path) as data:
        Y = data.labels()
    hpcml.Dataset.from_sparse(X, Y, path, force=True).__exit__()
    with pytest.raises(DataError, match="was started on other data"):
        hpcml.train(method, path, output=run, resume=True, **METHODS[method])
    assert sorted(each.name for each in run.rglob("*")) == before

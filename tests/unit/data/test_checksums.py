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
from hpcml.errors import DataError
from hpcml.files.slabs import BLOCK, add_checksums


def write_dataset(path, m=4000, seed=0, **more):
    X = sp.random(m, 40, 0.5, random_state=seed, format="csr", dtype=np.float32)
    Y = sp.csr_matrix(np.random.default_rng(seed).random((m, 3)) < 0.3)
    hpcml.Dataset.from_sparse(X, Y, path, force=True, **more).__exit__()
    return path


@given(st.integers(1, 5), st.integers(0, 2**31), st.sampled_from(["<i4", "<f4", "<i8", "<u8"]))
def test_checksums_of_parts_add_up(n_parts, seed, dtype):
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


@pytest.mark.parametrize(("name", "place"), [("X/data", 0), ("X/data", 70_000), ("X/data", -1), ("Y/indices", 5)])
def test_reading_detects_a_changed_value(tmp_path, name, place):
    path = write_dataset(tmp_path / "data.h5")
    with DataFile(path) as data:
        load_shard(mpi.self_comm(), data, "all")
    with h5py.File(path, "r+") as file:
        file[name][place] = np.nextafter(file[name][place], np.float32(2)) if name == "X/data" else 2 - file[name][place]
    with (
        DataFile(path) as data,
        pytest.raises(DataError, match=f"{name} does not have its checksum|out of order"),
    ):
        load_shard(mpi.self_comm(), data, "all")


def test_every_reader_checks_the_blocks_of_its_rows(tmp_path):
    """Rows of a split may lie in the middle of a block."""
    path = write_dataset(tmp_path / "data.h5", 400, splits={"train": np.arange(200), "test": np.arange(200, 400)})
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
        )
        for call in calls:
            with pytest.raises(DataError, match="X/data does not have its checksum"):
                call()

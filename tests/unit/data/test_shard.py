import os
from itertools import pairwise

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.edits import attributes, edit, entry
from support.make import dataset, random_data

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import warn_about_unused_rows
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.files.slabs import BLOCK, add_checksums
from hpcml.log import Log


def reshape(name, shape):
    return attributes({"shape": shape}, name)


def repeat(name):

    def apply(file):
        begin = file[f"{name}/indptr"][np.flatnonzero(np.diff(file[f"{name}/indptr"][:]) >= 2)[0]]
        file[f"{name}/indices"][begin] = file[f"{name}/indices"][begin + 1]

    return apply


def borrow(file):
    size = file["X/indices"].shape[0]
    del file["X/indices"]
    file.create_dataset("X/indices", shape=(size,), dtype="i4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


DAMAGE = {
    "index too large": entry("X/indices", 5, 2**31 - 1),
    "label too large": entry("Y/indices", 0, 2**31 - 1),
    "indptr too large": entry("X/indptr", 3, 2**60),
    "indptr decreases": entry("X/indptr", 30, 0),
    "split out of range": entry("splits/train", 29, 1000),
    "split out of order": entry("splits/train", 3, 0),
    "too many rows": reshape("X", [10**15, 20]),
    "no shape": reshape("X", 5),
    "negative": reshape("Y", [60, -3]),
    "a feature twice": repeat("X"),
    "a label twice": repeat("Y"),
    "by columns": attributes({"encoding-type": "csc_matrix"}, "X"),
    "other file": borrow,
}


@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_rejects_damaged_dataset(tmp_path, what):
    path = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4), splits={"train": np.arange(30) * 2})
    edit(path, DAMAGE[what])
    with pytest.raises(DataError, match=r"data\.h5"), DataFile(path) as data:
        load_shard(mpi.self_comm(), data, "train")


def test_warns_about_overlapping_splits(tmp_path, capsys):
    path = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4), splits={"train": np.arange(40), "test": np.arange(37, 60)})
    with DataFile(path) as data:
        warn_about_unused_rows(mpi.self_comm(), data, "train", Log(0))
    said = capsys.readouterr().err
    assert "warning: " in said and "data.h5: 3 rows are in more than one of the splits test, train" in said


def test_rejects_file_truncated_while_open(tmp_path):
    path = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4))
    with DataFile(path) as data:
        size = data.map("X/indptr").size
        os.truncate(path, 1000)
        with pytest.raises(DataError, match=r"data\.h5: the file was changed while it was in use"):
            data.map("X/indptr", 0, size)


@pytest.mark.parametrize(
    ("method", "error", "said"),
    [
        ("dual", DataError, "rank 0 ran out of memory while making room for the features"),
        ("probe", ConfigError, "not enough memory: .* with its rows on disk"),
    ],
)
def test_reports_more_features_than_memory(tmp_path, method, error, said):
    from support.training import train

    path = dataset(tmp_path / "data.h5", *random_data(7, 60, 20, 4))
    edit(path, reshape("X", [60, 2**45]))
    with pytest.raises(error, match=said):
        train(method, None, path, tmp_path / "run", {})


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("X/indptr", {1: 2**63 - 1, 2: -2}, "decreases"),  # each difference is positive in int64
        ("Y/indptr", {1: 2**63 - 1, 2: -2}, "decreases"),
        ("splits/some", {1: 19}, "out of order"),  # its ends are as far apart as it is long
        ("splits/some", {1: 2**62, 2: -(2**62)}, "out of order"),
    ],
)
def test_rejects_numbers_that_lead_out_of_a_shard(tmp_path, name, change, said):
    path = dataset(tmp_path / "data.h5", np.ones((20, 3)), np.ones((20, 2)), splits={"some": [0, 1, 2, 3]})
    edit(path, *(entry(name, place, value) for place, value in change.items()))
    with DataFile(path) as damaged, pytest.raises(DataError, match=said):
        load_shard(mpi.self_comm(), damaged, "some")


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

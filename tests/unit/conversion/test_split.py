"""Training and test rows."""

import time

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.converted import converted
from support.make import dataset, random_data

from hpcml import mpi
from hpcml.conversion.split import random_test, split, stratified_test
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log


def run(path, output=None, test_share=0.3, stratified=False, seed=0, force=False, valid_share=None):
    split(mpi.self_comm(), path, output, test_share, stratified, seed, force, Log(0), valid_share)


@pytest.fixture
def path(tmp_path):
    return dataset(tmp_path / "data.h5", *random_data(5, 200, 12, 4), row_ids=[f"r{i}" for i in range(200)])


def test_random_split_of_a_file_in_place(path):
    with h5py.File(path) as file:
        before = {name: file[name][:] for name in ("X/indptr", "X/indices", "X/data", "Y/indptr", "Y/indices", "row_ids")}
    run(path, seed=3)
    expected = random_test(3, 0.3, np.arange(200))
    with DataFile(path) as data:
        assert data.split("test").tolist() == np.flatnonzero(expected).tolist()
        assert data.split("train").tolist() == np.flatnonzero(~expected).tolist()
        assert all((data.file[name][:] == values).all() for name, values in before.items())
    assert 30 < expected.sum() < 90
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


@pytest.mark.parametrize("stratified", [False, True])
def test_rows_to_choose_thresholds_by(path, tmp_path, stratified):
    run(path, tmp_path / "two.h5", stratified=stratified)
    run(path, tmp_path / "three.h5", stratified=stratified, valid_share=0.25)
    with DataFile(tmp_path / "two.h5") as two, DataFile(tmp_path / "three.h5") as three:
        parts = {name: three.split(name).tolist() for name in ("train", "valid", "test")}
        assert parts["test"] == two.split("test").tolist()
        assert sorted(row for rows in parts.values() for row in rows) == list(range(200))
        assert 30 < len(parts["valid"]) < 70


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"valid_share": 0.7}, "leave no training rows"),
        ({"valid_share": 1.5}, "--valid-share 1.5"),
        ({"valid_share": 1e-9}, "the split valid of 200"),
        ({"test_share": 1e-6}, "the split test of 200 rows would be empty"),
    ],
)
def test_shares_that_leave_a_split_empty(path, shares, message):
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=message):
        run(path, **shares)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


def test_a_draw_belongs_to_the_row_not_to_the_call():
    whole = random_test(1, 0.5, np.arange(100))
    assert (random_test(1, 0.5, np.arange(40, 70)) == whole[40:70]).all()
    assert (random_test(2, 0.5, np.arange(100)) != whole).any()


def test_convert_makes_the_same_split(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{i % 3} {i + 1}:1\n" for i in range(50)))
    for name, options in {"a": {"test_share": 0.4, "seed": 9}, "b": {}}.items():
        converted("svmlight", tmp_path / "a.svm", tmp_path / f"{name}.h5", **options)
    run(tmp_path / "b.h5", tmp_path / "c.h5", 0.4, seed=9)
    with DataFile(tmp_path / "a.h5") as a, DataFile(tmp_path / "b.h5") as b, DataFile(tmp_path / "c.h5") as c:
        assert b.split_names() == []
        for name in ("train", "test"):
            assert a.split(name).tolist() == c.split(name).tolist()


@given(
    sets=st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=40),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 5),
)
def test_strata_keep_the_share(sets, share, seed):
    Y = sp.csr_matrix([[label in labels for label in range(6)] for labels in sets], dtype=bool)
    test = stratified_test(seed, share, 6, Y.indptr.astype(np.int64), Y.indices)
    frequency = Y.toarray().sum(axis=0)
    strata = {}
    for row, labels in enumerate(sets):
        strata.setdefault(min(labels, key=lambda label: (frequency[label], label), default=None), []).append(row)
    for rows in strata.values():
        assert test[rows].sum() == np.floor(share * len(rows) + 0.5)


def test_stratified_file(path):
    run(path, test_share=0.25, stratified=True)
    with DataFile(path) as data:
        assert abs(data.split("test").size - 50) <= 5
        assert sorted([*data.split("test"), *data.split("train")]) == list(range(200))


def test_splits_are_replaced_only_with_force(path, tmp_path):
    run(path)
    for output in (None, tmp_path / "new.h5"):
        with pytest.raises(ConfigError, match="has splits"):
            run(path, output, seed=1)
    run(path, seed=1, force=True)
    with DataFile(path) as data:
        assert data.split("test").tolist() == np.flatnonzero(random_test(1, 0.3, np.arange(200))).tolist()


def test_bytes_do_not_depend_on_the_time(path, tmp_path):
    run(path, tmp_path / "first.h5")
    second = int(time.time())
    while int(time.time()) == second:  # HDF5's time stamps count seconds
        pass
    run(path, tmp_path / "second.h5")
    assert (tmp_path / "first.h5").read_bytes() == (tmp_path / "second.h5").read_bytes()


def test_output_is_replaced_only_with_force(path, tmp_path):
    (tmp_path / "new.h5").write_text("precious")
    with pytest.raises(ConfigError, match=r"new\.h5 exists already"):
        run(path, tmp_path / "new.h5")
    assert (tmp_path / "new.h5").read_text() == "precious"
    run(path, tmp_path / "new.h5", force=True)
    with DataFile(tmp_path / "new.h5") as new, DataFile(path) as old:
        assert new.split_names() == ["test", "train"]
        assert old.split_names() == []


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_bad_share(path, share):
    with pytest.raises(ConfigError, match=r"--test-share .*: expected a number between 0 and 1"):
        run(path, test_share=share)
    with pytest.raises(ConfigError, match="--test-share"):
        converted("docstrings", [], path, test_share=share)


def test_not_a_dataset(tmp_path):
    (tmp_path / "no.h5").write_text("text")
    with pytest.raises(DataError, match=r"no\.h5: not an HDF5 file"):
        run(tmp_path / "no.h5")

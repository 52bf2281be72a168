"""Random and stratified splits."""

import time

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.converted import check_refusal, converted
from support.make import dataset, random_data

from hpcml import mpi
from hpcml.conversion.split import draw_test_rows, split
from hpcml.data.dataset import DataFile
from hpcml.data.stratify import assign, divide
from hpcml.errors import ConfigError
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
    with DataFile(path) as data:
        expected = draw_test_rows(3, 0.3, data.map("row_keys"))
        assert data.split("test").tolist() == np.flatnonzero(expected).tolist()
        assert data.split("train").tolist() == np.flatnonzero(~expected).tolist()
        assert all((data.file[name][:] == values).all() for name, values in before.items())
    assert 30 < expected.sum() < 90
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


@pytest.mark.parametrize("stratified", [False, True])
def test_validation_rows(path, tmp_path, stratified):
    run(path, tmp_path / "two.h5", stratified=stratified)
    run(path, tmp_path / "three.h5", stratified=stratified, valid_share=0.25)
    with DataFile(tmp_path / "two.h5") as two, DataFile(tmp_path / "three.h5") as three:
        parts = {name: three.split(name).tolist() for name in ("train", "valid", "test")}
        assert stratified or parts["test"] == two.split("test").tolist()
        assert sorted(row for rows in parts.values() for row in rows) == list(range(200))
        assert 30 < len(parts["valid"]) < 70


@pytest.mark.parametrize(
    ("shares", "word"),
    [
        ({"valid_share": 0.7}, "--valid-share 0.7"),
        ({"valid_share": 1.5}, "--valid-share 1.5"),
        ({"valid_share": 1e-9}, "split valid"),
        ({"test_share": 1e-6}, "split test"),
        *(({"test_share": share}, "--test-share") for share in (0, 1, -0.1, float("nan"))),
    ],
)
def test_bad_shares_are_refused(path, shares, word):
    before = path.read_bytes()
    check_refusal(lambda: run(path, **shares), word)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["data.h5"]


def test_convert_makes_the_same_split(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{i % 3} {i + 1}:1\n" for i in range(50)))
    for name, options in {"a": {"test_share": 0.4, "seed": 9}, "b": {}}.items():
        converted("svmlight", tmp_path / "a.svm", tmp_path / f"{name}.h5", **options)
    run(tmp_path / "b.h5", tmp_path / "c.h5", 0.4, seed=9)
    with DataFile(tmp_path / "a.h5") as a, DataFile(tmp_path / "b.h5") as b, DataFile(tmp_path / "c.h5") as c:
        assert b.split_names() == []
        for name in ("train", "test"):
            assert a.split(name).tolist() == c.split(name).tolist()


@st.composite
def label_sets(draw):
    n_labels = draw(st.integers(1, 30))
    sets = draw(st.lists(st.sets(st.integers(0, n_labels - 1), max_size=4), min_size=2, max_size=80))
    Y = sp.csr_matrix([[label in labels for label in range(n_labels)] for labels in sets], dtype=bool)
    return n_labels, Y.indptr.astype(np.int64), Y.indices


@given(label_sets(), st.floats(0.02, 0.5), st.floats(0.02, 0.4), st.integers(0, 5))
def test_stratified_parts_keep_their_shares_to_one_row(rows, test_share, valid_share, seed):
    n_labels, indptr, indices = rows
    shares = np.array([test_share, valid_share, 1 - test_share - valid_share])
    part = divide(n_labels, indptr, indices, shares, np.arange(indptr.size - 1, dtype=np.uint64), seed)
    assert (np.abs(np.bincount(part, minlength=3) - shares * part.size) <= 1).all()


def test_long_tailed_labels_keep_the_share():
    rng = np.random.default_rng(0)
    chances = np.arange(1, 20001) ** -0.8
    Y = np.sort(np.stack([rng.choice(20000, 5, replace=False, p=chances / chances.sum()) for _ in range(1000)]), axis=1)
    indptr, keys = np.arange(0, Y.size + 1, 5), rng.integers(0, 2**63, len(Y)).astype(np.uint64)
    for share in (0.1, 0.3):
        test = divide(20000, indptr, Y.ravel(), np.array([share, 1 - share]), keys, 0) == 0
        assert abs(test.sum() - share * len(Y)) <= 1
        frequent = np.flatnonzero(np.bincount(Y.ravel(), minlength=20000) > 40)
        shares = np.array([test[(label == Y).any(axis=1)].mean() for label in frequent])
        assert np.abs(shares - share).max() < 0.08


@given(label_sets(), st.integers(1, 12), st.integers(0, 3))
def test_parts_and_folds_do_not_divide_groups(rows, n_groups, seed):
    n_labels, indptr, indices = rows
    keys = np.random.default_rng(seed).integers(0, n_groups, indptr.size - 1).astype(np.uint64)
    part = divide(n_labels, indptr, indices, np.array([0.3, 0.7]), keys, seed)
    fold = assign(n_labels, indptr, indices, np.full(3, 1 / 3), np.full(3, keys.size), keys, keys)
    for group in np.unique(keys):
        assert len(set(part[keys == group])) == len(set(fold[keys == group])) == 1
    assert abs((part == 0).sum() - 0.3 * part.size) <= np.bincount(keys.astype(int)).max()


def test_parts_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    Y = sp.random(300, 40, 0.05, random_state=1, format="csr").astype(bool)
    keys, order = rng.integers(0, 2**62, 300).astype(np.uint64), rng.permutation(300)
    shares = np.array([0.25, 0.75])
    rows = Y[order].sorted_indices()
    part = divide(40, Y.indptr.astype(np.int64), Y.indices, shares, keys, 7)
    other = divide(40, rows.indptr.astype(np.int64), rows.indices, shares, keys[order], 7)
    assert np.array_equal(part[order], other)


def test_splits_are_replaced_only_with_force(path, tmp_path):
    run(path)
    for output in (None, tmp_path / "new.h5"):
        with pytest.raises(ConfigError, match="has splits"):
            run(path, output, seed=1)
    run(path, seed=1, force=True)
    with DataFile(path) as data:
        assert data.split("test").tolist() == np.flatnonzero(draw_test_rows(1, 0.3, data.map("row_keys"))).tolist()


def test_bytes_do_not_depend_on_time(path, tmp_path):
    run(path, tmp_path / "first.h5")
    second = int(time.time())
    while int(time.time()) == second:  # HDF5's time stamps count seconds
        time.sleep(0.05)
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

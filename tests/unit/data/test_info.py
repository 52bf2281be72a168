import re

import h5py
import numpy as np
import pytest
from support.edits import attributes, entry, remove, replace
from support.make import dataset, random_data

from hpcml import mpi
from hpcml.data import in_memory
from hpcml.data import info as module
from hpcml.data.info import info
from hpcml.errors import DataError

N_ROWS = 60


@pytest.fixture
def path(tmp_path):
    X, Y = random_data(2, N_ROWS, 9, 5)
    splits = {"train": range(0, N_ROWS, 2), "test": range(1, N_ROWS, 4)}
    names = {"feature_names": [f"f{i}" for i in range(9)], "label_names": list("abcde"), "row_ids": [str(i) for i in range(N_ROWS)]}
    return dataset(tmp_path / "data.h5", X, Y, splits=splits, **names)


def test_counts_rows_labels_and_shards(path):
    X, Y = random_data(2, N_ROWS, 9, 5)
    found = info(mpi.self_comm(), path, [1, 3, 100])
    assert f"{path}: {N_ROWS} rows × 9 features × 5 labels, " in found
    assert f"{X.nnz:,} ({X.nnz / (N_ROWS * 9):.3%} of X;" in found
    counts = (Y.toarray() != 0).astype(int)
    by_label = {words[0]: list(map(int, words[1:])) for words in map(str.split, found.splitlines()[-5:])}
    for column, rows in enumerate((slice(None), slice(1, None, 4), slice(0, None, 2))):  # all, test, train
        assert [by_label[name][column] for name in "abcde"] == counts[rows].sum(axis=0).tolist()
    assert "  splits    test 15, train 30\n" in found
    assert f"  on 1 rank: the shard of train has 30 rows, {X[::2].nnz} values, " in found
    three, many = (re.search(rf"on {n} ranks: a shard of train has (\d+)(?: to (\d+))? rows, ", found) for n in (3, 100))
    assert int(three[1]) <= 10 <= int(three[2] or three[1])
    assert int(many[1]) == 0 < int(many[2])


def disorder(which, places):

    def damage(file):
        row = int(np.flatnonzero(np.diff(file["X/indptr"][:]) >= 2)[which])
        begin = file["X/indptr"][row]
        file["X/indices"][begin : begin + 2] = file["X/indices"][begin : begin + 2][places]
        return rf"X/indices: row {row}: \d is not above the one before it"

    return damage


def set_value(name, place, value, message):

    def damage(file):
        row = int(np.searchsorted(file[name.split("/")[0] + "/indptr"][:], place, side="right")) - 1
        file[name][place] = value
        return f"{name}: row {row}: {message}"

    return damage


def shorten(name):
    return replace(name, lambda values: values[:-1])


DAMAGE = {
    "order": (disorder(0, [1, 0]), None),
    "duplicate": (disorder(-1, [0, 0]), None),
    "column": (set_value("X/indices", 20, 9, "9 is not one of the columns 0 to 8"), None),
    "negative column": (set_value("X/indices", 7, -1, "-1 is not one of the columns 0 to 8"), None),
    "nan": (set_value("X/data", 33, np.nan, "nan is not a finite number"), None),
    "indptr falls": (entry("X/indptr", 30, 0), r"X/indptr: row 29: falls from \d+ to 0"),
    "indptr begin": (entry("Y/indptr", 0, 1), "Y/indptr: begins with 1, but expected 0"),
    "indptr end": (entry("X/indptr", N_ROWS, 9999), "X/indptr: ends with 9999, but there are"),
    "split order": (entry("splits/train", 3, 4), "splits/train: row 4 is not above the one before it"),
    "split range": (entry("splits/test", 14, 60), "splits/test: row 60 is not one of the rows 0 to 59"),
    "label names": (shorten("label_names"), "label_names has 4 names, but expected 5"),
    "data": (shorten("X/data"), "X/data has .* entries, but expected"),
    "no data": (remove("Y/data"), "Y/data is missing"),
    "by columns": (attributes({"encoding-type": "csc_matrix"}, "X"), "X is stored as csc_matrix, but expected csr_matrix"),
    "equal labels": (entry("label_names", 3, "b"), "two labels have the name 'b'"),
    "equal features": (entry("feature_names", 6, "f2"), "feature_names: features 2 and 6 have the name 'f2'"),
}


@pytest.mark.parametrize("block", [7, pytest.param(1 << 22, marks=pytest.mark.more("files", one_in=4))])
@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_check_finds_damage(path, monkeypatch, kind, block):
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(in_memory, "BLOCK", block)
    damage, message = DAMAGE[kind]
    with h5py.File(path, "r+") as file:
        message = damage(file) or message
    with pytest.raises(DataError, match=r"data\.h5: " + message):
        info(mpi.self_comm(), path, [1])

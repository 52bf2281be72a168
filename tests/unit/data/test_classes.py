import numpy as np
import pytest
from support.make import class_data, dataset, random_data

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.labels import read_classes
from hpcml.errors import ConfigError, DataError


def read(path, label=None, split="all"):
    with DataFile(path) as opened:
        return read_classes(mpi.self_comm(), opened, split, label)


def one_hot(y, n_labels):
    return np.asarray(y)[:, None] == np.arange(n_labels)


@pytest.mark.parametrize(
    ("n_columns", "names", "label", "expected", "of"),
    [
        (1, ["spam"], None, ["spam"], lambda y: y == 0),
        (2, ["no", "yes"], None, ["yes"], lambda y: y),  # the second label is class 1
        (2, ["no", "yes"], "no", ["no"], lambda y: y == 0),
        (4, list("abcd"), None, list("abcd"), lambda y: y),
        (4, list("abcd"), "c", ["c"], lambda y: y == 2),
    ],
)
def test_names_and_numbers_of_classes(tmp_path, n_columns, names, label, expected, of):
    X, y, _ = class_data(0, 40, 5, max(2, n_columns))
    rows = np.array([1, 2, 7, 20, 21, 30, 38, 39])
    path = dataset(tmp_path / "data.h5", X, one_hot(y, n_columns), label_names=names, splits={"train": rows})
    for split, chosen in (("all", np.arange(40)), ("train", rows)):
        classes = read(path, label, split)
        assert (classes.names, classes.n_classes) == (expected, max(2, len(expected)))
        assert classes.of.tolist() == of(y)[chosen].astype(int).tolist() and classes.rows.tolist() == chosen.tolist()
        assert (classes.rows.dtype, classes.of.dtype) == (np.int64, np.int32)


def test_one_label_against_rows_with_any_number_of_labels(tmp_path):
    X, Y = random_data(3, 50, 5, 4, density=0.4)
    path = dataset(tmp_path / "data.h5", X, Y)
    for number in range(4):
        assert read(path, f"label{number}").of.tolist() == (Y.toarray()[:, number] != 0).astype(int).tolist()


def test_label_without_rows_keeps_its_number(tmp_path):
    y = np.array([0, 2, 2, 0, 2])
    classes = read(dataset(tmp_path / "data.h5", np.eye(5), one_hot(y, 4)))
    assert (classes.n_classes, classes.of.tolist()) == (4, y.tolist())


def test_rejects_rows_without_classes(tmp_path):
    Y = one_hot(np.arange(12) % 3, 3).astype(float)
    Y[7], Y[9] = 0, [1, 1, 0]
    splits = {"none": [1, 7, 8], "two": [1, 8, 9], "sound": [0, 1, 2], "same": [0, 3, 6]}
    path = dataset(tmp_path / "data.h5", np.eye(12), Y, splits=splits)
    for label, split, error, message in (
        ("lable1", "all", ConfigError, r"data\.h5: no label 'lable1'; did you mean 'label1'"),
        (None, "none", ConfigError, "row 7 has 0 labels, .*--label"),
        (None, "two", ConfigError, "row 9 has 2 labels, .*--label"),
        (None, "same", DataError, "all 3 rows of the split same are of one class"),
        ("label2", "same", DataError, "all 3 rows of the split same are of one class"),
    ):
        with pytest.raises(error, match=message):
            read(path, label, split)
    assert read(path, split="sound").of.tolist() == [0, 1, 2]

"""The classes of a split: one label against the rest, two labels, many; and what is refused."""

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


def test_a_single_label_is_had_or_not(tmp_path):
    X, y, Y = class_data(0, 40, 5, 2)
    classes = read(dataset(tmp_path / "data.h5", X, Y, label_names=["spam"]))
    assert (classes.names, classes.n_classes, classes.of.tolist()) == (["spam"], 2, y.tolist())
    assert (classes.rows.tolist(), classes.rows.dtype, classes.of.dtype) == (list(range(40)), np.int64, np.int32)


def test_the_second_of_two_labels_is_class_1(tmp_path):
    X, y, _ = class_data(1, 40, 5, 2)
    path = dataset(tmp_path / "data.h5", X, one_hot(y, 2), label_names=["no", "yes"])
    classes = read(path)
    assert (classes.names, classes.n_classes, classes.of.tolist()) == (["yes"], 2, y.tolist())
    chosen = read(path, "no")
    assert (chosen.names, chosen.of.tolist()) == (["no"], (1 - y).tolist())


def test_each_of_many_labels_is_a_class(tmp_path):
    X, y, Y = class_data(2, 60, 5, 4)
    classes = read(dataset(tmp_path / "data.h5", X, Y))
    assert (classes.names, classes.n_classes) == ([f"label{i}" for i in range(4)], 4)
    assert classes.of.tolist() == y.tolist()


def test_one_label_of_many_against_the_rest(tmp_path):
    X, Y = random_data(3, 50, 5, 4, density=0.4)  # rows with no label and with several
    path = dataset(tmp_path / "data.h5", X, Y)
    for number in range(4):
        classes = read(path, f"label{number}")
        assert (classes.names, classes.n_classes) == ([f"label{number}"], 2)
        assert classes.of.tolist() == (Y.toarray()[:, number] != 0).astype(int).tolist()


def test_a_split_has_its_own_rows(tmp_path):
    X, y, Y = class_data(4, 50, 5, 3)
    chosen = np.array([1, 2, 7, 20, 21, 30, 44, 49])
    path = dataset(tmp_path / "data.h5", X, Y, splits={"train": chosen})
    classes = read(path, split="train")
    assert classes.rows.tolist() == chosen.tolist()
    assert classes.of.tolist() == y[chosen].tolist()
    against = read(path, "label0", split="train")
    assert against.of.tolist() == (y[chosen] == 0).astype(int).tolist()


def test_a_label_without_rows_keeps_its_number(tmp_path):
    y = np.array([0, 2, 2, 0, 2])
    classes = read(dataset(tmp_path / "data.h5", np.eye(5), one_hot(y, 4)))
    assert (classes.n_classes, classes.of.tolist()) == (4, y.tolist())


def test_unknown_label(tmp_path):
    X, _, Y = class_data(5, 30, 5, 3)
    path = dataset(tmp_path / "data.h5", X, Y)
    with pytest.raises(ConfigError, match=r"data\.h5: no label 'lable1'; did you mean 'label1'"):
        read(path, "lable1")
    with pytest.raises(ConfigError, match=r"no label 'zzz'; .+"):
        read(path, "zzz")


@pytest.mark.parametrize("n_labels", [0, 2])
def test_row_without_exactly_one_label(tmp_path, n_labels):
    Y = one_hot(np.arange(12) % 3, 3).astype(float)
    Y[7] = [1, 1, 0] if n_labels else 0
    path = dataset(tmp_path / "data.h5", np.eye(12), Y, splits={"train": [1, 7, 8, 9], "test": [0, 1, 2]})
    for split in ("all", "train"):
        with pytest.raises(ConfigError, match=rf"row 7 has {n_labels} labels, .*exactly one .*--label"):
            read(path, split=split)
    assert read(path, split="test").of.tolist() == [0, 1, 2]


def test_rows_of_one_class(tmp_path):
    Y = one_hot([0, 1, 1, 1], 3)
    path = dataset(tmp_path / "data.h5", np.eye(4), Y, splits={"train": [1, 2, 3]})
    with pytest.raises(DataError, match=r"all 3 rows of the split train are of one class"):
        read(path, split="train")
    with pytest.raises(DataError, match=r"all 4 rows of the split all are of one class"):
        read(path, "label2")

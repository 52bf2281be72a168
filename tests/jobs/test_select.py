"""`hpcml select` as a process: equal files on any number of ranks, and use of the results."""

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, random_data
from support.tables import table

from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows, read_slab
from hpcml.model.linear import Model


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 400, 60, 5, density=0.1)
    X.data = np.abs(X.data)
    names = [f"word {j}" for j in range(60)]
    return dataset(tmp_path / "data.h5", X, Y, names, splits={"train": np.arange(300), "test": np.arange(300, 400)})


def test_what_is_selected_can_be_trained_on_and_evaluated(standing, data, tmp_path):
    one = ("--label", "label2")
    done(standing(2, "train", "mbw", data, "-o", tmp_path / "efs", *one))
    reduced = tmp_path / "reduced.h5"
    command = ("select", tmp_path / "efs" / "model.h5", "-o", reduced, "--features", 15, "--share", 0.5, "--data", data)
    result = done(standing(2, *command))
    assert "best: word" in result.stdout
    assert wrong(standing, reduced, data, tmp_path / "efs.csv") == by_hand(reduced, data)

    few, again = tmp_path / "few.h5", tmp_path / "again.h5"
    done(standing(2, "select", data, "-o", few, "--by", "ig", "--features", 15, *one))
    done(standing(2, "select", data, "-o", again, "--like", few))
    assert again.read_bytes() == few.read_bytes()
    done(standing(2, "train", "mbw", few, "-o", tmp_path / "ig", *one))
    assert wrong(standing, tmp_path / "ig" / "model.h5", again, tmp_path / "ig.csv") == by_hand(tmp_path / "ig" / "model.h5", again)
    refused(standing(2, "predict", tmp_path / "ig" / "model.h5", data, "-o", tmp_path / "scores.csv"), "has 60 features but")


def by_hand(path, data):
    model = Model(path)
    with DataFile(data) as dataset:
        rows = np.asarray(dataset.split("test"))
        slab = read_slab(dataset, rows, 0, rows.size)
        has = [2 in slab.y_indices[slab.y_indptr[row] : slab.y_indptr[row + 1]] for row in slab.rows]
        X, columns = read_rows(dataset, rows, True).astype(float), np.asarray(model.columns)
        w = np.where(columns < 0, 0, np.asarray(model.W)[0][columns] * np.asarray(model.factors))
        scores = X @ w + np.asarray(model.bias)[0]
    return np.count_nonzero((scores > 0) != has)


def wrong(standing, model, data, target):
    done(standing(2, "evaluate", model, data, "--csv", target))
    (row,) = table(target)
    return int(float(row["misclassified"]))


def test_reduced_model_can_be_trained_further(standing, data, tmp_path):
    run, reduced = tmp_path / "run", tmp_path / "reduced.h5"
    done(standing(2, "train", "mbw", data, "-o", run, "--voted"))
    done(standing(2, "select", run, "-o", reduced, "--features", 3))
    command = ("train", "mbw", data, "--voted", "--initial-model", reduced)
    for n in (1, 2):
        done(standing(n, *command, "-o", tmp_path / f"more{n}"))
    assert (tmp_path / "more1" / "model.h5").read_bytes() == (tmp_path / "more2" / "model.h5").read_bytes()

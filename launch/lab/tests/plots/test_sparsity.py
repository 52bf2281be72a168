"""`hpcml plot sparsity`: the weights that are not 0, added up over the labels."""

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import train

from hpcml.errors import ConfigError, DataError
from hpcml.files.table import read_csv
from hpcml.model.linear import Model
from hpcml.plots.sparsity import plot_run, read_sparsity


def test_labels_that_are_done_keep_their_weights(tmp_path):
    lines = ["label,step,weights", "a,1,5", "a,2,3", '"b\nc",1,1', '"b\nc",2,4', '"b\nc",3,2', "a,1,7"]
    (tmp_path / "history.csv").write_text("\n".join(lines) + "\n")
    found = read_sparsity(tmp_path / "history.csv", 100)
    assert found.weights.tolist() == [13, 14, 12]
    assert found.in_training.tolist() == [3, 2, 1]
    assert found.most == 5 + 4 + 7
    assert "at most 14 (14 %)" in str(found) and "12 (12 %) at the end" in str(found)


@pytest.mark.parametrize(
    "text", ["label,step\na,1\n", "label,step,weights\na,2,3\n", "label,step,weights\n", "label,step,weights\na,1,x\n"]
)
def test_damaged(tmp_path, text):
    (tmp_path / "history.csv").write_text(text)
    with pytest.raises(DataError):
        read_sparsity(tmp_path / "history.csv", 10)


@pytest.mark.parametrize("solver", ["newton", "fobos"])
def test_of_a_run(tmp_path, solver):
    X, Y = random_data(3, 120, 30, 4, density=0.2)
    options = {"solver": solver} | ({"passes": 3} if solver == "fobos" else {})
    report = train("elastic-net", None, dataset(tmp_path / "data.h5", X, Y), tmp_path / "run", options)
    assert "were not 0" in plot_run(None, tmp_path / "run")
    assert (tmp_path / "run" / "sparsity.png").stat().st_size > 1000
    lines = read_csv(tmp_path / "run" / "sparsity.csv")
    model = Model(report.model)
    assert int(lines[-1]["weights"]) == model.n_weights
    assert float(lines[-1]["share"]) == pytest.approx(model.n_weights / (4 * model.n_columns))
    assert np.array([int(line["step"]) for line in lines]).tolist() == list(range(1, len(lines) + 1))
    with pytest.raises(ConfigError, match="exists already"):
        plot_run(None, tmp_path / "run")


def test_of_another_method(tmp_path):
    train("dual", None, dataset(tmp_path / "data.h5", *random_data(3, 40, 10, 2)), tmp_path / "run", {})
    with pytest.raises(ConfigError, match="the picture is about elastic-net"):
        plot_run(None, tmp_path / "run")

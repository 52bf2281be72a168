"""What the convergence figures are made from: the objective and the break-even of the run itself."""

import numpy as np
import pytest
from support.make import dataset, random_data
from support.oracles import hinge_objective, hinge_pass
from support.training import train

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.methods.linear.objective import Objective
from hpcml.methods.probe.options import ProbeOptions
from hpcml.model.linear import Model
from hpcml.plots.convergence import LabelObjective, SplitBreakEven, choose_label, plot_run, safe
from hpcml.run.profile import Profile

ONE = mpi.self_comm()
SPLITS = {"train": np.arange(60), "test": np.arange(60, 90)}


@pytest.fixture
def data(tmp_path):
    return dataset(tmp_path / "data.h5", *random_data(5, 90, 25, 3), splits=SPLITS)


@pytest.mark.parametrize("bias", [False, True])
def test_objective_and_subgradient_are_the_definition(data, bias):
    with DataFile(data) as opened:
        shard = load_shard(ONE, opened, "train")
        rows, _ = compact_rows(ONE, shard, bias)
        options = ProbeOptions(loss="hinge", lam="0.01", dormant=False, precision="double")
        evaluate_label = LabelObjective(Objective(rows, options, Profile()), 1)
        X = np.zeros((rows.n_local, rows.n_columns))
        for row in range(rows.n_local):
            at = slice(rows.indptr[row], rows.indptr[row + 1])
            X[row, rows.indices[at]] = rows.data[at]
        sign = np.full(rows.n_local, -1.0)
        sign[rows.rows_of(1)] = 1.0
        for seed in range(3):
            w = np.random.default_rng(seed).normal(size=rows.n_columns)
            f, g = evaluate_label(w)
            assert f == pytest.approx(hinge_objective(X, sign, w, 0.01), rel=1e-12)
            np.testing.assert_allclose(g, 0.01 * w + hinge_pass(X, sign, w)[1] / sign.size, atol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_break_even_is_that_of_evaluate(data, tmp_path, bias):
    train("probe", None, data, tmp_path / "run", {"bias": bias}, log=Log(1))
    model = Model(tmp_path / "run" / "model.h5")
    with DataFile(data) as opened:
        judged = evaluate(ONE, model, opened, "test", Log(1))
        shard = load_shard(ONE, opened, "test")
        for label in range(3):
            w = np.append(model.W[label], model.bias[label]) if bias else model.W[label]
            measure = SplitBreakEven(ONE, shard, label, (model.columns, model.factors), bias)
            assert measure(w) == judged.values["break_even"][label]


def test_label_without_test_rows_has_no_break_even(data):
    with DataFile(data) as opened:
        shard = load_shard(ONE, opened, "test")
        shard.n_labels = 4  # and no row has the last one
        tables = (np.arange(25, dtype=np.int32), np.ones(25, dtype=np.float32))
        assert np.isnan(SplitBreakEven(ONE, shard, 3, tables, False)(np.ones(25)))


def test_other_data_are_refused(data, tmp_path):
    pytest.importorskip("matplotlib")
    train("probe", None, data, tmp_path / "run", {}, log=Log(1))
    X, Y = random_data(5, 90, 25, 3)
    other = X.copy()
    other.data[0] *= 2
    for name, rows in (("values", (other, Y)), ("labels", (X, Y[:, [1, 0, 2]]))):
        changed = dataset(tmp_path / f"{name}.h5", *rows, splits=SPLITS)
        with pytest.raises(DataError, match="trained on other data"):
            plot_run(None, tmp_path / "run", data=changed, log=Log(1))
    assert not list((tmp_path / "run").glob("convergence*"))


def test_the_label_with_most_positives_that_was_trained_is_the_default(tmp_path):
    Y = np.zeros((20, 4))
    Y[:, 0], Y[:5, 1], Y[:9, 2] = 1, 1, 1
    data = dataset(tmp_path / "data.h5", np.eye(20), Y)
    train("probe", None, data, tmp_path / "run", {"min_positives": 0}, log=Log(1))
    model = Model(tmp_path / "run" / "model.h5")
    assert choose_label(model, None) == "label2"
    assert choose_label(model, "label1") == "label1"
    for label in ("label0", "label3"):
        with pytest.raises(ConfigError, match="no positive or no negative"):
            choose_label(model, label)
    with pytest.raises(ConfigError, match="no such label; did you mean"):
        choose_label(model, "labl1")


@pytest.mark.parametrize(("label", "name"), [("money-fx", "money-fx"), ("a/b: c", "a_b_c"), ("../x", ".._x"), ("ä" * 90, "ä" * 50)])
def test_labels_in_file_names(label, name):
    assert safe(label) == name

"""Training sparse models: the weights that pruning would leave, every method, parts of the labels."""

import math

import numpy as np
import pytest
from support import make
from support.training import asked, merge, minimisers
from support.training import train as train_method

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.reduce.prune import prune

SELF, QUIET = mpi.self_comm(), Log(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The last label has no row at all: its model is constant."""
    X, Y = make.random_data(3, 60, 40, 7)
    Y = Y.tolil()
    Y[:, 6] = 0
    return make.dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y.tocsr())


def train(method, data, run, **options):
    return train_method(method, None, data, run, dict(min_positives=0, **options), log=QUIET)


@pytest.mark.more("methods", one_in=2)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("method", minimisers())
def test_training_sparse_is_training_and_pruning(data, tmp_path, method, precision):
    options = {"precision": precision, "max_steps": 40}
    dense = train(method, data, tmp_path / "dense", **options)
    for below in (0.0, 0.02, 1e9):
        report = train(method, data, tmp_path / f"sparse{below}", drop=below, **options)
        with DataFile(data) as dataset:
            pruned = prune(SELF, Model(dense.model), dataset, "all", [below], tmp_path / f"{below}.h5", False, QUIET)
        assert report.model.read_bytes() == (tmp_path / f"{below}.h5").read_bytes()
        model = Model(report.model)
        assert report.kept == pruned.lines[1].n_weights / pruned.lines[1].n_all == model.n_weights / (7 * model.n_columns)
        assert f"{100 * report.kept:.3g} % of the weights kept" in str(report)
        assert not (tmp_path / f"sparse{below}" / "checkpoint").exists()
    assert np.array_equal(Model(tmp_path / "0.0.h5").weights(), Model(dense.model).weights())
    assert (dense.kept, model.n_weights) == (None, 0)


def test_labels_that_keep_no_weight_are_told(data, tmp_path):
    """Label 6 is not one of them: it has no positive row."""
    assert "no weight" not in str(train("probe", data, tmp_path / "some", drop=1e-6))
    assert "warning: 6 of 7 labels keep no weight" in str(train("probe", data, tmp_path / "none", drop=1e9))


def test_sparse_parts_are_merged(data, tmp_path):
    whole = train("probe", data, tmp_path / "whole", drop=0.01)
    parts = [tmp_path / str(k) for k in (1, 2, 3)]
    for k, part in enumerate(parts, 1):
        train("probe", data, part, drop=0.01, label_part=f"{k}/3")
    merge(SELF, parts[::-1], tmp_path / "joined", log=QUIET)
    assert (tmp_path / "joined" / "model.h5").read_bytes() == whole.model.read_bytes()
    train("probe", data, tmp_path / "other", label_part="2/3")
    with pytest.raises(ConfigError, match="had drop = None, but"):
        merge(SELF, [parts[0], tmp_path / "other", parts[2]], tmp_path / "no", log=QUIET)


@pytest.mark.parametrize(("value", "expected"), [(-1.0, ""), (math.nan, "a finite number of "), (math.inf, "a finite number of ")])
def test_nonsense_is_no_magnitude(value, expected):
    with pytest.raises(ConfigError, match=f"--drop .*: expected {expected}at least 0$"):
        asked("probe", drop=value).validate()

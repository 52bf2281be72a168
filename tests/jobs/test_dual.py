"""`hpcml train dual` as a job: certificates and messages in its output."""

import re

import numpy as np
import pytest
from support.jobs import done
from support.make import dataset, random_data

from hpcml.methods.linear.report import TrainReport
from hpcml.model.linear import Model


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 400, 60, 5, density=0.1)
    return dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(300), "test": np.arange(300, 400)})


def test_printed_gaps_equal_those_of_the_model(standing, data, tmp_path):
    models = []
    for n in (1, 3):
        out = tmp_path / str(n)
        flags = ("--show-gaps", "--max-gap", "0.001", "--loss", "squared-hinge", "--positive-weight", "balanced", "--bias")
        result = done(standing(n, "train", "dual", data, "-o", out, *flags))
        assert "Warning" not in result.stderr
        model = Model(out / "model.h5")
        lines = [line.split() for line in result.stderr.splitlines()]
        shown = lines[lines.index(["label", "f", "gap"]) + 1 :][: model.n_labels]
        assert [line[0] for line in shown] == model.label_names
        np.testing.assert_allclose([float(line[1]) for line in shown], model.labels["f_min"], rtol=1e-7)
        np.testing.assert_allclose([float(line[2]) for line in shown], model.labels["gap"], rtol=1e-2)
        assert (model.labels["gap"] <= 0.001).all()
        assert len(re.findall(r"^certified: no objective is more than \S+ % above its minimum$", result.stderr, re.MULTILINE)) == 1
        models.append((out / "model.h5").read_bytes())
    assert models[0] == models[1]


def test_reports_labels_at_the_step_limit(standing, data, tmp_path):
    result = done(standing(2, "train", "dual", data, "-o", tmp_path / "out", "--max-steps", "1", "--lambda", "1e-6"))
    assert "5 labels stopped at --max-steps" in result.stderr


def test_a_gap_of_one_certifies_nothing(tmp_path):
    common = {"n_rows": 1, "n_features": 1, "n_labels": 1, "mean_steps": 1.0, "visited": 1.0, "seconds": 1.0, "lam": 1.0}
    said = str(
        TrainReport(model=tmp_path, degenerate=[], step_limit=[], max_gap=1.0, n_above=1, advice="lower --dual-tol", **common)
    )
    assert "has no certificate" in said
    assert not said.startswith("certified") and "\ncertified" not in said
    assert "the gap of 1 of 1 label is above 1 % (lower --dual-tol)" in said

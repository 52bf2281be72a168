"""`hpcml train dual` as a job: what it prints, its errors, and a comparison with LIBLINEAR. (Signals and kills: test_faults.py.)"""

import json
import re

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, random_data

from hpcml.methods.linear.report import TrainReport
from hpcml.model.linear import Model


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 400, 60, 5, density=0.1)
    return dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(300), "test": np.arange(300, 400)})


def test_gaps_are_shown_once_and_are_those_of_the_model(standing, data, tmp_path):
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
    done(standing(2, "train", "--config", tmp_path / "1" / "config.toml", "-o", tmp_path / "again"))
    assert (tmp_path / "again" / "model.h5").read_bytes() == models[0]
    done(standing(2, "evaluate", tmp_path / "1" / "model.h5", data))


def test_ranks_that_share_the_rows(standing, data, tmp_path):
    for n, shards in ((2, 2), (3, 3)):
        done(standing(n, "train", "dual", data, "-o", tmp_path / str(n), "--ranks-per-group", shards, "--max-gap", "0.01"))
        assert (Model(tmp_path / str(n) / "model.h5").labels["gap"] <= 0.01).all()
    refused(
        standing(2, "train", "dual", data, "-o", tmp_path / "3", "--ranks-per-group", "3", "--force"),
        "--ranks-per-group 3: expected a divisor of the number of ranks, 2",
    )


def test_minimum_and_quality_are_those_of_liblinear(standing, data, tmp_path):
    f, average_precision = {}, {}
    for method in ("dual", "liblinear"):
        run, measures = tmp_path / method, tmp_path / f"{method}.json"
        done(standing(2, "train", method, data, "-o", run, "--loss", "hinge", f"--{method}-tol", "0.001"))
        done(standing(2, "evaluate", run, data, "--json", measures))
        f[method] = float(Model(run / "model.h5").labels["f_min"].mean())
        average_precision[method] = json.loads(measures.read_text())["macro"]["average_precision"]["value"]
    assert f["dual"] == pytest.approx(f["liblinear"], rel=1e-3)
    assert average_precision["dual"] == pytest.approx(average_precision["liblinear"], abs=0.02)


def test_refuses_in_one_sentence(standing, data, tmp_path):
    """The other sentences are in tests/conformance/test_dual.py."""
    for arguments, words in (
        (("dual", "--positive-weight", "heavy"), "--positive-weight heavy: expected a number above 0, or balanced"),
        (("probe", "--show-gaps"), "--show-gaps has no effect on probe, only on dual, elastic-net; remove it"),
    ):
        refused(standing(2, "train", arguments[0], data, "-o", tmp_path / "out", *arguments[1:]), words, alone=True)
        assert not (tmp_path / "out").exists()


def test_step_limit_is_said(standing, data, tmp_path):
    result = done(standing(2, "train", "dual", data, "-o", tmp_path / "out", "--max-steps", "1", "--lambda", "1e-6"))
    assert "5 labels hit --max-steps, or the precision of the weights: label0" in result.stderr


def test_what_is_certified_is_said(standing, data, tmp_path):
    dropped = done(
        standing(2, "train", "dual", data, "-o", tmp_path / "few", "--drop", "0.1", "--positive-weight", "2", "--max-gap", "0.1")
    )
    assert re.search(r"^certified: .* % above its minimum, before weights were left out$", dropped.stderr, re.MULTILINE)
    assert Model(tmp_path / "few" / "model.h5").attrs["positive_weight"] == "2"


def test_nothing_is_certified_by_a_gap_of_all(tmp_path):
    common = {"n_rows": 1, "n_features": 1, "n_labels": 1, "mean_steps": 1.0, "visited": 1.0, "seconds": 1.0, "lam": 1.0}
    said = str(
        TrainReport(model=tmp_path, degenerate=[], step_limit=[], max_gap=1.0, n_above=1, advice="lower --dual-tol", **common)
    )
    assert "of some label nothing is certified" in said
    assert not said.startswith("certified") and "\ncertified" not in said
    assert "the gap of 1 of 1 label is above 1 %: lower --dual-tol" in said


def test_what_changes_the_result_stays_and_is_refused_at_once(standing, data, tmp_path):
    assert standing(2, "train", "dual", data, "-o", tmp_path / "run", "--time-limit", "1e-9").returncode == 75
    refused(
        standing(2, "train", "dual", data, "-o", tmp_path / "run", "--resume", "--ranks-per-group", "2"),
        "this run had ranks-per-group = None, not 2",
    )
    done(standing(2, "train", "dual", data, "-o", tmp_path / "run", "--resume", "--ranks-per-group", "1"))
    refused(
        standing(2, "train", "liblinear", data, "-o", tmp_path / "all", "--ranks-per-group", "2"),
        "--ranks-per-group has no effect on liblinear",
    )
    assert not (tmp_path / "all").exists()

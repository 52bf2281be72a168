"""PSBML as processes: files, an asynchronous run that is resumed, invalid arguments."""

import os
import re
import signal
import tomllib

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import class_data, dataset, random_data

from hpcml.model.classifier import ClassifierModel

ASYNCHRONOUS = ("--asynchronous", "--cycles", "60", "--seed", "3")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, _, Y = class_data(7, 1500, 8, 3, density=0.6)
    return dataset(tmp_path_factory.mktemp("psbml") / "data.h5", X, Y)


def checkpoints(run):
    return sorted((run / "checkpoint").glob("state-*.h5"))


def test_converts_trains_evaluates_and_predicts(standing, tmp_path):
    convert = ("--rows", 3000, "--test-share", "0.3", "-o", tmp_path / "board.h5")
    done(standing(2, "convert", "synthetic", "checkerboard", *convert))
    run = tmp_path / "run"
    result = done(standing(2, "train", "psbml", tmp_path / "board.h5", "-o", run, "--cycles", "5", "--profile"))
    names = ["config.toml", "environment.jsonl", "history.csv", "log.txt", "model.h5"]
    assert sorted(path.name for path in run.iterdir()) == names
    assert re.search(r"best: cycle \d, validation error +[\d.]+ %", result.stderr)
    assert re.search(r"rank 1: .*train [\d.]+ s", result.stderr)
    assert len((run / "history.csv").read_text().splitlines()) == 7
    written = tomllib.loads((run / "config.toml").read_text())
    assert (written["method"], written["cycles"], written["base"], written["grid"]) == ("psbml", 5, ["kernel-nb"], "3x3")
    model = ClassifierModel(run / "model.h5")
    assert model.margin_rows.size > 0
    assert float(model.attrs["validation_error"]) < 0.35

    for command in (
        ("evaluate", run / "model.h5", tmp_path / "board.h5", "--csv", tmp_path / "labels.csv"),
        ("predict", run / "model.h5", tmp_path / "board.h5", "-o", tmp_path / "predictions.csv"),
        ("train", "--config", run / "config.toml", "-o", tmp_path / "again"),  # the file names the method
    ):
        done(standing(2, *command))
    assert (tmp_path / "labels.csv").stat().st_size > 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) >= 900  # the test rows
    assert (tmp_path / "again" / "model.h5").read_bytes() == (run / "model.h5").read_bytes()


def test_asynchronous_run_ends_with_75_and_resumes(mpirun, standing, data, tmp_path):
    command = ("train", "psbml", data, "-o", tmp_path / "run", "--grid", "2x1", *ASYNCHRONOUS)
    job = mpirun.start(3, *command, "--checkpoint-every", "0.05")
    job.until(lambda: checkpoints(tmp_path / "run"))
    os.kill(job.rank_pids()[1], signal.SIGTERM)
    result = job.wait(30)
    assert result.returncode == 75, result.stderr
    result = done(standing(2, *command, "--resume"))
    assert "resuming from" in result.stderr
    assert len((tmp_path / "run" / "history.csv").read_text().splitlines()) == 62


REJECTED = {
    ("good", "--grid", "3x"): r"--grid 3x",
    ("good", "--grid", "9x9"): r"--grid 9x9",
    ("good", "--neighbourhood", "C8"): r"\"C8\" for --neighbourhood",
    ("good", "--base", "tree", "max_dpth=3"): r"max_dpth",
    ("good", "--replace", "2"): r"--replace 2\.0",
    ("good", "--validation-share", "0.001"): r"--validation-share 0\.001",
    ("many",): r"many\.h5: row \d+ has \d labels",
    ("good", "--label", "lable1"): r"'lable1'.*'label1'",
    ("one",): r"one\.h5: all 20 rows",
    ("good", "--slow-rank", "9"): r"--slow-rank 9",
}


def test_rejects_invalid_arguments(standing, tmp_path):
    X, _, Y = class_data(1, 20, 5, 3)
    for name, matrices in {"good": (X, Y), "many": random_data(2, 20, 5, 3, density=0.5), "one": (X, np.ones((20, 1)))}.items():
        dataset(tmp_path / f"{name}.h5", *matrices)
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    for (name, *rest), pattern in REJECTED.items():
        refused(standing(2, "train", "psbml", tmp_path / f"{name}.h5", "-o", tmp_path / "run", *rest), pattern=pattern)
    file = ("train", "psbml", tmp_path / "good.h5", "-o", tmp_path / "file", "--force")
    refused(standing(2, *file), "is a file; --output must name a folder")
    assert sorted(tmp_path.iterdir()) == before

"""A new method needs one file and one entry of the registry; commands, files, Python and the tests then use it."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.make import dataset, random_data
from support.toy import TOY, ToyClassifier

import hpcml
from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS
from hpcml.model.linear import Model
from hpcml.run.folder import read_config

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", TOY)


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(3, 60, 12, 2, 0.4)
    return dataset(tmp_path / "data.h5", abs(X), Y, splits={"train": np.arange(40), "test": np.arange(40, 60)})


def run(*tokens):
    cli.run([str(token) for token in tokens], mpi.self_comm)


def test_command_has_the_options_of_the_method_and_no_others(capsys):
    run("train", "toy", "--help")
    shown = capsys.readouterr().out
    assert "A method to play with" in shown and "How eagerly it plays" in shown and "--lambda" in shown
    assert not [
        flag for flag in ("--dual-tol", "--epsilon", "--ranks-per-group", "--alpha", "--grid", "--no-bias") if flag in shown
    ]
    run("train", "--help")
    assert "A method to play with" in capsys.readouterr().out


def test_command_trains_with_flags_and_a_file(data, tmp_path):
    run("train", "toy", data, "-o", tmp_path / "run", "--zeal", "2", "--label", "label0", "label1")
    config = read_config(tmp_path / "run" / "config.toml")
    assert (config["method"], config["zeal"], config["label"], config["loss"]) == ("toy", 2.0, ["label0", "label1"], "hinge")
    (tmp_path / "a.toml").write_text('method = "toy"\nzeal = 3.0\n')
    run("train", "--data", data, "-o", tmp_path / "file", "--config", tmp_path / "a.toml")
    assert read_config(tmp_path / "file" / "config.toml")["zeal"] == 3.0
    (tmp_path / "b.toml").write_text("zeel = 3.0\n")
    for words, named in (
        (("toy", "--zeal=-1"), r"--zeal -1\.0: "),
        (("probe", "--zeal", "2"), "^--zeal .* toy; remove it$"),
        (("toy", "--config", tmp_path / "b.toml"), "'zeel'; did you mean 'zeal'"),
    ):
        with pytest.raises(ConfigError, match=named):
            run("train", words[0], data, "-o", tmp_path / "no", *words[1:])


def test_resumed_run_may_change_only_free_options(data, tmp_path):
    with pytest.raises(hpcml.errors.Interrupted):
        hpcml.train("toy", data, tmp_path / "run", time_limit=1e-9)
    with pytest.raises(ConfigError, match="zeal"):
        hpcml.train("toy", data, tmp_path / "run", zeal=2.0, resume=True)
    assert hpcml.train("toy", data, tmp_path / "run", labels_per_pass=1, resume=True).model.exists()
    assert TOY.free_keys >= {"data", "labels-per-pass", "time-limit"} and "zeal" not in TOY.free_keys


def test_estimator_has_the_options_and_is_cross_validated(data):
    assert "toy" in str(hpcml.cross_validate(["toy", "multinomial-nb"], [data], folds=2, split="train"))
    assert inspect.signature(ToyClassifier).parameters["zeal"].default == 1.0
    assert "zeal : float, default 1.0\n    How eagerly it plays." in ToyClassifier.__doc__
    with pytest.raises(ValueError, match=r"^zeal=-1\.0: "):
        ToyClassifier(zeal=-1).fit([[1.0], [2.0]], [0, 1])


def test_method_is_tuned(data, tmp_path):
    run("tune", data, "-o", tmp_path / "run", "--method", "toy", "--folds", "3", "--lambdas", "0.5", "1")
    assert Model(tmp_path / "run" / "model.h5").attrs["method"] == "toy"


@pytest.mark.more("methods")
def test_conformance_tests_run_for_the_method():
    files = [str(TESTS / "conformance" / f"test_{name}.py") for name in ("methods", "estimators")]
    arguments = [*files, "-k", "toy", "-q", "-W", "ignore", "-p", "no:cacheprovider"]
    code = f"""
import sys, pytest
from hpcml.methods.registry import METHODS
from support.toy import TOY, ToyClassifier
METHODS["toy"] = TOY
sys.exit(pytest.main({arguments}))
"""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "HPCML_PARTS": "methods"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[0].count(".") > 25


def test_python_has_the_options(data, tmp_path):
    first = hpcml.train("toy", data, tmp_path / "a", zeal=2.0, label=["label1"])
    assert first.model.read_bytes() == hpcml.train("toy", data, tmp_path / "b", zeal=2.0, label="label1").model.read_bytes()
    for method, options, named in (("toy", {"zeal": 0.0}, r"^zeal=0\.0: "), ("toy", {"zeel": 0.0}, "'zeal'"), ("toi", {}, "'toy'")):
        with pytest.raises(ConfigError, match=named):
            hpcml.train(method, data, tmp_path / "c", **options)

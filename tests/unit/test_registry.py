"""A method is a file and an entry of the registry: by these the command, files, Python and the tests know it."""

import importlib.util
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
    """A command line, on one rank."""
    cli.run([str(token) for token in tokens], mpi.self_comm)


def test_command_has_the_options_of_the_method_and_no_others(capsys):
    run("train", "toy", "--help")
    told = capsys.readouterr().out
    assert "A method to play with" in told and "How eagerly it plays" in told and "--lambda" in told
    for others in ("--dual-tol", "--epsilon", "--ranks-per-group", "--alpha", "--grid", "--no-bias"):
        assert others not in told
    run("train", "--help")
    assert "A method to play with" in capsys.readouterr().out


def test_command_trains_with_flags_and_a_file(data, tmp_path):
    run("train", "toy", data, "-o", tmp_path / "run", "--zeal", "2", "--label", "label0", "label1")
    config = read_config(tmp_path / "run" / "config.toml")
    assert (config["method"], config["zeal"], config["label"], config["loss"]) == ("toy", 2.0, ["label0", "label1"], "hinge")
    assert Model(tmp_path / "run" / "model.h5").attrs["method"] == "toy"
    (tmp_path / "a.toml").write_text('method = "toy"\nzeal = 3.0\n')
    run("train", "--data", data, "-o", tmp_path / "file", "--config", tmp_path / "a.toml")
    assert read_config(tmp_path / "file" / "config.toml")["zeal"] == 3.0
    with pytest.raises(ConfigError, match=r"--zeal -1\.0: expected a number above 0"):
        run("train", "toy", data, "-o", tmp_path / "no", "--zeal=-1")
    with pytest.raises(ConfigError, match=r"^--zeal has no effect on probe, it is for toy; remove it$"):
        run("train", "probe", data, "-o", tmp_path / "no", "--zeal", "2")
    (tmp_path / "b.toml").write_text("zeel = 3.0\n")
    with pytest.raises(ConfigError, match="unknown key 'zeel'; did you mean 'zeal'"):
        run("train", "toy", data, "-o", tmp_path / "no", "--config", tmp_path / "b.toml")


def test_what_may_change_when_a_run_is_continued(data, tmp_path):
    with pytest.raises(hpcml.errors.Interrupted):
        hpcml.train("toy", data, tmp_path / "run", time_limit=1e-9)
    with pytest.raises(ConfigError, match=r"this run had zeal = 1\.0, not 2\.0; resume with the same options"):
        hpcml.train("toy", data, tmp_path / "run", zeal=2.0, resume=True)
    assert hpcml.train("toy", data, tmp_path / "run", labels_per_pass=1, resume=True).model.exists()
    assert TOY.free_keys >= {"data", "labels-per-pass", "time-limit"} and "zeal" not in TOY.free_keys


def test_cross_validation_takes_its_estimator(data):
    found = hpcml.cross_validate(["toy", "multinomial-nb"], [data], folds=2, split="train")
    assert "toy" in str(found)
    assert inspect.signature(ToyClassifier).parameters["zeal"].default == 1.0
    assert "zeal : float, default 1.0\n    How eagerly it plays." in ToyClassifier.__doc__
    with pytest.raises(ValueError, match=r"^zeal=-1\.0: expected a number above 0"):
        ToyClassifier(zeal=-1).fit([[1.0], [2.0]], [0, 1])


def test_tune_takes_it(data, tmp_path):
    run("tune", data, "-o", tmp_path / "run", "--method", "toy", "--folds", "3", "--lambdas", "0.5", "1")
    assert Model(tmp_path / "run" / "model.h5").attrs["method"] == "toy"
    with pytest.raises(ConfigError, match="has no effect on toy, only on dual; remove it"):
        run("tune", data, "-o", tmp_path / "no", "--method", "toy", "--weights", "2")


def test_the_pages_take_it():
    spec = importlib.util.spec_from_file_location("generated", TESTS.parent / "docs" / "generated.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    shown = pages.on_page_markdown("<!-- table of methods -->\n<!-- options of toy -->\n<!-- classifiers -->")
    assert "| `toy` | a method to play with | hinge | `ToyClassifier` | rows with several labels, " in shown
    assert "| `--zeal` | `1.0` | How eagerly it plays. |" in shown
    assert "::: support.toy.ToyClassifier" in shown and "| `zeal` | float, default 1.0 | How eagerly it plays. |" in shown


@pytest.mark.more("methods")
def test_the_conformance_tests_take_it():
    """In a process of their own, for they ask the registry for its methods when they are imported."""
    files = [str(TESTS / "conformance" / f"test_{name}.py") for name in ("methods", "estimators")]
    arguments = [*files, "-k", "toy", "-q", "-W", "ignore", "-p", "no:cacheprovider"]
    code = f"""
import sys, pytest
from hpcml.methods.registry import METHODS
from support.toy import TOY, ToyClassifier
METHODS["toy"] = TOY
sys.exit(pytest.main({arguments}))
"""
    where = {"env": {**os.environ, "PYTHONPATH": str(TESTS), "HPCML_PARTS": "methods"}, "cwd": TESTS.parent}
    done = subprocess.run([sys.executable, "-c", code], **where, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[0].count(".") > 25


def test_python_takes_its_options(data, tmp_path):
    first = hpcml.train("toy", data, tmp_path / "a", zeal=2.0, label=["label1"])
    second = hpcml.train("toy", data, tmp_path / "b", zeal=2.0, label="label1")
    assert first.model.read_bytes() == second.model.read_bytes()
    with pytest.raises(ConfigError, match=r"^zeal=0\.0: expected a number above 0"):
        hpcml.train("toy", data, tmp_path / "c", zeal=0.0)
    with pytest.raises(ConfigError, match="toy has no option 'zeel'; did you mean 'zeal'"):
        hpcml.train("toy", data, tmp_path / "c", zeel=0.0)
    with pytest.raises(ConfigError, match="no method 'toi'; did you mean 'toy'"):
        hpcml.train("toi", data, tmp_path / "c")

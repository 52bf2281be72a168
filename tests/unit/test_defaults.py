"""An intercept by default: every linear method, and every way to ask for it."""

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import train

from hpcml import OnlineClassifier, ProbeClassifier
from hpcml.cli import app as cli
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.methods.online.options import LEARNERS
from hpcml.methods.registry import METHODS
from hpcml.model.linear import Model
from hpcml.mpi import self_comm
from hpcml.run.folder import read_config

QUIET = Log(1)
WINNOWS = [name for name in LEARNERS if LEARNERS[name].winnow]
ADDITIVE = [name for name in LEARNERS if not LEARNERS[name].winnow]
LOSS = {"dual": "squared-hinge", "liblinear": "hinge", "pegasos": "hinge", "probe": "hinge", "svmperf": "hinge"}


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(5, 60, 20, 3)
    return dataset(tmp_path / "data.h5", abs(X), Y, splits={"train": np.arange(40), "test": np.arange(40, 60)})


def convex(method, data, run, resume=False, **options):
    return train(method, None, data, run, {"max_steps": 40} | options, resume=resume, log=QUIET).model


def online(method, data, run, resume=False, **options):
    return train(method, None, data, run, options, resume=resume, log=QUIET).model


@pytest.mark.parametrize("method", sorted(LOSS))
def test_default_of_a_method_is_an_intercept_and_its_own_loss(data, tmp_path, method):
    found = convex(method, data, tmp_path / "default")
    asked = convex(method, data, tmp_path / "asked", loss=LOSS[method], **({} if method == "pegasos" else {"bias": True}))
    assert found.read_bytes() == asked.read_bytes()
    assert np.asarray(Model(found).bias).all() and Model(found).attrs["loss"] == LOSS[method]
    config = read_config(tmp_path / "default" / "config.toml")
    assert (config.get("bias", True), config["loss"]) == (True, LOSS[method])
    if "bias" not in METHODS[method].option_names:
        with pytest.raises(ConfigError, match="pegasos has no option 'bias'"):
            convex(method, data, tmp_path / "without", bias=False)
        return
    assert not np.asarray(Model(convex(method, data, tmp_path / "without", bias=False)).bias).any()


@pytest.mark.parametrize("method", ADDITIVE)
def test_default_of_a_single_pass_learner_is_an_intercept(data, tmp_path, method):
    found, asked = online(method, data, tmp_path / "default"), online(method, data, tmp_path / "asked", bias=True)
    assert found.read_bytes() == asked.read_bytes()
    assert np.asarray(Model(found).bias).any() and Model(found).attrs["bias"]
    assert read_config(tmp_path / "default" / "config.toml")["bias"] is True
    assert not np.asarray(Model(online(method, data, tmp_path / "without", bias=False)).bias).any()


@pytest.mark.parametrize("method", WINNOWS)
def test_a_winnow_without_an_intercept_is_refused(data, tmp_path, method):
    with pytest.raises(ConfigError, match=f"^{method} has no option 'bias'"):
        online(method, data, tmp_path / "run", bias=False)
    with pytest.raises(ConfigError, match=f"^--no-bias has no effect on {method}, it is for .*pa, perceptron, romma; remove it$"):
        cli.run(["train", method, str(data), "-o", str(tmp_path / "run"), "--no-bias"], self_comm)
    assert not (tmp_path / "run").exists()
    model = Model(online(method, data, tmp_path / "run"))
    assert np.asarray(model.bias).any() and not model.attrs["bias"]  # as versions without the refusal wrote it


def test_a_model_without_an_intercept_is_continued_without(data, tmp_path):
    first = online("pa", data, tmp_path / "first", bias=False)
    more = online("pa", data, tmp_path / "more", initial_model=first)
    assert more.read_bytes() == online("pa", data, tmp_path / "same", initial_model=first, bias=False).read_bytes()
    assert not np.asarray(Model(more).bias).any()
    with pytest.raises(ConfigError, match="bias = False, not True"):
        online("pa", data, tmp_path / "other", initial_model=first, bias=True)


def test_classifiers_have_an_intercept_by_default():
    X, y = abs(random_data(5, 60, 20, 3)[0]), np.arange(60) % 3 == 0
    for model in (ProbeClassifier(), *(OnlineClassifier(name) for name in ADDITIVE)):
        assert model.fit_intercept is True and model.fit(X, y).intercept_.all()


def parsed(tmp_path, command, *flags, config=None):
    """The options of a command line, with a TOML file that says `config`."""
    if config is not None:
        (tmp_path / "a.toml").write_text(config)
        flags = (*flags, "--config", str(tmp_path / "a.toml"))
    tokens = ["train", command, "data.h5", "-o", "run", *flags]
    return cli.parse(tokens).options.bias


@pytest.mark.parametrize("command", ["probe", "pa"])
def test_command_lines_and_files(tmp_path, command):
    assert parsed(tmp_path, command) is METHODS[command].options().bias
    assert parsed(tmp_path, command, "--bias") is True
    assert parsed(tmp_path, command, "--no-bias") is False
    assert parsed(tmp_path, command, config="bias = true\n") is True
    assert parsed(tmp_path, command, config="bias = false\n") is False
    assert parsed(tmp_path, command, "--bias", config="bias = false\n") is True

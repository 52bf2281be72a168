"""Linear methods have an intercept by default, on the command line, in configurations and in Python."""

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import train

from hpcml.cli import app as cli
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.methods.online.options import LEARNERS
from hpcml.methods.registry import METHODS
from hpcml.model.linear import Model

WINNOWS = [name for name in LEARNERS if LEARNERS[name].winnow]
ADDITIVE = [name for name in LEARNERS if not LEARNERS[name].winnow]
LOSS = {"dual": "squared-hinge", "liblinear": "hinge", "pegasos": "hinge", "probe": "hinge", "svmperf": "hinge"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(5, 60, 20, 3)
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", abs(X), Y, splits={"train": np.arange(40)})


def fit(method, data, run, **options):
    steps = {"max_steps": 40} if method in LOSS else {}
    return train(method, None, data, run, steps | options, resume=False, log=Log(1)).model


@pytest.mark.parametrize("method", [*sorted(LOSS), *ADDITIVE])
def test_default_is_an_intercept_and_the_loss_of_the_method(data, tmp_path, method):
    model = fit(method, data, tmp_path / "default")
    has_option = "bias" in METHODS[method].option_names
    same = ({"loss": LOSS[method]} if method in LOSS else {}) | ({"bias": True} if has_option else {})
    assert model.read_bytes() == fit(method, data, tmp_path / "same", **same).read_bytes()
    assert np.asarray(Model(model).bias).any()
    assert method not in LOSS or Model(model).attrs["loss"] == LOSS[method]
    if has_option:
        assert not np.asarray(Model(fit(method, data, tmp_path / "without", bias=False)).bias).any()


@pytest.mark.parametrize("method", ["pegasos", *WINNOWS])
def test_rejects_bias_for_a_method_without_the_option(data, tmp_path, method):
    with pytest.raises(ConfigError, match="'bias'"):
        fit(method, data, tmp_path / "run", bias=False)
    assert not (tmp_path / "run").exists()


def test_continued_model_keeps_its_intercept(data, tmp_path):
    first = fit("pa", data, tmp_path / "first", bias=False)
    more = fit("pa", data, tmp_path / "more", initial_model=first)
    assert more.read_bytes() == fit("pa", data, tmp_path / "same", initial_model=first, bias=False).read_bytes()
    assert not np.asarray(Model(more).bias).any()
    with pytest.raises(ConfigError, match="bias"):
        fit("pa", data, tmp_path / "other", initial_model=first, bias=True)


@pytest.mark.parametrize(("config", "flags", "bias"), [("true", [], True), ("false", [], False), ("false", ["--bias"], True),
                                                       (None, ["--no-bias"], False), (None, [], None)])  # fmt: skip
def test_flag_overrides_configuration(tmp_path, config, flags, bias):
    if config is not None:
        (tmp_path / "a.toml").write_text(f"bias = {config}\n")
        flags = [*flags, "--config", str(tmp_path / "a.toml")]
    assert cli.parse(["train", "pa", "data.h5", "-o", "run", *flags]).options.bias is bias

"""Options without effect are rejected: on the command line, in configurations and in Python."""

from dataclasses import fields
from itertools import chain
from typing import Literal, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import numpy as np
import pytest
from support import make
from support.training import asked, train

from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.cli.app import explain_foreign_option
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import check_options
from hpcml.errors import ConfigError
from hpcml.methods.psbml.options import AdaboostOptions
from hpcml.methods.registry import METHODS, methods_with_option
from hpcml.options import default_value, iterate_types, option_flag

# Options that some methods do not have.
NAMES = sorted({name for method in METHODS.values() for name in method.option_names})
NOT_SHARED = [name for name in NAMES if len(methods_with_option(name)) < len(METHODS)]


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(0, 60, 8, 2, 0.4)
    return make.dataset(tmp_path / "data.h5", abs(X), Y)


def tokens_of(name):
    kind = METHODS[methods_with_option(name)[0]].options
    hint, default = get_type_hints(kind)[name], next(default_value(option) for option in fields(kind) if option.name == name)
    if hint is bool or bool in getattr(hint, "__args__", ()):
        return [f"--no-{option_flag(name)}" if default is not False else f"--{option_flag(name)}"]
    choices = [each for kind in iterate_types(hint) if get_origin(kind) is Literal for each in get_args(kind)]
    if choices:
        return [f"--{option_flag(name)}", choices[-1]]
    kinds = getattr(hint, "__args__", (hint,))
    return [f"--{option_flag(name)}", "3" if int in kinds else "0.5" if float in kinds else "x"]


@pytest.mark.parametrize("method", METHODS)
def test_accepts_every_option_of_a_method(method):
    tokens = [
        "train",
        method,
        "x.h5",
        "-o",
        "y",
        *chain(*(tokens_of(name) for name in NOT_SHARED if method in methods_with_option(name))),
    ]
    with pytest.raises(InterruptedError):
        cli.run(tokens, Mock(side_effect=InterruptedError))


def test_rejects_every_option_of_another_method():
    for number, name in enumerate(NOT_SHARED):
        others = [method for method in METHODS if method not in methods_with_option(name)]
        for index, method in enumerate(others):
            tokens = ["train", method, "x.h5", "-o", "y", *tokens_of(name)]
            with pytest.raises(ConfigError, match=f"^{tokens[5]} .*{method}.*{', '.join(methods_with_option(name))}; remove it"):
                cli.run(tokens, Mock()) if index == number % len(others) else explain_foreign_option(tokens)
            with pytest.raises(ConfigError, match=f"^{method} .*'{name}'"):
                asked(method, **{name: 3})


@pytest.mark.parametrize(
    ("method", "options", "named"),
    [
        ("probe", {"dual_tol": 0.5}, "'dual_tol'"),
        ("mbw", {"share": 0.5}, "--share 0.5: .*--live-features"),
        ("mbw", {"seed": 3}, "--seed 3: .*--shuffle"),
        ("mbw", {"zero_based": True}, "--zero-based: "),
        ("psbml", {"slow_factor": 3.0}, "--slow-factor 3.0: .*--slow-rank"),
    ],
)
def test_training_rejects_options_before_it_writes(data, tmp_path, method, options, named):
    with pytest.raises(ConfigError, match=named):
        train(method, None, data, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "flags", "text", "users"),
    [
        ("probe", ("--dual-tol", "0.5"), "dual-tol = 0.5\n", "dual"),
        ("pa", ("--alpha", "2"), "alpha = 2.0\n", "mbw, bw, pw"),
        ("dual", ("--no-dormant",), "dormant = false\n", "probe"),
    ],
)
def test_rejects_flags_and_keys_of_other_methods(tmp_path, method, flags, text, users):
    (tmp_path / "a.toml").write_text(text)
    for options, named in ((flags, f"^{flags[0]} "), (("--config", str(tmp_path / "a.toml")), f"'{text.split()[0]}'")):
        with pytest.raises(ConfigError, match=f"{named}.*{users}"):
            cli.run(["train", method, "x.h5", "-o", str(tmp_path / "run"), *options], Mock())


def test_configuration_of_a_run_serves_another_method(data, tmp_path):
    def run(method, *options):
        cli.run(["train", method, str(data), "-o", str(tmp_path / method), *options], mpi.self_comm)

    run("probe", "--lambda", "0.1")
    lines = (tmp_path / "probe" / "config.toml").read_text().splitlines(keepends=True)
    own = ("data", "epsilon", "dormant", "seed", "bias", "show-gaps")
    (tmp_path / "other.toml").write_text("".join(line for line in lines if not line.startswith(own)))
    run("dual", "--config", str(tmp_path / "other.toml"), "--max-steps", "3")
    assert 'lambda = "0.1"' in (tmp_path / "dual" / "config.toml").read_text()
    with pytest.raises(ConfigError, match="'probe', not for 'psbml'"):
        run("psbml", "--config", str(tmp_path / "other.toml"))


def test_option_may_need_one_of_several_others():
    AdaboostOptions(seed=3).validate()
    check_options((), True, ConvertOptions(seed=3, test_share=np.float64(0.5)))
    with pytest.raises(ConfigError, match=r"--seed 3: .*--test-share"):
        check_options((), True, ConvertOptions(seed=3))


@pytest.mark.parametrize(
    ("method", "options", "value"),
    [
        ("dual", {"lam": np.float64(1e-3)}, "0.001"),
        ("elastic-net", {"l1": 1}, "1"),
        ("elastic-net", {"path": [1e-2, "0.1/m"]}, ("0.01", "0.1/m")),
        ("elastic-net", {"path": 0.5}, ("0.5",)),
        ("dual", {"dual_tol": 0.5}, 0.5),
        ("dual", {"dual_tol": "0.5"}, None),
        ("dual", {"dual_tol": True}, None),
        ("dual", {"lam": True}, None),
        ("mbw", {"shuffle": "no"}, None),
    ],
)
def test_python_value_is_converted_or_rejected(method, options, value):
    ((name, each),) = options.items()
    if value is not None:
        assert getattr(asked(method, **options), name) == value
    else:
        with pytest.raises(ConfigError, match=f"^{name}={each!r}: "):
            asked(method, **options)

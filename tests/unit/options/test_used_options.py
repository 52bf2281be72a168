"""An option that has no effect on what is trained is refused, on the command line and in files."""

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
from hpcml.cli.families import explain
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import check_options
from hpcml.errors import ConfigError
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.methods.registry import METHODS, users_of
from hpcml.options import default_of, flag_of, iterate_types

# The options that some method does not have.
NAMES = sorted({name for method in METHODS.values() for name in method.option_names})
NOT_OF_ALL = [name for name in NAMES if len(users_of(name)) < len(METHODS)]


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(0, 60, 8, 2, 0.4)
    return make.dataset(tmp_path / "data.h5", abs(X), Y)


def tokens_of(name):
    """An option on a command line, with a value that is not the default."""
    kind = METHODS[users_of(name)[0]].options
    hint, default = get_type_hints(kind)[name], next(default_of(option) for option in fields(kind) if option.name == name)
    if hint is bool or bool in getattr(hint, "__args__", ()):
        return [f"--no-{flag_of(name)}" if default is not False else f"--{flag_of(name)}"]
    choices = [each for kind in iterate_types(hint) if get_origin(kind) is Literal for each in get_args(kind)]
    if choices:
        return [f"--{flag_of(name)}", choices[-1]]
    kinds = getattr(hint, "__args__", (hint,))
    return [f"--{flag_of(name)}", "3" if int in kinds else "0.5" if float in kinds else "x"]


@pytest.mark.parametrize("method", METHODS)
def test_every_option_of_a_method_is_taken(method):
    """A command line with all of them is parsed, and MPI would start."""
    tokens = ["train", method, "x.h5", "-o", "y", *chain(*(tokens_of(name) for name in NOT_OF_ALL if method in users_of(name)))]
    with pytest.raises(InterruptedError):
        cli.run(tokens, Mock(side_effect=InterruptedError))


@pytest.mark.parametrize("name", NOT_OF_ALL)
def test_every_option_of_another_method_is_refused(name):
    others = [method for method in METHODS if method not in users_of(name)]
    for number, method in enumerate(others):
        tokens = ["train", method, "x.h5", "-o", "y", *tokens_of(name)]
        with pytest.raises(ConfigError) as error:  # the parser knows a method's options by its class; one method shows that it asks
            cli.run(tokens, Mock()) if number == NOT_OF_ALL.index(name) % len(others) else explain(tokens)
        assert str(error.value) == f"{tokens[5]} has no effect on {method}, it is for {', '.join(users_of(name))}; remove it"
        with pytest.raises(ConfigError, match=f"^{method} has no option '{name}'"):
            asked(method, **{name: 3})


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("probe", {"dual_tol": 0.5}, "probe has no option 'dual_tol'"),
        ("dual", {"epsilon": 0.1}, "dual has no option 'epsilon'"),
        ("dual", {"dormant": False}, "dual has no option 'dormant'"),
        ("pegasos", {"loss": "hinge", "show_gaps": True}, "pegasos has no option 'show_gaps'"),
        ("perceptron", {"alpha": 2.0}, "perceptron has no option 'alpha'"),
        ("bw", {"margin": 2.0}, "bw has no option 'margin'"),
        ("mbw", {"share": 0.5}, "--share 0.5: has no effect without --live-features"),
        ("mbw", {"seed": 3}, "--seed 3: has no effect without --shuffle"),
        ("mbw", {"zero_based": True}, "--zero-based: has no effect on a dataset"),
    ],
)
def test_training_refuses_before_it_touches_anything(data, tmp_path, method, options, words):
    with pytest.raises(ConfigError, match=words):
        train(method, None, data, tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def run(*tokens):
    """A command line, on one rank."""
    cli.run([str(token) for token in tokens], mpi.self_comm)


@pytest.mark.parametrize(
    ("method", "flags", "said", "text", "users"),
    [
        ("probe", ("--dual-tol", "0.5"), "--dual-tol", "dual-tol = 0.5\n", "dual"),
        ("pa", ("--alpha", "2"), "--alpha", "alpha = 2.0\n", "mbw, bw, pw"),
        ("dual", ("--no-dormant",), "--no-dormant", "dormant = false\n", "probe"),
    ],
)
def test_flags_and_configurations_are_refused_alike(data, tmp_path, method, flags, said, text, users):
    with pytest.raises(ConfigError, match=rf"^{said} has no effect on {method}, it is for {users}; remove it$"):
        run("train", method, data, "-o", tmp_path / "run", *flags)
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError, match=rf"a\.toml: unknown key '{text.split()[0]}'; it is for {users}$"):
        run("train", method, data, "-o", tmp_path / "run", "--config", tmp_path / "a.toml")
    assert not (tmp_path / "run").exists()


def test_configuration_of_a_run_serves_another_method(data, tmp_path):
    run("train", "probe", data, "-o", tmp_path / "probe", "--lambda", "0.1")
    text = (tmp_path / "probe" / "config.toml").read_text()
    text = "".join(
        line for line in text.splitlines(True) if not line.startswith(("data", "epsilon", "dormant", "seed", "bias", "show-gaps"))
    )
    assert 'method = "probe"' in text
    (tmp_path / "other.toml").write_text(text)
    for method in ("pegasos", "dual"):
        run("train", method, data, "-o", tmp_path / method, "--config", tmp_path / "other.toml", "--max-steps", "3")
        assert (tmp_path / method / "model.h5").exists()
        assert 'lambda = "0.1"' in (tmp_path / method / "config.toml").read_text()
    with pytest.raises(ConfigError, match="it is for the method 'probe', not 'psbml'"):
        run("train", "psbml", data, "-o", tmp_path / "psbml", "--config", tmp_path / "other.toml")


def test_what_needs_another_option():
    with pytest.raises(ConfigError, match=r"--slow-factor 3.0: has no effect without --slow-rank"):
        PsbmlOptions(slow_factor=3.0).validate()
    with pytest.raises(ConfigError, match="--seed 3: has no effect without --test-share"):
        check_options((), True, ConvertOptions(seed=3))
    PsbmlOptions(slow_factor=3.0, slow_rank=0).validate()
    AdaboostOptions(seed=3).validate()
    check_options((), True, ConvertOptions(seed=3, test_share=np.float64(0.5)))


@pytest.mark.parametrize(
    ("method", "given", "value"),
    [
        ("dual", {"lam": 1e-3}, "0.001"),
        ("dual", {"lam": np.float64(1e-3)}, "0.001"),
        ("elastic-net", {"l1": 1}, "1"),
        ("elastic-net", {"path": [1e-2, "0.1/m"]}, ("0.01", "0.1/m")),
        ("elastic-net", {"path": 0.5}, ("0.5",)),
        ("dual", {"dual_tol": 0.5}, 0.5),
    ],
)
def test_python_may_give_a_number_for_the_text_of_a_flag(method, given, value):
    (name,) = given
    assert getattr(asked(method, **given), name) == value


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("dual", {"dual_tol": "0.5"}, "dual_tol='0.5': expected a number"),
        ("dual", {"dual_tol": True}, "dual_tol=True: expected a number"),
        ("dual", {"lam": True}, "lam=True: expected a text or a number"),
        ("mbw", {"shuffle": "no"}, "shuffle='no': expected True or False"),
    ],
)
def test_a_value_of_another_kind_is_refused(method, given, words):
    with pytest.raises(ConfigError) as error:
        asked(method, **given)
    assert str(error.value) == words

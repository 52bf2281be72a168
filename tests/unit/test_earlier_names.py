"""Names of version 0.11: files with them are opened, judged and continued; who gives one is told the new one."""

import json

import h5py
import numpy as np
import pytest
from support import make
from support.training import asked, compare, merge, train

import hpcml
from hpcml import earlier_names, mpi
from hpcml.cli import app as cli
from hpcml.cli.config_files import config_files
from hpcml.crossval.methods import divide_names, method_of
from hpcml.errors import ConfigError, Interrupted
from hpcml.methods.registry import METHODS, method_named
from hpcml.model.classifier import ClassifierModel
from hpcml.model.learner import LEARNERS, parse_learner
from hpcml.model.linear import Model
from hpcml.run.folder import read_config

NOW = {new: old for renamed in (earlier_names.LOSSES, earlier_names.METHODS) for old, new in renamed.items()}
BASES = {new: old for old, new in earlier_names.BASES.items()}
KEYS = {new: old for old, new in earlier_names.OPTIONS.items()}


@pytest.fixture
def data(tmp_path):
    X, Y = make.random_data(0, 120, 12, 4, 0.3)
    return make.dataset(tmp_path / "data.h5", abs(X), Y)


@pytest.fixture
def classes(tmp_path):
    X, Y = make.random_data(0, 200, 4, 1, 0.5)
    return make.dataset(tmp_path / "classes.h5", X, Y)


def age(run):
    """Give the files of a run the names that version 0.11 wrote. Returns how many of them were others."""
    config, n = run / "config.toml", 0
    lines = config.read_text().splitlines()
    for k, line in enumerate(lines):
        key, equals, value = line.partition(" = ")
        for new, old in NOW.items() if key in ("method", "loss") else BASES.items() if key == "base" else ():
            value = value.replace(f'"{new}"', f'"{old}"')
        lines[k] = f"{KEYS.get(key, key)}{equals}{value}"
        n += lines[k] != line
    config.write_text("\n".join(["# hpcml 0.11.0", *lines[1:], ""]))
    for path in (run / "model.h5", run / "checkpoint" / "model.part.h5"):
        if path.exists():
            with h5py.File(path, "r+") as file:
                for key in {"method", "loss"} & file.attrs.keys():
                    n += file.attrs[key] in NOW
                    file.attrs[key] = NOW.get(file.attrs[key], file.attrs[key])
                if "base" in file.attrs:
                    base = json.loads(file.attrs["base"])
                    n += base["name"] in BASES
                    file.attrs["base"] = json.dumps(base | {"name": BASES.get(base["name"], base["name"])})
    return n


def parts_of(path):
    """The datasets of a model file, as bytes."""
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, part: found.update({name: part[()]}) if isinstance(part, h5py.Dataset) else None)
    return {name: np.asarray(part).astype(str).tolist() if part.dtype == object else part.tobytes() for name, part in found.items()}


RUNS = [
    ("probe", {"loss": "logistic", "labels_per_pass": 2, "max_steps": 60}, 3),
    ("probe", {"loss": "logistic", "ranks_per_group": 1, "max_steps": 60}, 3),
    ("dual", {"show_gaps": True, "labels_per_pass": 1}, 2),
    ("elastic-net", {"show_gaps": True}, 1),
    ("bernoulli-nb", {}, 2),
    ("psbml", {"base": ("gaussian-nb",), "cycles": 3}, 1),
]


@pytest.mark.parametrize(("method", "options", "n_earlier"), [run for run in RUNS if run[0] != "bernoulli-nb"])  # it is too quick
def test_runs_of_0_11_are_continued(data, classes, tmp_path, method, options, n_earlier):
    file = classes if method == "psbml" else data
    whole = train(method, None, file, tmp_path / "whole", options).model
    with pytest.raises(Interrupted):
        train(method, None, file, tmp_path / "run", options, time_limit=1e-9)
    assert age(tmp_path / "run") >= n_earlier
    found = train(method, None, file, tmp_path / "run", options, resume=True).model
    assert parts_of(found) == parts_of(whole)
    assert train(method, None, file, tmp_path / "run", options, resume=True).model == found  # it is finished, and says so


@pytest.mark.parametrize(("method", "options"), [(method, options) for method, options, _ in RUNS])
def test_models_of_0_11_are_what_they_were(data, classes, tmp_path, method, options):
    file = classes if method == "psbml" else data
    path = train(method, None, file, tmp_path / "run", options).model
    kind = ClassifierModel if method == "psbml" else Model
    before, config, measured = kind(path), read_config(tmp_path / "run" / "config.toml"), hpcml.evaluate(path, file)
    assert age(tmp_path / "run") > 0
    after = kind(path)
    assert (before.attrs["method"], before.attrs.get("loss")) == (after.attrs["method"], after.attrs.get("loss"))
    assert before.has_log_odds == after.has_log_odds == (options.get("loss") == "logistic" or method == "elastic-net")
    assert getattr(before, "base", None) == getattr(after, "base", None)
    assert read_config(tmp_path / "run" / "config.toml") == config
    again = hpcml.evaluate(path, file)
    np.testing.assert_equal((again.values, again.micro), (measured.values, measured.micro))


def test_parts_of_0_11_and_of_now_are_merged(data, tmp_path):
    options = {"loss": "logistic", "max_steps": 60}
    runs = [tmp_path / str(k) for k in (1, 2)]
    for k, run in enumerate(runs, 1):
        train("probe", None, data, run, options, label_part=f"{k}/2")
    merge(None, runs, tmp_path / "now")
    age(runs[0])
    merge(None, runs, tmp_path / "both")
    assert (tmp_path / "both" / "model.h5").read_bytes() == (tmp_path / "now" / "model.h5").read_bytes()


def test_a_configuration_that_0_11_wrote_serves_a_new_run(data, tmp_path):
    first = train("probe", None, data, tmp_path / "run", {"loss": "logistic", "labels_per_pass": 2, "max_steps": 9}).model
    age(tmp_path / "run")
    command = ["train", "--config", str(tmp_path / "run" / "config.toml"), "-o", str(tmp_path / "next")]
    cli.run(command, mpi.self_comm)
    assert (tmp_path / "next" / "model.h5").read_bytes() != first.read_bytes()  # whose attributes are old
    assert parts_of(tmp_path / "next" / "model.h5") == parts_of(first)


def start():
    raise AssertionError("the command line was taken")


@pytest.mark.parametrize(("old", "new"), earlier_names.OPTIONS.items())
def test_options_are_refused_with_their_new_names(tmp_path, old, new):
    for tokens in ([f"--{old}", "2"], [f"--{old}=2"]):
        for command in (["train", "dual"], ["train", "psbml"], ["plan", "dual"], ["compare"]):
            with pytest.raises(ConfigError, match=rf"^--{old} is now --{new}$"):
                cli.run([*command, "x.h5", *([] if command[0] == "plan" else ["-o", "y"]), *tokens], start)
    (tmp_path / "a.toml").write_text(f"{old} = 2\n")
    with pytest.raises(ConfigError, match=rf"a\.toml: {old} is now {new}$"):
        config_files(["train", "dual", "x.h5", "-o", "y", "--config", str(tmp_path / "a.toml")])
    with pytest.raises(ConfigError, match=rf"^the option {old} is now {new.replace('-', '_')}$"):
        asked("dual", **{old: 2})


@pytest.mark.parametrize(("old", "new"), earlier_names.LOSSES.items())
def test_losses_are_refused_with_their_new_names(data, tmp_path, old, new):
    for method in ("probe", "dual", "pegasos"):
        with pytest.raises(ConfigError, match=f"^--loss {old} is now {new}$"):
            train(method, None, data, tmp_path / "run", {"loss": old})
    with pytest.raises(ConfigError, match=f"^--loss {old} is now {new}$"):
        compare(None, data, tmp_path / "run", (), {"loss": old})
    with pytest.raises(ValueError, match=f"^loss {old} is now {new}$"):
        hpcml.ProbeClassifier(loss=old).fit(np.eye(4), [0, 1, 0, 1])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("old", "new"), earlier_names.METHODS.items())
def test_methods_are_refused_with_their_new_names(tmp_path, old, new):
    assert new in METHODS
    words = f"the method {old} is now {new}$"
    for command in (["train", old, "x.h5", "-o", "y"], ["plan", old, "x.h5"]):
        with pytest.raises(ConfigError, match=f"^{words}"):
            cli.run(command, start)
    (tmp_path / "a.toml").write_text(f'method = "{old}"\n')
    with pytest.raises(ConfigError, match=rf"a\.toml: {words}"):
        config_files(["train", "x.h5", "-o", "y", "--config", str(tmp_path / "a.toml")])
    with pytest.raises(ConfigError, match=words):
        method_named(old)


@pytest.mark.parametrize(("old", "new"), earlier_names.BASES.items())
def test_base_learners_are_refused_with_their_new_names(old, new):
    with pytest.raises(ConfigError, match=f"^--base {old} is now {new}$"):
        parse_learner([old])
    assert new in LEARNERS or parse_learner([new]).path == new
    with pytest.raises(ValueError, match=f"^base {old} is now {new}$"):
        hpcml.PsbmlClassifier(base=old).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize(("old", "new"), earlier_names.COMPARED.items())
def test_cross_validation_refuses_them_too(old, new):
    for call in (method_of, lambda name: divide_names([name])):
        with pytest.raises(ConfigError, match=f"the method {old} is now {new}$"):
            call(old)
    assert method_of(new).name == new

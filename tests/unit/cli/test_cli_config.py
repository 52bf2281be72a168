"""`--config` and numbers on the command line: whatever a file says, only a sentence comes out, and MPI does not start."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcml.cli import app as cli
from hpcml.cli.config_files import kinds_of
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, HpcmlError
from hpcml.methods import registry
from hpcml.options import flag_of
from hpcml.run.folder import RunConfig, to_toml

METHODS = {name: method.options for name, method in registry.METHODS.items()}
TIMES = ["1979-05-27", "07:32:00", "1979-05-27T07:32:00Z"]
TRAIN = ("train", "probe", "x.h5", "-o", "y")
LONG = ["0x" + "f" * 5000, "9" * 5000]
ODD = ["", "=", "-", "--", "a\nb", "\x1b[31m", "∞", "{}", "[]", "None", "nan", "-inf", "1e400", "1_0", *LONG]


class Started(Exception):
    """The command line was parsed, and MPI would start."""


def start():
    raise Started


def parse(*tokens):
    """What `hpcml tokens…` says before it starts MPI; None if nothing."""
    try:
        cli.run([str(token) for token in tokens], start)
    except Started:
        return None
    except HpcmlError as error:
        assert error.exit_code == 2 and "\n" not in str(error) and len(str(error)) < 1000
        return str(error)
    raise AssertionError("it ran")


def refused(path, text, *tokens):
    path.write_text(text)
    return parse("train", *(tokens or TRAIN[1:]), "--config", path)


texts = st.one_of(st.text(max_size=8).filter(lambda text: "\x7f" not in text), st.sampled_from(ODD))
scalars = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(lambda value: repr(value).replace("e+", "e")),
    st.sampled_from(["true", "false", "0x" + "f" * 4000, "9" * 5000, "1e400", *TIMES]),
    texts.map(lambda text: json.dumps(text.encode(errors="replace").decode())),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"), inner.map(lambda each: f"{{a = {each}}}")
    ),
    max_leaves=4,
)


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_any_value_for_any_key_gives_a_sentence_or_nothing(tmp_path_factory, data):
    method = data.draw(st.sampled_from(sorted(METHODS)))
    keys = [*kinds_of(METHODS[method]), "method", "data", "output", "no-such-key"]
    key, value = data.draw(st.sampled_from(keys)), data.draw(values)
    refused(tmp_path_factory.getbasetemp() / "any.toml", f"{key} = {value}\n", method, "x.h5", "-o", "y")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('method = ["probe"]', "method = list: expected a text"),
        ("seed = " + "9" * 5000, "a number of thousands of digits"),
        ("seed = 0x" + "f" * 4000, "seed = a number of 16000 bits: expected a whole number"),
        ("seed = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("seed = " + "{a=" * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("[seed]\na = 1", "seed = dict: expected a whole number"),
        ("seed = 1979-05-27", "seed = date: expected a whole number"),
        ("seed = 1979-15-27", "not a TOML file"),
        ("seed = 1.5", "seed = 1.5: expected a whole number"),
        ("seed = nan", "seed = nan: expected a whole number"),
        ("bias = [true]", "bias = list: expected true or false"),
        ("label = [[1]]", "label = list: expected a list of texts"),
        ("loss = true", "loss = true: expected a text"),
        ("precision = true", "precision = true: expected a text"),
        ('output = "a\\u0000b"', "holds the character NUL"),
        ('"odd key" = 1', "unknown key 'odd key'"),
        (f'"{"k" * 5000}" = 1', "unknown key 'kkkk"),
        ("seed = 3\n[seed]", "not a TOML file"),
    ],
)
def test_what_a_key_cannot_be(tmp_path, text, sentence):
    assert sentence in refused(tmp_path / "a.toml", text)


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"seed = 1 # \xff")
    assert "a.toml: byte 12 is not UTF-8" in parse(*TRAIN, "--config", path)
    assert "cannot read: No such file" in parse(*TRAIN, f"--config={tmp_path / 'none'}")
    assert "cannot read: Is a directory" in parse(*TRAIN, "--config", tmp_path)
    assert "a pipe or a device" in parse(*TRAIN, "--config", "/dev/zero")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_a_run_writes_is_read_again(tmp_path, method):
    written = to_toml(RunConfig(method, "x.h5", METHODS[method]()).values())
    assert refused(tmp_path / "a.toml", written, method, "x.h5", "-o", "y") is None


def test_plain_values_of_neighbouring_kinds_are_taken(tmp_path):
    text = 'method = "probe"\nseed = 3.0\nlambda = 0.5\nlabel = "earn"\nbias = true\nepsilon = "0.1"\ndrop = 1\n'
    assert refused(tmp_path / "a.toml", text, "-o", "y", "--data", "x.h5") is None


def numeric(options):
    return [flag_of(field.name) for field in fields(options) if any(kind in str(field.type) for kind in ("int", "float"))]


COMMANDS = [
    *((["train", method, "x.h5", "-o", "y"], numeric(METHODS[method])) for method in ("probe", "psbml", "adaboost", "pa")),
    (["convert", "svmlight", "x", "-o", "y"], numeric(ConvertOptions)),
    (["predict", "m", "x", "-o", "y"], ["top", "max-line-mb"]),
    (["evaluate", "m", "x"], ["best"]),
    (["split", "x"], ["seed", "test-share"]),
    (["info", "x"], ["ranks"]),
    (["cv", "pw", "x"], ["folds", "seed"]),
    (["prune", "m", "x"], ["below"]),
]


@pytest.mark.parametrize(("command", "flags"), COMMANDS, ids=lambda value: "-".join(value) if value[-1] == "y" else None)
def test_numbers_without_end(command, flags):
    assert flags
    for flag in flags:
        for value in ("9" * 5000, "-0x" + "f" * 5000, "9" * 5000 + ".5"):
            parse(*command, f"--{flag}={value}")  # a sentence, or a float that is infinite: its range is looked at later
    for flag in set(flags) & {"seed", "top", "max-line-mb", "best", "folds", "labels-per-pass", "ranks"}:
        assert f"--{flag}" in parse(*command, f"--{flag}=" + "9" * 4000)


def test_bytes_that_are_not_utf8():
    assert "is not UTF-8; rename what it names" in parse("info", b"a\xff.h5".decode(errors="surrogateescape"))


def test_options_are_whole_numbers_by_the_table():
    kinds = kinds_of(METHODS["probe"]) | kinds_of(METHODS["dual"])
    assert (kinds["seed"], kinds["max-gap"], kinds["label"], kinds["bias"], kinds["lambda"]) == (int, float, tuple, bool, str)
    with pytest.raises(ConfigError, match="--max-line-mb 0"):
        from hpcml.files.lines import line_limit

        line_limit(0)

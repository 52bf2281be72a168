"""`--config` and numbers on the command line: any content gives at most one sentence, before MPI starts."""

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcml.cli import app as cli
from hpcml.cli.config_files import list_types
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import HpcmlError
from hpcml.methods import registry
from hpcml.options import option_flag
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
    try:
        cli.run([str(token) for token in tokens], start)
    except Started:
        return None
    except HpcmlError as error:
        assert error.exit_code == 2 and "\n" not in str(error) and len(str(error)) < 1000
        return str(error)
    raise AssertionError("it ran")


def parse_config(path, text, *tokens):
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
@settings(max_examples=60, deadline=None)
def test_any_value_for_any_key_gives_one_sentence_or_none(tmp_path_factory, data):
    method = data.draw(st.sampled_from(sorted(METHODS)))
    keys = [*list_types(METHODS[method]), "method", "data", "output", "no-such-key"]
    key, value = data.draw(st.sampled_from(keys)), data.draw(values)
    parse_config(tmp_path_factory.getbasetemp() / "any.toml", f"{key} = {value}\n", method, "x.h5", "-o", "y")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('method = ["probe"]', "method = list"),
        ("seed = " + "9" * 5000, ""),
        ("seed = 0x" + "f" * 4000, "seed = a number of 16000 bits"),
        ("seed = " + "[" * 3000 + "]" * 3000, ""),
        ("[seed]\na = 1", "seed = dict"),
        ("seed = 1979-05-27", "seed = date"),
        ("seed = 1979-15-27", ""),
        ("seed = 1.5", "seed = 1.5"),
        ("seed = nan", "seed = nan"),
        ("bias = [true]", "bias = list"),
        ("label = [[1]]", "label = list"),
        ("loss = true", "loss = true"),
        ('output = "a\\u0000b"', "output"),
        ('"odd key" = 1', "'odd key'"),
        (f'"{"k" * 5000}" = 1', "'kkkk"),
        ("seed = 3\n[seed]", ""),
    ],
)
def test_rejects_a_wrong_value_and_names_file_and_key(tmp_path, text, named):
    error = parse_config(tmp_path / "a.toml", text)
    assert "a.toml: " in error and named in error


def test_rejects_files_that_are_not_text(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"seed = 1 # \xff")
    assert "a.toml: byte 12" in parse(*TRAIN, "--config", path)
    for other in (f"--config={tmp_path / 'none'}", f"--config={tmp_path}", "--config=/dev/zero"):
        assert other.partition("=")[2] in parse(*TRAIN, other)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_reads_the_configuration_of_a_run(tmp_path, method):
    written = to_toml(RunConfig(method, "x.h5", METHODS[method]()).values())
    assert parse_config(tmp_path / "a.toml", written, method, "x.h5", "-o", "y") is None


def test_accepts_values_of_similar_types(tmp_path):
    text = 'method = "probe"\nseed = 3.0\nlambda = 0.5\nlabel = "earn"\nbias = true\nepsilon = "0.1"\ndrop = 1\n'
    assert parse_config(tmp_path / "a.toml", text, "-o", "y", "--data", "x.h5") is None


def test_method_of_the_command_line_decides_which_keys_are_known(tmp_path):
    written = to_toml(RunConfig("dual", "x.h5", METHODS["dual"]()).values())
    text = "".join(f"{line}\n" for line in written.splitlines() if not line.startswith("method")) + 'method = "probe"\n'
    assert parse_config(tmp_path / "a.toml", text, "dual", "x.h5", "-o", "y") is None
    assert "only dual" in parse_config(tmp_path / "a.toml", text, "probe", "x.h5", "-o", "y")


def numeric(options):
    return [option_flag(field.name) for field in fields(options) if any(kind in str(field.type) for kind in ("int", "float"))]


COMMANDS = [
    *((["train", method, "x.h5", "-o", "y"], numeric(METHODS[method])) for method in ("probe", "psbml", "pa")),
    (["convert", "svmlight", "x", "-o", "y"], numeric(ConvertOptions)),
    (["predict", "m", "x", "-o", "y"], ["top", "max-line-mb"]),
    (["info", "x"], ["ranks"]),
    (["prune", "m", "x"], ["below"]),
]


@pytest.mark.parametrize(("command", "flags"), COMMANDS, ids=lambda value: "-".join(value) if value[-1] == "y" else None)
def test_rejects_numbers_of_thousands_of_digits(command, flags):
    assert flags
    for flag in flags:
        for value in ("9" * 5000, "-0x" + "f" * 5000, "9" * 5000 + ".5"):
            parse(*command, f"--{flag}={value}")  # one sentence, or an infinite float, whose range is checked later
    for flag in set(flags) & {"seed", "top", "max-line-mb", "labels-per-pass", "ranks"}:
        assert f"--{flag}" in parse(*command, f"--{flag}=" + "9" * 4000)


def test_rejects_bytes_that_are_not_utf8():
    assert "udcff.h5" in parse("info", b"a\xff.h5".decode(errors="surrogateescape"))

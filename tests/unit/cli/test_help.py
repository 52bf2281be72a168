"""What `--help` and `--install-completion` say."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import hpcml
from hpcml.cli import app as cli
from hpcml.cli.app import NAMES
from hpcml.cli.families import COMMANDS
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES
from hpcml.errors import ConfigError
from hpcml.methods.registry import LABELS, METHODS, OTHERS
from hpcml.options import flag_of, help_of


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def printed(capsys, *tokens):
    try:
        cli.run(list(tokens), None)
    except SystemExit as end:
        assert not end.code
    return capsys.readouterr().out


def flags(text):
    return set(re.findall(r"^\W{1,6}(--[a-z-]+)", text, re.MULTILINE))


def listed(text):
    """The groups of a help text, each with its names."""
    found = {}
    for line in text.splitlines():
        if re.match(r"\S", line):
            title = line.strip()
        elif name := re.match(r"  (\S+)(?: \(-h\))?  ", line):
            found.setdefault(title, []).append(name[1])
    return found


@pytest.mark.parametrize("tokens", [(), ("--help",)])
def test_commands_are_listed_by_what_a_person_wants(tokens, monkeypatch, capsys):
    """Those of most people first, each in a line of its own at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    text, app = printed(capsys, *tokens), cli.build()
    groups = listed(text)
    assert next(len(names) for names in groups.values()) == 5 and next(iter(groups)) == "Start here"
    assert sorted(name for names in groups.values() for name in names) == sorted(set(app) - {"-h"}), "each in one group"
    assert groups == {title: list(names) for title, names in COMMANDS.items()}, "a group names a command that there is not"
    assert len(text.splitlines()) == 6 + sum(map(len, groups.values())) + len(groups), "a line for each: shorten what is longer"


@pytest.mark.parametrize("tokens", [("train",), ("train", "--help")])
def test_methods_are_listed_by_what_they_are_for(tokens, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(capsys, *tokens)
    groups = listed(text)
    assert next(iter(groups.items())) == (LABELS, ["dual"])
    assert sorted(name for names in groups.values() for name in names) == sorted(METHODS)
    assert {name: group for group, names in groups.items() for name in names} == {m.name: m.group for m in METHODS.values()}
    assert len(text.splitlines()) <= 30 and OTHERS not in groups


@pytest.mark.parametrize("tokens", [*(("convert", source) for source in SOURCES), *((name,) for name in NAMES)], ids=" ".join)
def test_help_shows_what_stands_in_angle_brackets(tokens, monkeypatch, capsys):
    """Markdown takes it for HTML and drops it, unless it is code."""
    monkeypatch.setenv("COLUMNS", "1000")
    text = printed(capsys, *tokens, "--help")
    kind = cli.operation_named(tokens[0])
    known = help_of(kind) | (help_of(ConvertOptions) if tokens[0] == "convert" else {})
    for name in (name for name in known if f"--{flag_of(name)} " in text):
        for word in re.findall(r"\S*<\w+>\S*", known[name]):
            assert word.strip("`.") in text, (name, word)


def test_train_without_a_method_names_them_in_that_order():
    with pytest.raises(ConfigError, match=r"missing METHOD: hpcml train METHOD .*: dual, elastic-net, probe"):
        cli.run(["train", "--seed", "1"], None)


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_has_its_own_options_only(source, capsys):
    """Its help lists them; an option of another source is unknown, on the command line and in Python."""
    shown, own = flags(printed(capsys, "convert", source, "--help")), set(SOURCES[source].options)
    every = {each.name for each in fields(ConvertOptions)}
    assert {"test_share", "seed"} <= own <= every and shown & {f"--{flag_of(name)}" for name in every} == set(map(_flag, own))
    for name in sorted(every - own):
        with pytest.raises(ConfigError, match=r"^Unknown option"):
            cli.run(["convert", source, "x", "-o", "y.h5", f"{_flag(name)}=1"], None)
        with pytest.raises(ConfigError, match=f"^{source} has no option '{name}'"):
            hpcml.convert(source, "x", "y.h5", **{name: 1})


def _flag(name):
    return f"--{flag_of(name)}"


def test_every_option_of_convert_is_one_of_a_source():
    assert {name for source in SOURCES.values() for name in source.options} == {each.name for each in fields(ConvertOptions)}


def test_help_of_tune_says_how_many_folds_there_must_be(capsys):
    assert re.search(r"--folds.*?at least 3", printed(capsys, "tune", "--help"), re.DOTALL)


def test_without_a_home_folder(tmp_path, monkeypatch, capsys):
    def unknown(uid):
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match="no home folder is known; set HOME"):
        printed(capsys, "--install-completion", "--shell", "bash")
    assert f"{tmp_path}/hpcml: written" in printed(
        capsys, "--install-completion", "--shell", "bash", "--output", f"{tmp_path}/hpcml"
    )


@pytest.mark.parametrize(("shell", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", None)])
def test_completion_says_which_files_it_changes(shell, startup, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ZSH", "ZSH_CUSTOM"):
        monkeypatch.delenv(name, raising=False)
    said = [printed(capsys, "--install-completion", "--shell", shell) for _ in range(2)]
    files = {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    named = [{word.removesuffix(":") for word in text.split() if word.startswith(str(tmp_path))} for text in said]
    assert named[0] == files and len(files) == (2 if startup else 1)
    assert startup is None or str(Path(tmp_path, startup)) in files - named[1], "the second time it is left alone"

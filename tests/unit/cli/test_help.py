"""`--help` and `--install-completion`."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import hpcml
from hpcml.cli import app as cli
from hpcml.cli.app import COMMANDS, NAMES
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS, OTHERS
from hpcml.options import option_flag, option_help


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys, *tokens):
    try:
        cli.run(list(tokens), None)
    except SystemExit as end:
        assert not end.code
    return capsys.readouterr().out


def list_groups(text):
    groups = {}
    for line in text.splitlines():
        if re.match(r"\S", line):
            title = line.strip()
        elif name := re.match(r"  (\S+)(?: \(-h\))?  ", line):
            groups.setdefault(title, []).append(name[1])
    return groups


@pytest.mark.parametrize("tokens", [(), ("--help",)])
def test_lists_every_command_in_one_group_and_one_line(tokens, capsys):
    text, groups = printed(capsys, *tokens), {title: list(names) for title, names in COMMANDS.items()}
    assert list_groups(text) == groups
    assert sorted(name for names in groups.values() for name in names) == sorted(set(cli.build()) - {"-h"})
    assert len(text.splitlines()) == 6 + sum(map(len, groups.values())) + len(groups), "shorten the summaries that wrap"


@pytest.mark.parametrize("tokens", [("train",), ("train", "--help")])
def test_lists_every_method_in_its_group(tokens, capsys):
    text = printed(capsys, *tokens)
    groups = list_groups(text)
    assert {name: group for group, names in groups.items() for name in names} == {m.name: m.group for m in METHODS.values()}
    assert next(iter(groups.values())) == ["dual"] and len(text.splitlines()) <= 32 and OTHERS not in groups


@pytest.mark.parametrize("tokens", [("convert", "csv"), ("convert", "pubmed"), *((name,) for name in NAMES)], ids=" ".join)
def test_help_shows_words_in_angle_brackets(tokens, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    text = printed(capsys, *tokens, "--help")
    known = option_help(cli.import_operation(tokens[0])) | (option_help(ConvertOptions) if tokens[0] == "convert" else {})
    for name in (name for name in known if f"--{option_flag(name)} " in text):
        for word in re.findall(r"\S*<\w+>\S*", known[name]):
            assert word.strip("`.") in text, (name, word)


def test_train_without_a_method_lists_the_methods():
    with pytest.raises(ConfigError, match=r"^missing METHOD: .*: dual, elastic-net, probe"):
        cli.run(["train", "--seed", "1"], None)


@pytest.mark.parametrize("source", SOURCES)
def test_source_has_only_its_own_options(source, capsys):
    own, every = set(SOURCES[source].options), {each.name for each in fields(ConvertOptions)}
    shown = set(re.findall(r"^\W{1,6}(--[a-z-]+)", printed(capsys, "convert", source, "--help"), re.MULTILINE))
    assert {"test_share", "seed"} <= own <= every
    assert shown & {f"--{option_flag(name)}" for name in every} == {f"--{option_flag(name)}" for name in own}
    for name in sorted(every - own):
        with pytest.raises(ConfigError, match=f"'{name}'"):
            hpcml.convert(source, "x", "y.h5", **{name: 1})
    with pytest.raises(ConfigError, match=f"--{option_flag(min(every - own))}"):
        cli.run(["convert", source, "x", "-o", "y.h5", f"--{option_flag(min(every - own))}=1"], None)


def test_every_option_of_convert_belongs_to_a_source():
    assert {name for source in SOURCES.values() for name in source.options} == {each.name for each in fields(ConvertOptions)}


def test_completion_without_a_home_folder_needs_an_output(tmp_path, monkeypatch, capsys):
    def unknown(uid):
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigError, match="HOME"):
        printed(capsys, "--install-completion", "--shell", "bash")
    assert str(tmp_path) in printed(capsys, "--install-completion", "--shell", "bash", "--output", f"{tmp_path}/hpcml")


@pytest.mark.parametrize(("shell", "startup"), [("bash", ".bashrc"), ("fish", None)])
def test_completion_names_the_files_that_it_changes(shell, startup, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    texts = [printed(capsys, "--install-completion", "--shell", shell) for _ in range(2)]
    files = {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    named = [{word.removesuffix(":") for word in text.split() if word.startswith(str(tmp_path))} for text in texts]
    assert named[0] == files and len(files) == (2 if startup else 1)
    assert startup is None or str(Path(tmp_path, startup)) in files - named[1], "the second call leaves it unchanged"

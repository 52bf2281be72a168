"""Names with any characters: printed texts keep their lines and hide control characters, and CSV files are read back."""

import csv
import io
import re
import tomllib
import unicodedata

import h5py
import numpy as np
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpcml import log as logs
from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import write_strings
from hpcml.files.table import format_csv, joined_names
from hpcml.files.untrusted import read_strings
from hpcml.log import Log, Progress, say, visible
from hpcml.run.folder import to_toml

SELF = mpi.self_comm()
LETTERS = "ab é😀$[]{}<>&%#=+-@|,;:\"'\\\n\r\t\x00\x1b\x7f\x85\x9b\xad\u200b\u200d\u2028\u2029\u202e\u2066\ufeff\ufffe\ud800\udcff"
NAMES = st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=4)
NASTY = [
    "a,b", 'say "x"', "two\nlines", "back\rto", "\r\n", "", "", " blank ", "=cmd|'/c'", "\x1b[31mred", "[red]x", "[/]", "a;b\\",
    "$\\frac$",
]  # fmt: skip
NASTY += ["+1 x", "-x", "@a", "\tx", "\rx", "'=x", "''-x", "'quoted'", "-1.5", "'-1.5", "-"]
NASTY += ["\u202eevil", "tab\tbed", "\ufeffbom", "😀", "{task.id}", "NA", "01", "x" * 1000, "\ud800", "n\0l"]


def stored(name):
    return name.replace("\0", "\\x00").replace("\ud800", "\\ud800").replace("\udcff", "\\udcff")


@settings(max_examples=30)
@given(names=NAMES)
@example(names=NASTY)
@example(names=[""])
def test_csv_file_is_read_back(tmp_path_factory, names):
    path = tmp_path_factory.getbasetemp() / "names.csv"
    path.write_text(format_csv([["number", "name"], *enumerate(names)]), encoding="utf-8", newline="")
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    assert pandas.read_csv(path, header=None, dtype=str, keep_default_na=False).to_numpy().tolist() == rows
    assert all(re.fullmatch(r"[^=+\-@\t\r].*|-?[0-9.]+(e-?[0-9]+)?|", cell, re.DOTALL) for row in rows for cell in row)
    rows = [[re.sub(r"^'('*[=+\-@\t\r])", r"\1", cell) for cell in row] for row in rows]  # by the rule of docs/lookup/formats.md
    assert [row[1] for row in rows[1:]] == [stored(each) for each in names]


def test_ordinary_names_keep_their_bytes():
    rows = [["row", "id", "labels"], [0, "a b", joined_names(["x", "y"])], [1, "=c", joined_names([])]]
    text = "row,id,labels\n0,a b,x;y\n1,'=c,\n2,é,semi\\;colon\n"
    assert format_csv([*rows, [np.int64(2), "é", joined_names(["semi;colon"])]]) == text
    assert format_csv([[None, 0.1, "a,b", 'c"']]) == ',0.1,"a,b","c"""\n'


def is_plain(text):
    return not any(unicodedata.category(letter) in logs.UNSEEN for letter in text)


@given(st.text(LETTERS))
def test_escapes_only_invisible_characters(text):
    assert is_plain(visible(text)) and visible(visible(text)) == visible(text)
    assert visible("".join(letter for letter in text if is_plain(letter))) == "".join(letter for letter in text if is_plain(letter))


def test_escapes_what_is_printed_and_logged(tmp_path, capsys):
    say("a table\nwith \x1b[31m two\x07 lines", log_stream := io.StringIO())
    assert log_stream.getvalue() == "a table\nwith \\x1b[31m two\\x07 lines\n"
    log = Log(0)
    log.file = tmp_path / "log.txt"
    log("one\nline \udcff")
    log("two\nlines\r", has_lines=True)
    assert capsys.readouterr().err == "one\\nline \\udcff\ntwo\nlines\\r\n"
    lines = log.file.read_text(encoding="utf-8").splitlines()
    assert [line.split(" ", 1)[-1] for line in lines] == ["one\\nline \\udcff", "two", "lines\\r"]


@pytest.mark.parametrize("name", ["[red]x", "{task.id}", "\x1b[2J", "two\nlines"])
def test_progress_bar_shows_any_name(name, monkeypatch):
    from rich import console

    out = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True, raising=False)
    make = console.Console
    monkeypatch.setattr(console, "Console", lambda stderr: make(file=out, force_terminal=True, width=200, color_system=None))
    progress = Progress(Log(0), name, 3)
    progress.update(1, f"note {name}")
    progress.bar.refresh()
    progress.close()
    assert visible(name) in out.getvalue() and f"note {visible(name)}" in out.getvalue()


@given(st.text(LETTERS), st.lists(st.text(LETTERS)))
@example("\x7f\x00\r\n", ["\u2028\\", '"'])
def test_toml_is_read_back(text, texts):
    values = {"data": text, "label": texts}
    try:
        written = to_toml(values)
    except ConfigError as error:
        assert "not UTF-8" in str(error) and "\n" not in str(error)
        assert not all(map(logs.is_unicode, [text, *texts]))
    else:
        assert tomllib.loads(written) == values


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_rejects_names_that_hdf5_cannot_store(tmp_path, name):
    with h5py.File(tmp_path / "a.h5", "w") as file, pytest.raises(DataError, match="label_names"):
        write_strings(file, "label_names", ["good", name])


def test_rejects_a_nul_in_a_file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["label_names"] = np.array([b"a\0b", b"cccc"])
        with pytest.raises(ValueError, match="NUL"):
            read_strings(file["label_names"])

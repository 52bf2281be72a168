"""Names with any characters: printed texts keep their lines and hide control characters, and CSV files are read back."""

import csv
import io
import re
import tomllib
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pandas
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpcml import log as logs
from hpcml import mpi
from hpcml.conversion.convert import ConvertReport
from hpcml.conversion.vocabulary import Field
from hpcml.crossval import table as crossval
from hpcml.crossval.problems import CvProblem
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.evaluation import explain as explanations
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.seen import SeenRows
from hpcml.files.hdf5 import write_strings
from hpcml.files.table import format_csv, joined_names, read_csv, table
from hpcml.files.untrusted import read_strings
from hpcml.log import Log, Progress, named, say, visible
from hpcml.methods.linear.solver import History
from hpcml.methods.online import run as online
from hpcml.near_duplicates.search import Bands, Consistency, Duplicates, Pairs, _write_pairs
from hpcml.prediction.table import RowLabels, TextTable
from hpcml.reduce import select
from hpcml.run.folder import to_toml
from hpcml.run.sweep import Sweep

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
    """Return a name as a CSV file has it, with escapes for characters that no file can have."""
    return name.replace("\0", "\\x00").replace("\ud800", "\\ud800").replace("\udcff", "\\udcff")


def evaluation(names):
    n = len(names)
    values = {"average_precision": np.linspace(0.2, 0.9, n), "f1": np.full(n, np.nan)}
    parts = (np.arange(n), names, np.full(n, 3), [], 0)
    measures = {"values": values, "micro": dict.fromkeys(values, 0.5), "precision_at": {1: 0.5}}
    return Evaluation(names[0], names[-1], names[0], 9, *parts, seen=SeenRows(1), n_unused=1, **measures)


def explanation(names):
    """Return an explanation whose labels and features have these names."""
    n = len(names)
    model = SimpleNamespace(path=names[0], n_labels=n, n_features=n, label_names=names, label_titles=names, bias=np.zeros(n))
    model.labels = {"n_positive": np.arange(n)}
    labels = [explanations.LabelWeights(label, np.arange(n), np.ones(n), n, n, 0.0) for label in range(n)]
    return explanations.Explanation(model, labels, np.arange(n), dict(enumerate(names)), [Field(names[0], names[-1])])


def duplicates(names):
    labels = Consistency(*np.ones((3, len(names)), int))
    return Duplicates(Path(names[0]), names[-1], 9, 1, 1, 1, 0.8, Bands(2, 3), 1, 0, [0.8, 1.0], [1, 0], names, labels, 1.0)


def pairs_of_names(path, names):
    """Write the pairs of rows with these names, each with the next one."""
    n = len(names)
    data = path.with_suffix(".h5")
    with h5py.File(data, "w") as file:
        write_strings(file, "row_ids", [stored(name) for name in names])
    with h5py.File(data) as file:
        dataset = SimpleNamespace(path=data, file=file, split=lambda _: np.arange(n))
        dataset.strings = lambda what, begin, end: read_strings(file[what], begin, end)
        pairs = Pairs(np.arange(n), np.roll(np.arange(n), 1), np.ones(n))
        _write_pairs(SELF, dataset, "all", pairs, np.ones(n, int), np.ones((3, n), int), path)


def sweep(names):
    return Sweep(["run", "data", "label", "map"], [[name, name, [name, name], 0.5] for name in names])


def cross_validation(names):
    problem = [CvProblem(Path(f"{name}x.h5"), "all", name, [name], np.arange(1), np.array([3]), 1, 9, 4, 8) for name in names]
    ones = [np.linspace(1, 2, 6).reshape(1, 3, 2)] * len(names)
    return crossval.CrossValidation(problem, ["multinomial-nb", "svm"], "multinomial-nb", 3, 0, ones, ones)


def selected(names, path=Path("x")):
    k = len(names)
    return select.Selected("efs", np.arange(k), np.linspace(0, 1, k), np.arange(k) % 2 > 0, names, path, path, k)


def predicted(path, names, titled=False):
    """Write a table of rows and labels with these names."""
    model = SimpleNamespace(label_names=names, label_titles=names if titled else None)
    table_of_rows, numbers = TextTable(model, "score", ".csv"), np.arange(len(names))
    rows = RowLabels(0, names, numbers, numbers, np.full(len(names), 0.5))
    path.write_bytes(b"".join([table_of_rows.begin, *table_of_rows.encode(rows)]))


def histories(path, names):
    history = History(("t", "f"), lambda step: f"{step[0]},{step[1]}")
    path.write_bytes(b"label,t,f\n" + b"".join(history.lines(name, [(label, 0.5)]) for label, name in enumerate(names)))


def online_history(path, names):
    points = np.arange(10 * len(names)).reshape(len(names), 2, 5)
    folder, source = SimpleNamespace(history=path), SimpleNamespace(names=names)
    online.Pass.write_history(SimpleNamespace(comm=SELF, history=points, n_points=1, folder=folder, source=source))


def split_names(cell):
    r"""Return the names of a cell: `;` separates them unless `\` precedes it (docs/lookup/formats.md)."""
    out, letters = [""], iter(cell)
    for letter in letters:
        if letter == ";":
            out.append("")
        else:
            out[-1] += letter if letter != "\\" else {"e": "", ";": ";", "\\": "\\"}.get(escaped := next(letters), f"\\{escaped}")
    return out if cell else []


# CSV file -> function that writes it for some names, and position of the names in its lines.
FILES = {
    "evaluate --csv": (lambda path, names: evaluation(names).write_csv(path), 1),
    "history.csv": (histories, 0),
    "history.csv of a single pass": (online_history, 0),
    "predict": (predicted, 1),
    "predict, row ids": (predicted, 0),
    "predict, titles": (lambda path, names: predicted(path, names, titled=True), 2),
    "merge": (lambda path, names: sweep(names).write_csv(path), 0),
    "cv": (lambda path, names: cross_validation(names).write_csv(path), 1),
    "duplicates": (pairs_of_names, 2),
    "duplicates --csv": (lambda path, names: duplicates(names).write_csv(path), 1),
    "select": (lambda path, names: select.write_list(path, selected(names)), 2),
}


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=10)
@given(names=NAMES)
@example(names=NASTY)
@example(names=[""])
def test_csv_file_is_read_back(tmp_path, name, names):
    write, column = FILES[name]
    path = tmp_path / "table.csv"
    write(path, names)
    assert path.read_bytes().endswith(b"\n")
    with path.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    assert len({len(row) for row in rows}) == 1
    assert pandas.read_csv(path, header=None, dtype=str, keep_default_na=False).to_numpy().tolist() == rows
    assert all(re.fullmatch(r"[^=+\-@\t\r].*|-?[0-9.]+(e-?[0-9]+)?|", cell, re.DOTALL) for row in rows for cell in row)
    rows = [[re.sub(r"^'('*[=+\-@\t\r])", r"\1", cell) for cell in row] for row in rows]  # by the rule of docs/lookup/formats.md
    lines = sorted(rows[1:], key=lambda row: int(row[1])) if name == "select" else rows[1 :: 2 if name == "cv" else 1]
    assert [row[column] for row in lines] == [stored(each) for each in names]
    if name == "merge":
        assert [split_names(row[2])[1] for row in lines] == [stored(each) for each in names]


def test_ordinary_names_keep_their_bytes():
    rows = [["row", "id", "labels"], [0, "a b", joined_names(["x", "y"])], [1, "=c", joined_names([])]]
    text = "row,id,labels\n0,a b,x;y\n1,'=c,\n2,é,semi\\;colon\n"
    assert format_csv([*rows, [np.int64(2), "é", joined_names(["semi;colon"])]]) == text
    assert format_csv([[None, 0.1, "a,b", 'c"']]) == ',0.1,"a,b","c"""\n'


def test_reader_accepts_long_cells_and_restores_the_limit(tmp_path):
    limit, path = csv.field_size_limit(), tmp_path / "a.csv"
    path.write_text(format_csv([["name", "n"], ["x\n" * 100_000, 1]]), newline="")
    assert read_csv(path) == [{"name": "x\n" * 100_000, "n": "1"}]
    assert csv.field_size_limit() == limit


# Printed texts with names.
TEXTS = {
    "duplicates": lambda names: str(duplicates(names)),
    "explain": lambda names: str(explanation(names)),
    "evaluate": lambda names: str(evaluation(names)),
    "merge": lambda names: str(sweep(names)),
    "cv": lambda names: str(cross_validation(names)),
    "select": lambda names: str(selected(names, Path(names[0]))),
    "convert": lambda names: str(ConvertReport(Path(names[0]), 1, 1, 1, 1, dict.fromkeys(names, 1), 1, 1, 1, 1.0)),
    "errors": lambda names: str(DataError(f"{names[0]}: no label; {nearest('a', names)}")),
}


def is_plain(text):
    return not any(unicodedata.category(letter) in logs.UNSEEN for letter in text)


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=10)
@given(names=st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=4, unique=True))
@example(names=[*dict.fromkeys(NASTY)])
def test_text_has_the_lines_of_ordinary_names(name, names):
    text = TEXTS[name](names)
    ordinary = TEXTS[name]([f"name{number}" for number in range(len(names))])
    assert is_plain(text.replace("\n", ""))
    assert text.count("\n") == ordinary.count("\n")


def test_shortens_long_names_in_tables():
    names = ["short", "begin" + "x" * 500 + "end"]
    for name in ("evaluate", "cv", "merge", "select"):
        text = TEXTS[name](names)
        assert max(map(len, text.split("\n"))) < 600 and "begin" in text and "…" in text, name
    lines = table([["heading" * 30, "n"], [names[1], "1"]])
    assert lines[0].startswith("heading" * 30) and named(names[1]) in lines[1] and len(named(names[1])) == logs.LONGEST


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

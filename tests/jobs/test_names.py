"""Labels, features, rows and folders with any names: commands accept them, tables keep them, and each is printed on one line."""

import csv
import json
import re
import shutil
import unicodedata

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support.make import dataset

LABELS = ["two\nlines", "back\rreturn", "\x1b[31m[red]x", "[/] {task.id}", 'a;b\\,"c" $x', "", "one", "twin", "\u202eevil\ttab"]
FEATURES = ["f\nlines", "f\rreturn", '"', ",", "\x1b]0;x\x07", "=cmd", " f ", "f" * 300, "😀", "f;", "\u2028", "f", ""]
SENT = ("\x1b", "\x07", "\r", "\t", "\u202e", "\u2028")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names") / "a\nfolder [red]\x1b[31m"
    folder.mkdir()
    rng, n, k = np.random.default_rng(5), 180, len(LABELS)
    label = np.arange(n) % k
    X = (rng.random((n, len(FEATURES))) < 0.3).astype(np.float32)
    X[np.arange(n), label] = 1
    Y = sp.csr_matrix((np.ones(n), (np.arange(n), label)), (n, k))
    ids = [f"row\n{row}" for row in range(n)]
    rows = np.arange(n)
    return folder, dataset(
        folder / "data.h5", X, Y, FEATURES, LABELS, ids, {"train": rows[rows % 4 > 0], "test": rows[rows % 4 == 0]}
    )


@pytest.fixture
def run(standing):
    def run(*args, code=0):
        result = standing(1, *args)
        assert result.returncode == code, result.stderr
        text = result.stdout + result.stderr
        lines = text.split("\n")
        assert "Traceback" not in text
        assert not any(unicodedata.category(letter) in ("Cc", "Cf") for line in lines for letter in line)
        assert not any(line.startswith(("lines", "return", "folder")) for line in lines)  # the ends of names
        return text

    return run


def table(path):
    with path.open(newline="", encoding="utf-8") as lines:
        header, *rows = ([re.sub(r"^'('*[=+\-@\t\r])", r"\1", cell) for cell in row] for row in csv.reader(lines))
    assert {len(row) for row in rows} == {len(header)}
    return header, rows


def test_train_evaluate_predict_and_merge(run, files):
    folder, data = files
    assert "two\\nlines" in run("info", data)
    short = ("--max-steps", 4)
    runs = {"probe": short, "dual": ("--show-gaps",), "mbw": (), "psbml": ("--grid", "2x2", "--cycles", 1, "--base", "stump")}
    for method, options in runs.items():
        run("train", method, data, "-o", folder / method, *options)
    assert "resum" in run("train", "probe", data, "-o", folder / "probe", *short, "--resume")
    for method in ("probe", "dual", "mbw"):
        names = [row[0] for row in table(folder / method / "history.csv")[1]]
        assert list(dict.fromkeys(names)) == list(dict.fromkeys(LABELS))
    outputs = [folder / "measures.csv", folder / "measures.json"]
    printed = run("evaluate", folder / "probe" / "model.h5", data, "--csv", outputs[0], "--json", outputs[1])
    assert "\\x1b[31m[red]x" in printed
    assert [row[1] for row in table(outputs[0])[1]] == LABELS
    assert [line["label"] for line in json.loads(outputs[1].read_text(encoding="utf-8"))["labels"]] == LABELS
    run("evaluate", folder / "psbml" / "model.h5", data)
    assert "\\x1b[31m[red]x" in run("explain", folder / "probe" / "model.h5", "--label", LABELS[2])
    run("duplicates", data, "-o", folder / "pairs.csv", "--csv", folder / "consistency.csv", "--similarity", 0.5)
    assert {row[1] for row in table(folder / "consistency.csv")[1]} <= {*LABELS}
    run("prune", folder / "dual" / "model.h5", data, "--below", 0.01)
    log = (folder / "probe" / "log.txt").read_text(encoding="utf-8")
    assert not any(letter in log for letter in SENT)

    header, rows = table(predicted(run, files, "labels.csv", "--threshold=-9"))
    assert header == ["id", "label", "score"] and len(rows) == 180 * len(LABELS) and {row[1] for row in rows} == set(LABELS)
    best = table(predicted(run, files, "top.csv", "--top", 1))[1]
    assert [row[0] for row in best] == [f"row\n{row}" for row in range(180)] and {row[1] for row in best} <= set(LABELS)

    for part in (1, 2):
        run("train", "probe", data, "-o", folder / f"part{part}", "--label-part", f"{part}/2", *short)
    run("merge", folder / "part1", folder / "part2", "-o", folder / "whole")
    assert (folder / "whole" / "model.h5").read_bytes() == (folder / "probe" / "model.h5").read_bytes()
    assert [row[:-2] for row in table(folder / "whole" / "history.csv")[1]] == [
        row[:-2] for row in table(folder / "probe" / "history.csv")[1]
    ]
    run("merge", folder / "part1", folder / "part2", "-o", folder / "sweep.csv")
    assert [row[0] for row in table(folder / "sweep.csv")[1]] == [str(folder / "part1"), str(folder / "part2")]


def predicted(run, files, name, *options):
    folder, data = files
    run("predict", folder / "probe" / "model.h5", data, "-o", folder / name, *options)
    return folder / name


def test_select_and_cross_validate(run, files):
    folder, data = files
    assert "\\x1b" in run("select", data, "-o", folder / "few.h5", "--by", "ig", "--features", len(FEATURES))
    listed = folder / "few.features.csv"
    assert {row[2] for row in table(listed)[1]} == set(FEATURES)
    for like in (listed, folder / "few.h5"):
        run("select", data, "-o", folder / f"again{like.suffix}.h5", "--like", like)
        with h5py.File(folder / f"again{like.suffix}.h5") as file:
            assert list(file["feature_names"].asstr()) == FEATURES
    run("cv", "multinomial-nb", "mbw", f"{data}:{LABELS[0]}", f"{data}:{LABELS[4]}", "--folds", 2, "-o", folder / "cv.csv")
    assert [row[1] for row in table(folder / "cv.csv")[1]] == [LABELS[0]] * 2 + [LABELS[4]] * 2


def test_error_is_one_line(run, files, tmp_path):
    folder, data = files
    for args in (
        ("train", "probe", data, "-o", tmp_path / "run", "--label", "no\nsuch\x1b"),
        ("train", "no\nsuch\r", data, "-o", tmp_path / "run"),
        ("info", folder / "miss\ning.h5"),
        ("evaluate", folder / "miss\ring.h5", data),
        ("predict", data, data, "-o", folder / "out.c\x1bsv"),
        ("merge", folder, folder, "-o", tmp_path / "x"),
    ):
        error = run(*args, code=2)
        assert error.count("\n") == 1 and error.startswith("hpcml: "), error


def test_rejects_file_names_that_are_not_unicode(run, files, tmp_path):
    data = tmp_path / "d\udcff.h5"
    shutil.copy(files[1], data)
    for command in (("train", "probe", data, "-o", tmp_path / "run"), ("info", data)):
        error = run(*command, code=2)
        assert "d\\udcff.h5" in error and "UTF-8" in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_convert_keeps_names_and_rejects_those_that_hdf5_cannot_store(run, tmp_path):
    source, output = tmp_path / "doc\ns.jsonl", tmp_path / "doc\ns.h5"
    labels = sorted({*LABELS} - {""})
    lines = [{"id": f"row\r\n{name}", "text": "some words", "labels": [name]} for name in labels]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("convert", "jsonl", source, "-o", output)
    with h5py.File(output) as file:
        assert sorted(file["label_names"].asstr()) == labels
        assert list(file["row_ids"].asstr()) == [line["id"] for line in lines]
    for name in ("n\0l", "\ud800"):
        source.write_text(json.dumps({"text": "a", "labels": [name]}) + "\n")
        assert run("convert", "jsonl", source, "-o", tmp_path / "bad.h5", code=2).count("\n") == 1
        assert not (tmp_path / "bad.h5").exists()

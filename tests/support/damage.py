"""Damaged inputs of every kind that hpcml reads, by number: the same seed and number give the same files.

`python -m launch.lab bench fuzz` gives them to the commands and judges what comes.
"""

import gzip
import json
import random
import shutil
from typing import NamedTuple

import h5py
import numpy as np

from support import make
from support.damage_hdf5 import IMPOSSIBLE, LARGE, damage_bytes, damage_hdf5

CHECK = "check"  # in place of a command: read the dataset again, slowly, by other means (`check_dataset`)


class Case(NamedTuple):
    damage: str
    commands: list[list[str]]


def text_originals(folder):
    rng = random.Random(1)
    lines = []
    for row in range(40):
        columns = sorted(rng.sample(range(1, 15), rng.randrange(6)))
        labels = ",".join(map(str, sorted(rng.sample(range(1, 5), rng.randrange(1, 3)))))
        lines.append(
            labels + "".join(f" {j}:{rng.choice((1, 0.5, -2.25, 1e-3, 3e5))}" for j in columns) + " # row" * (row % 9 == 0)
        )
    (folder / "in.svm").write_text("\n".join(lines) + "\n")
    words = ["sparse", "row", "sum", "vector", "rank", "of", "the", "matrix", "İstanbul", "naïve", "数", "x1"]
    documents = [
        {
            "id": f"doc{row}",
            "title": " ".join(rng.choices(words, k=2)),
            "text": ", ".join(rng.choices(words, k=7)),
            "labels": rng.sample(["numpy", "scipy", "naïve"], rng.randrange(3)),
            "split": "test" if row % 4 == 0 else "train",
        }
        for row in range(30)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(d, ensure_ascii=row % 2 == 0) + "\n" for row, d in enumerate(documents)))


def originals(folder):
    text_originals(folder)
    X, y, Y = make.class_data(0, 30, 9, 3)
    names, ids = make.names("f", 9), make.names("row", 30)
    splits = {"train": range(0, 30, 2), "test": range(1, 30, 2)}
    make.dataset(folder / "data.h5", X, Y, names, list("abc"), ids, splits, label_titles=["first", "", "third"])
    make.dataset(folder / "ones.h5", X != 0, Y, ones=True)
    W = np.random.default_rng(0).standard_normal((3, 9))
    make.model(folder / "model.h5", W, label_names=list("abc"), feature_names=names, label_titles=["first", "", "third"])
    make.model(folder / "sparse.h5", np.where(W > 0, W, 0), label_names=list("abc"), feature_names=names, sparse=True)
    for number, base in enumerate(BASES):
        make.classifier(folder / f"classifier{number}.h5", base, X, y, list("abc"), names, dense=number % 2 == 0)


def runs(folder, run):
    data, stopped = folder / "data.h5", ("--time-limit", "1e-9", "--split", "all")
    run("convert", "jsonl", folder / "in.jsonl", "-o", folder / "text.h5", "--pairs")
    run("train", "probe", data, "-o", folder / "probe", *stopped, code=75)
    run("train", "psbml", data, "-o", folder / "psbml", "--grid", "2x1", "--cycles", "4", *stopped, code=75)
    run("train", "dual", data, "-o", folder / "dual", *stopped, code=75)
    run("train", "probe", data, "-o", folder / "done")
    run("train", "perceptron", data, "-o", folder / "perceptron", "--split", "all")
    run("train", "perceptron", data, "-o", folder / "online", *stopped, code=75)


BASES = (
    "tree",
    "linear-svm",
    "kernel-nb",
    "sklearn.ensemble.AdaBoostClassifier n_estimators=2",
    "sklearn.ensemble.RandomForestClassifier n_estimators=2",
    "sklearn.linear_model.LogisticRegression",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.svm.SVC",
    "sklearn.ensemble.GradientBoostingClassifier n_estimators=2",
)
RUNS = {"probe": "probe", "done": "probe", "psbml": "psbml", "dual": "dual", "online": "perceptron"}
OF_RUNS = {"psbml": ["--grid", "2x1", "--cycles", "4", "--split", "all"], "done": []}  # the options that they were begun with


TOKENS = {
    "svmlight": [
        "nan", "inf", "-inf", "1e999", "-1e999", "qid:1", "1_0:2", ":", "::", "1:", ":1", "-1:1", "0:1", "2147483646:1",
        "2147483647:1", "99999999999999999999:1", "1:1:1", "1.5:1", "1:0x10", "+3:1", "1:٣", "1,,2", ",1", "1,", "nan,1", "1e400",
        "#", "\x00", "\x1c", "\x85", "\ufeff", "\x0b", "\r", "1:1e-50", "1:1e39",
    ],
    "jsonl": [
        *[
            "{", "}", "[", "]", ":", ",", '"', "null", "true", "NaN", "Infinity", "-1", "1e999", "\\", "\\ud800", "\\u0000",
            "\x00", "\ufeff", "\u2028", "\r", "İ",
        ],
        *('"labels": 3', '"labels": [""]', '"labels": [1]', '"labels": ["a\\u0000"]', '"split": ".."', '"split": "a/b"'),
        *('"split": "all"', '"id": {}', '"id": 7', '"text": null', '"text": ["a"]', '"title": 0', '"labels": ["\\ud800"]'),
        *("[" * 100_000, '{"a":' * 5000, "9" * 5000, '"labels": ["' + "x" * 70_000 + '"]', '"split": "' + "s" * 300_000 + '"'),
    ],
}  # fmt: skip


def damage_text(rng, raw, kind):
    lines = raw.decode(errors="surrogateescape").split("\n")
    number = rng.randrange(len(lines))
    line, token = lines[number], rng.choice(TOKENS[kind])
    parts = line.split(" ")
    how = rng.choice(("token", "token", "append", "inside", "double", "blank", "drop", "join"))
    if how == "token":
        parts[rng.randrange(len(parts))] = token
        line = " ".join(parts)
    elif how == "append":
        line = f"{line[:-1]}, {token}}}" if kind == "jsonl" else f"{line} {token}"
    elif how == "inside":
        place = rng.randrange(len(line) + 1)
        line = line[:place] + token + line[place:]
    elif how == "double":
        line = f"{line} {line}"
    elif how == "blank":
        line = rng.choice(("", " ", "\t", "#", "\x0c"))
    elif how == "drop":
        del parts[rng.randrange(len(parts))]
        line = " ".join(parts)
    elif how == "join" and number + 1 < len(lines):
        line += lines.pop(number + 1)
    lines[number] = line
    return "\n".join(lines).encode(errors="surrogateescape"), f"line {number + 1}: {how} {token[:20]!r}"


def _text_case(rng, kind, sound, folder):
    name = {"svmlight": "in.svm", "jsonl": "in.jsonl"}[kind]
    raw, done = (sound / name).read_bytes(), []
    for _ in range(rng.choice((1, 1, 2, 5))):
        raw, what = damage_text(rng, raw, kind) if rng.random() < 0.7 and raw else damage_bytes(rng, raw or b"1")
        done.append(what)
    if rng.random() < 0.2:
        raw = gzip.compress(raw)
        if rng.random() < 0.7:
            raw, what = damage_bytes(rng, raw)
            done.append(f"gz: {what}")
    (folder / name).write_bytes(raw)
    options = {"svmlight": ("--zero-based",), "jsonl": ("--pairs", "--binary", "--min-df=2")}[kind]
    options = [option for option in options if rng.random() < 0.3]
    if rng.random() < 0.2 and kind == "svmlight":
        options += ["--test-share", "0.3"]
    out = str(folder / "out.h5")
    return Case("; ".join(done), [["convert", kind, str(folder / name), "-o", out, *options], ["info", out], [CHECK, out]])


def _damaged_file(rng, source, target):
    shutil.copyfile(source, target)
    done = []
    share = rng.random()
    if share < 0.6:
        with h5py.File(target, "r+", libver="latest") as file:
            for _ in range(rng.choice((1, 1, 1, 2))):
                try:
                    done.append(damage_hdf5(rng, file))
                except IMPOSSIBLE:
                    # the change before left nothing to change
                    done.append("nothing")
    if share >= 0.55 and target.stat().st_size <= 100 * LARGE:
        raw = target.read_bytes()
        for _ in range(rng.choice((1, 1, 2, 6))):
            raw, what = damage_bytes(rng, raw or b"0")
            done.append(what)
        target.write_bytes(raw)
    return "; ".join(done)


def _dataset_case(rng, kind, sound, folder):
    source, data = rng.choice(("data.h5", "data.h5", "ones.h5", "text.h5")), folder / "data.h5"
    done = _damaged_file(rng, sound / source, data)
    use = {
        "predict": ["predict", str(sound / "model.h5"), str(data), "-o", str(folder / f"out{rng.choice(('.h5', '.csv'))}")],
        "evaluate": ["evaluate", str(sound / "model.h5"), str(data)],
        "tree": ["evaluate", str(sound / "classifier0.h5"), str(data)],
        "like": ["convert", "jsonl", str(sound / "in.jsonl"), "-o", str(folder / "out.h5"), "--like", str(data)],
        "split": ["split", str(data), "-o", str(folder / "out.h5"), "--force"],
        "train": ["train", "probe", str(data), "-o", str(folder / "run")],
    }[rng.choice(("predict", "evaluate", "tree", "like", "split", "train"))]
    checked = [["info", str(data)], [CHECK, str(data)]]
    return Case(f"{source}: {done}", [use] if rng.random() < 0.4 else [*checked, use])


def _model_case(rng, kind, sound, folder):
    linear = rng.choice(("model.h5", "sparse.h5", "perceptron/model.h5", "done/model.h5"))
    source = f"classifier{rng.randrange(len(BASES))}.h5" if kind == "classifier" else linear
    done = _damaged_file(rng, sound / source, folder / "model.h5")
    model, data = str(folder / "model.h5"), str(sound / "data.h5")
    uses = [
        ["predict", model, data, "-o", str(folder / "out.csv")],
        ["evaluate", model, data, "--json", str(folder / "out.json")],
        ["predict", model, data, "-o", str(folder / "top.csv"), "--top", "2"],
        ["prune", model, data, "-o", str(folder / "pruned.h5"), "--below", "0.1"],
        ["train", "perceptron", data, "-o", str(folder / "more"), "--initial-model", model],
    ]
    return Case(f"{source}: {done}", [rng.choice(uses[:2] if kind == "classifier" else uses)])


def _run_case(rng, kind, sound, folder):
    name = rng.choice(list(RUNS))
    target = folder / name
    shutil.copytree(sound / name, target)
    config, done = target / "config.toml", []
    for file in rng.sample(sorted(path for path in target.rglob("*") if path.is_file()), rng.choice((1, 1, 2))):
        if rng.random() < 0.08:
            file.unlink()
            done.append(f"{file.name}: removed")
        elif file.suffix == ".h5":
            source = file.with_suffix(".sound")
            file.replace(source)
            done.append(f"{file.name}: {_damaged_file(rng, source, file)}")
            source.unlink()
        else:
            raw, what = damage_bytes(rng, file.read_bytes() or b"0")
            file.write_bytes(raw)
            done.append(f"{file.name}: {what}")
    resume = ["train", RUNS[name], str(sound / "data.h5"), "-o", str(target), "--resume"]
    how = [*resume, *OF_RUNS.get(name, ["--split", "all"])]
    if rng.random() < 0.3 and config.exists():
        how = [*resume, "--config", str(config), "--time-limit", "60"]  # that of the file is as short as the first run's
    return Case(f"{name}: {'; '.join(done)}", [how, ["evaluate", str(target / "model.h5"), str(sound / "data.h5")]])


KINDS = {
    "svmlight": _text_case,
    "jsonl": _text_case,
    "dataset": _dataset_case,
    "model": _model_case,
    "classifier": _model_case,
    "run": _run_case,
}


def case(kind, number, seed, sound, folder):
    return KINDS[kind](random.Random(f"{seed} {kind} {number}"), kind, sound, folder)


def check_dataset(path):

    def expect(truth, what):
        if not truth:
            raise ValueError(what)

    with h5py.File(path, "r") as file:
        shapes = {name: file[name].attrs["shape"].tolist() for name in "XY"}
        n_rows, widths = shapes["X"][0], {name: shapes[name][1] for name in "XY"}
        expect(shapes["Y"][0] == n_rows, "X and Y differ in rows")
        for name in "XY":
            pointers, indices, data = (file[f"{name}/{part}"] for part in ("indptr", "indices", "data"))
            expect((pointers.dtype.str, data.dtype.str) == ("<i8", "<f4"), "types")
            expect(indices.dtype.str in ("<i4", "<i8"), "type of indices")
            expect(indices.shape == data.shape and pointers.shape == (n_rows + 1,), "sizes")
            begin = pointers[0]
            expect(begin == 0 and pointers[n_rows] == indices.shape[0], "ends of indptr")
            for row in range(n_rows):
                end = pointers[row + 1]
                expect(begin <= end, "indptr falls")
                columns = indices[begin:end].tolist()
                expect(columns == sorted(set(columns)) and all(0 <= j < widths[name] for j in columns), f"columns of row {row}")
                expect(np.isfinite(data[begin:end]).all(), f"values of row {row}")
                begin = end
        for name, size in (("label_names", widths["Y"]), ("feature_names", widths["X"]), ("row_ids", n_rows)):
            if name in file:
                strings = file[name].asstr()[:]
                expect(strings.shape == (size,) and all(isinstance(s, str) for s in strings), name)
        for name in file.get("splits", ()):
            rows = file["splits"][name][:].tolist()
            expect(rows == sorted(set(rows)) and all(0 <= row < n_rows for row in rows), f"split {name}")
        expect(isinstance(file.attrs["vocabulary"], str), "vocabulary")

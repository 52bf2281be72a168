"""Quality of the defaults: macro MAP and F1 of `probe` and `dual` by default, and without an intercept and with the hinge loss.

Without SET: every set in the folder that HPCML_DATA names, and the docstrings of the installed packages. λ is X/m in both ways. The
rows of the set's own test split or file are judged, else a random third (seed 1). Of svmlight files with more than --most-rows rows
every k-th is taken. Seconds are those of training. --check also trains scikit-learn's LinearSVC on the same rows, a label after
another. --tiny takes 400 generated rows. Prints a JSON line for each training, then a table.
"""

from __future__ import annotations

import argparse
import lzma
import os
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

import hpcml
from launch.lab.bench._common import parser_of, read_rows, train
from launch.lab.core.tables import table
from launch.lab.core.timing import print_json, run_hpcml

THIRD = ("--test-share", "0.33", "--seed", "1")
TEXTS = {"reuters21578": (), "20newsgroups": (), "imdb": (), "mesh": THIRD, "movie_reviews": THIRD, "spamassassin": THIRD}
TABLES = ("bibtex", "imdb_f", "a9a", "w8a", "ijcnn1", "covtype", "kdd99_10pct_train", "chess", "nursery", "vote", "breast_w")
TESTS = {"a9a": "a9a.t", "kdd99_10pct_train": "kdd99_test"}  # the sets that have a test file
WAYS = {"no intercept, hinge": ("--no-bias", "--loss", "hinge"), "default": ()}


def sample_lines(stem: str, most_rows: int, folder: Path) -> Path:
    """Copy every k-th line of an svmlight file, so that they are at most `most_rows`."""
    source, target = Path(os.environ.get("HPCML_DATA", "data"), f"{stem}.svm.xz"), folder / f"{stem}.svm"
    with lzma.open(source) as lines:
        step = -(-sum(1 for _ in lines) // most_rows)
    with lzma.open(source) as lines, target.open("wb") as out:
        out.writelines(islice(lines, 0, None, step))
    return target


def convert_set(name: str, folder: Path, most_rows: int) -> tuple[Path, Path]:
    """Convert a set; return its dataset, and the one that has its test rows."""
    data = folder / "data.h5"

    def write(path: Path, *words: object) -> None:
        run_hpcml("convert", *words, "-o", path, "--force")

    if name == "synthetic":
        write(data, "synthetic", "gaussians", "--rows", 400, *THIRD)
    elif name == "docstrings":
        write(data, "docstrings", "--min-df", 2, *THIRD)
    elif name in TEXTS:
        write(data, "jsonl", Path(os.environ.get("HPCML_DATA", "data"), f"{name}.jsonl.xz"), *TEXTS[name])
    elif name in TESTS:
        write(data, "svmlight", sample_lines(name, most_rows, folder))
        write(folder / "test.h5", "svmlight", sample_lines(TESTS[name], most_rows, folder), "--like", data)
        return data, folder / "test.h5"
    else:
        write(data, "svmlight", sample_lines(name, most_rows, folder), *THIRD)
    return data, data


def judge(model: Path, files: tuple[Path, Path]) -> dict[str, float]:
    """Return the measures of a model on test rows."""
    judged = hpcml.evaluate(model, files[1], split="test" if files[0] == files[1] else "all")
    return {"map": round(judged.macro("average_precision"), 4), "f1": round(judged.macro("f1"), 4), "test_rows": judged.n_rows}


def check(files: tuple[Path, Path], model: hpcml.Model, bias: bool) -> float:
    """Return the macro MAP of scikit-learn's LinearSVC with the model's loss and λ on the same rows."""
    rows = read_rows(files[0], test_data=files[1])
    with hpcml.Dataset(files[1]) as test:
        places = {name: number for number, name in enumerate(test.label_names())}
    loss = "squared_hinge" if model.attrs["loss"] == "squared-hinge" else "hinge"
    C = 1 / (float(model.attrs["lambda"]) * rows.X.shape[0])
    scores, truth = [], []
    for name, column in zip(model.label_names, rows.columns(model.label_names), strict=True):
        y = np.where(rows.Y[:, [column]].toarray().ravel() > 0, 1, -1)
        if np.unique(y).size == 2 and name in places:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # labels that do not converge
                # intercept_scaling = 1: the intercept is the weight of a constant feature and is regularised, as here
                svm = LinearSVC(loss=loss, C=C, fit_intercept=bias, tol=0.01, max_iter=5000, random_state=0).fit(rows.X, y)
            scores.append(svm.decision_function(rows.X_test))
            truth.append(rows.Y_test[:, [places[name]]].toarray().ravel())
    return round(hpcml.evaluate_scores(np.array(scores).T, np.array(truth).T).macro("average_precision"), 4)


def lines_of(name: str, given: argparse.Namespace, folder: Path) -> Iterator[dict[str, object]]:
    """Return the figures of every training on a set."""
    files = convert_set(name, folder, given.most_rows)
    for method in given.method or ("probe", "dual"):
        for way, options in WAYS.items():
            run = train(method, files[0], folder / "run", "--min-positives", given.min_positives, *options, ranks=given.ranks)
            model = hpcml.Model(run.model)
            line = {"set": name, "method": method, "protocol": way, "labels": model.n_labels, "seconds": run.seconds}
            line |= judge(run.model, files)
            if name in given.check:
                line["linear_svc_map"] = check(files, model, not options)
            yield line


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("defaults", __doc__)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--check", action="append", default=[], metavar="SET")
    parser.add_argument("--method", action="append", choices=("probe", "dual"))
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=60_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    given, lines = parser.parse_args(words), []
    if given.tiny:
        given.sets, given.check = ["synthetic"], ["synthetic"]
    for name in given.sets or [*TEXTS, "docstrings", *TABLES]:
        with tempfile.TemporaryDirectory() as folder:
            for line in lines_of(name, given, Path(folder)):
                lines.append(line)
                print_json(**line)
    columns = ("set", "labels", "method", "protocol", "map", "f1", "seconds")
    print("\n" + "\n".join(table([columns, *([str(line[name]) for name in columns] for line in lines)])))

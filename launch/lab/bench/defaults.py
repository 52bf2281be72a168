"""Quality of the defaults: macro MAP and F1 of `probe` and `dual` by default, and without an intercept and with the hinge loss.

--at L1,LAMBDA...: trains instead `elastic-net` at pairs of λ₁ and λ₂, and `dual` with its defaults. `touched` is the mean share of
the rows that a round of a label visits, `features` the mean number of non-zero weights.

SET is a name or a dataset (.h5). Default: every set in the folder that HPCML_DATA names, and the docstrings of the installed
packages. λ is X/m in both ways. The test split or file of the set is evaluated, else a random third (seed 1). Svmlight files with
more than --most-rows rows are reduced to every k-th row. `seconds` are those of training, `cpu_seconds` those of the command.
--check also trains scikit-learn's LinearSVC on the same rows, one label after another. --tiny uses 400 generated rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.svm import LinearSVC

import hpcml
from hpcml.errors import ConfigError
from launch.lab.core.bench import read_rows, train
from launch.lab.core.corpora import CORPORA, copy_lines, file_of, n_lines
from launch.lab.core.timing import run_hpcml

THIRD = ("--test-share", "0.33", "--seed", "1")
OTHERS = {
    "docstrings": ("docstrings", "--min-df", 2, *THIRD),
    "synthetic": ("synthetic", "gaussians", "--rows", 400, *THIRD),
}
SETS = (*CORPORA, "docstrings")
WAYS = {"no intercept, hinge": ("--no-bias", "--loss", "hinge"), "default": ()}


def convert_set(name: str, folder: Path, most_rows: int) -> tuple[Path, Path]:
    """Convert a set and return its dataset and the dataset with its test rows."""

    def write(stem: str, *words: object) -> Path:
        run_hpcml("convert", *words, "-o", folder / f"{stem}.h5", "--force")
        return folder / f"{stem}.h5"

    def sample(file: str) -> Path:
        source, path = file_of(file), folder / f"{file}.svm"
        total = n_lines(source)
        copy_lines(source, np.arange(0, total, -(-total // most_rows)), path)
        return path

    if name in OTHERS:
        return (write("data", *OTHERS[name]),) * 2
    if name not in CORPORA:
        raise ConfigError(f"unknown set {name!r}; the sets are {', '.join((*SETS, 'synthetic'))}")
    corpus = CORPORA[name]
    share = () if corpus.test or corpus.has_splits else THIRD
    data = write("data", corpus.source, sample(corpus.file) if corpus.source == "svmlight" else file_of(corpus.file), *share)
    return data, write("test", corpus.source, sample(corpus.test), "--like", data) if corpus.test else data


def judge(model: Path, files: tuple[Path, Path]) -> dict[str, float]:
    judged = hpcml.evaluate(model, files[1], split="test" if files[0] == files[1] else "all", threshold=0.0)
    return {"map": round(judged.macro("average_precision"), 4), "f1": round(judged.macro("f1"), 4), "test_rows": judged.n_rows}


def linear_svc(files: tuple[Path, Path], model: hpcml.Model, bias: bool) -> float:
    rows = read_rows(files[0], test_data=files[1])
    columns = rows.columns(model.label_names)
    loss, C = str(model.attrs["loss"]).replace("-", "_"), 1 / (float(model.attrs["lambda"]) * rows.X.shape[0])
    Y, truth = rows.Y[:, columns].toarray() > 0, rows.Y_test[:, columns].toarray()
    trained = np.flatnonzero(Y.any(axis=0) & ~Y.all(axis=0))
    # intercept_scaling = 1: the intercept is the weight of a constant feature and is regularised, as here
    svm = LinearSVC(loss=loss, C=C, fit_intercept=bias, tol=0.01, max_iter=5000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that do not converge
        scores = [svm.fit(rows.X, Y[:, label]).decision_function(rows.X_test) for label in trained]
    return round(hpcml.evaluate_scores(np.array(scores).T, truth[:, trained]).macro("average_precision"), 4)


def run(
    scratch: Path,
    sets: tuple[str, ...] = SETS,
    *,
    check: tuple[str, ...] = (),
    method: tuple[Literal["probe", "dual"], ...] = ("probe", "dual"),
    at: tuple[str, ...] = (),
    min_positives: int = 10,
    most_rows: int = 60_000,
    ranks: int = 2,
    tiny: bool = False,
) -> Iterator[dict[str, Any]]:
    ways = [(each, way, options) for each in method for way, options in WAYS.items()]
    if at:
        if wrong := [pair for pair in at if pair.count(",") != 1]:
            raise ConfigError(f"--at {wrong[0]}: expected L1,LAMBDA")
        pairs = [("elastic-net", pair, ("--l1", pair.partition(",")[0], "--lambda", pair.partition(",")[2])) for pair in at]
        ways = [("dual", "default", ()), *pairs]
    for name in ("synthetic",) if tiny else sets:
        files = (Path(name),) * 2 if name.endswith(".h5") else convert_set(name, scratch, most_rows)
        for each, way, options in ways:
            trained = train(each, files[0], scratch / "run", "--min-positives", min_positives, *options, ranks=ranks)
            model = hpcml.Model(trained.model)
            line = {"set": name, "labels": model.n_labels, "method": each, "protocol": way} | judge(trained.model, files)
            line |= {"seconds": trained.seconds, "cpu_seconds": round(trained.usage.cpu_seconds, 2)}
            line |= {
                "features": round(model.n_weights / model.n_labels, 1),
                "touched": round(float(np.mean(model.labels["visited"])), 3),
            }
            yield line | ({"linear_svc_map": linear_svc(files, model, not options)} if tiny or name in check else {})

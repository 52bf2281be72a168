"""What the defaults are worth: macro MAP and F1 of `probe` and `dual`, as they train by default and without an intercept.

usage: mpirun -n 2 python launch/bench/defaults.py [SET ...] [--check SET] [--method METHOD] [--min-positives 10]
       [--most-rows 60000] [--tiny]

Without SET: every set in the folder that HPCML_DATA names, and the docstrings of the installed packages. Each is trained in two
ways, both with λ = X/m: by default (an intercept; probe: hinge, dual: squared hinge), and as in the PROBE paper (`--no-bias
--loss hinge`). Judged are the rows of the set's own test split or file, else a random third (seed 1). Of svmlight files with more
than `--most-rows` rows every k-th is taken. Seconds are those of training without loading. `--check` trains scikit-learn's
LinearSVC on the same rows, one label after another, in each way. `--tiny` takes 400 made rows instead of real sets.
Prints a JSON line for each training, then a table.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from hpcml import Dataset, Model, mpi, train
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import HpcmlError
from hpcml.evaluation.evaluate import evaluate
from hpcml.log import Log

THIRD = {"test_share": 0.33, "seed": 1}
TEXTS = {"reuters21578": {}, "20newsgroups": {}, "imdb": {}, "mesh": THIRD, "movie_reviews": THIRD, "spamassassin": THIRD}
TABLES = ("bibtex", "imdb_f", "a9a", "w8a", "ijcnn1", "covtype", "kdd99_10pct_train", "chess", "nursery", "vote", "breast_w")
TESTS = {"a9a": "a9a.t", "kdd99_10pct_train": "kdd99_test"}  # the sets that have a test file
PROTOCOLS = {"no intercept, hinge": {"bias": False, "loss": "hinge"}, "default": {}}
QUIET = Log(1)


def matrix(group: h5py.Group) -> sp.csr_matrix:
    """A CSR matrix in AnnData's encoding, widened to float64."""
    parts = (group["data"][:].astype(np.float64), group["indices"][:], group["indptr"][:])
    return sp.csr_matrix(parts, shape=tuple(group.attrs["shape"]))


def sample(source: Path, most_rows: int, target: Path) -> Path:
    """Every k-th line of a file, so that they are at most `most_rows`."""
    with lzma.open(source) as lines:
        step = -(-sum(1 for _ in lines) // most_rows)
    with lzma.open(source) as lines, target.open("wb") as out:
        out.writelines(islice(lines, 0, None, step))
    return target


def made(comm: mpi.Comm, name: str, folder: Path, most_rows: int) -> tuple[Path, Path]:
    """Collective over `comm`. The dataset of a set, and the one that has its test rows."""
    data, output = Path(os.environ.get("HPCML_DATA", "data")), folder / "data.h5"

    def write(kind: str, source: Path | None, path: Path, options: ConvertOptions) -> None:
        convert(comm, kind, [source] if source else [], path, options, True, QUIET)

    def table(stem: str) -> Path:
        with mpi.agreed(comm, f"reading {stem}"):
            if comm.rank == 0:
                sample(data / f"{stem}.svm.xz", most_rows, folder / f"{stem}.svm")
        return folder / f"{stem}.svm"

    if name == "synthetic":
        write("synthetic", Path("gaussians"), output, ConvertOptions(rows=400, **THIRD))
    elif name == "docstrings":
        write("docstrings", None, output, ConvertOptions(min_df=2, **THIRD))
    elif name in TEXTS:
        write("jsonl", data / f"{name}.jsonl.xz", output, ConvertOptions(**TEXTS[name]))
    elif name in TESTS:
        write("svmlight", table(name), output, ConvertOptions())
        write("svmlight", table(TESTS[name]), folder / "test.h5", ConvertOptions(like=output))
        return output, folder / "test.h5"
    else:
        write("svmlight", table(name), output, ConvertOptions(**THIRD))
    return output, output


def trained(comm: mpi.Comm, files: tuple[Path, Path], method: str, options: dict[str, object], run: Path) -> tuple[Model, dict]:
    """Collective over `comm`. The model of a training, and its figures."""
    report = train(method, files[0], run, **options, comm=comm, force=True, log=QUIET)
    with mpi.agreed(comm, f"reading {report.model}"):
        model, dataset = Model(report.model), Dataset(files[1])
    with dataset:
        judged = evaluate(comm, model, dataset, "test" if files[0] == files[1] else "all", QUIET)
    figures = {"labels": report.n_labels, "rows": report.n_rows, "test_rows": judged.n_rows, "seconds": round(report.seconds, 2)}
    return model, figures | {"map": round(judged.macro("average_precision"), 4), "f1": round(judged.macro("f1"), 4)}


def rows_of(path: Path, split: str, names: list[str]) -> tuple[object, object]:
    """X and Y of a split, with the labels `names`."""
    with Dataset(path) as dataset:
        rows, known = np.array(dataset.split(split)), dataset.label_names()
        X, Y = matrix(dataset.file["X"]), matrix(dataset.file["Y"]).tocsc()
        return X[rows], Y[:, [known.index(name) for name in names]][rows]


def check(files: tuple[Path, Path], model: Model, bias: bool) -> float:
    """Macro MAP of scikit-learn's LinearSVC with the model's loss and λ on the same rows. Local."""
    own = files[0] == files[1]
    X, Y = rows_of(files[0], str(model.attrs["split"]), model.label_names)
    X_test, Y_test = rows_of(files[1], "test" if own else "all", model.label_names)
    squared = model.attrs["loss"] == "squared-hinge"
    # with intercept_scaling=1 scikit-learn appends the constant feature 1, and regularises it
    options = {"loss": "squared_hinge" if squared else "hinge", "C": 1 / (float(model.attrs["lambda"]) * X.shape[0])}
    found = []
    for label in range(Y.shape[1]):
        y, judged = np.where(Y[:, [label]].toarray().ravel() > 0, 1, -1), Y_test[:, [label]].toarray().ravel() > 0
        if judged.any() and np.unique(y).size == 2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of labels that do not converge
                svm = LinearSVC(**options, fit_intercept=bias, tol=0.01, max_iter=5000, random_state=0).fit(X, y)
            found.append(average_precision_score(judged, svm.decision_function(X_test)))
    return round(float(np.mean(found)), 4)


def lines_of(comm: mpi.Comm, name: str, given: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """Collective over `comm`. The figures of every training on a set."""
    files = made(comm, name, folder, given.most_rows)
    options = {"min_positives": given.min_positives}
    for method in given.method or ("probe", "dual"):
        for protocol, changes in PROTOCOLS.items():
            model, figures = trained(comm, files, method, options | changes, folder / "run")
            line = {"set": name, "method": method, "protocol": protocol, "loss": str(model.attrs["loss"]), **figures}
            if name in given.check:
                with mpi.agreed(comm, f"checking {name}", sleep=True):
                    if comm.rank == 0:
                        line["linear_svc_map"] = check(files, model, changes.get("bias", True))
            yield line


def table_of(lines: list[dict]) -> Iterator[str]:
    """The table: a line for each set and method."""
    yield "| data | labels | method | MAP without → with | F1 | seconds |\n|---|---|---|---|---|---|"
    for old, new in zip(lines[::2], lines[1::2], strict=True):
        cells = (f"{old[key]:.{digits}f} → {new[key]:.{digits}f}" for key, digits in (("map", 3), ("f1", 3), ("seconds", 2)))
        yield f"| {old['set']} | {old['labels']:,} | {old['method']} | {' | '.join(cells)} |"


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument("--check", action="append", default=[], metavar="SET")
    parser.add_argument("--method", action="append", choices=("probe", "dual"))
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=60_000)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    comm, lines = mpi.start(), []
    if given.tiny:
        given.sets, given.check = ["synthetic"], ["synthetic"]
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    try:
        for name in given.sets or [*TEXTS, "docstrings", *TABLES]:
            for line in lines_of(comm, name, given, folder):
                lines.append(line)
                if comm.rank == 0:
                    print(json.dumps(line), flush=True)
    except HpcmlError as error:  # all ranks have it
        sys.exit(str(error) if comm.rank == 0 else 2)
    finally:
        if comm.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
    if comm.rank == 0:
        print("\n" + "\n".join(table_of(lines)))


if __name__ == "__main__":
    main()

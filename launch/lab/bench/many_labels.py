"""Measure commands with very many labels: seconds, CPU seconds, and the peak memory of each rank, as JSON lines.

Makes a dataset (`hpcml convert synthetic text`) in FOLDER, and a model of all its labels that nobody has trained: the weights of a
label are random, at the features of one of its rows. Then every command is run with them, on so many of the test rows, on every
number of ranks. Prints a line of JSON for each: seconds by the clock, seconds of all processors, and the peak of the memory of each
rank in MB, mapped files included. A command that takes longer than --seconds is ended. What FOLDER has already is not made again.
"""

from __future__ import annotations

import argparse
import json
import resource
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.files.slabs import new_file
from hpcml.model.linear import Model, about_of, describe_model, model_slabs
from hpcml.partition import offsets
from launch.lab.bench._common import parser_of

WEIGHTS = 50  # of a label at most


def main(words: list[str]) -> None:
    """Make what is missing, run, and print."""
    if words[:1] == ["--rank"]:
        as_rank(Path(words[1]), words[2:])
        return
    parser = parser_of("many_labels", __doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("rows", 100_000), ("features", 135_909), ("labels", 670_091), ("judged", 1000), ("seconds", 3600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", help="of the commands below")
    given = parser.parse_args(words)
    given.folder.mkdir(exist_ok=True)
    if not (given.folder / "run").exists():
        make(given)
    for name, arguments in commands(given.folder, given.labels):
        for n_ranks in given.ranks if given.only is None or name in given.only else ():
            print(json.dumps({"command": name, "ranks": n_ranks} | measured(given, n_ranks, arguments)), flush=True)


def commands(folder: Path, n_labels: int) -> Iterator[tuple[str, list[str]]]:
    """Names, and arguments of hpcml; `tune` chooses for 500 labels or fewer."""
    data, run, out = str(folder / "data.h5"), str(folder / "run"), str(folder / "out")
    few, valid, parts = ["--split", "few"], ["--split", "valid"], [str(folder / f"part-{number}") for number in (1, 2)]
    limit = ["-o", out, "--drop", "0.1", "--time-limit", "60", "--force"]
    yield "info of data", ["info", data]
    yield "info of a model", ["info", run]
    yield "train dual", ["train", "dual", data, *limit]
    yield "train elastic-net", ["train", "elastic-net", data, *limit]
    yield "tune", ["tune", data, "--label-part", f"1/{1 + n_labels // 500}", *limit]
    yield "merge", ["merge", *parts, "-o", out, "--force"]
    yield "predict --top 10", ["predict", run, data, *few, "--top", "10", "-o", f"{out}.csv", "--force"]
    yield "evaluate", ["evaluate", run, data, *few, "--json", f"{out}.json", "--csv", f"{out}-2.csv", "--force"]
    yield "report", ["report", run, "--data", data, *few, "-o", f"{out}.html", "--force"]
    yield "threshold", ["threshold", run, data, *valid, "--measure", "label", "-o", f"{out}-1.h5", "--force"]
    yield "calibrate", ["calibrate", run, data, *valid, "-o", f"{out}-2.h5", "--force"]
    yield "prune", ["prune", run, data, *few, "--below", "0.2", "-o", f"{out}-3.h5", "--force"]
    yield "retrain", ["retrain", run, data, "-o", out, "--force"]


def measured(given: argparse.Namespace, n_ranks: int, arguments: list[str]) -> dict[str, object]:
    """Seconds and peaks of a command, and its exit code."""
    peaks = given.folder / "peaks"
    shutil.rmtree(peaks, ignore_errors=True)
    peaks.mkdir()
    launcher = ["mpirun", "-n", str(n_ranks)] if n_ranks > 1 else []
    began, quiet = time.monotonic(), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [
        "timeout",
        str(given.seconds),
        *launcher,
        sys.executable,
        "-m",
        "launch.lab",
        "bench",
        "many_labels",
        "--rank",
        str(peaks),
        *arguments,
    ]
    code = subprocess.run(command, check=False, **quiet).returncode
    found = [json.loads(path.read_text()) for path in peaks.iterdir()]
    cpu, peak = (sorted(each[name] for each in found) for name in ("cpu", "peak"))
    return {"code": code, "seconds": round(time.monotonic() - began, 1), "cpu": round(sum(cpu), 1), "peaks_mb": peak}


def as_rank(folder: Path, arguments: list[str]) -> None:
    """Run hpcml here, and leave what it took."""
    sys.argv = ["hpcml", *arguments]
    try:
        runpy.run_module("hpcml", run_name="__main__", alter_sys=True)
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        found = {"cpu": used.ru_utime + used.ru_stime, "peak": round(used.ru_maxrss * 1024 / 1e6)}
        (folder / f"{time.monotonic_ns()}.json").write_text(json.dumps(found))


def make(given: argparse.Namespace) -> None:
    """Data with the splits few and valid, a run of one label, and runs of all labels and of halves of them."""
    data, one = given.folder / "data.h5", given.folder / "one"
    sizes = [f"--{name}={getattr(given, name)}" for name in ("rows", "features", "labels")]
    hpcml("convert", "synthetic", "text", *sizes, "--test-share", "0.1", "-o", data, "--force")
    with h5py.File(data, "a") as file:
        test, splits = file["splits/test"][:], file["splits"]
        splits["few"], splits["valid"] = test[: given.judged], test[given.judged : 2 * given.judged]
    with DataFile(data) as dataset:
        names = dataset.label_names()
    hpcml("train", "dual", data, "--drop", "0.1", "--label", most_frequent(data, names), "-o", one, "--force")
    whole, half = len(names), len(names) // 2
    for number, (begin, end) in enumerate([(0, half), (half, whole), (0, whole)], 1):
        part = f'label-part = "{number}/2"\n' if end - begin < whole else ""
        write_run(one, given.folder / (f"part-{number}" if part else "run"), data, names, range(begin, end), part)


def hpcml(*arguments: object) -> None:
    """Run a command. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "hpcml", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def counted(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """The training rows of each label, and one row that has it (or any row)."""
    with h5py.File(data) as file:
        indptr, labels, train = file["Y/indptr"][:], file["Y/indices"][:], file["splits/train"][:]
        n_labels = int(file["Y"].attrs["shape"][1])
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    row_of = np.random.default_rng(0).integers(0, indptr.size - 1, n_labels)
    row_of[labels] = rows
    return np.bincount(labels[np.isin(rows, train)], minlength=n_labels), row_of


def most_frequent(data: Path, names: list[str]) -> str:
    """The label of most training rows."""
    return names[int(counted(data)[0].argmax())]


def write_run(one: Path, folder: Path, data: Path, names: list[str], labels: range, part: str) -> None:
    """A finished run of some labels, by one of a single label."""
    model, (counts, row_of), random = Model(one / "model.h5"), counted(data), np.random.default_rng(labels.start)
    with h5py.File(data) as file:
        indptr, indices = file["X/indptr"][:], file["X/indices"][:]
    columns = [
        np.unique(model.columns[indices[indptr[row] : indptr[row + 1]]])[:WEIGHTS] for row in row_of[labels.start : labels.stop]
    ]
    begins, n, own = offsets([each.size for each in columns]), len(labels), [names[label] for label in labels]
    counts = counts[labels.start : labels.stop]
    values = {"W/indptr": begins, "W/indices": np.concatenate(columns), "W/data": 0.1 + random.random(begins[-1])}
    values |= {"columns": model.columns, "factors": model.factors, "bias": np.full(n, -1.0), "labels/n_positive": counts}
    values |= {"labels/status": (counts == 0).astype(int), "labels/steps": np.full(n, 9)}
    values |= {f"labels/{name}": np.full(n, 0.001) for name in ("f_min", "gap", "visited")}
    folder.mkdir()
    about, sizes = about_of(model.attrs), (n, model.n_features, model.n_columns, "<f4", True, int(begins[-1]))
    with new_file(mpi.self_comm(), folder / "model.h5") as out:
        out.layout(model_slabs(*sizes), lambda file: describe_model(file, about, own, model.n_columns))
        for name, each in values.items():
            out.write(name, 0, each)
    lines = (one / "config.toml").read_text().splitlines(keepends=True)
    lines = ["label = []\n" if line.startswith("label =") else line for line in lines]
    (folder / "config.toml").write_text("".join(lines) + part)
    (folder / "history.csv").write_text("label,step\n" + "".join(f"{name},1\n" for name in own))

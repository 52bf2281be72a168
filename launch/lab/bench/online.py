"""Single-pass learners beside Vowpal Wabbit and river: examples per second on one core, and 2 ranks against 1. Prints JSON lines.

Vowpal Wabbit and river are compared with where they are installed (pip install vowpalwabbit river).

WORDS.h5: one label of the rows of a split is learnt, in random order (both get the same order), for instance IMDB's words and pairs
(`hpcml convert jsonl imdb.jsonl.xz -o WORDS.h5 --pairs`). TOPICS.h5: 20 labels, on 1 and on 2 ranks. perceptron and pa have no
intercept. Timed are passes: ours from opening the dataset (or text) to the last row learnt, Vowpal Wabbit's from making the
workspace to its end, both in a warm process without imports, compilation and writing a model. The least of the repeats counts; the
repeats of all take turns.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hpcml import Dataset, mpi
from hpcml.data.shard import slab_of
from hpcml.data.svmlight_stream import SvmlightStream
from hpcml.methods.online.learners import LEARNERS
from hpcml.methods.online.source import DatasetSource, TextSource
from hpcml.methods.online.state import LearnerState
from hpcml.methods.registry import METHODS
from launch.lab.bench._common import parser_of

RIVER_ROWS = 5000


def write_texts(data: Path, split: str, label: str, folder: Path) -> tuple[int, int]:
    """The rows of a split, shuffled, as a dataset and as text for both programs: (rows, values)."""
    with Dataset(data) as dataset:
        rows = np.array(dataset.split(split))
        shard, number = slab_of(dataset, rows, 0, rows.size), dataset.label_names().index(label)
        order = np.random.default_rng(0).permutation(rows.size)
        with (folder / "rows.svm").open("w") as svm, (folder / "rows.vw").open("w") as vw:
            for i in shard.rows[order].tolist():
                begin, end = shard.indptr[i : i + 2].tolist()
                mine = shard.y_indices[shard.y_indptr[i] : shard.y_indptr[i + 1]]
                pairs = " ".join(
                    f"{j + 1}:{x:.6g}"
                    for j, x in zip(shard.indices[begin:end].tolist(), shard.data[begin:end].tolist(), strict=True)
                )
                y = "+1" if number in mine else "-1"
                svm.write(f"{y} {pairs}\n")
                vw.write(f"{y} | {pairs}\n")
        nnz = int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())
    command = [sys.executable, "-m", "hpcml", "convert", "svmlight", folder / "rows.svm", "-o", folder / "rows.h5"]
    subprocess.run(command, check=True, timeout=600, capture_output=True)
    return rows.size, nnz


def learn(data: Path, method: str, voted: bool) -> float:
    """Seconds of one of our passes, from a dataset or from text."""
    given = {"voted": voted} if LEARNERS[method].winnow else {"voted": voted, "bias": False}
    begin, comm, options = time.perf_counter(), mpi.self_comm(), METHODS[method].options(**given)
    with ExitStack() as stack:
        if data.suffix == ".h5":
            source = DatasetSource(comm, stack.enter_context(Dataset(data)), options)
        else:
            source = TextSource(comm, stack.enter_context(SvmlightStream(comm, data)), str(data), options)
        state = LearnerState(options, method, source.n_labels, source.n_features)
        for shard, rows in source.pieces(0):
            state.learn(shard, rows)
    return time.perf_counter() - begin


def installed(package: str) -> bool:
    """Whether a library to compare with is there; it is said if it is not."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is not installed: not compared with", file=sys.stderr)
    return found


def vowpal(folder: Path, options: str) -> float:
    """Seconds of one of Vowpal Wabbit's passes."""
    from vowpalwabbit import Workspace

    begin = time.perf_counter()
    Workspace(f"--quiet --loss_function hinge -b 22 -d {folder / 'rows.vw'} {options}").finish()
    return time.perf_counter() - begin


def river(folder: Path) -> float:
    """Seconds of river's perceptron for the first RIVER_ROWS rows, already dictionaries."""
    from river.linear_model import Perceptron

    rows = []
    with (folder / "rows.svm").open() as lines:
        for _, line in zip(range(RIVER_ROWS), lines, strict=False):
            y, *pairs = line.split()
            rows.append(({j: float(x) for j, _, x in (pair.partition(":") for pair in pairs)}, y == "+1"))
    model, begin = Perceptron(), time.perf_counter()
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return time.perf_counter() - begin


def ranks(data: Path, method: str, folder: Path, repeats: int) -> dict[str, float]:
    """Seconds of `hpcml train` (the pass alone, as it reports them) on 1 and 2 ranks for 20 labels."""
    best = {1: np.inf, 2: np.inf}
    with Dataset(data) as dataset:
        labels = [flag for name in dataset.label_names()[:20] for flag in ("--label", name)]
    flags = labels if LEARNERS[method].winnow else [*labels, "--no-bias"]
    for _ in range(repeats):
        for n in best:
            command = ["mpirun", "-n", n, sys.executable, "-m", "hpcml", "train", method, data, *flags, "-o", folder / "run"]
            told = subprocess.run([*map(str, command), "--force"], check=True, timeout=600, capture_output=True, text=True).stderr
            best[n] = min(best[n], float(re.search(r"rows in (\S+) s", told).group(1)))
    return {"seconds_1_rank": best[1], "seconds_2_ranks": best[2], "speed_up": best[1] / best[2]}


def main(words: list[str]) -> None:
    """Run everything."""
    parser = parser_of("online", __doc__)
    parser.add_argument("words", type=Path)
    parser.add_argument("topics", type=Path)
    parser.add_argument("--label", default="pos")
    parser.add_argument("--split", default="train")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_rows, nnz = write_texts(given.words, given.split, given.label, folder)
        cores = os.sched_getaffinity(0)
        runs: dict[str, Callable[[], float]] = {}
        if installed("vowpalwabbit"):
            cache = f"--cache_file {folder / 'rows.cache'}"
            vowpal(folder, cache)  # writes it
            runs["vowpal wabbit, cache"] = lambda: vowpal(folder, cache)
            runs["vowpal wabbit, cache, plain gradient"] = lambda: vowpal(folder, f"{cache} --sgd")
            runs["vowpal wabbit, text"] = lambda: vowpal(folder, "")
        os.sched_setaffinity(0, {max(cores)})
        for method in ("mbw", "perceptron", "pa"):
            for form in ("", "v-"):
                for kind, file in (("HDF5", folder / "rows.h5"), ("text", folder / "rows.svm")):
                    runs[f"{form}{method}, {kind}"] = lambda method=method, form=form, file=file: learn(file, method, bool(form))
        seconds = dict.fromkeys(runs, np.inf)
        for repeat in range(given.repeats + 1):
            for what, run in runs.items():
                taken = run()
                if repeat:  # the first compiles
                    seconds[what] = min(seconds[what], taken)
        speed = {what: n_rows / taken for what, taken in seconds.items()}
        if installed("river"):
            speed["river perceptron"] = min(RIVER_ROWS, n_rows) / min(river(folder) for _ in range(2))
        print(json.dumps({"rows": n_rows, "values": nnz, "examples_per_second": {what: round(v) for what, v in speed.items()}}))
        ratios = {}
        for method in ("mbw", "perceptron", "pa"):
            for kind, other in (("HDF5", "vowpal wabbit, cache"), ("text", "vowpal wabbit, text"), ("HDF5", "river perceptron")):
                if other in speed:
                    ratios[f"{method} / {other}"] = speed[f"{method}, {kind}"] / speed[other]
            ratios[f"v-{method} / {method}, seconds"] = speed[f"{method}, HDF5"] / speed[f"v-{method}, HDF5"]
        print(json.dumps({what: round(ratio, 2) for what, ratio in ratios.items()}), flush=True)
        os.sched_setaffinity(0, cores)
        for method in ("mbw", "perceptron"):
            print(json.dumps({"labels": 20, "method": method, **ranks(given.topics, method, folder, given.repeats)}), flush=True)

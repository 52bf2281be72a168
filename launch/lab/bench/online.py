"""Examples per second of single-pass learners, Vowpal Wabbit and river on one core, and the speed-up of 2 ranks.

Vowpal Wabbit and river are included where they are installed (pip install vowpalwabbit river).

WORDS.h5: one label of the rows of a split is learnt, in random order (both get the same order), for instance IMDB's words and pairs
(`hpcml convert jsonl imdb.jsonl.xz -o WORDS.h5 --pairs`). TOPICS.h5: 20 labels, on 1 and on 2 ranks. perceptron and pa have no
intercept. Passes are timed: ours as the command reports them, without loading and writing a model, Vowpal Wabbit's from the
creation of the workspace to its end, in a warm process. The least of the repeats counts; the programs run in turn.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.bench import rounded, train
from launch.lab.core.timing import run_hpcml

RIVER_ROWS = 5000
METHODS = {"mbw": (), "perceptron": ("--no-bias",), "pa": ("--no-bias",)}
CACHE, TEXT, RIVER = "vowpal wabbit, cache", "vowpal wabbit, text", "river perceptron"


def write_texts(data: Path, split: str, label: str, folder: Path) -> tuple[int, int]:
    """Write the shuffled rows as a dataset and as text for both programs; return the numbers of rows and values."""
    with hpcml.Dataset(data) as dataset:
        X, Y = dataset.matrix(split), dataset.labels(split)
        has = Y[:, [dataset.label_names().index(label)]].toarray().ravel() > 0
    with (folder / "rows.svm").open("w") as svm, (folder / "rows.vw").open("w") as vw:
        for i in np.random.default_rng(0).permutation(X.shape[0]):
            begin, end = X.indptr[i : i + 2]
            pairs = " ".join(f"{j + 1}:{x:.6g}" for j, x in zip(X.indices[begin:end], X.data[begin:end], strict=True))
            y = "+1" if has[i] else "-1"
            svm.write(f"{y} {pairs}\n")
            vw.write(f"{y} | {pairs}\n")
    run_hpcml("convert", "svmlight", folder / "rows.svm", "-o", folder / "rows.h5")
    return X.shape[0], X.nnz


def installed(package: str) -> bool:
    is_installed = importlib.util.find_spec(package) is not None
    if not is_installed:
        print(f"{package} is not installed: not compared with", file=sys.stderr)
    return is_installed


def vowpal(folder: Path, options: str) -> float:
    from vowpalwabbit import Workspace

    begin = time.perf_counter()
    Workspace(f"--quiet --loss_function hinge -b 22 -d {folder / 'rows.vw'} {options}").finish()
    return time.perf_counter() - begin


def river(folder: Path) -> float:
    """Return examples per second of river's perceptron on the first RIVER_ROWS rows, which are already dictionaries."""
    from river.linear_model import Perceptron

    rows, model = [], Perceptron()
    with (folder / "rows.svm").open() as lines:
        for _, line in zip(range(RIVER_ROWS), lines, strict=False):
            y, *pairs = line.split()
            rows.append(({j: float(x) for j, _, x in (pair.partition(":") for pair in pairs)}, y == "+1"))
    begin = time.perf_counter()
    for x, y in rows:
        model.predict_one(x)
        model.learn_one(x, y)
    return len(rows) / (time.perf_counter() - begin)


def learn(scratch: Path, data: Path, method: str, *options: object, ranks: int = 1) -> float:
    return train(method, data, scratch / "run", *METHODS[method], *options, ranks=ranks).seconds


def run(
    scratch: Path, words: Path, topics: Path, *, label: str = "pos", split: str = "train", repeats: int = 5
) -> Iterator[dict[str, Any]]:
    n_rows, n_values = write_texts(words, split, label, scratch)
    runs: dict[str, Callable[[], float]] = {}
    if installed("vowpalwabbit"):
        cache = f"--cache_file {scratch / 'rows.cache'}"
        vowpal(scratch, cache)  # writes it
        runs |= {CACHE: partial(vowpal, scratch, cache), TEXT: partial(vowpal, scratch, "")}
        runs[f"{CACHE}, plain gradient"] = partial(vowpal, scratch, f"{cache} --sgd")
    for method in METHODS:
        for form, options in (("", ()), ("v-", ("--voted",))):
            for kind, file in (("HDF5", "rows.h5"), ("text", "rows.svm")):
                runs[f"{form}{method}, {kind}"] = partial(learn, scratch, scratch / file, method, *options)
    cores, seconds = os.sched_getaffinity(0), dict.fromkeys(runs, np.inf)
    os.sched_setaffinity(0, {max(cores)})
    for repeat in range(repeats + 1):
        for name, call in runs.items():
            elapsed = call()
            seconds[name] = min(seconds[name], elapsed) if repeat else np.inf  # the first compiles
    speed = {name: n_rows / elapsed for name, elapsed in seconds.items()}
    if installed("river"):
        speed[RIVER] = max(river(scratch) for _ in range(2))
    os.sched_setaffinity(0, cores)
    yield {"rows": n_rows, "values": n_values, "examples_per_second": rounded(**speed)}
    ratios = {}
    for method in METHODS:
        for kind, other in (("HDF5", CACHE), ("text", TEXT), ("HDF5", RIVER)):
            if other in speed:
                ratios[f"{method} / {other}"] = speed[f"{method}, {kind}"] / speed[other]
        ratios[f"v-{method} / {method}, seconds"] = speed[f"{method}, HDF5"] / speed[f"v-{method}, HDF5"]
    yield rounded(3, **ratios)
    with hpcml.Dataset(topics) as dataset:
        labels = [word for name in dataset.label_names()[:20] for word in ("--label", name)]
    for method in ("mbw", "perceptron"):
        one, two = (min(learn(scratch, topics, method, *labels, ranks=n) for _ in range(repeats)) for n in (1, 2))
        yield {"labels": 20, "method": method, "seconds_1_rank": one, "seconds_2_ranks": two, "speed_up": one / two}

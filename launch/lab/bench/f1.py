"""F1 with and without thresholds of elastic-net (λ₁ = 0.1/m, λ₂ = 0.01/m), dual and probe --loss logistic. Prints JSON lines, and
two tables for people.

Of a dataset with the splits train and test a quarter of the training rows becomes the split valid; of another a fifth of all rows,
and another fifth the split test. Each method trains on the rest with its defaults, thresholds are found on valid for each measure,
and test judges. The first table has F1 over all labels, with the mean number of features that a label has weights for; the second
one F1 per row over the most frequent labels alone.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.evaluation.evaluate import Evaluation
from hpcml.files.slabs import editing
from hpcml.rng import uniform
from launch.lab.bench._common import parser_of
from launch.lab.core.tables import table

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "elastic-net": ("elastic-net", {"l1": "0.1/m", "lam": "0.01/m"}),
    "dual": ("dual", {}),
    "probe-logistic": ("probe", {"loss": "logistic"}),
}
MEASURES = ("label", "micro", "instance")
LOG_ODDS = ("elastic-net", "probe-logistic")  # whose thresholds can be half of the optimum


def with_three_splits(data: Path, path: Path, seed: int) -> None:
    """A copy of the dataset with the splits train, valid and test."""
    with hpcml.Dataset(data) as dataset:
        drawn = uniform(seed, "f1", np.arange(dataset.n_rows))
        if "test" in dataset.split_names():
            train, test = np.array(dataset.split("train")), np.array(dataset.split("test"))
            held_out = drawn[train] < 0.25
            rows = {"train": train[~held_out], "valid": train[held_out], "test": test}
        else:
            part = np.digitize(drawn, [0.2, 0.4])
            rows = {name: np.flatnonzero(part == number) for number, name in enumerate(("valid", "test", "train"))}
    shutil.copyfile(data, path)
    path.chmod(0o644)
    with editing(path) as file:
        if "splits" in file:
            del file["splits"]
        group = file.create_group("splits")
        for name, numbers in rows.items():
            group[name] = numbers.astype(np.int64)


def judged(data: Path, work: Path, method: str, min_positives: int) -> Iterator[dict[str, Any]]:
    """A line for each kind of thresholds of a method."""
    name, options = METHODS[method]
    model = hpcml.train(name, data, work / method, **options, min_positives=min_positives, force=True).model
    W = hpcml.open_model(model).weights()
    labels = range(W.shape[0])  # and none that are too rare to train
    about = {"method": method, "labels": W.shape[0], "features_per_label": round(float((W != 0).sum(axis=1).mean()), 1)}
    yield about | {"thresholds": "0"} | f1_of(hpcml.evaluate(model, data, split="test", labels=labels))
    halves = [("label", "half"), ("micro", "half")] if method in LOG_ODDS else []
    for measure, how in [("label", "shrink"), *((measure, "search") for measure in MEASURES), *halves]:
        output = work / "with-thresholds.h5"
        hpcml.threshold(model, data, measure, method=how, output=output, force=True)
        found = f1_of(hpcml.evaluate(output, data, split="test", labels=labels))
        yield about | {"thresholds": measure + ("" if how == "search" else f", {how}")} | found


def f1_of(evaluation: Evaluation) -> dict[str, Any]:
    """The means of F1, and F1 per row by percent of the labels."""
    of_rows = {line.percent: round(line.instance_f1, 3) for line in evaluation.by_frequency}
    means = {"macro": evaluation.macro("f1"), "micro": evaluation.micro["f1"], "instance": evaluation.instance_f1}
    return {name: round(value, 3) for name, value in means.items()} | {"by_percent": of_rows}


def main(words: list[str]) -> None:
    """Train, find thresholds, judge."""
    parser = parser_of("f1", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--min-positives", type=int, default=3, help="train labels that so many training rows have")
    parser.add_argument("--seed", type=int, default=0, help="another one draws other splits")
    parser.add_argument("--work", type=Path, help="a folder for models and thresholds. Default: one that is removed again")
    given = parser.parse_args(words)
    lines = []
    with tempfile.TemporaryDirectory() if given.work is None else nullcontext(given.work) as folder:
        work = Path(folder)
        data = work / "splits.h5"
        with_three_splits(given.data, data, given.seed)
        for method in METHODS:
            for line in judged(data, work, method, given.min_positives):
                lines.append(line)
                print(json.dumps(line), flush=True)
    percent = list(lines[0]["by_percent"])
    head = ["method", "features", "thresholds"]
    rows = [[line["method"], f"{line['features_per_label']:,.0f}", line["thresholds"]] for line in lines]
    means = [[f"{line[name]:.3f}" for name in ("macro", "micro", "instance")] for line in lines]
    shares = [[f"{value:.3f}" for value in line["by_percent"].values()] for line in lines]
    for title, columns in ((["macro", "micro", "per row"], means), ([f"{each} %" for each in percent], shares)):
        print("\n" + "\n".join(table([head + title, *(a + b for a, b in zip(rows, columns, strict=True))])))

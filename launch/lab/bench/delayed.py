"""Stochastic gradient descent with delayed regularisation: how far its objective is above the minimum. Prints a JSON line.

Trains all labels with at least --min-positives rows twice: by `elastic-net --solver fobos` (or sgd) with the default passes and
learning rate, and exactly. `median` and `largest` are the excess of the objective over the minimum in percent; seconds are those of
training.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import hpcml
from launch.lab.bench._common import parser_of, train
from launch.lab.core.timing import print_json


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("delayed", __doc__)
    parser.add_argument("data", type=Path)
    for name, value in (("loss", "logistic"), ("l1", "0.1/m"), ("lambda", "0.01/m"), ("solver", "fobos"), ("rate", "decaying")):
        parser.add_argument(f"--{name}", default=value)
    parser.add_argument("--min-positives", type=int, default=10)
    given = vars(parser.parse_args(words))
    options = [f for name in ("loss", "l1", "lambda", "min-positives") for f in (f"--{name}", given[name.replace("-", "_")])]
    with tempfile.TemporaryDirectory() as folder:
        extra = ("--solver", given["solver"], "--rate", given["rate"])
        descent, exact = (
            train("elastic-net", given["data"], Path(folder, name), *options, *more)
            for name, more in (("sgd", extra), ("exact", ()))
        )
        models = [hpcml.Model(each.model) for each in (descent, exact)]
        excess = 100 * (models[0].labels["f_min"] / models[1].labels["f_min"] - 1)
        line = {name: given[name] for name in ("loss", "l1", "solver", "rate")} | {"labels": excess.size}
        line |= {"median": round(float(np.median(excess)), 2), "largest": round(float(excess.max()), 2)}
        line |= {"within_2_percent": int((excess <= 2).sum()), "seconds": descent.seconds, "seconds_exact": exact.seconds}
        print_json(**line)

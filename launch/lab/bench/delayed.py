"""Excess of the objective over the minimum after stochastic gradient descent with delayed regularisation.

Trains all labels with at least --min-positives rows twice: by `elastic-net --solver fobos` (or sgd) with the default passes and
learning rate, and exactly. `median` and `largest` are the excess of the objective over the minimum in percent; seconds are those of
training.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.bench import train


def run(
    scratch: Path,
    data: Path,
    *,
    loss: str = "logistic",
    l1: str = "0.1/m",
    lam: str = "0.01/m",
    solver: str = "fobos",
    rate: str = "decaying",
    min_positives: int = 10,
) -> Iterator[dict[str, Any]]:
    options = ("--loss", loss, "--l1", l1, "--lambda", lam, "--min-positives", min_positives)
    descent = train("elastic-net", data, scratch / "sgd", *options, "--solver", solver, "--rate", rate)
    exact = train("elastic-net", data, scratch / "exact", *options)
    excess = 100 * (hpcml.Model(descent.model).labels["f_min"] / hpcml.Model(exact.model).labels["f_min"] - 1)
    line = {"loss": loss, "l1": l1, "solver": solver, "rate": rate, "labels": excess.size}
    line |= {"median": round(float(np.median(excess)), 2), "largest": round(float(excess.max()), 2)}
    yield line | {"within_2_percent": int((excess <= 2).sum()), "seconds": descent.seconds, "seconds_exact": exact.seconds}

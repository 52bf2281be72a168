"""Estimate the time of a training on other numbers of ranks from the history of a run.

RUN is a run folder of `dual`, `probe` or another method that trains label by label. The processor seconds of each label
(`cpu_seconds` of history.csv) are summed by the labels that each of --ranks would get (`labels_of_group`), and writing the model at
--bandwidth (GB/s, of all ranks together) is added. `efficiency` compares with one rank, which writes at the same bandwidth. Loading
and the start are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.methods.linear.layout import labels_of_group
from launch.lab.core.bench import rounded
from launch.lab.core.tables import read_csv


def seconds_of_labels(run: Path, names: list[str]) -> np.ndarray:
    numbers, seconds = {name: number for number, name in enumerate(names)}, np.zeros(len(names))
    for line in read_csv(run / "history.csv"):
        seconds[numbers[line["label"]]] += float(line["cpu_seconds"] or 0)
    return seconds


def run(scratch: Path, run: Path, *, ranks: tuple[int, ...] = (1, 16, 64, 256), bandwidth: float = 1.0) -> Iterator[dict[str, Any]]:
    model = hpcml.Model(run / "model.h5")
    n_positive, n_bytes = np.asarray(model.labels["n_positive"]), (run / "model.h5").stat().st_size
    seconds, writing = seconds_of_labels(run, model.label_names), n_bytes / bandwidth / 1e9
    trained = np.flatnonzero(seconds)
    for n in ranks:
        loads = [float(seconds[labels_of_group(trained, n_positive, number, n)].sum()) for number in range(n)]
        line = {"ranks": n, "labels": trained.size, "training": max(loads), "writing": writing, "seconds": max(loads) + writing}
        line |= {"efficiency": (sum(loads) + writing) / (n * (max(loads) + writing))}
        yield rounded(4, **line, training_efficiency=sum(loads) / n / max(loads), imbalance=max(loads) * n / sum(loads))

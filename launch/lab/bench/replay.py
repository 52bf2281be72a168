"""Estimate the time of a training on other numbers of ranks from the history of a run.

RUN is a run folder of `dual`, `probe` or another method that trains label by label. Between two times of its history, a rank worked
on the labels whose passes ended at the second one; each gets an equal share of the seconds. These seconds are summed by the labels
that each of --ranks would get (`labels_of_group`), and writing the model at --bandwidth (GB/s, of all ranks together) is added.
`efficiency` compares with one rank, which writes at the same bandwidth. Loading and start-up are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.errors import ConfigError
from hpcml.methods.linear.layout import labels_of_group
from launch.lab.core.bench import rounded
from launch.lab.core.tables import read_csv, read_json_lines


def seconds_of_labels(run: Path, n_positive: np.ndarray, names: list[str]) -> np.ndarray:
    """Return the seconds of each label. Raises ConfigError if several jobs with different numbers of ranks trained the run."""
    jobs = {each["ranks"] for each in read_json_lines(run / "environment.jsonl")}
    if len(jobs) != 1:
        raise ConfigError(f"{run} was trained on {sorted(jobs)} ranks; expected one number")
    history = read_csv(run / "history.csv")
    numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([numbers[line["label"]] for line in history])
    times = np.array([float(line["seconds"]) for line in history])
    (n_ranks,), trained, seconds = jobs, np.unique(labels), np.zeros(len(names))
    for number in range(n_ranks):
        own = np.isin(labels, labels_of_group(trained, n_positive, number, n_ranks))
        ends, of_pass, counts = np.unique(times[own], return_inverse=True, return_counts=True)
        np.add.at(seconds, labels[own], (np.diff(ends, prepend=0.0) / counts)[of_pass])
    return seconds


def run(scratch: Path, run: Path, *, ranks: tuple[int, ...] = (1, 16, 64, 256), bandwidth: float = 1.0) -> Iterator[dict[str, Any]]:
    model = hpcml.Model(run / "model.h5")
    n_positive, n_bytes = np.asarray(model.labels["n_positive"]), (run / "model.h5").stat().st_size
    seconds, writing = seconds_of_labels(run, n_positive, model.label_names), n_bytes / bandwidth / 1e9
    trained = np.flatnonzero(seconds)
    for n in ranks:
        loads = [float(seconds[labels_of_group(trained, n_positive, number, n)].sum()) for number in range(n)]
        line = {"ranks": n, "labels": trained.size, "training": max(loads), "writing": writing, "seconds": max(loads) + writing}
        line |= {"efficiency": (sum(loads) + writing) / (n * (max(loads) + writing))}
        yield rounded(4, **line, training_efficiency=sum(loads) / n / max(loads), imbalance=max(loads) * n / sum(loads))

"""Seconds of `dual` for a panel of 16 frequent or rare labels, on one core.

LOSS:FIRST names a loss and the first of 16 labels in order of frequency, from 0. Without them: the squared hinge from 900, 150 and
0 on, and the hinge from 900 and 0 on. With an intercept, tolerance 0.1. A line has the rows of the labels, seconds of the
processor, passes of a label (most are over its support vectors only), and the mean and the largest gap in per cent. The shared
start and the index of rare labels are not timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.solver import warm_up
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from launch.lab.core.bench import rounded

WIDTH = 16
PANELS = ("squared-hinge:900", "squared-hinge:150", "squared-hinge:0", "hinge:900", "hinge:0")


def training_rows(path: Path) -> CompactRows:
    with hpcml.Dataset(path) as dataset:
        split = "train" if "train" in dataset.split_names() else "all"
        return compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), dataset, split), True)[0]


def run(scratch: Path, data: Path, panels: tuple[str, ...] = PANELS) -> Iterator[dict[str, Any]]:
    rows = training_rows(data)
    trained = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
    by_frequency = trained[np.argsort(-rows.n_positive[trained], kind="stable")]
    for panel in panels:
        loss, _, first = panel.partition(":")
        labels = np.sort(by_frequency[int(first) : int(first) + WIDTH])
        if not labels.size:
            raise ConfigError(f"{panel}: there are only {by_frequency.size} labels")
        options = DualOptions(loss=loss, bias=True, dual_tol=0.1)
        solver = DualSolver(Risk(rows, options, Profile()), labels, WIDTH, options)
        warm_up(DualSolver, solver.risk, options)
        begin, done = 0.0, []
        for finished in solver.solve(range(labels.size), NEVER):
            shared = solver.start is not None or solver.rare_labels is not None  # the label without rows, or the index
            begin = begin or (time.thread_time() if shared else 0.0)
            done += finished
        seconds, gaps = time.thread_time() - begin, np.array([each.gap for each in done]) * 100
        counts = rows.n_positive[labels]
        line = {"loss": loss, "positive_rows": f"{counts.min()}–{counts.max()}", "seconds": seconds}
        line |= {"passes": float(np.mean([each.steps for each in done])), "mean_gap": float(gaps.mean())}
        yield rounded(4, **line, largest_gap=float(gaps.max()))

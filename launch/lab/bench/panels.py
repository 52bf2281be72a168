"""Seconds that `dual` takes for a panel of 16 labels, frequent ones and rare ones, on one core.

LOSS:FIRST names a loss and the first of 16 labels in order of frequency, from 0. Without them: the squared hinge from 900, 150 and
0 on, and the hinge from 900 and 0 on. With an intercept, tolerance 0.1. Prints for each the rows of the labels, seconds of the
processor, passes of a label (most are over its support vectors only), and the mean and the largest gap. The start that all labels
share is not timed, nor the index of labels that are trained alone.
"""

import time
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.methods.dual.by_loss import dual
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.warm_up import warm_up
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from launch.lab.bench._common import parser_of

WIDTH = 16
PANELS = ("squared-hinge:900", "squared-hinge:150", "squared-hinge:0", "hinge:900", "hinge:0")


def main(words: list[str]) -> None:
    """Print a table."""
    parser = parser_of("panels", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("panels", nargs="*", default=PANELS, metavar="LOSS:FIRST")
    given = parser.parse_args(words)
    path, panels = given.data, given.panels
    with DataFile(path) as data:
        split = "train" if "train" in data.split_names() else "all"
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, split), True)
    trained = np.flatnonzero((rows.n_positive > 0) & (rows.n_positive < rows.n_global))
    by_frequency = trained[np.argsort(-rows.n_positive[trained], kind="stable")]
    print(f"{path}: {rows.n_global:,} rows, {rows.n_columns:,} columns, {rows.data.size:,} values")
    print(" ".join(f"{head:>14}" for head in ("loss", "positive rows", "seconds", "passes", "mean gap, %", "largest")))
    for panel in panels:
        loss, first = panel.split(":")
        labels = np.sort(by_frequency[int(first) : int(first) + WIDTH])
        if not labels.size:
            parser.error(f"{panel}: there are only {by_frequency.size} labels")
        options = DualOptions(loss=loss, bias=True, dual_tol=0.1)
        solver = dual(Risk(rows, options, Profile()), labels, WIDTH, options)
        warm_up(dual, solver.risk, options)
        begin, done = 0.0, []
        for finished in solver.solve(range(labels.size), NEVER):
            shared = solver.start is not None or solver.alone is not None  # the label that no row has, or the index
            begin = begin or (time.thread_time() if shared else 0.0)
            done += finished
        seconds, gaps = time.thread_time() - begin, np.array([each.gap for each in done]) * 100
        counts = f"{rows.n_positive[labels].min()}–{rows.n_positive[labels].max()}"
        numbers = f"{seconds:>14.2f} {np.mean([each.steps for each in done]):>14.1f} {gaps.mean():>14.3f} {gaps.max():>14.3f}"
        print(f"{loss:>14} {counts:>14} {numbers}", flush=True)

"""Time of one pass over the rows for B labels on one core, compared with scipy's products.

The pass (margins, losses, exact sums; no row dormant) is timed at w = 0, where every row violates ("pass"), and where PROBE is
after 20 steps ("pass_later"). scipy multiplies `X @ W` and `X.T @ R` of float32 matrices ("scipy": the precision of our weights)
and of float64 ones ("scipy64"). A line has, for each B, ns per non-zero and label, and ratios ours/theirs: the shortest of the
repeats, each right after an untimed one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.methods.linear.objective import Objective, Panel, panel_widths
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.probe import probe
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

LATER = 20  # steps of PROBE, when most rows no longer violate


def training_rows(path: Path, bias: bool) -> CompactRows:
    with hpcml.Dataset(path) as dataset:
        split = "train" if "train" in dataset.split_names() else "all"
        return compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), dataset, split), bias)[0]


def at_zero(objective: Objective, n_labels: int) -> Callable[[], None]:
    """Return one pass for `n_labels` labels at w = 0, where every row violates the margin (the worst case)."""
    panels = [Panel(objective, width) for width in panel_widths(n_labels, "single")]
    label = int(objective.rows.n_positive.argmax())  # which one does not matter to the kernel
    for k in range(n_labels):
        panels[k // panels[0].width].assign(k % panels[0].width, label)
    return lambda: objective.evaluate(panels)


def later(objective: Objective, n_labels: int) -> Callable[[], None]:
    """Return one pass after 20 steps of PROBE for the most frequent labels."""
    order = np.argsort(-objective.rows.n_positive, kind="stable")[:n_labels]
    solver = probe(objective, np.resize(order, n_labels), n_labels, ProbeOptions(max_steps=LATER + 1))
    turns = solver.solve(range(n_labels), NEVER)
    for _ in range(LATER):
        next(turns)
    return lambda: objective.evaluate(solver.panels)


def products(X: sp.csr_matrix, n_labels: int, dtype: type) -> Callable[[], object]:
    W, R = (np.ones((size, n_labels), dtype) for size in X.shape[::-1])
    return lambda: (X @ W, X.T @ R)


def run(
    scratch: Path, data: Path, *, labels_per_pass: tuple[int, ...] = (1, 4, 8, 16, 32, 64), repeats: int = 7
) -> Iterator[dict[str, Any]]:
    if repeats < 1 or min(labels_per_pass) < 1:
        raise ConfigError("--repeats and --labels-per-pass: expected at least 1")
    rows = training_rows(data, False)
    objective = Objective(rows, ProbeOptions(loss="hinge", bias=False, dormant=False), Profile())
    X = sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.n_local, rows.n_columns))
    X64 = X.astype(np.float64)
    for n in labels_per_pass:
        calls = {"pass": at_zero(objective, n), "pass_later": later(objective, n)}
        calls |= {"scipy": products(X, n, np.float32), "scipy64": products(X64, n, np.float64)}
        seconds = dict.fromkeys(calls, np.inf)
        for _ in range(repeats):
            for name, call in calls.items():
                call()
                begin = time.perf_counter()
                call()
                seconds[name] = min(seconds[name], time.perf_counter() - begin)
        line = {"labels": n, "rows": rows.n_local, "nonzeros": X.nnz, "columns": rows.n_columns}
        line |= {f"{name}_ns_per_nonzero_and_label": value / X.nnz / n * 1e9 for name, value in seconds.items()}
        for ours in ("pass", "pass_later"):
            line |= {f"ratio_{ours}_to_{name}": seconds[ours] / seconds[name] for name in ("scipy", "scipy64")}
        yield line

"""One pass over the rows for B labels beside scipy's products, on one core. Prints JSON lines: seconds a value, and ratios."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.methods.linear.objective import Objective, panel_widths
from hpcml.methods.linear.panel import Panel
from hpcml.methods.probe.options import ProbeOptions
from hpcml.methods.probe.train import probe
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from launch.lab.bench._common import parser_of
from launch.lab.core.timing import print_json

LABELS = (1, 4, 8, 16, 32, 64)
LATER = 20  # steps of PROBE, when most rows no longer violate


def _best_times(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest of `repeats` seconds of each call, in turn, each right after an untimed one."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            begin = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def _at_zero(objective: Objective, n_labels: int) -> Callable[[], None]:
    """One pass for `n_labels` labels at w = 0, where every row violates: the worst case."""
    panels = [Panel(objective, width) for width in panel_widths(n_labels, "single")]
    label = int(objective.rows.n_positive.argmax())  # which one does not matter to the kernel
    for k in range(n_labels):
        panels[k // panels[0].width].enter(k % panels[0].width, label)
    return lambda: objective.evaluate(panels)


def _later(objective: Objective, n_labels: int) -> Callable[[], None]:
    """One pass after 20 steps of PROBE for the most frequent labels."""
    order = np.argsort(-objective.rows.n_positive, kind="stable")[:n_labels]
    solver = probe(objective, np.resize(order, n_labels), n_labels, ProbeOptions(max_steps=LATER + 1))
    turns = solver.solve(range(n_labels), NEVER)
    for _ in range(LATER):
        next(turns)
    return lambda: objective.evaluate(solver.panels)


def bench_pass(path: Path, labels_per_pass: tuple[int, ...] = LABELS, repeats: int = 7) -> list[dict[str, float]]:
    """Time one pass over the rows for B labels against scipy's `X @ W` and `X.T @ R`, on one rank.

    The pass (margins, losses, exact sums; no row dormant) is timed at w = 0, where every row
    violates ("pass"), and where PROBE is after 20 steps ("pass_later"). scipy multiplies float32
    matrices ("scipy": the precision of our weights) and float64 ones ("scipy64"). Returns, for each
    B, seconds, ns per non-zero and label, and ratios ours/theirs.
    """
    import scipy.sparse

    if repeats < 1:
        raise ConfigError(f"--repeats {repeats}: expected at least 1")
    if min(labels_per_pass, default=0) < 1:
        raise ConfigError("--labels-per-pass: expected at least 1")
    comm = mpi.self_comm()
    with DataFile(path) as dataset:
        rows, _ = compact_rows(comm, load_shard(comm, dataset, default_split(dataset, "train")), False)
    objective = Objective(rows, ProbeOptions(loss="hinge", bias=False, dormant=False), Profile())
    X = scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.n_local, rows.n_columns))
    X64 = X.astype(np.float64)
    table = []
    for n in labels_per_pass:
        W, R = np.ones((rows.n_columns, n), np.float32), np.ones((rows.n_local, n), np.float32)
        W64, R64 = W.astype(np.float64), R.astype(np.float64)
        calls: dict[str, Callable[[], object]] = {
            "pass": _at_zero(objective, n),
            "pass_later": _later(objective, n),
            "scipy": partial(_products, X, W, R),
            "scipy64": partial(_products, X64, W64, R64),
        }
        seconds = _best_times(calls, repeats)
        line = {"labels": n, "rows": rows.n_local, "nonzeros": X.nnz, "columns": rows.n_columns}
        line |= {f"{name}_ns_per_nonzero_and_label": value / X.nnz / n * 1e9 for name, value in seconds.items()}
        for ours in ("pass", "pass_later"):
            line |= {f"ratio_{ours}_to_{name}": seconds[ours] / seconds[name] for name in ("scipy", "scipy64")}
        table.append(line)
    return table


def _products(X: Any, W: np.ndarray, R: np.ndarray) -> object:
    """The two products of a pass, as scipy computes them."""
    return X @ W, X.T @ R


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("one_pass", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels-per-pass", type=int, nargs="+", default=list(LABELS))
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args(words)
    for line in bench_pass(given.data, tuple(given.labels_per_pass), given.repeats):
        print_json(**line)

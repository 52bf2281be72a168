"""`hpcml bench`: our kernels beside a library's, timed in turn in one run, as ratios."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.convex.objective import BlockObjective
from hpcml.convex.probe import ProbeState
from hpcml.data.schema import Dataset, default_split
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError


def _best_times(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest of `repeats` seconds of each call, all taken in turn after one warm-up."""
    best = dict.fromkeys(calls, float("inf"))
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if repeat:
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def _after_steps(objective: BlockObjective, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights (d, 1) and their squared norm (1,) after some steps of PROBE on the objective's one label."""
    W, w_sq, state = np.zeros((objective.n_weights, 1)), np.zeros(1), ProbeState()
    for _ in range(n_steps):
        f, _ = objective.evaluate(W, w_sq)
        step = state.advance(float(f[0]), float(objective.gradient_squares(W)[0]))
        w_sq = objective.step(W, np.array([step.eta]))
    return W, w_sq


def bench_pass(path: Path, label: int | None = None, repeats: int = 15) -> dict[str, float]:
    """Time one fused pass (exact sums, reduction and all) against scipy's `X @ w` and `X.T @ r` together, on one rank.

    The pass is timed at w = 0, where every row violates and scatters: its worst case ("fused"), and where PROBE is after 20 steps
    ("fused_later"). scipy gets `X` as stored ("scipy": float32, which it widens at each product, w being float64) and `X` widened
    beforehand ("scipy64"). Returns seconds, ns per non-zero, and ratios ours/theirs.
    """
    import scipy.sparse

    if repeats < 1:
        raise ConfigError(f"--repeats {repeats}: expected at least 1")
    comm = mpi.self_comm()
    with Dataset(path) as dataset:
        shard = load_shard(comm, dataset, default_split(dataset, "train"))
        objective = BlockObjective(comm, shard, "hinge", "X/m", False, 1)
        if label is not None and not 0 <= label < dataset.n_labels:
            raise ConfigError(f"--label {label}: {path} has labels 0 to {dataset.n_labels - 1}")
        objective.slots[0] = int(np.bincount(shard.y_indices, minlength=1).argmax()) if label is None else label
        taken = [slice(int(shard.indptr[r]), int(shard.indptr[r + 1])) for r in shard.rows]
        indices, data = (np.concatenate([a[s] for s in taken]) for a in (shard.indices, shard.data))
        indptr = np.concatenate([[0], np.cumsum(np.diff(shard.indptr)[shard.rows])])
        X = scipy.sparse.csr_matrix((data, indices, indptr), shape=(shard.n_local, dataset.n_features))
        X64 = X.astype(np.float64)
        XT, X64T = X.T, X64.T
        later, later_sq = _after_steps(objective, 20)
        W, w, r = np.zeros((dataset.n_features, 1)), np.zeros(dataset.n_features), np.ones(shard.n_local)
        calls = {
            "fused": lambda: objective.evaluate(W, np.zeros(1)),
            "fused_later": lambda: objective.evaluate(later, later_sq),
            "scipy": lambda: (X @ w, XT @ r),
            "scipy64": lambda: (X64 @ w, X64T @ r),
        }
        seconds = _best_times(calls, repeats)
    result = {f"{name}_seconds": value for name, value in seconds.items()}
    result |= {f"{name}_ns_per_nonzero": value / X.nnz * 1e9 for name, value in seconds.items()}
    for ours in ("fused", "fused_later"):
        result |= {f"ratio_{ours}_to_{name}": seconds[ours] / seconds[name] for name in ("scipy", "scipy64")}
    return {"rows": shard.n_local, "nonzeros": X.nnz, **result}

"""Compare hpcml with other trainers: training time, objective, quality and memory on the same rows and labels.

Each --method is trained by `hpcml train` with all OPTIONS that are not listed here; it must have them. Then each --peer (default:
all that minimise the same loss and are installed) trains the labels that the first method trained, with its C = 1/(λm), the same
tolerance, the constant feature if there is an intercept, and as many threads as ranks. `method/tolerance` names a method's
tolerance option; methods without one are trained once per tolerance all the same. All run in turn, and the least of --repeat
counts. f is the mean of the objective of the first method over its labels, `MAP` and `P@k` are those of the test split. MiB is the
largest process. Writes the table as OUTPUT/peers.csv and OUTPUT/peers.json, and the models as OUTPUT/METHOD-TOLERANCE.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.errors import ConfigError
from launch.lab.core.bench import Rows, Trained, read_rows, train
from launch.lab.core.tables import read_json, write_json, write_table
from launch.lab.core.timing import CommandError, made_on, run_command
from launch.lab.peers import programs
from launch.lab.peers.programs import PEERS

TOLERANCE = {"dual": "--dual-tol", "liblinear": "--liblinear-tol"}  # options; elastic-net and others stop by rules of their own
NAMES = (*PEERS, "none")


class Problem:
    """Rows and labels of the first method, as the other trainers take them, and the measures of all trainers."""

    def __init__(self, rows: Rows, model: hpcml.Model, folder: Path) -> None:
        trained = model.labels["status"] != 1  # 1: degenerate, all rows or none have the label
        columns = rows.columns(np.array(model.label_names)[trained])
        self.lam, self.l1, self.loss = float(model.attrs["lambda"]), model.attrs.get("l1"), str(model.attrs["loss"])
        self.bias = bool(np.any(model.bias[trained]))
        if self.l1 is not None and self.lam:
            self.l1 = None  # no trainer has both penalties
        self.Y, self.Y_test, self.folder = rows.Y[:, columns], rows.Y_test[:, columns], folder
        self.X, self.X_test = (with_constant(X, self.bias) for X in (rows.X, rows.X_test))
        self.numbers = np.flatnonzero(trained)
        for name in ("X", "Y", "X_test"):
            sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(getattr(self, name), dtype=np.float32), compressed=False)

    def objective(self, W: sp.csr_matrix) -> float:
        """Return the mean over the labels of λ/2 ‖w‖² + (1/m) Σ ℓ, or of λ₁ ‖w‖₁ + (1/m) Σ ℓ without the intercept."""
        total = 0.0
        for begin in range(0, W.shape[0], 16):
            w = W[begin : begin + 16].toarray().astype(np.float64)
            margins = (2.0 * self.Y[:, begin : begin + 16].toarray() - 1.0) * (self.X @ w.T)
            short = np.maximum(0.0, 1.0 - margins)
            losses = {"hinge": short, "squared-hinge": short**2}.get(self.loss, np.logaddexp(0.0, -margins))
            penalty = 0.5 * self.lam * (w * w).sum()
            if self.l1 is not None:
                penalty = float(self.l1) * np.abs(w[:, :-1] if self.bias else w).sum()
            total += losses.sum() / self.X.shape[0] + penalty
        return total / max(1, W.shape[0])

    def judge(self, W: sp.csr_matrix | None = None, scores: np.ndarray | None = None) -> dict[str, Any]:
        judged = hpcml.evaluate_scores(scores if W is None else (self.X_test @ W.T).toarray(), self.Y_test)
        measures = {"f": None if W is None else self.objective(W), "map": judged.macro("average_precision")}
        return measures | {f"p{k}": value for k, value in judged.precision_at.items()}

    def judge_ours(self, run: Trained) -> dict[str, Any]:
        model = hpcml.Model(run.model)
        W = model.weight_matrix(self.numbers)
        if self.bias:
            W = sp.hstack([W, sp.csr_matrix(model.bias[self.numbers]).T], format="csr")
        measures = self.judge(W)
        if str(model.attrs["loss"]) != self.loss or float(model.attrs["lambda"]) != self.lam:
            measures["f"] = None  # an objective of its own
        measures |= {"seconds": run.seconds, "cpu_seconds": run.usage.cpu_seconds, "peak_mib": run.usage.peak_mib}
        return measures | {"model_mb": run.model.stat().st_size / 1e6}

    def usual_peers(self) -> list[str]:
        penalty = "l2" if self.l1 is None else "elastic net"
        return [n for n, peer in PEERS.items() if peer.penalty == penalty and self.loss in peer.losses]

    def run_peer(self, name: str, tolerance: float, ranks: int, python: Path | None, limit: float) -> dict[str, Any]:
        """Train with a peer in a separate process. Raises ConfigError if it is not installed or fails."""
        strength = float(self.lam if self.l1 is None else self.l1)
        about = {"C": 1 / (strength * self.X.shape[0]), "loss": self.loss, "tolerance": tolerance, "bias": self.bias}
        about |= {"threads": ranks, "seed": 0, "max_passes": 1000, "cores": sorted(os.sched_getaffinity(0))}
        files = [self.folder / each for each in ("result.json", "weights.npz", "scores.npy")]
        for left in files:
            left.unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "problem.json").write_text(json.dumps(about), encoding="utf-8")
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(ranks))
        command = (python or sys.executable, programs.__file__, name, self.folder)
        run_command(command, timeout=limit, env=threads | {"PYTHONSAFEPATH": "1"})
        result, weights, scores = read_json(files[0]), *files[1:]
        if "missing" in result:
            raise ConfigError(f"not installed: pip install {PEERS[name].package}")
        result |= self.judge(sp.load_npz(weights).tocsr()) if weights.exists() else self.judge(scores=np.load(scores))
        return result | {"model_mb": result.pop("model_bytes") / 1e6}


def with_constant(X: sp.csr_matrix, bias: bool) -> sp.csr_matrix:
    X = sp.csr_matrix(X, dtype=np.float64)
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr") if bias else X


def run(
    scratch: Path,
    data: Path,
    *,
    output: Path,
    method: tuple[str, ...] = ("dual", "liblinear"),
    peer: tuple[Literal[NAMES], ...] = (),
    tol: tuple[float, ...] = (0.1,),
    repeat: int = 1,
    ranks: int = 1,
    peer_python: Path | None = None,
    peer_limit: float = 3600.0,
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    if repeat < 1 or min(tol) <= 0:
        raise ConfigError("peers: expected --repeat of at least 1 and --tol above 0")
    if (output / "peers.csv").exists():
        raise ConfigError(f"{output / 'peers.csv'} exists already; remove it, or name another --output")
    output.mkdir(parents=True, exist_ok=True)
    rows, best, skipped = read_rows(data), dict[tuple[str, float], dict[str, Any]](), dict[str, str]()
    problem: Problem | None = None

    def keep(trainer: str, tolerance: float, measures: dict[str, Any]) -> None:
        before = best.get((trainer, tolerance))
        if before is None or measures["seconds"] < before["seconds"]:
            best[trainer, tolerance] = {"trainer": trainer, "tolerance": tolerance} | measures

    for _ in range(repeat):
        for tolerance in tol:
            for name in method:
                more = (TOLERANCE[name], tolerance) if name in TOLERANCE else ()
                trained = train(name, data, output / f"{name}-{tolerance:g}", *options, *more, ranks=ranks)
                problem = problem or Problem(rows, hpcml.Model(trained.model), scratch)
                keep(name, tolerance, problem.judge_ours(trained))
            for name in () if peer == ("none",) else peer or problem.usual_peers():
                if name not in skipped:
                    try:
                        keep(name, tolerance, problem.run_peer(name, tolerance, ranks, peer_python, peer_limit))
                    except (CommandError, ConfigError) as error:
                        skipped[name] = str(error)
    lines = [{key: None if value != value else value for key, value in line.items()} for line in best.values()]
    yield from lines
    yield from ({"skipped": name, "why": why} for name, why in skipped.items())
    names = dict.fromkeys(line["trainer"] for line in lines if line["trainer"] in PEERS)
    yield from ({"peer": name, "about": PEERS[name].about, "timed": PEERS[name].timed} for name in names)
    columns = list(dict.fromkeys(key for line in lines for key in line))
    write_table(output / "peers.csv", [columns, *([line.get(key) for key in columns] for line in lines)])
    write_json(output / "peers.json", {"table": lines, "skipped": skipped, "options": options, **made_on()})

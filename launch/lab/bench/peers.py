"""hpcml beside other trainers: one table of training time, objective, quality and memory, on the same rows and labels.

Each --method is trained by `hpcml train` with all OPTIONS that are not listed here; it must have them. Then each --peer (default:
all that minimise the same loss and are installed) trains the labels that the first method trained, with its C = 1/(λm), the same
tolerance, the constant feature if there is an intercept, and as many threads as ranks. `method/tolerance` names a method's
tolerance option; methods without one are trained once per tolerance all the same. All take turns, and the least of --repeat
counts. f is the mean of the objective of the first method over its labels, `MAP` and `P@k` are those of the test split. MiB is
the largest process. Writes the table as OUTPUT/peers.csv and OUTPUT/peers.json, and the models as OUTPUT/METHOD-TOLERANCE.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.errors import ConfigError
from launch.lab.bench._common import Rows, Trained, parser_of, read_rows, train
from launch.lab.core.tables import table, write_json, write_table
from launch.lab.core.timing import CommandError, made_on, run_command
from launch.lab.peers import programs
from launch.lab.peers.programs import PEERS

TOLERANCE = {"dual": "--dual-tol", "liblinear": "--liblinear-tol"}  # options; elastic-net and others stop by rules of their own
COLUMNS = ("trainer", "tolerance", "seconds", "cpu_seconds", "f", "map", "p1", "p3", "p5", "peak_mib", "model_mb")


class Problem:
    """The rows and labels that the first method trained, for the other trainers, and the judge of all."""

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
        """Return the mean over the labels of λ/2 ‖w‖² + (1/m) Σ ℓ, or of λ₁ ‖w‖₁ + (1/m) Σ ℓ without the intercept's weight."""
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

    def judge(self, W: sp.csr_matrix | None = None, scores: np.ndarray | None = None) -> dict[str, float]:
        """Return f, MAP and P@k of weights or scores."""
        scores = (self.X_test @ W.T).toarray() if W is not None else scores
        judged = hpcml.evaluate_scores(scores, self.Y_test)
        f = math.nan if W is None else self.objective(W)
        return {"f": f, "map": judged.macro("average_precision")} | {f"p{k}": value for k, value in judged.precision_at.items()}

    def judge_best(self, best: np.ndarray) -> dict[str, float]:
        """Return P@k of the best labels of each row; −1 is none."""
        truth = self.Y_test.toarray() > 0
        hits = (best >= 0) & truth[np.arange(len(best))[:, None], np.maximum(best, 0)]
        return {f"p{k}": float(hits[:, :k].sum(axis=1).mean() / k) for k in (1, 3, 5)}

    def run_peer(self, name: str, tolerance: float, given: argparse.Namespace) -> dict[str, Any]:
        """Train with a peer in a process of its own; raises ConfigError if it is not installed or fails."""
        strength = float(self.lam if self.l1 is None else self.l1)
        about = {"C": 1 / (strength * self.X.shape[0]), "loss": self.loss, "tolerance": tolerance, "bias": self.bias}
        about |= {"threads": given.ranks, "seed": 0, "max_passes": 1000, "cores": sorted(os.sched_getaffinity(0))}
        for left in ("result.json", "weights.npz", "scores.npy", "best.npy"):
            (self.folder / left).unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / "problem.json").write_text(json.dumps(about), encoding="utf-8")
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(given.ranks))
        command = (given.peer_python or sys.executable, programs.__file__, name, self.folder)
        run_command(command, timeout=given.peer_limit, env=threads | {"PYTHONSAFEPATH": "1"})
        result = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        if "missing" in result:
            raise ConfigError(f"not installed: pip install {PEERS[name].package}")
        files = [self.folder / each for each in ("weights.npz", "scores.npy", "best.npy")]
        if files[0].exists():
            result |= self.judge(sp.load_npz(files[0]).tocsr())
        else:
            result |= self.judge(scores=np.load(files[1])) if files[1].exists() else self.judge_best(np.load(files[2]))
        return result | {"model_mb": result.pop("model_bytes") / 1e6}


def with_constant(X: sp.csr_matrix, bias: bool) -> sp.csr_matrix:
    """Return rows in float64, with a constant feature if `bias`."""
    X = sp.csr_matrix(X, dtype=np.float64)
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr") if bias else X


def train_ours(
    method: str, tolerance: float, given: argparse.Namespace, options: Sequence[str], problem: list[Problem], rows: Rows
) -> dict[str, Any]:
    """Train with a method and judge its model; the first one makes the problem."""
    more = (TOLERANCE[method], tolerance) if method in TOLERANCE else ()
    run: Trained = train(method, given.data, given.output / f"{method}-{tolerance:g}", *options, *more, ranks=given.ranks)
    model = hpcml.Model(run.model)
    if not problem:
        problem.append(Problem(rows, model, Path(given.scratch)))
    its = problem[0]
    W = model.weight_matrix(its.numbers)
    if its.bias:
        W = sp.hstack([W, sp.csr_matrix(model.bias[its.numbers]).T], format="csr")
    quality = its.judge(W)
    if str(model.attrs["loss"]) != its.loss or float(model.attrs["lambda"]) != its.lam:
        quality["f"] = math.nan  # an objective of its own
    used = {"seconds": run.seconds, "cpu_seconds": run.usage.cpu_seconds, "peak_mib": run.usage.peak_mib}
    return quality | used | {"model_mb": run.model.stat().st_size / 1e6}


def choose_peers(given: argparse.Namespace, problem: Problem) -> list[str]:
    """Return the peers to run: those named, or all that minimise the loss and the penalty."""
    penalty = "l2" if problem.l1 is None else "elastic net"
    usual = [n for n, peer in PEERS.items() if peer.penalty == penalty and (not peer.losses or problem.loss in peer.losses)]
    return [] if given.peer == ["none"] else given.peer or usual


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("peers", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--method", action="append", help="default: dual and liblinear")
    parser.add_argument("--peer", action="append", choices=[*PEERS, "none"], default=[])
    parser.add_argument("--tol", type=float, nargs="+", default=[0.1])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--peer-python", type=Path, help="a Python that has the trainers (default: this one)")
    parser.add_argument("--peer-limit", type=float, default=3600.0, help="seconds after which a peer is stopped (default: 3600)")
    given, options = parser.parse_known_args(words)
    if given.repeat < 1 or min(given.tol) <= 0:
        parser.error("expected --repeat of at least 1 and --tol above 0")
    if (given.output / "peers.csv").exists():
        parser.error(f"{given.output / 'peers.csv'} exists already; remove it, or name another --output")
    given.output.mkdir(parents=True, exist_ok=True)
    rows, best, skipped = read_rows(given.data), dict[tuple[str, float], dict[str, Any]](), dict[str, str]()
    with tempfile.TemporaryDirectory() as given.scratch:
        problem: list[Problem] = []
        for _ in range(given.repeat):
            for tolerance in given.tol:
                calls = {
                    name: partial(train_ours, name, tolerance, given, options, problem, rows)
                    for name in given.method or ("dual", "liblinear")
                }
                for name in [*calls, None]:
                    peers = [] if name else [each for each in choose_peers(given, problem[0]) if each not in skipped]
                    for trainer in [name] if name else peers:
                        try:
                            found = calls[trainer]() if name else problem[0].run_peer(trainer, tolerance, given)
                        except (CommandError, ConfigError) as error:
                            if name:
                                raise
                            skipped[trainer] = str(error)
                            continue
                        before = best.get((trainer, tolerance))
                        if before is None or found["seconds"] < before["seconds"]:
                            best[trainer, tolerance] = {"trainer": trainer, "tolerance": tolerance} | found
    lines = list(best.values())
    texts = [[_cell(line.get(name)) for name in COLUMNS] for line in lines]
    print("\n".join(table([COLUMNS, *texts])))
    for name, why in skipped.items():
        print(f"{name}: skipped, {why}")
    for name in dict.fromkeys(line["trainer"] for line in lines):
        if name in PEERS:
            print(f"{name}: {PEERS[name].about}; timed: {PEERS[name].timed}")
    write_table(given.output / "peers.csv", [COLUMNS, *texts])
    clean = [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in line.items()} for line in lines]
    write_json(given.output / "peers.json", {"table": clean, "skipped": skipped, "options": options, **made_on()})


def _cell(value: Any) -> str:
    unknown = value is None or (isinstance(value, float) and math.isnan(value))
    return "-" if unknown else f"{value:.6g}" if isinstance(value, float) else str(value)

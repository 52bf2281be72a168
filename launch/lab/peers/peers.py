"""Other trainers, run on the rows of our methods and judged as ours are judged."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.bench import programs
from hpcml.bench.programs import BEST, PEERS
from hpcml.bench.shared_options import minimisers
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.errors import ConfigError, nearest
from hpcml.evaluation.counts import Counts
from hpcml.evaluation.ranking import average_precision
from hpcml.evaluation.top import PRECISION_AT, Best, are_true, precision_at
from hpcml.methods.registry import METHODS
from hpcml.model.linear import STATUS, Model
from hpcml.signals import StopSignals
from hpcml.undo import undone

SCORE_BYTES = 1 << 26  # of a block of scores, and of a block of weights
NO_PEERS = "none"
POLL_SECONDS = 0.05


class Quality(NamedTuple):
    """How good a trainer's models are; NaN where it cannot be known."""

    f: float
    average_precision: float
    precisions: tuple[float, ...]  # at each of PRECISION_AT
    model_mb: float
    objective: str  # whose value f is
    rows_per_second: float  # that are given their best labels, in a second of processor time


@dataclass(frozen=True)
class PeerRun:
    """A finished training of a peer."""

    seconds: float
    peak_mib: float
    model_bytes: int
    version: str
    rows_per_second: float | None = None
    cpu_seconds: float = math.nan


def choose_peers(wanted: tuple[str, ...], methods: Sequence[str], losses: Mapping[str, str]) -> list[str]:
    """The peers to run beside the methods, each once; by default all with their penalty and loss.

    `losses` are the methods' by their penalty. Where no peer has a loss, those with the first one
    of its penalty are chosen. Raises ConfigError for one that does not exist, or has another
    penalty.
    """
    penalties = {METHODS[method].penalty for method in methods}
    for name in wanted:
        if name not in PEERS and name != NO_PEERS:
            raise ConfigError(f"--peer {name}: no such trainer; {nearest(name, [*PEERS, NO_PEERS])}")
        if name in PEERS and PEERS[name].penalty not in penalties:
            users = ", ".join(minimisers(PEERS[name].penalty))
            raise ConfigError(f"--peer {name}: it is compared with {users} only; choose some with --method")
    known = [(name, peer) for name, peer in PEERS.items() if peer.penalty in penalties]
    losses = dict(losses)
    for penalty in penalties:
        offered = [loss for _, peer in known if peer.penalty == penalty for loss in peer.losses]
        if offered and losses.get(penalty) not in offered:
            losses[penalty] = offered[0]
    usual = [name for name, peer in known if not peer.losses or losses[peer.penalty] in peer.losses]
    return [] if NO_PEERS in wanted else list(dict.fromkeys(wanted)) or usual


class PeerProblem:
    """Rows, label sets and labels of a run's models, for programs beside us. All is local."""

    def __init__(self, dataset: DataFile, model: Model, split: str, test_split: str, bias: bool) -> None:
        """`model` is any of the run's with the programs' penalty. Raises DataError, MemoryError.

        With `bias` the rows have the constant feature, always if the penalty is the elastic net.
        """
        trained = model.labels["status"] != STATUS.index("degenerate")
        self.names = model.label_names
        self.trained = np.flatnonzero(trained)  # the places of the labels that peers train
        self.constant = np.where(trained, 0.0, model.bias)  # the scores of the others
        self.lam, self.l1, self.loss = float(model.attrs["lambda"]), model.attrs.get("l1"), str(model.attrs["loss"])
        self.bias = bias = bias or self.l1 is not None
        train_rows, test_rows = (np.array(dataset.split(name)) for name in (split, test_split))
        self.X, self.X_test = (_with_bias(read_rows(dataset, rows, False), bias) for rows in (train_rows, test_rows))
        self.Y, self.Y_test = (label_sets(dataset, rows, self.names) for rows in (train_rows, test_rows))

    @property
    def C(self) -> float:
        """LIBLINEAR's C: ½‖w‖² + C Σ ℓ, or ‖w‖₁ + C Σ ℓ, is f(w)/λ, or f(w)/λ₁ where λ₂ = 0."""
        return 1.0 / (float(self.lam if self.l1 is None else self.l1) * self.X.shape[0])

    def write(self, folder: Path) -> None:
        """Put the matrices where programs find them, unless they are there. Raises OSError."""
        if (folder / "X_test.npz").exists():  # the last one
            return
        for name, matrix in {"X": self.X, "Y": self.Y[:, self.trained], "X_test": self.X_test}.items():
            sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(matrix, dtype=np.float32), compressed=False)

    def judge(self, folder: Path) -> tuple[float, float, tuple[float, ...]]:
        """f, macro MAP and P@k of what a program left; NaN for what that does not tell.

        Raises OSError, ValueError if it is not what it should be.
        """
        if (folder / "best.npy").exists():
            return math.nan, math.nan, self._judge_best(np.load(folder / "best.npy", allow_pickle=False))
        weights = sp.load_npz(folder / "weights.npz").tocsr() if (folder / "weights.npz").exists() else None
        scores = np.load(folder / "scores.npy", allow_pickle=False) if weights is None else None
        found = (self.X_test.shape[0], weights.shape[0]) if scores is None else scores.shape
        if found != (self.X_test.shape[0], self.trained.size):
            raise ValueError(f"there are {found} scores of test rows × labels")
        precision, best = np.full(len(self.names), np.nan), Best(self.X_test.shape[0], min(max(PRECISION_AT), len(self.names)))
        truth = self.Y_test.tocsc()
        for begin, end in self._blocks(len(self.names)):
            first, last = np.searchsorted(self.trained, [begin, end])
            block = np.tile(self.constant[begin:end], (self.X_test.shape[0], 1))
            block[:, self.trained[first:last] - begin] = (
                scores[:, first:last] if weights is None else self.X_test @ weights[first:last].T.toarray()
            )
            if np.isnan(block).any():
                raise ValueError("a score is not a number")
            best.add(0, block, begin)
            for label in range(begin, end):
                positives = truth.indices[truth.indptr[label] : truth.indptr[label + 1]]
                precision[label] = _average_precision(block[:, label - begin], positives)
        judged = precision[~np.isnan(precision)]
        average = float(judged.mean()) if judged.size else np.nan
        return np.nan if weights is None else self.objective(weights), average, self._precisions(best.sort())

    def _judge_best(self, labels: np.ndarray) -> tuple[float, ...]:
        """P@k of each test row's best trained labels; −1 is none. Raises ValueError."""
        n_rows, n_labels = self.X_test.shape[0], self.trained.size
        if labels.shape != (n_rows, BEST) or labels.dtype != np.int32 or not -1 <= labels.min() <= labels.max() < n_labels:
            raise ValueError(f"there are {labels.shape} best labels of test rows")
        best = Best(n_rows, min(BEST, len(self.names)))
        found = labels[:, : best.labels.shape[1]]
        best.labels = self.trained[found].astype(np.int32)
        return self._precisions(best, found >= 0)

    def _precisions(self, best: Best, there: np.ndarray | bool = True) -> tuple[float, ...]:
        """P@k of the best labels that are `there`; NaN for a label alone, as in `evaluate`."""
        rows, labels = self.Y_test.nonzero()
        hits = (are_true(best, rows, labels, len(self.names)) & there).sum(axis=0, dtype=np.int64)
        several = len(self.names) > 1
        return tuple(at if several else math.nan for at in precision_at(hits, self.X_test.shape[0]).values())

    def objective(self, weights: sp.csr_matrix) -> float:
        """The mean over the trained labels of f(w) = λ/2 ‖w‖² + (1/m) Σ ℓ, or the elastic net's."""
        total, Y = 0.0, self.Y.tocsc()
        for begin, end in self._blocks(self.trained.size):
            W = weights[begin:end].toarray().astype(np.float64)
            signs = 2.0 * Y[:, self.trained[begin:end]].toarray() - 1.0
            margins = signs * (self.X @ W.T)
            short = np.maximum(0.0, 1.0 - margins)
            losses = {"hinge": short, "squared-hinge": short**2}.get(self.loss, np.logaddexp(0.0, -margins))
            if self.l1 is not None:
                W = W[:, :-1]  # the intercept is not regularised
                total += float(self.l1) * np.abs(W).sum()
            total += losses.sum() / self.X.shape[0] + 0.5 * self.lam * (W * W).sum()
        return total / self.trained.size if self.trained.size else np.nan

    def _blocks(self, n_labels: int) -> Iterator[tuple[int, int]]:
        """Ranges of labels whose scores and weights fit SCORE_BYTES."""
        step = max(1, SCORE_BYTES // (8 * max(*self.X.shape, self.X_test.shape[0])))
        return ((begin, min(begin + step, n_labels)) for begin in range(0, n_labels, step))


def _with_bias(X: sp.csr_matrix, bias: bool) -> sp.csr_matrix:
    """Rows in float64 (their float32 values), with a constant feature if `bias`."""
    X = sp.csr_matrix(X, dtype=np.float64)
    return sp.hstack([X, np.ones((X.shape[0], 1))], format="csr") if bias else X


def label_sets(dataset: DataFile, rows: np.ndarray, names: list[str]) -> sp.csr_matrix:
    """Which of the labels `names` the rows have (rows × names, ones). Local; raises DataError."""
    places = np.full(dataset.n_labels, -1, dtype=np.int64)
    known = {name: number for number, name in enumerate(dataset.label_names())}
    places[[known[name] for name in names]] = np.arange(len(names))
    indptr, indices = dataset.map("Y/indptr"), dataset.map("Y/indices")
    ones = np.ones(indices.size, dtype=np.float32)
    Y = sp.csr_matrix((ones, indices, indptr), (dataset.n_rows, dataset.n_labels))[rows]
    kept = places[Y.indices]
    row = np.repeat(np.arange(rows.size), np.diff(Y.indptr))
    return sp.csr_matrix((ones[: (kept >= 0).sum()], (row[kept >= 0], kept[kept >= 0])), (rows.size, len(names)))


def _average_precision(scores: np.ndarray, positives: np.ndarray) -> float:
    """Average precision of one label, as `hpcml evaluate` has it; NaN without positives."""
    counts = Counts(scores[positives])
    counts.add(np.sort(scores))
    return average_precision(counts.ranking(scores.size)) if positives.size else np.nan


def run_peer(
    name: str, python: Path | None, folder: Path, about: dict[str, object], limit: float, signals: StopSignals
) -> PeerRun | str:
    """Train with a peer in its own process, or say why not. Local; `about`: for `ProgramInput`."""
    for left in ("result.json", "weights.npz", "scores.npy", "best.npy"):  # of the one before
        (folder / left).unlink(missing_ok=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "problem.json").write_text(json.dumps(about), encoding="utf-8")
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(about["threads"]))
    variables = mpi.environment_alone() | threads | {"PYTHONSAFEPATH": "1"}
    command = [str(Path(python or sys.executable).absolute()), str(Path(programs.__file__).resolve()), name, str(folder.resolve())]
    reason = _ended(command, folder, variables, limit, signals)
    if reason:
        return reason
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if "missing" in result:
            return f"not installed: pip install {PEERS[name].package} ({result['missing']})"
        return PeerRun(**result)
    except (ValueError, TypeError) as error:
        return f"what it gave is of no use: {error}"


def _ended(command: list[str], folder: Path, variables: dict[str, str], limit: float, signals: StopSignals) -> str:
    """Run a program that leaves result.json in the folder: "", or why it did not. Local."""
    said, end = folder / "said.txt", time.monotonic() + limit
    with said.open("wb") as out:
        try:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, cwd=folder, env=variables, **streams)
        except OSError as error:
            return f"it cannot be started: {error.strerror}"
        try:
            with undone(process.kill):
                while process.poll() is None:
                    if signals.seen:
                        return "a signal arrived"
                    if time.monotonic() > end:
                        return f"it took more than {limit:g} s"
                    time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    if process.returncode or not (folder / "result.json").exists():
        last = " ".join(said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:])
        return f"it failed (exit code {process.returncode}): {''.join(c if c.isprintable() else '?' for c in last)[:200]}"
    return ""

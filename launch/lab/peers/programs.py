"""Other trainers of one-versus-rest models, as programs: `python programs.py NAME FOLDER`.

This module imports nothing of hpcml because the Python of a trainer may lack it. FOLDER has X.npz and Y.npz (training rows; Y
has a column for each label to train), X_test.npz and problem.json. The program writes result.json, and weights.npz (labels ×
features) or scores.npy (test rows × labels). Seconds are those from the matrices in memory to the model in memory or on disk.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

MOST_BITS = 26  # of Vowpal Wabbit's table of weights, 16 bytes each
INTERCEPT_SCALING = 100.0  # LIBLINEAR regularises the intercept, by this much less
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
HINGES = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared-hinge": "L2R_L2LOSS_SVC_DUAL"}  # LIBLINEAR's solvers of both


class ProgramInput(NamedTuple):
    """The problem of each column of Y: ½‖w‖² + C Σ ℓ without a bias, or the L1 problem if `l1`."""

    X: sp.csr_matrix  # float32, training rows
    Y: sp.csr_matrix  # float32, ones
    X_test: sp.csr_matrix
    C: float
    loss: str  # ℓ
    tolerance: float
    max_passes: int
    threads: int
    seed: int
    bias: bool  # whether the last feature of the rows is a constant one
    folder: Path  # for the trainer's files


class Cost(NamedTuple):
    """Cost of training: seconds, peak memory of the process, CPU time of all threads."""

    seconds: float
    peak_mib: float
    cpu_seconds: float


class PeerModel(NamedTuple):
    """The cost of training, and weights or scores."""

    cost: Cost
    weights: sp.csr_matrix | None = None
    scores: np.ndarray | None = None


class Peer(NamedTuple):
    """A trainer: package to install, module to import, description, and the part that is timed."""

    package: str
    module: str
    train: Callable[[ProgramInput], PeerModel]
    about: str
    timed: str
    losses: tuple[str, ...] = ("hinge",)
    penalty: str = "l2"  # of the methods that it is compared with


def timed(work: Callable[[], Any]) -> tuple[Any, Cost]:
    begin, cpu = time.perf_counter(), time.process_time()
    result = work()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")  # getrusage counts our parent's, too
    return result, Cost(seconds, int(status.partition("VmHWM:")[2].split()[0]) / 1024, cpu)


def napkinxc(problem: ProgramInput) -> PeerModel:
    """Train napkinXC's binary relevance: the scheme of DiSMEC with LIBLINEAR's solver, one label after another."""
    from napkinxc.models import BR

    solver = {"liblinear_c": problem.C, "liblinear_eps": problem.tolerance, "liblinear_max_iter": problem.max_passes}
    options = {"weights_threshold": 0, "bias": 0, "norm": False, "threads": problem.threads, "seed": problem.seed}
    model = BR(str(problem.folder / "model"), liblinear_solver=HINGES[problem.loss], **solver, **options)
    labels = [row.tolist() for row in np.split(problem.Y.indices, problem.Y.indptr[1:-1])]
    _, cost = timed(lambda: model.fit(problem.X, labels))
    weights = read_napkinxc((problem.folder / "model" / "weights.bin").read_bytes(), problem.X.shape[1])
    return PeerModel(cost, weights)


def read_napkinxc(content: bytes, n_features: int) -> sp.csr_matrix:
    """Read weights.bin (version 0.7): feature j has number j + 2; signs may be inverted."""
    (n_labels,) = struct.unpack_from("<i", content)
    offset, rows = 4, []
    for _ in range(n_labels):
        _, first_class, _, _, _, size, n_nonzero, sparse = struct.unpack_from("<iiiQQQQ?", content, offset)
        offset += struct.calcsize("<iiiQQQQ?")
        row = np.zeros(max(size, n_features + 2), np.float32)  # of a sparse one `size` is only up to its last weight
        if sparse:
            pairs = np.frombuffer(content, [("j", "<i4"), ("w", "<f4")], n_nonzero, offset)
            row[pairs["j"]] = pairs["w"]
            offset += pairs.nbytes
        else:
            row[:size] = np.frombuffer(content, "<f4", size, offset)
            offset += 4 * size
        offset += 1  # whether gradients follow: they do not
        rows.append(sp.csr_matrix(row[2 : n_features + 2] * (1 if first_class else -1)))
    return sp.vstack(rows, format="csr")


def pecos(problem: ProgramInput) -> PeerModel:
    """Train PECOS with one cluster of all labels, so each row is a negative of each label."""
    from pecos.xmc.base import MLModel, MLProblem

    matrices = MLProblem(problem.X, problem.Y, threads=problem.threads)
    bound = float(np.float32(problem.C))  # its α is float32 and must be able to equal C, or it never stops
    options = MLModel.TrainParams(
        threshold=float(np.finfo(np.float32).tiny),  # 0 would store every zero
        solver_type=HINGES[problem.loss],
        Cp=bound,
        Cn=bound,
        max_iter=problem.max_passes,
        eps=problem.tolerance,
        bias=-1.0,
        threads=problem.threads,
    )
    model, cost = timed(lambda: MLModel.train(matrices, options))
    model.save(str(problem.folder / "model"))
    return PeerModel(cost, sp.csr_matrix(model.W.T))


def vowpal(problem: ProgramInput) -> PeerModel:
    """Train Vowpal Wabbit: one pass of its online rule (hinge), one thread; C and tolerance have no effect."""
    from vowpalwabbit import Workspace

    n_labels = problem.Y.shape[1]
    size = np.unique(problem.X.indices).size * n_labels
    bits = min(MOST_BITS, max(18, int(np.ceil(np.log2(max(2, size))))))
    model, text, out = (problem.folder / name for name in ("model", "test.txt", "scores.txt"))
    model.mkdir()
    flags = f"--quiet --multilabel_oaa {n_labels} --loss_function hinge --noconstant -b {bits}"
    space = Workspace(f"{flags} --random_seed {problem.seed} --min_prediction -50 --max_prediction 50")
    order = np.random.default_rng(problem.seed).permutation(problem.X.shape[0])  # what it learns depends on it
    X, Y = problem.X[order], problem.Y[order]
    labels = (",".join(map(str, row)) for row in np.split(Y.indices, Y.indptr[1:-1]))
    examples = [space.parse(f"{y} {x}") for y, x in zip(labels, _vowpal_lines(X), strict=True)]
    _, cost = timed(lambda: [space.learn(example) for example in examples])
    for example in examples:
        space.finish_example(example)
    space.save(str(model / "model.vw"))
    space.finish()
    text.write_text("\n".join(_vowpal_lines(problem.X_test)) + "\n")
    ring = problem.X_test.shape[0] + 1  # an example that is used again keeps the probabilities of its first row
    Workspace(f"--quiet -t -i {model / 'model.vw'} -d {text} -p {out} --probabilities --ring_size {ring}").finish()
    scores = np.full((problem.X_test.shape[0], n_labels), np.nan)
    with out.open() as lines:
        for row, line in zip(scores, (line for line in lines if line.strip()), strict=True):
            for pair in line.split():
                label, _, value = pair.partition(":")
                row[int(label)] = float(value)
    return PeerModel(cost, scores=scores)


def _vowpal_lines(X: sp.csr_matrix) -> list[str]:
    ends = X.indptr[1:-1]
    rows = zip(np.split(X.indices, ends), np.split(X.data, ends), strict=True)
    return ["| " + " ".join(f"{j}:{x:.9g}" for j, x in zip(*row, strict=True)) for row in rows]


def liblinear(problem: ProgramInput, name: str, **options: Any) -> PeerModel:
    """Train LIBLINEAR by scikit-learn in one thread; an intercept (of the L1 penalty) becomes the last weight."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    options |= {"C": problem.C, "tol": problem.tolerance, "max_iter": problem.max_passes, "random_state": problem.seed}
    solver = {"LinearSVC": LinearSVC, "LogisticRegression": LogisticRegression}[name](**options)
    X = (problem.X[:, :-1] if solver.fit_intercept else problem.X).astype(np.float64)  # the rows' last feature is the constant one
    signs = 2.0 * problem.Y.toarray() - 1.0

    def fit() -> sp.csr_matrix:
        rows = []
        for y in signs.T:
            solver.fit(X, y)
            intercept = solver.intercept_ if solver.fit_intercept else []
            rows.append(sp.csr_matrix(np.append(solver.coef_[0], intercept)))
        return sp.vstack(rows, format="csr")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how far it came, and of how newer versions call the penalty
        weights, cost = timed(fit)
    model = problem.folder / "model"
    model.mkdir()
    sp.save_npz(model / "weights.npz", weights, compressed=False)
    return PeerModel(cost, weights)


# ‖w‖₁ + C Σ logistic; ½‖w‖² + C Σ logistic (-s 7) and ½‖w‖² + C Σ (1 − z)₊² (-s 1) by dual coordinate descent
_LOGISTIC = {"name": "LogisticRegression", "solver": "liblinear"}
l1 = partial(liblinear, **_LOGISTIC, penalty="l1", intercept_scaling=INTERCEPT_SCALING)
logistic = partial(liblinear, **_LOGISTIC, dual=True, fit_intercept=False)
squared_hinge = partial(liblinear, name="LinearSVC", loss="squared_hinge", dual=True, fit_intercept=False)
_SKLEARN = ("scikit-learn", "sklearn.linear_model")
_CHECKED = "training alone, which checks and copies the rows for every label"
PEERS = {
    "napkinxc": Peer(
        *("napkinxc", "napkinxc.models", napkinxc, "binary relevance, as DiSMEC", "with copying the rows and writing the model"),
        losses=tuple(HINGES),
    ),
    "pecos": Peer("libpecos", "pecos.xmc.base", pecos, "one cluster of all labels", "training alone", losses=tuple(HINGES)),
    "vowpalwabbit": Peer(
        *("vowpalwabbit", "vowpalwabbit", vowpal),
        "one online pass in random order, one thread, at most 2^26 weights, not this objective",
        "parsed rows, learning alone",
    ),
    "liblinear-l1": Peer(
        *(*_SKLEARN, l1, "scikit-learn's LogisticRegression, the L1 penalty alone (λ₂ = 0), one thread", _CHECKED),
        losses=("logistic",),
        penalty="elastic net",
    ),
    "liblinear-logistic": Peer(
        *(*_SKLEARN, logistic, "scikit-learn's LogisticRegression, LIBLINEAR's solver -s 7, one thread", _CHECKED),
        losses=("logistic",),
    ),
    "liblinear-squared-hinge": Peer(
        *("scikit-learn", "sklearn.svm", squared_hinge, "scikit-learn's LinearSVC, LIBLINEAR's solver -s 1, one thread", _CHECKED),
        losses=("squared-hinge",),
    ),
}


def main(name: str, folder: Path) -> None:
    """Train with a peer and write the result into the folder; {"missing": …} if it is not installed."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    about = json.loads((folder / "problem.json").read_text(encoding="utf-8"))
    os.sched_setaffinity(0, about.pop("cores"))
    try:
        importlib.import_module(PEERS[name].module)
    except ImportError as error:
        _leave(folder, {"missing": str(error)})
        return
    matrices = [sp.csr_matrix(sp.load_npz(folder / f"{part}.npz")) for part in ("X", "Y", "X_test")]
    work = folder / name
    work.mkdir()
    about["folder"] = work
    trained = PEERS[name].train(ProgramInput(*matrices, **about))
    if trained.weights is not None:
        sp.save_npz(folder / "weights.npz", trained.weights, compressed=False)
    else:
        np.save(folder / "scores.npy", trained.scores)
    size = sum(path.stat().st_size for path in (work / "model").rglob("*") if path.is_file())
    _leave(folder, trained.cost._asdict() | {"model_bytes": size, "version": _version(PEERS[name].package)})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _leave(folder: Path, result: dict[str, object]) -> None:
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

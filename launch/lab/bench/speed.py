"""Training time beside LIBLINEAR's, in one run: `hpcml train probe` on N ranks, LIBLINEAR in N processes. Prints one JSON line.

usage: python launch/bench/speed.py DATA.h5 [--ranks 2] [--repeats 3] [--min-documents 10] [--lambda X/m] [--no-bias]
       [TRAIN OPTIONS...]

Labels: those that so many rows of the whole file have. Both minimise the hinge objective at the same λ, with a constant feature 1
that is regularised like the others (--no-bias: without it, as in the PROBE paper). LIBLINEAR is scikit-learn's, once with
LIBLINEAR's own default tolerance (0.1) and once with scikit-learn's (1e-4). Seconds are those of training without loading, the
least of the repeats; macro MAP is over the labels that a test row has.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import h5py
import numpy as np
from defaults import matrix
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from hpcml import Model
from hpcml.methods.linear.objective import parse_lambda

TOLERANCES = (0.1, 1e-4)


class Corpus:
    """A dataset in memory, and the labels to train."""

    def __init__(self, path: Path, min_documents: int, lam: str, bias: bool) -> None:
        self.bias = bias
        with h5py.File(path) as file:
            X, self.Y = matrix(file["X"]), matrix(file["Y"]).tocsc()
            train, test = file["splits/train"][:], file["splits/test"][:]
            self.names = list(file["label_names"].asstr()[:])
        self.X, self.X_test, self.train, self.test = X[train], X[test], train, test
        norms = np.sqrt(np.asarray(self.X.multiply(self.X).sum(axis=1)).ravel())
        self.C = 1 / (parse_lambda(lam, norms.mean() ** 2, train.size) * train.size)
        in_train = np.diff(self.Y[train].tocsc().indptr)
        trainable = (in_train > 0) & (in_train < train.size)
        self.labels = np.flatnonzero((np.diff(self.Y.indptr) >= min_documents) & trainable)

    def positive(self, label: int) -> np.ndarray:
        """Which rows of the file have the label."""
        return self.Y[:, [label]].toarray().ravel() > 0

    def macro_map(self, weights: dict[int, np.ndarray]) -> float:
        """Mean average precision on the test rows."""
        judged = {label: self.positive(label)[self.test] for label in weights}
        return float(np.mean([average_precision_score(y, self.X_test @ weights[k]) for k, y in judged.items() if y.any()]))


def liblinear(corpus: Corpus, labels: np.ndarray, tolerance: float, barrier, results) -> None:  # noqa: ANN001
    """One process's share: its seconds, iterations and weights."""
    barrier.wait()
    begin, iterations, weights = time.perf_counter(), 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label in labels:
            model = LinearSVC(loss="hinge", C=corpus.C, fit_intercept=corpus.bias, tol=tolerance, max_iter=5000, random_state=0)
            model.fit(corpus.X, np.where(corpus.positive(label)[corpus.train], 1, -1))
            iterations += int(np.max(model.n_iter_))
            weights[int(label)] = model.coef_.ravel()
    results.put((time.perf_counter() - begin, iterations, weights))


def time_liblinear(corpus: Corpus, n_processes: int, tolerance: float) -> tuple[float, float, dict[int, np.ndarray]]:
    """Seconds of the slowest process, iterations per label, weights."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(n_processes), context.Queue()
    shares = [corpus.labels[part::n_processes] for part in range(n_processes)]
    jobs = [context.Process(target=liblinear, args=(corpus, share, tolerance, barrier, results)) for share in shares]
    for job in jobs:
        job.start()
    done = [results.get(timeout=3600) for _ in jobs]
    for job in jobs:
        job.join()
    weights = {label: w for _, _, some in done for label, w in some.items()}
    return max(d[0] for d in done), sum(d[1] for d in done) / corpus.labels.size, weights


def time_probe(corpus: Corpus, data: Path, n_ranks: int, options: list[str]) -> tuple[float, Model]:
    """Seconds of training that hpcml reports, and the model."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "labels.toml"
        config.write_text(f"label = {json.dumps([corpus.names[k] for k in corpus.labels], ensure_ascii=False)}\n", encoding="utf-8")
        command = ["mpirun", "-n", str(n_ranks), sys.executable, "-m", "hpcml", "train", "probe", str(data), "-o", f"{folder}/run"]
        command += ["--config", str(config), *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, stdin=subprocess.DEVNULL)
        found = re.search(r"trained [\d,]+ labels? in ([\d.]+) s", run.stderr)
        if run.returncode or not found:
            sys.exit(run.stderr)
        model = Model(f"{folder}/run/model.h5")
        model.dense, model.visited = model.weights(), np.array(model.labels["visited"])
        model.iterations = np.array(model.labels["steps"])
        return float(found.group(1)), model


def main(arguments: list[str]) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--min-documents", type=int, default=10)
    parser.add_argument("--lambda", dest="lam", default="X/m")
    parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
    given, options = parser.parse_known_args(arguments)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    corpus = Corpus(given.data, given.min_documents, given.lam, given.bias)
    options += ["--bias" if given.bias else "--no-bias", "--lambda", given.lam]
    ours, theirs = [], {tolerance: [] for tolerance in TOLERANCES}
    for _ in range(given.repeats):  # in turn, so that a slow minute of the machine hits all
        ours.append(time_probe(corpus, given.data, given.ranks, options))
        for tolerance in TOLERANCES:
            theirs[tolerance].append(time_liblinear(corpus, given.ranks, tolerance))
    seconds, model = min(ours, key=lambda result: result[0])
    weights = {corpus.names.index(name): w for name, w in zip(model.label_names, model.dense, strict=True)}
    result = {
        "data": given.data.name,
        "labels": corpus.labels.size,
        "nonzeros": corpus.X.nnz,
        "ranks": given.ranks,
        "lambda": given.lam,
        "intercept": given.bias,
    }
    result["probe"] = {
        "seconds": seconds,
        "map": corpus.macro_map(weights),
        "iterations": float(model.iterations.mean()),
        "visited": float(model.visited.mean()),
    }
    for tolerance in TOLERANCES:
        least, iterations, weights = min(theirs[tolerance], key=lambda result: result[0])
        figures = {"seconds": least, "map": corpus.macro_map(weights), "iterations": iterations}
        result[f"liblinear_{tolerance:g}"] = {**figures, "ratio": seconds / least}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])

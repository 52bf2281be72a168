"""Stochastic gradient descent with delayed regularisation: how near it comes, and how fast others come as near. Prints JSON lines.

usage: python launch/bench/delayed.py DATA.h5 [--loss logistic] [--l1 0.1/m] [--solver fobos] [--rate decaying] [--sample 24]
       python launch/bench/delayed.py [--rows 100000] [--features 47236] [--labels 101] [--sample 2]

The first form trains labels of a dataset, from the most frequent one down to those of ten rows, with the default passes and η.
`excess` is how far the objective is above that of the exact solver, in percent.

The second form generates rows like those of rcv1: about 70 Zipf-distributed words a row. Vowpal Wabbit (one run for each label, and
one with its multilabel reduction) and scikit-learn's SGDClassifier train a few labels with the same λ₁ and λ₂ and more and more
passes, until their objective is at most ours after the default passes. All objectives have the best intercept. Seconds are the
processor's, since machines are shared. What delayed regularisation saves: `hpcml paper extreme timing`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.shard import Shard, load_shard
from hpcml.methods.elastic_net.delayed import DelayedSolver
from hpcml.methods.elastic_net.delayed_kernels import LANES
from hpcml.methods.elastic_net.judge import ElasticRisk
from hpcml.methods.elastic_net.newton import NewtonSolver
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

LENGTH, OWN = 75, 40  # words of a generated row, of which about 70 differ; words that speak for a label
PASSES = (1, 2, 5, 10, 20, 40, 80)  # that others are given


def generated(n_rows: int, n_features: int, n_labels: int, seed: int = 0) -> Shard:
    """Rows of unit length with log-idf weights; labels that half to a few of a thousand rows have."""
    rng = np.random.default_rng(seed)
    words = np.minimum(np.exp(rng.uniform(0, np.log(n_features), n_rows * LENGTH)).astype(np.int32), n_features) - 1
    X = sp.csr_matrix((np.ones(words.size, np.float32), (np.repeat(np.arange(n_rows), LENGTH), words)), (n_rows, n_features))
    X.sum_duplicates()
    frequency = np.bincount(X.indices, minlength=n_features)
    X.data = (np.log1p(X.data) * np.log1p(n_rows / np.maximum(1, frequency))[X.indices]).astype(np.float32)
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    rows, columns = [], []
    for label, share in enumerate(np.geomspace(0.4, max(2e-4, 5 / n_rows), n_labels)):
        speaks = np.zeros(n_features)
        chosen = np.exp(rng.uniform(0, np.log(n_features), OWN)).astype(int) - 1
        speaks[chosen] = rng.normal(size=OWN)
        score = X @ speaks
        score += 0.3 * score.std() * rng.normal(size=n_rows)
        positive = np.argsort(-score, kind="stable")[: max(2, int(share * n_rows))]
        rows.append(positive)
        columns.append(np.full(positive.size, label))
    r, c = np.concatenate(rows), np.concatenate(columns)
    Y = sp.csr_matrix((np.ones(r.size), (r, c)), (n_rows, n_labels))
    arrays = (X.indptr.astype(np.int64), X.indices, X.data, Y.indptr.astype(np.int64), Y.indices)
    return Shard(0, np.arange(n_rows), *arrays, n_rows, 0, n_features, n_labels)


class Bench:
    """The rows of a shard, and objectives of their labels."""

    def __init__(self, shard: Shard, l1: str = "0.1/m", **options) -> None:
        self.options = ElasticNetOptions(l1=l1, lam="0.01/m", **options)
        comm = mpi.self_comm()
        self.rows: CompactRows = compact_rows(comm, shard, False, fold=False)[0]
        self.risk = ElasticRisk(self.rows, self.options, Profile())
        self.risk.prepare(comm)
        self.solver = DelayedSolver(self.risk, np.arange(self.rows.n_labels), LANES, self.options)
        self.solver.warm_up()

    @property
    def sizes(self) -> np.ndarray:
        """The positive rows of each label."""
        return np.asarray(self.rows.n_positive)

    def descend(self, labels: np.ndarray) -> tuple[np.ndarray, float]:
        """Objectives after the default passes, and seconds."""
        found, begin = {}, time.process_time()
        for finished in self.solver.solve(labels.tolist(), NEVER):
            found |= {done.label: done.f for done in finished}
        return np.array([found[label] for label in labels.tolist()]), time.process_time() - begin

    def optimum(self, labels: np.ndarray) -> np.ndarray:
        """The minima."""
        options = ElasticNetOptions(loss=self.options.loss)
        exact, found = NewtonSolver(self.risk, np.arange(self.rows.n_labels), 1, options), {}
        for finished in exact.solve(labels.tolist(), NEVER):
            found |= {done.label: done.f for done in finished}
        return np.array([found[label] for label in labels.tolist()])

    def objective(self, number: int, w: np.ndarray, b: float) -> float:
        """Of given weights, with the best intercept."""
        judge, columns = self.solver.judge, np.flatnonzero(w)
        label = judge.begin(number)
        judge.take_weights(label, judge.gather(label, columns), columns, w[columns], b)
        return judge.look(label).f / self.rows.n_global


def accuracy(bench: Bench, sample: int) -> None:
    """A line about labels from the most frequent one down to those of ten rows."""
    sizes, m = bench.sizes, bench.rows.n_global
    labels = np.flatnonzero((sizes >= min(10, sizes.max())) & (sizes < m))
    labels = labels[np.argsort(-sizes[labels], kind="stable")]
    labels = labels[np.unique(np.round(np.geomspace(1, labels.size, sample)).astype(int)) - 1]
    excess = 100 * (bench.descend(labels)[0] / bench.optimum(labels) - 1)
    line = {"loss": bench.options.loss, "l1": bench.options.l1, "solver": bench.options.solver, "rate": bench.options.rate}
    line |= {"passes": bench.options.passes, "labels": labels.size, "median": round(float(np.median(excess)), 2)}
    line |= {"largest": round(float(excess.max()), 2), "within_2_percent": int((excess <= 2).sum())}
    print(json.dumps(line), flush=True)


Runs = Iterator[tuple[int, float, np.ndarray, float]]  # passes, seconds, weights, intercept


def scikit(bench: Bench, label: int) -> Runs:
    """SGDClassifier with its default learning rate."""
    rows, l1, l2 = bench.rows, bench.risk.l1, bench.risk.lam
    X = sp.csr_matrix((rows.data.astype(float), rows.indices.copy(), rows.indptr), (rows.n_local, rows.n_columns))
    y = np.full(rows.n_local, -1.0)
    y[rows.rows_of(label)] = 1.0
    for passes in PASSES:
        rule = {"penalty": "elasticnet", "alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2), "loss": "log_loss"}
        model, begin = SGDClassifier(**rule, max_iter=passes, tol=None, random_state=0), time.process_time()
        model.fit(X, y)
        yield passes, time.process_time() - begin, model.coef_[0], float(model.intercept_[0])


def write_vowpal(rows: CompactRows, file: Path, label: int | None) -> None:
    """The rows in Vowpal Wabbit's text form, in an order drawn once, with one label (±1) or with all."""
    of_row: list[list[str]] = [[] for _ in range(rows.n_local)]
    for number in range(rows.n_labels) if label is None else [label]:
        for row in rows.rows_of(number).tolist():
            of_row[row].append(str(number + 1))
    with file.open("w") as out:
        for i in np.random.default_rng(0).permutation(rows.n_local).tolist():
            some = slice(rows.indptr[i], rows.indptr[i + 1])
            pairs = " ".join(f"{j}:{x:.7g}" for j, x in zip(rows.indices[some].tolist(), rows.data[some].tolist(), strict=True))
            out.write(f"{','.join(of_row[i]) if label is None else (1 if of_row[i] else -1)} | {pairs}\n")


def vowpal(bench: Bench, folder: Path, label: int | None, passes: int) -> SimpleNamespace:
    """Vowpal Wabbit's passes over a cache: seconds, and the weights of one label."""
    from vowpalwabbit import Workspace

    file, n = folder / f"{label}.vw", bench.rows.n_columns
    if not file.exists():
        write_vowpal(bench.rows, file, label)
    bits = n.bit_length() + (7 if label is None else 1)
    rule = f"--loss_function logistic --l1 {bench.risk.l1!r} --l2 {bench.risk.lam!r} -b {bits}"
    data = f"--quiet --holdout_off -d {file} --cache_file {file}.cache --passes"
    reduction = f"--multilabel_oaa {bench.rows.n_labels}" if label is None else ""
    if not Path(f"{file}.cache").exists():
        Workspace(f"{data} 1 {rule} {reduction}").finish()
    begin = time.process_time()
    model = Workspace(f"{data} {passes} {rule} {reduction}")
    seconds = time.process_time() - begin
    w = np.array([model.get_weight(j) for j in range(n)]) if label is not None else np.zeros(n)
    model.finish()
    return SimpleNamespace(seconds=seconds, w=w)


def race(shard: Shard, sample: int) -> None:
    """Lines about a few labels: others' passes and seconds until their objective is at most ours."""
    bench = Bench(shard, solver="fobos", loss="logistic")
    labels = np.unique(np.linspace(0, bench.rows.n_labels - 1, sample + 2).astype(int)[1:-1])
    some = np.unique(np.concatenate([labels, np.arange(min(LANES, bench.rows.n_labels))]))[:LANES]
    some = np.unique(np.concatenate([some[: LANES - labels.size], labels]))
    f, seconds = bench.descend(some)
    f = f[np.searchsorted(some, labels)]
    best = bench.optimum(labels)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def theirs(label: int) -> Runs:
            for passes in PASSES:
                done = vowpal(bench, folder, label, passes)
                yield passes, done.seconds, done.w, float(bench.solver.judge.begin(label).b)

        others: dict[str, Callable[[int], Runs]] = {"SGDClassifier": lambda label: scikit(bench, label)}
        if importlib.util.find_spec("vowpalwabbit") is None:
            print("vowpalwabbit is not installed: not compared with", file=sys.stderr)
        else:
            others["Vowpal Wabbit"] = theirs
            taken = vowpal(bench, folder, None, 1).seconds
            print(json.dumps({"vowpal_wabbit_multilabel_examples_per_second": round(bench.rows.n_global / taken)}), flush=True)
        for place, label in enumerate(labels.tolist()):
            line = {"positives": int(bench.sizes[label]), "passes": bench.options.passes}
            line |= {"seconds": round(seconds / some.size, 3), "excess": round(100 * (f[place] / best[place] - 1), 2)}
            print(json.dumps(line), flush=True)
            for who, path in others.items():
                for passes, taken, w, b in path(label):  # noqa: B007
                    g = bench.objective(label, w, b)
                    if g <= f[place] or passes == PASSES[-1]:
                        break
                line = {"who": who, "passes": passes, "seconds": round(taken, 3), "excess": round(100 * (g / best[place] - 1), 2)}
                line |= {"reached": bool(g <= f[place]), "times_ours": round(taken / (seconds / some.size), 1)}
                print(json.dumps(line), flush=True)


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--loss", default="logistic")
    parser.add_argument("--l1", default="0.1/m")
    parser.add_argument("--solver", default="fobos")
    parser.add_argument("--rate", default="decaying")
    parser.add_argument("--sample", type=int, help="labels of a dataset (24), or that others train, too (2)")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=47_236)
    parser.add_argument("--labels", type=int, default=101)
    given = parser.parse_args()
    if given.data is not None:
        with DataFile(given.data) as dataset:
            shard = load_shard(mpi.self_comm(), dataset, default_split(dataset, "train"))
        bench = Bench(shard, loss=given.loss, l1=given.l1, solver=given.solver, rate=given.rate)
        accuracy(bench, 24 if given.sample is None else given.sample)
        return
    race(generated(given.rows, given.features, given.labels), given.sample or 2)


if __name__ == "__main__":
    main()

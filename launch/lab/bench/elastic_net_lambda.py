"""The default λ₁ and λ₂ of `elastic-net`: chosen by cross-validation on training rows, then judged on test rows. Prints JSON lines.

usage: python launch/bench/elastic_net_lambda.py choose SET ... [--at L1,LAMBDA ...] [--labels 16 | --each 20] [--folds 3]
       python launch/bench/elastic_net_lambda.py judge SET ... [--at L1,LAMBDA ...]

SET is a name of `defaults.py`, or a dataset (.h5); its training rows are taken. Both take labels with at least `--min-positives`
training rows.

`choose` takes `--labels` of them, evenly over the order by frequency, or `--each` of every size. Each is trained on the rows
outside of every fold at every pair of λ₁ and λ₂ that `--at` names. `map` is the mean over labels and folds of the average
precision of the held-out rows, `by_size` that of labels of less than 10, 10 to 29, 30 to 99, 100 to 999, and 1,000 and more
positive rows (those that there are), `features` the mean number of weights that are not 0, `seconds` user CPU seconds for all
folds. `dual`, by default, is beside them.

`judge` trains all labels, `dual` by default and `elastic-net` at each pair of `--at`, and judges the test rows. `seconds` have
loading in them. `touched` is the mean share of the rows that a round of a label visits.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from defaults import made
from sklearn.metrics import average_precision_score
from tune import sample

import hpcml
from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.shard import load_shard
from hpcml.methods.elastic_net.judge import ElasticRisk
from hpcml.methods.elastic_net.newton import NewtonSolver
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER
from hpcml.tuning.folds import Fold, deal, fold_rows

SIZES = (10, 30, 100, 1000)
PAIRS = [("0.1/m", "0.01/m")]  # the default until 0.11
SHARES = ((0.003, 0.01), (0.01, 0.001), (0.01, 0.01), (0.01, 0.1), (0.03, 0.01), (0.1, 0.01))
PAIRS += [(f"{l1}N/m", f"{lam}X/m") for l1, lam in SHARES]


def user_seconds() -> float:
    """Processor time of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def matrix(rows: CompactRows, arrays: tuple[np.ndarray, np.ndarray, np.ndarray]) -> sp.csr_matrix:
    """CSR arrays of some rows as a matrix."""
    indptr, indices, data = arrays
    return sp.csr_matrix((data, indices.copy(), indptr), (indptr.size - 1, rows.n_columns))


def precision_of(truth: np.ndarray, scores: np.ndarray) -> float:
    """Average precision of the rows of a fold."""
    return float(average_precision_score(truth, scores)) if truth.any() else np.nan


def chosen(n_positive: np.ndarray, given: argparse.Namespace) -> np.ndarray:
    """The labels that are tried: so many, or so many of each size."""
    if given.each is None:
        return sample(n_positive, given.min_positives, given.labels)[1]
    size = np.where(n_positive >= given.min_positives, np.searchsorted(SIZES, n_positive, "right"), -1)
    parts = [sample(np.where(size == each, n_positive, 0), 1, given.each)[1] for each in np.unique(size[size >= 0])]
    return np.sort(np.concatenate(parts))


class Trial:
    """The training rows of a set in folds, and the labels that are tried."""

    def __init__(self, path: Path, given: argparse.Namespace) -> None:
        comm = mpi.self_comm()
        with DataFile(path) as dataset:
            shard = load_shard(comm, dataset, default_split(dataset, "train"))
        self.rows = compact_rows(comm, shard, False, fold=False)[0]
        self.labels = chosen(self.rows.n_positive, given)
        fold = deal(self.rows, self.labels, given.folds, 0)
        self.folds = fold_rows(comm, self.rows, fold, given.folds)

    @property
    def sizes(self) -> np.ndarray:
        """The positive rows of each label that is tried."""
        return np.asarray(self.rows.n_positive[self.labels])

    def truth(self, fold: Fold, label: int) -> np.ndarray:
        """Which held-out rows have the label."""
        has = np.zeros(self.rows.n_local, bool)
        has[self.rows.rows_of(label)] = True
        return has[fold.numbers]

    def blocks(self) -> list[NewtonSolver]:
        """What trains on the rows outside of each fold."""
        found = []
        for fold in self.folds:
            options = ElasticNetOptions(loss="logistic")
            risk = ElasticRisk(fold.training, options, Profile())
            risk.prepare(mpi.self_comm())
            found.append(NewtonSolver(risk, np.arange(self.rows.n_labels), 1, options))
        return found

    def elastic_net(self, blocks: list[NewtonSolver], l1: str, lam: str) -> tuple[np.ndarray, np.ndarray]:
        """Average precision and number of features of each label (folds × labels)."""
        options = ElasticNetOptions(loss="logistic", l1=l1, lam=lam)
        found = np.empty((2, len(blocks), self.labels.size))
        for number, (fold, block) in enumerate(zip(self.folds, blocks, strict=True)):
            solver = NewtonSolver(block.risk.at(options), block.labels, 1, options)
            X = matrix(self.rows, fold.held_out)
            for place, label in enumerate(self.labels.tolist()):
                ((done,),) = solver.solve([label], NEVER)
                w = np.zeros(self.rows.n_columns)
                w[done.w.columns] = done.w.values
                found[:, number, place] = precision_of(self.truth(fold, label), X @ w), np.count_nonzero(w)
        return found[0], found[1]

    def dual(self) -> np.ndarray:
        """Average precision of `dual` by default (folds × labels)."""
        found = np.empty((len(self.folds), self.labels.size))
        for number, fold in enumerate(self.folds):
            rows = fold.training
            X, Y = matrix(rows, (rows.indptr, rows.indices, rows.data)), np.zeros((rows.n_local, self.labels.size), np.int8)
            for place, label in enumerate(self.labels.tolist()):
                Y[rows.rows_of(label), place] = 1
            fitted = hpcml.DualClassifier().fit(X, Y if self.labels.size > 1 else Y.ravel())
            scores = matrix(rows, fold.held_out) @ np.asarray(fitted.coef_).T
            found[number] = [precision_of(self.truth(fold, label), z) for label, z in zip(self.labels, scores.T, strict=True)]
        return found

    def means(self, precision: np.ndarray) -> dict[str, Any]:
        """The mean over labels and folds, and that of the labels of each size."""
        size = np.searchsorted(SIZES, self.sizes, "right")
        by_size = [round(float(np.nanmean(precision[:, size == each])), 4) for each in np.unique(size)]
        return {"map": round(float(np.nanmean(precision)), 4), "by_size": by_size}


def choose(name: str, path: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A line for each pair of values."""
    trial = Trial(path, given)
    blocks, common = trial.blocks(), {"set": name, "labels": trial.labels.size, "rows": trial.rows.n_global}
    common["scale"] = round(trial.rows.scale, 2)
    yield {**common, "method": "dual", **trial.means(trial.dual())}
    trial.elastic_net(blocks, "10/m", "1/m")  # compiles
    for l1, lam in given.at:
        begin = user_seconds()
        precision, features = trial.elastic_net(blocks, l1, lam)
        line = {**common, "l1": l1, "lambda": lam, **trial.means(precision), "features": round(float(features.mean()), 1)}
        yield line | {"seconds": round(user_seconds() - begin, 2)}


def judge(name: str, files: tuple[Path, Path], given: argparse.Namespace, run: Path) -> Iterator[dict[str, Any]]:
    """A line for `dual`, and one for each pair of `--at`."""
    ways: list[tuple[str, dict[str, Any]]] = [("dual", {}), *(("elastic-net", {"l1": l1, "lam": lam}) for l1, lam in given.at)]
    for method, options in ways:
        options = {**options, "min_positives": given.min_positives}
        hpcml.train(method, files[0], run, **{**options, "max_steps": 1}, force=True)  # compiles
        begin = user_seconds()
        report = hpcml.train(method, files[0], run, force=True, **options)
        seconds = user_seconds() - begin
        model = hpcml.Model(report.model)
        judged = hpcml.evaluate(report.model, files[1], split="test" if files[0] == files[1] else "all")
        line = {"set": name, "labels": report.n_labels, "rows": report.n_rows, "method": method, **options}
        line |= {"map": round(judged.macro("average_precision"), 4), "micro_f1": round(judged.micro["f1"], 4)}
        line |= {"seconds": round(seconds, 2), "features": round(model.n_weights / model.n_labels, 1)}
        yield line | {"touched": round(float(np.mean(model.labels["visited"])), 3)}


def pair(text: str) -> tuple[str, str]:
    """λ₁ and λ₂. Raises ValueError."""
    l1, lam = text.split(",")
    return l1, lam


def main() -> None:
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("choose", "judge"))
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--labels", type=int, default=16)
    parser.add_argument("--each", type=int, help="labels of each size, instead of --labels")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--at", type=pair, nargs="+", default=PAIRS, metavar="L1,LAMBDA")
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=30_000)
    given, comm = parser.parse_args(), mpi.start()
    for name in given.sets:
        with tempfile.TemporaryDirectory() as own:
            files = (Path(name),) * 2 if name.endswith(".h5") else made(comm, name, Path(own), given.most_rows)
            lines = choose(name, files[0], given) if given.part == "choose" else judge(name, files, given, Path(own) / "run")
            for line in lines:
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

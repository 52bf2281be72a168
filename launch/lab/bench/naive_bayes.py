"""Naive Bayes and its relatives, and methods beside them, by the seconds of a label; and scikit-learn's naive Bayes. JSON lines.

usage: python launch/bench/naive_bayes.py DATA.h5 [METHOD ...] [--sample 300] [--ranks 2] [--rounds 3] [--min-positives 1]

Each METHOD (by default bernoulli-nb) trains all labels on `ranks` ranks; `seconds` are those of training as the command tells
them (without loading), `wall` those of the whole command. scikit-learn's OneVsRestClassifier(BernoulliNB()) trains a random sample
of the labels with as many processes. They take turns; of all rounds the least seconds count. `ratio` is that of the seconds of a
label.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB

from hpcml.data.dataset import DataFile, default_split
from hpcml.data.shard import read_rows, rows_of, slab_of

REPORT = re.compile(r"trained ([\d,]+) labels? in ([\d.]+) s")


def trained(method: str, data: Path, folder: Path, args: argparse.Namespace) -> tuple[int, float, float]:
    """(labels, seconds of training, seconds of the command)."""
    command = ["mpirun", "-n", str(args.ranks), sys.executable, "-m", "hpcml", "train", method, str(data)]
    begin = time.perf_counter()
    options = ["-o", str(folder / method), "--force", "--min-positives", str(args.min_positives)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=3000)
    found = REPORT.search(done.stdout + done.stderr)
    if done.returncode or not found:
        raise SystemExit(done.stdout + done.stderr)
    return int(found[1].replace(",", "")), float(found[2]), time.perf_counter() - begin


def problem(data: Path, sample: int, least: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """X and Y (of a random sample of the labels) of the rows to train on."""
    with DataFile(data) as dataset:
        rows = np.array(dataset.split(default_split(dataset, "train")))
        X, slab = read_rows(dataset, rows, dense=False), slab_of(dataset, rows, 0, rows.size)
        ones = np.ones(slab.y_indices.size, dtype=np.float32)
        Y = rows_of((slab.y_indptr, slab.y_indices, ones), slab.rows, slab.n_labels, dense=False)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    known = np.flatnonzero((counts >= max(1, least)) & (counts < rows.size))
    chosen = np.random.default_rng(0).choice(known, min(sample, known.size), replace=False)
    return X, Y.tocsc()[:, np.sort(chosen)].tocsr()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("methods", nargs="*", default=["bernoulli-nb"])
    for name, value in (("--sample", 300), ("--ranks", 2), ("--rounds", 3), ("--min-positives", 1)):
        parser.add_argument(name, type=int, default=value)
    args = parser.parse_args()
    X, Y = problem(args.data, args.sample, args.min_positives)
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            begin = time.perf_counter()
            OneVsRestClassifier(BernoulliNB(), n_jobs=args.ranks).fit(X, Y)
            seconds = time.perf_counter() - begin
            best["scikit-learn"] = min(best.get("scikit-learn", (Y.shape[1], np.inf, np.inf)), (Y.shape[1], seconds, seconds))
            for method in args.methods:
                found = trained(method, args.data, Path(folder), args)
                best[method] = min(best.get(method, (found[0], np.inf, np.inf)), found)
    n, seconds, _ = best["scikit-learn"]
    for method, (labels, own, wall) in best.items():
        line = {"method": method, "labels": labels, "seconds": own, "wall": wall, "per_label": own / labels}
        print(json.dumps(line | {"ratio": own / labels / (seconds / n)}))


if __name__ == "__main__":
    main()

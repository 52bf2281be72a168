"""Seconds of a label of naive Bayes and other METHODs, beside scikit-learn's BernoulliNB. Prints JSON lines.

Each METHOD (default: bernoulli-nb) trains all labels; scikit-learn's OneVsRestClassifier(BernoulliNB()) trains a random sample of
the labels with as many processes as there are ranks. They take turns, and the least seconds count. `seconds` are those of
training, `wall` those of the command, `ratio` that of the seconds of a label.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB

import hpcml
from launch.lab.bench._common import parser_of, read_rows, train
from launch.lab.core.timing import Usage, least, print_json, repeat


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("naive_bayes", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("methods", nargs="*", default=["bernoulli-nb"])
    for name, value in (("--sample", 300), ("--ranks", 2), ("--rounds", 3), ("--min-positives", 1)):
        parser.add_argument(name, type=int, default=value)
    given = parser.parse_args(words)
    rows = read_rows(given.data)
    n_positive = np.asarray(rows.Y.sum(axis=0)).ravel()
    known = np.flatnonzero((n_positive >= max(1, given.min_positives)) & (n_positive < rows.Y.shape[0]))
    Y = rows.Y[:, np.sort(np.random.default_rng(0).choice(known, min(given.sample, known.size), replace=False))]
    labels, seconds = {"scikit-learn": Y.shape[1]}, {"scikit-learn": np.inf}

    def scikit() -> Usage:
        began = time.perf_counter()
        OneVsRestClassifier(BernoulliNB(), n_jobs=given.ranks).fit(rows.X, Y)
        taken = time.perf_counter() - began
        seconds["scikit-learn"] = min(seconds["scikit-learn"], taken)
        return Usage(taken, 0.0, 0.0)

    def ours(method: str) -> Usage:
        run = train(method, given.data, Path(folder, method), "--min-positives", given.min_positives, ranks=given.ranks)
        labels[method] = hpcml.open_model(run.model).n_labels
        seconds[method] = min(seconds.get(method, np.inf), run.seconds)
        return run.usage

    with tempfile.TemporaryDirectory() as folder:
        used = repeat({"scikit-learn": scikit} | {method: partial(ours, method) for method in given.methods}, given.rounds)
    peer = seconds["scikit-learn"] / Y.shape[1]
    for method, taken in seconds.items():
        line = {"method": method, "labels": labels[method], "seconds": taken, "wall": least(used[method]).seconds}
        print_json(**line, per_label=taken / labels[method], ratio=taken / labels[method] / peer)

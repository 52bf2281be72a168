"""Seconds per label of naive Bayes and other METHODs, compared with scikit-learn's BernoulliNB.

Each METHOD (default: bernoulli-nb) trains all labels; scikit-learn's OneVsRestClassifier(BernoulliNB()) trains a random sample of
the labels with as many processes as there are ranks. They run in turn, and the least seconds count. `seconds` are those of
training, `wall` those of the command, `ratio` that of the seconds of a label.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB

import hpcml
from launch.lab.core.bench import read_rows, train
from launch.lab.core.timing import Usage, least, repeat

PEER = "scikit-learn"


def run(
    scratch: Path,
    data: Path,
    methods: tuple[str, ...] = ("bernoulli-nb",),
    *,
    sample: int = 300,
    ranks: int = 2,
    rounds: int = 3,
    min_positives: int = 1,
) -> Iterator[dict[str, Any]]:
    rows = read_rows(data)
    n_positive = np.asarray(rows.Y.sum(axis=0)).ravel()
    known = np.flatnonzero((n_positive >= max(1, min_positives)) & (n_positive < rows.Y.shape[0]))
    Y = rows.Y[:, np.sort(np.random.default_rng(0).choice(known, min(sample, known.size), replace=False))]
    labels, seconds = {PEER: Y.shape[1]}, dict.fromkeys((PEER, *methods), np.inf)

    def scikit() -> Usage:
        began = time.perf_counter()
        OneVsRestClassifier(BernoulliNB(), n_jobs=ranks).fit(rows.X, Y)
        elapsed = time.perf_counter() - began
        seconds[PEER] = min(seconds[PEER], elapsed)
        return Usage(elapsed, 0.0, 0.0)

    def ours(method: str) -> Usage:
        trained = train(method, data, scratch / method, "--min-positives", min_positives, ranks=ranks)
        labels[method] = hpcml.open_model(trained.model).n_labels
        seconds[method] = min(seconds[method], trained.seconds)
        return trained.usage

    used = repeat({PEER: scikit} | {method: partial(ours, method) for method in methods}, rounds)
    per_label = {method: elapsed / labels[method] for method, elapsed in seconds.items()}
    for method, elapsed in seconds.items():
        line = {"method": method, "labels": labels[method], "seconds": elapsed, "wall": least(used[method]).seconds}
        yield line | {"per_label": per_label[method], "ratio": per_label[method] / per_label[PEER]}

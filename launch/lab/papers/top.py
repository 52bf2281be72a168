"""Precision in the first ranks of random splits, and the bootstrap shift test (Wilbur 2000).

Each split holds out `top` rows of a label and the same share of the other rows. A classifier of the remaining rows ranks
them. The rows of a split depend only on a key and their numbers in the file, so they are the same in every process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.rng import bits

RESAMPLES = 10_000
BLOCK = 1000  # resamples that are in memory at a time
LEVEL = 0.01  # largest p that is called significant
ROUNDING = 1e-9  # sums that differ by less are equal
CLASSIFIERS: dict[str, Any] = {
    "all-bernoulli-nb": partial(hpcml.BernoulliNBClassifier, min_weight=0.0),
    "bernoulli-nb": hpcml.BernoulliNBClassifier,
    "boosted-bayes": hpcml.BoostedBayesClassifier,
    "staged-bayes": hpcml.StagedBayesClassifier,
    "staged-svm": hpcml.StagedSvmClassifier,
    "dual": hpcml.DualClassifier,
}


def held_out(key: int, has: np.ndarray, top: int) -> np.ndarray:
    """Return which rows (bool) a split holds out: `top` positives, and the same share of negatives, to the nearest."""
    rows = np.arange(has.size)
    order = np.lexsort((rows, bits(key, "held out", rows)))
    positive, negative = order[has[order]], order[~has[order]]
    out = np.zeros(has.size, dtype=bool)
    out[positive[:top]] = True
    out[negative[: (2 * top * negative.size + positive.size - 1) // (2 * positive.size)]] = True
    return out


def precision_at(scores: np.ndarray, positive: np.ndarray, top: int) -> float:
    """Return the per cent of positives in the first `top` ranks, expected over the orders of ties."""
    last = np.partition(scores, scores.size - top)[scores.size - top]  # the score in rank `top`
    above, tied = scores > last, scores == last
    share = np.count_nonzero(tied & positive) / np.count_nonzero(tied)
    return 100.0 * (np.count_nonzero(above & positive) + (top - np.count_nonzero(above)) * share) / top


def precision_of_split(path: Path, label: str, methods: Sequence[str], top: int, split: int, seed: int = 0) -> list[float]:
    """Return the precision (per cent) of each method on one split."""
    with hpcml.Dataset(path) as dataset:
        number = dataset.label_names().index(label)
        X, has = dataset.matrix(), dataset.labels()[:, [number]].toarray().ravel() > 0
    key = int(bits(seed, f"split of label {number}", np.array(split)))
    rows = np.arange(has.size)
    out, order = held_out(key, has, top), np.lexsort((rows, bits(key, "order", rows)))
    train, random_state = order[~out[order]], int(bits(key, "cross-validation", np.array(split))) >> 32
    precisions = []
    for method in methods:
        classifier = CLASSIFIERS[method]()
        if "random_state" in classifier.get_params():
            classifier.set_params(random_state=random_state)
        classifier.fit(X[train], has[train].astype(np.int64))
        precisions.append(precision_at(classifier.decision_function(X[out]), has[out], top))
    return precisions


def shift_test(differences: np.ndarray, seed: int) -> np.ndarray:
    """Return p of the two-tailed bootstrap shift test (Noreen 1989) for rows of differences (n_tests, n).

    The differences are shifted to the mean 0 and resampled with replacement: p is the share of resamples whose mean is as
    far from 0 as that of the differences, which counts as one resample itself. NaN where all differences are 0.
    """
    n_tests, n = differences.shape
    total = differences.sum(axis=1)
    shifted = differences - total[:, None] / n
    extreme = np.ones(n_tests, dtype=np.int64)
    for begin in range(0, RESAMPLES, BLOCK):
        draws = np.arange(begin * n, (begin + BLOCK) * n).reshape(BLOCK, n)
        drawn = (bits(seed, "bootstrap", draws) % np.uint64(n)).astype(np.int64)
        times = np.bincount((drawn + n * np.arange(BLOCK)[:, None]).ravel(), minlength=BLOCK * n).reshape(BLOCK, n)
        extreme += np.count_nonzero(np.abs(shifted @ times.T.astype(np.float64)) >= np.abs(total)[:, None] - ROUNDING, axis=1)
    return np.where((np.abs(differences) < ROUNDING).all(axis=1), math.nan, extreme / (RESAMPLES + 1))

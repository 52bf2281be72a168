"""What a rule for thresholds, and for probabilities, is worth: chosen on out-of-fold scores of the training rows, judged on others.

The split train trains and test judges; of data without splits three quarters of the rows train. Each fold of the training rows is
scored by classifiers (dual coordinate descent, squared hinge) of the other folds. The rules see these scores alone, and are then
judged by the scores that the classifiers of all training rows give to the test rows. Prints JSON lines, then tables for people:
F1 over all labels, and by the positives of labels; for probabilities the Brier score, the expected calibration error (10 bins), the
log loss, and the mean probability beside the share of true rows.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.evaluation.decision import Summary, decide, own_threshold, summarise
from hpcml.rng import uniform
from launch.lab.bench._common import parser_of
from launch.lab.core.tables import table

RANGES = ((1, 4), (5, 9), (10, 29), (30, 99), (100, 2**62))


def matrix(dataset: hpcml.Dataset, name: str) -> sp.csr_matrix:
    """X or Y of a dataset, in memory."""
    group = dataset.file[name]
    indices = group["indices"][:]
    data = group["data"][:] if "data" in group else np.ones(indices.size, dtype=np.float32)
    return sp.csr_matrix((data, indices, group["indptr"][:]), shape=tuple(int(n) for n in group.attrs["shape"]))


def scores_of(given: argparse.Namespace) -> tuple[np.ndarray, ...]:
    """Out-of-fold scores of the training rows, scores of the test rows (n × L), and which rows have the labels, of both."""
    with hpcml.Dataset(given.data) as dataset:
        X, Y = matrix(dataset, "X"), matrix(dataset, "Y").astype(bool)
        if "test" in dataset.split_names():
            train, test = np.array(dataset.split("train")), np.array(dataset.split("test"))
        else:
            drawn = uniform(given.seed, "decide", np.arange(dataset.n_rows)) < 0.25
            train, test = np.flatnonzero(~drawn), np.flatnonzero(drawn)
    labels = np.flatnonzero(np.asarray(Y[train].sum(axis=0)).ravel() >= given.min_positives)
    truth, judged = (Y[rows][:, labels].toarray().astype(np.int8) for rows in (train, test))
    folds = np.floor(uniform(given.seed + 1, "folds", np.arange(train.size)) * given.folds).astype(int)

    def fitted(rows: np.ndarray) -> Any:
        return hpcml.DualClassifier(positive_weight=given.positive_weight).fit(X[train[rows]], truth[rows])

    def scores(model: Any, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = (X[rows] @ model.coef_.T + model.intercept_).astype(np.float32)
        return found

    out = np.empty(truth.shape, dtype=np.float32)
    for fold in range(given.folds):
        mine = folds == fold
        out[mine] = scores(fitted(np.flatnonzero(~mine)), train[mine])
    return out, scores(fitted(np.arange(train.size)), test), truth > 0, judged > 0


def guarded(summaries: list[Summary], scores: np.ndarray, truth: np.ndarray, limit: float = 0.01) -> np.ndarray:
    """The best threshold of each label, or that of micro F1 where chance would be as good (`hpcml threshold --method search`)."""
    from scipy.stats import hypergeom

    own, n_positive = np.array([own_threshold(summary) for summary in summaries]), truth.sum(axis=0)
    order = np.argsort(-scores.ravel(), kind="stable")
    hits = np.cumsum(truth.ravel()[order])
    micro = float(scores.ravel()[order[np.argmax(2 * hits / (np.arange(1, hits.size + 1) + hits[-1]))]])
    given = scores > own
    chance = n_positive * hypergeom.sf((given & truth).sum(axis=0) - 1, len(truth), n_positive, given.sum(axis=0))
    thresholds: np.ndarray = np.where(chance <= limit, own, np.nextafter(micro, -np.inf))
    return thresholds


def groups_of(n_positive: np.ndarray) -> dict[str, np.ndarray]:
    """Which labels have so many positives, of RANGES that some have."""
    names = [f"{low}-{high}" if high < RANGES[-1][1] else f"{low} or more" for low, high in RANGES]
    chosen = [(n_positive >= low) & (n_positive <= high) for low, high in RANGES]
    return {name: some for name, some in zip(names, chosen, strict=True) if some.any()}


def f1_of(thresholds: np.ndarray | float, scores: np.ndarray, truth: np.ndarray, groups: dict[str, np.ndarray]) -> dict[str, float]:
    """Macro F1 over the labels that a test row has, in each group, too; and micro F1."""
    given = scores > thresholds
    hits, together = 2.0 * (given & truth).sum(axis=0), given.sum(axis=0) + truth.sum(axis=0)
    some, all_labels = truth.any(axis=0), np.ones(truth.shape[1], dtype=bool)
    out = {"micro": float(hits.sum() / together.sum())}
    for name, chosen in ({"macro": all_labels} | groups).items():
        mine = some & chosen
        out[name] = float(np.mean(hits[mine] / together[mine])) if mine.any() else float("nan")
    return out


def quality(p: np.ndarray, truth: np.ndarray, chosen: np.ndarray) -> dict[str, float]:
    """Means over the chosen labels, in thousandths: of the Brier score, of the calibration error, of p, and of the true rows."""
    p, truth = p[:, chosen], truth[:, chosen]
    bins = np.minimum((p * 10).astype(int), 9)
    errors = [np.abs(np.bincount(bins[:, k], (p - truth)[:, k], 10)).sum() / len(p) for k in range(p.shape[1])]
    q = np.clip(p, 1e-9, 1 - 1e-9)
    loss = -np.where(truth, np.log(q), np.log1p(-q)).mean()
    found = {"brier": ((p - truth) ** 2).mean(), "ece": np.mean(errors), "log loss": loss, "mean": p.mean(), "true": truth.mean()}
    return {name: 1e3 * float(value) for name, value in found.items()}


def isotonic(scores: np.ndarray, truth: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Probabilities of the test scores by isotonic regression, label by label."""
    from sklearn.isotonic import IsotonicRegression

    fits = [
        IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores[:, k], truth[:, k]) for k in range(truth.shape[1])
    ]
    return np.stack([fit.predict(test[:, k]) for k, fit in enumerate(fits)], axis=1)


def sigmoid(scores: np.ndarray, sigmoids: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−slope · score − offset))."""
    z = scores * sigmoids[:, 0] + sigmoids[:, 1]
    p: np.ndarray = np.exp(-np.logaddexp(0.0, -z))
    return p


def main(words: list[str]) -> None:
    """Score, decide by each rule, judge."""
    parser = parser_of("decisions", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--min-positives", type=int, default=1, help="take labels that so many training rows have")
    parser.add_argument("--positive-weight", default="1", help="of the rows that have the label")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="another one draws other folds")
    given = parser.parse_args(words)
    scores, test, truth, judged = scores_of(given)
    summaries = [
        summarise(np.ascontiguousarray(column), np.flatnonzero(own)) for column, own in zip(scores.T, truth.T, strict=True)
    ]
    alone, shrunk, far = decide(summaries, tau=0, kappa=0), decide(summaries), decide(summaries, tau=1e9)
    groups = groups_of(truth.sum(axis=0))
    scores, test = scores.astype(np.float64), test.astype(np.float64)
    rules = {
        "0": 0.0,
        "best of each label": alone.thresholds,
        "search (chance 0.01)": guarded(summaries, scores, truth),
        "labels as frequent": far.thresholds,
        "shrink": shrunk.thresholds,
    }
    found = {name: f1_of(thresholds, test, judged, groups) for name, thresholds in rules.items()}
    probabilities = {
        "1/(1+exp(-score))": sigmoid(test, np.array([[1.0, 0.0]])),
        "clip (score+1)/2": np.clip((test + 1) / 2, 0, 1),
        "sigmoid of each label": sigmoid(test, alone.sigmoids),
        "isotonic": isotonic(scores, truth, test),
        "calibrate": sigmoid(test, shrunk.sigmoids),
    }
    about = {"data": given.data.name, "positive_weight": given.positive_weight, "labels": truth.shape[1], "rows": len(truth)}
    for name, values in found.items():
        print(json.dumps(about | {"thresholds": name} | {key: round(value, 4) for key, value in values.items()}))
    columns = ["macro", "micro", *groups]
    rows = [["F1", *columns], *([name, *(f"{values[key]:.3f}" for key in columns)] for name, values in found.items())]
    rows.append(["labels", str(truth.shape[1]), "", *(str(int(some.sum())) for some in groups.values())])
    print("\n" + "\n".join(table(rows)))
    head = ["thousandths", "positives", "brier", "ece", "log loss", "mean", "true"]
    lines = []
    for name, p in probabilities.items():
        for group, chosen in ({"all": np.ones(truth.shape[1], dtype=bool)} | groups).items():
            values = quality(p, judged, chosen)
            print(json.dumps(about | {"probabilities": name, "positives": group} | values))
            lines.append([name, group, *(f"{values[key]:.3f}" for key in head[2:])])
    print("\n" + "\n".join(table([head, *lines])))

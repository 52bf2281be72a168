"""Rules for thresholds and probabilities, fitted to out-of-fold scores of training rows and evaluated on other rows.

The splits train and test are used; without splits three quarters of the rows are training rows. Each fold of the training rows is
scored by classifiers (dual coordinate descent, squared hinge) of the other folds. The rules are fitted to these scores, and
evaluated on the test scores of classifiers of all training rows. Lines of thresholds have F1 over all labels, and by the positives
of labels. Lines of probabilities have, in thousandths, the Brier score, the expected calibration error (10 bins), the log loss, the
mean probability, and the share of positive rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from hpcml.evaluation.decision import Summary, decide, own_threshold, summarise
from hpcml.rng import uniform

RANGES = {"1-4": (1, 4), "5-9": (5, 9), "10-29": (10, 29), "30-99": (30, 99), "100 or more": (100, 2**62)}


def scores_of(
    data: Path, min_positives: int, positive_weight: str, folds: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return out-of-fold scores of the training rows, scores of the test rows, and the label indicators of both."""
    with hpcml.Dataset(data) as dataset:
        X, Y = dataset.matrix(), dataset.labels().astype(bool)
        drawn = uniform(seed, "decide", np.arange(dataset.n_rows)) < 0.25
        train, test = np.flatnonzero(~drawn), np.flatnonzero(drawn)
        if "test" in dataset.split_names():
            train, test = (np.array(dataset.split(name)) for name in ("train", "test"))
    labels = np.flatnonzero(np.asarray(Y[train].sum(axis=0)).ravel() >= min_positives)
    truth, judged = (Y[rows][:, labels].toarray() for rows in (train, test))
    fold = np.floor(uniform(seed + 1, "folds", np.arange(train.size)) * folds).astype(int)

    def scores(learnt: np.ndarray, rows: np.ndarray) -> np.ndarray:
        model = hpcml.DualClassifier(positive_weight=positive_weight).fit(X[train[learnt]], truth[learnt].astype(np.int8))
        return (X[rows] @ model.coef_.T + model.intercept_).astype(np.float32)

    out = np.empty(truth.shape, dtype=np.float32)
    for number in range(folds):
        out[fold == number] = scores(np.flatnonzero(fold != number), train[fold == number])
    return out, scores(np.arange(train.size), test), truth, judged


def guarded(summaries: list[Summary], scores: np.ndarray, truth: np.ndarray, limit: float = 0.01) -> np.ndarray:
    """Return the best threshold per label, or that of micro F1 where chance explains the F1 (`hpcml threshold --method search`)."""
    from scipy.stats import hypergeom

    own, n_positive = np.array([own_threshold(summary) for summary in summaries]), truth.sum(axis=0)
    order = np.argsort(-scores.ravel(), kind="stable")
    hits = np.cumsum(truth.ravel()[order])
    micro = float(scores.ravel()[order[np.argmax(2 * hits / (np.arange(1, hits.size + 1) + hits[-1]))]])
    predicted = scores > own
    chance = n_positive * hypergeom.sf((predicted & truth).sum(axis=0) - 1, len(truth), n_positive, predicted.sum(axis=0))
    return np.where(chance <= limit, own, np.nextafter(micro, -np.inf))


def f1_of(thresholds: np.ndarray | float, scores: np.ndarray, truth: np.ndarray, groups: dict[str, np.ndarray]) -> dict[str, float]:
    """Return macro F1 of each group, over its labels with a positive test row, and micro F1."""
    predicted = scores > thresholds
    hits, together = 2.0 * (predicted & truth).sum(axis=0), predicted.sum(axis=0) + truth.sum(axis=0)
    measures = {"micro": float(hits.sum() / together.sum())}
    for name, chosen in groups.items():
        mine = truth.any(axis=0) & chosen
        measures["macro" if name == "all" else name] = float(np.mean(hits[mine] / together[mine])) if mine.any() else float("nan")
    return {name: round(value, 4) for name, value in measures.items()}


def quality(p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return Brier score, calibration error, mean probability and share of positives: means over labels, in thousandths."""
    bins = np.minimum((p * 10).astype(int), 9)
    errors = [np.abs(np.bincount(bins[:, k], (p - truth)[:, k], 10)).sum() / len(p) for k in range(p.shape[1])]
    q = np.clip(p, 1e-9, 1 - 1e-9)
    loss = -np.where(truth, np.log(q), np.log1p(-q)).mean()
    measures = {
        "brier": ((p - truth) ** 2).mean(),
        "ece": np.mean(errors),
        "log loss": loss,
        "mean": p.mean(),
        "true": truth.mean(),
    }
    return {name: 1e3 * float(value) for name, value in measures.items()}


def isotonic(scores: np.ndarray, truth: np.ndarray, test: np.ndarray) -> np.ndarray:
    from sklearn.isotonic import IsotonicRegression

    fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit
    return np.stack([fit(scores[:, k], truth[:, k]).predict(test[:, k]) for k in range(truth.shape[1])], axis=1)


def sigmoid(scores: np.ndarray, slope: Any = 1.0, offset: Any = 0.0) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -scores * slope - offset))


def run(
    scratch: Path, data: Path, *, min_positives: int = 1, positive_weight: str = "1", folds: int = 5, seed: int = 0
) -> Iterator[dict[str, Any]]:
    scores, test, truth, judged = scores_of(data, min_positives, positive_weight, folds, seed)
    columns = [np.ascontiguousarray(column) for column in scores.T]
    summaries = [summarise(column, np.flatnonzero(own)) for column, own in zip(columns, truth.T, strict=True)]
    alone, shrunk, far = decide(summaries, tau=0, kappa=0), decide(summaries), decide(summaries, tau=1e9)
    n_positive, scores, test = truth.sum(axis=0), scores.astype(np.float64), test.astype(np.float64)
    groups = {"all": n_positive >= 0} | {name: (n_positive >= a) & (n_positive <= b) for name, (a, b) in RANGES.items()}
    groups = {name: in_group for name, in_group in groups.items() if in_group.any()}
    rules = {
        "0": 0.0,
        "best of each label": alone.thresholds,
        "search (chance 0.01)": guarded(summaries, scores, truth),
        "labels as frequent": far.thresholds,
        "shrink": shrunk.thresholds,
    }
    probabilities = {
        "1/(1+exp(-score))": sigmoid(test),
        "clip (score+1)/2": np.clip((test + 1) / 2, 0, 1),
        "sigmoid of each label": sigmoid(test, *alone.sigmoids.T),
        "isotonic": isotonic(scores, truth, test),
        "calibrate": sigmoid(test, *shrunk.sigmoids.T),
    }
    about = {"data": data.name, "positive_weight": positive_weight, "labels": truth.shape[1], "rows": len(truth)}
    for name, thresholds in rules.items():
        yield {"thresholds": name} | f1_of(thresholds, test, judged, groups) | about
    counts = {"macro" if name == "all" else name: int(in_group.sum()) for name, in_group in groups.items()}
    yield {"thresholds": "number of labels"} | counts | about
    for name, p in probabilities.items():
        for group, chosen in groups.items():
            yield {"probabilities": name, "positives": group} | quality(p[:, chosen], judged[:, chosen]) | about

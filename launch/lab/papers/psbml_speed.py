"""Speed of PSBML and other trainers: tables 5 and 7 of the PSBML paper."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.exhibit import Claim, Finding, Numbers
from launch.lab.core.study import PaperStudy

OURS = "PSBML (C4.5)"
MACHINES: dict[str, tuple[str, ...]] = {
    "LibLinear": ("liblinear",),
    "SGDT": ("pegasos",),
    "SVM-PERF": ("svmperf",),
    "AdaBoostM1": ("adaboost",),
    OURS: ("psbml", "--base", "tree", "--cycles", "10"),
}
BOARDS = ("checkerboard", "sine")
SVC_ROWS = 40_000  # that the RBF SVC is trained on
COSTS, WIDTHS = (10, 1000), (0.1, 1, 10, 100)  # C and γ that are tried for it


def train_model(study: PaperStudy, who: str, train: Path, test: Path) -> tuple[float, dict[str, Any]]:
    method, *options = MACHINES[who]
    run = study.folder / f"{train.stem}-{method}"
    seconds = study.run("train", method, train, "-o", run, *options).seconds
    return seconds, study.measures(run, test)


def machines_of(study: PaperStudy) -> list[str]:
    return [who for who in MACHINES if not study.quick or who in ("LibLinear", OURS)]


# Table 5


def table_5(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for name in BOARDS[: 1 if study.quick else None]:
        n_rows = 600 if study.quick else 1_000_000
        path = study.converted(name, "synthetic", name, "--rows", n_rows, "--test-share", 0.1)
        for who in machines_of(study):
            seconds, measures = train_model(study, who, path, path)
            accuracy = 100 - 100 * measures["micro"]["misclassified"] / measures["n_rows"]
            numbers[f"{name}, {who}"] = {"seconds": seconds, "accuracy": accuracy}
        (numbers[f"{name}, LibSVM"],) = study.compute_once(f"{name}-svc", partial(rbf_svc, path))
    return Finding(numbers)


def rbf_svc(path: Path) -> dict[str, float]:
    """Return seconds and accuracy of scikit-learn's RBF SVC on SVC_ROWS rows; C and γ are chosen on a tenth of them."""
    from sklearn.svm import SVC

    with hpcml.Dataset(path) as data:
        y, every = np.diff(data.labels().indptr), data.matrix()
        rows, test = np.array(data.split("train")[:SVC_ROWS]), np.array(data.split("test")[:20_000])
    X, X_test = every[rows].toarray(), every[test].toarray()
    n, y_train = rows.size // 10, y[rows]
    tried = [
        (SVC(C=C, gamma=gamma).fit(X[:n], y_train[:n]).score(X[n : 3 * n], y_train[n : 3 * n]), C, gamma)
        for C in COSTS
        for gamma in WIDTHS
    ]
    _, C, gamma = max(tried)
    began = time.monotonic()
    classifier = SVC(C=C, gamma=gamma, cache_size=500).fit(X, y_train)
    seconds = time.monotonic() - began
    return {"seconds": seconds, "accuracy": 100 * float(classifier.score(X_test, y[test]))}


def most_accurate(name: str) -> Claim:
    def holds(numbers: Numbers) -> bool:
        ours = numbers[f"{name}, {OURS}"]["accuracy"]
        return ours >= max(row["accuracy"] for what, row in numbers.items() if what.startswith(f"{name}, "))

    return Claim(f"PSBML is the most accurate classifier on the {name} set", holds)


def _linear_are_poor(numbers: Numbers) -> bool:
    pairs = [(f"{name}, {who}", f"{name}, {OURS}") for name in BOARDS for who in ("LibLinear", "SGDT", "SVM-PERF")]
    return all(numbers[linear]["accuracy"] <= numbers[ours]["accuracy"] - 20 for linear, ours in pairs)


TABLE_5 = (
    *map(most_accurate, BOARDS),
    Claim("Linear classifiers are at least 20 points less accurate than PSBML on both sets", _linear_are_poor),
)

# Table 7


def table_7(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets():
        for who in machines_of(study):
            seconds, measures = train_model(study, who, rows.train, rows.test)
            micro = measures["micro"]
            quality = {"misclassified": micro["misclassified"], "ROC": 100 * micro["auc"], "PRC": 100 * micro["average_precision"]}
            numbers[f"{study.prefix(rows.name)}{who}"] = {"seconds": seconds} | quality
    return Finding(numbers)


def ahead(numbers: Numbers, column: str, sign: float = 1.0) -> float:
    """Return the lead of PSBML over the best other machine (negative: behind)."""
    others = [sign * row[column] for who, row in numbers.items() if who != OURS]
    return sign * numbers[OURS][column] - max(others)


TABLE_7 = (
    Claim("PSBML has the fewest misclassified rows", lambda numbers: ahead(numbers, "misclassified", -1.0) >= 0),
    Claim("PSBML has the largest ROC area", lambda numbers: ahead(numbers, "ROC") >= 0),
    Claim("PSBML's PRC area is at most 2 points below the largest", lambda numbers: ahead(numbers, "PRC") >= -2),
)

"""Compare the exact elastic net with LIBLINEAR's L1 logistic regression, both on one core.

`elastic-net` trains all labels with λ₂ = 0; LIBLINEAR (scikit-learn's, C = 1 / (λ₁ m), its default tolerance) trains a sample of
the labels of each size (1 to 9 positive rows, 10 to 99, and so on). `seconds` of a size is the time of LIBLINEAR per label,
`excess` the largest relative difference of its objective from ours (it regularises the intercept, which `intercept_scaling` makes
small). The last line has the seconds of all labels: ours as the command reports them, LIBLINEAR's estimated from the samples.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import hpcml
from launch.lab.core.bench import read_rows, train


def run(scratch: Path, data: Path, *, l1: str = "1/m", sample: int = 20, split: str = "train") -> Iterator[dict[str, Any]]:
    options = ("--loss", "logistic", "--l1", l1, "--lambda", 0, "--split", split, "--min-positives", 1)
    train("elastic-net", data, scratch / "run", *options, "--max-steps", 1)  # compiles
    ours = train("elastic-net", data, scratch / "run", *options)
    model, rows = hpcml.Model(ours.model), read_rows(data, train_split=split)
    X, Y, W = rows.X.astype(float), rows.Y[:, rows.columns(model.label_names)].tocsc(), model.weight_matrix()
    m, strength, rng, estimated = X.shape[0], float(model.attrs["l1"]), np.random.default_rng(0), 0.0
    theirs = LogisticRegression(penalty="l1", C=1 / (strength * m), solver="liblinear", intercept_scaling=100.0, random_state=0)

    def objective(w: np.ndarray, intercept: float, y: np.ndarray) -> float:
        return np.logaddexp(0, -y * (X @ w + intercept)).mean() + strength * np.abs(w).sum()

    sizes = np.diff(Y.indptr)
    trainable = np.flatnonzero((sizes > 0) & (sizes < m))
    powers = np.floor(np.log10(sizes[trainable])).astype(int)
    for power in np.unique(powers):
        labels, seconds, excess = trainable[powers == power], [], []
        for label in rng.permutation(labels)[:sample]:
            y = np.where(Y[:, [label]].toarray().ravel() > 0, 1.0, -1.0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # how far it converged; how newer versions name the penalty
                began = time.perf_counter()
                theirs.fit(X, y)
            seconds.append(time.perf_counter() - began)
            f = objective(W[label].toarray().ravel(), model.bias[label], y)
            excess.append(objective(theirs.coef_[0], theirs.intercept_[0], y) / f - 1)
        line = {"positives": f"{10**power} to {10 ** (power + 1) - 1}", "labels": labels.size, "sample": len(seconds)}
        if seconds:
            estimated += np.mean(seconds) * labels.size
            line |= {"liblinear": round(float(np.mean(seconds)), 6), "excess": float(f"{max(excess):.2g}")}
        yield line
    whole = {"labels": trainable.size, "seconds": ours.seconds, "visited": round(float(np.mean(model.labels["visited"])), 5)}
    yield whole | {"liblinear": round(estimated, 2), "ratio": ours.seconds / estimated if estimated else None}

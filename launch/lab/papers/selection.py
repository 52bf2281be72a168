"""Test error of MBW by number of features: extremal selection, information gain, chi-square (Carvalho & Cohen 2006, figures 1, 2).

Extremal selection (EFS): one pass over the training rows, then features are removed from the model: of those kept, a share has
the largest |u − v|, the others the smallest. The other two choose features by counts of the training rows, and the pass sees
these alone. scikit-learn's `chi2` is not used: it takes sums of values, not the table of presence and label.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml import rng
from launch.lab.core.pictures import BLUE, GREEN, ORANGE, PURPLE, VERMILION, drawn

Errors = dict[str, dict[str, float]]  # by way to choose and number of features
NAMES = {"ig": "information gain", "chi2": "chi-square"}
EFS = "EFS, P = {:g}"
THETA = 1.0  # MBW's threshold, which its coefficients have subtracted


def best(scores: np.ndarray, present: np.ndarray, n: int, share: float = 1.0) -> np.ndarray:
    """Return the numbers, ascending, of n features that are present: `share` of them with the largest scores, the rest with the
    smallest. Ties: lowest number first.
    """
    numbers = np.flatnonzero(present)
    n_top = min(n, int(share * n + 0.5 + 1e-9))
    down = numbers[np.argsort(-scores[numbers], kind="stable")]
    rest = np.sort(down[n_top:])
    bottom = rest[np.argsort(scores[rest], kind="stable")][: n - n_top]
    return np.sort(np.concatenate([down[:n_top], bottom]))


def information_gain(both: np.ndarray, present: np.ndarray, positive: int, n: int) -> np.ndarray:
    """Return the mutual information (nats) of "the feature is present" and "the row has the label", from counts of rows."""
    total = np.zeros(both.size)
    for count, with_feature, with_label in (
        (both, present, positive),
        (present - both, present, n - positive),
        (positive - both, n - present, positive),
        (n - present - positive + both, n - present, n - positive),
    ):
        expected = with_feature.astype(np.float64) * with_label
        ratio = np.divide(count.astype(np.float64) * n, expected, out=np.ones(both.size), where=expected > 0)
        total += count * np.log(np.where(count > 0, ratio, 1.0))
    return np.maximum(total / n, 0.0)


def chi_square(both: np.ndarray, present: np.ndarray, positive: int, n: int) -> np.ndarray:
    """Return χ² = N (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)) of the same counts; 0 if undefined.

    A, B: rows with the feature and with the label or without; C, D: rows without the feature.
    """
    with_feature = present.astype(np.float64)
    difference = both.astype(np.float64) * n - with_feature * positive
    expected = with_feature * positive * (n - with_feature) * (n - positive)
    return np.divide(n * np.square(difference), expected, out=np.zeros(both.size), where=expected > 0)


def fit(X: sp.csr_matrix, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights (d,) and the intercept of MBW after one pass over the rows, in their order."""
    learner = hpcml.OnlineClassifier(method="mbw").fit(X, y[:, None].astype(np.int64))
    return learner.coef_[0], float(learner.intercept_[0])


def errors_of_label(
    rows: tuple[sp.csr_matrix, sp.csr_matrix],
    truth: tuple[np.ndarray, np.ndarray],
    by: Sequence[str],
    shares: Sequence[float],
    sizes: Sequence[int],
) -> np.ndarray:
    """Return the misclassified test rows of each way to choose (shares of EFS first) and size.

    rows and truth: of training, in the order of the pass, and of test.
    """
    (X, X_test), (y, y_test) = rows, truth
    X_test = X_test.astype(np.float64)
    present = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])

    def wrong(weights: np.ndarray, intercept: float) -> int:
        return int(np.count_nonzero((X_test @ weights + intercept > 0) != y_test))

    errors = []
    w, intercept = fit(X, y)
    for share in shares if "efs" in by else ():
        chosen = [best(np.abs(w + THETA), present > 0, size, share) for size in sizes]
        errors.append([wrong(np.where(np.isin(np.arange(w.size), features), w, 0.0), intercept) for features in chosen])
    positive = X[y]
    both = np.bincount(positive.indices[positive.data != 0], minlength=X.shape[1])
    for score in (score for name, score in (("ig", information_gain), ("chi2", chi_square)) if name in by):
        scores, line = score(both, present, int(y.sum()), y.size), []
        for size in sizes:
            features, weights = best(scores, present > 0, size), np.zeros(w.size)
            weights[features], b = fit(X[:, features], y)
            line.append(wrong(weights, b))
        errors.append(line)
    return np.array(errors)


def selection_errors(data: Path, label: str | None, by: Sequence[str], shares: Sequence[float], sizes: Sequence[int]) -> Errors:
    """Return the test error by way to choose and number of features: of a label, or the mean over all that a training row has.

    The rows are taken in the random order of `hpcml train mbw --shuffle`.
    """
    with hpcml.Dataset(data) as dataset:
        train = dataset.split("train")
        order = np.argsort(rng.bits(0, "shuffle", train), kind="stable")
        rows = dataset.matrix("train")[order], dataset.matrix("test")
        Y, Y_test = dataset.labels("train")[order].tocsc(), dataset.labels("test").tocsc()
        numbers = np.flatnonzero(np.diff(Y.indptr)).tolist() if label is None else [dataset.label_names().index(label)]
    n_features = np.unique(rows[0].indices[rows[0].data != 0]).size
    sizes = [size for size in sizes if size <= n_features]
    ways = [*(EFS.format(share) for share in (shares if "efs" in by else ())), *(NAMES[name] for name in NAMES if name in by)]
    errors = []
    for number in numbers:
        truth = tuple(each[:, [number]].toarray().ravel() > 0 for each in (Y, Y_test))
        errors.append(errors_of_label(rows, truth, by, shares, sizes) / rows[1].shape[0])
    means = np.array(errors).mean(axis=0).tolist()
    return {way: dict(zip(map(str, sizes), line, strict=True)) for way, line in zip(ways, means, strict=True)}


def draw(path: Path, name: str, errors: Errors) -> None:
    """Draw the test errors by number of features."""
    with drawn(path, 8, 6) as figure:
        axes = figure.subplots()
        for k, (way, line) in enumerate(errors.items()):
            color = (BLUE, VERMILION, GREEN, ORANGE, PURPLE)[k % 5]
            axes.plot([int(size) for size in line], [100 * error for error in line.values()], marker="o", color=color, label=way)
        axes.set(title=f"MBW on {name}", xscale="log", xlabel="features kept", ylabel="test rows misclassified (%)", ylim=(0, None))
        axes.legend()

"""A PROBE run beside LIBLINEAR's (scikit-learn's) at the same λ, by calculations of our own: measures with scikit-learn where it
has them, the objective of the saved model in float64 from the files alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from hpcml import Model
from hpcml.run.folder import CONFIG, read_config


def matrix(group: h5py.Group) -> scipy.sparse.csr_matrix:
    """A CSR matrix in AnnData's encoding, widened to float64."""
    parts = (group["data"][:].astype(np.float64), group["indices"][:], group["indptr"][:])
    return scipy.sparse.csr_matrix(parts, shape=tuple(group.attrs["shape"]))


def break_even(y: np.ndarray, scores: np.ndarray) -> float:
    """Precision among the first R of the ranking, R = number of positives (no averaging over ties)."""
    n_positive = int(y.sum())
    return float(y[np.argsort(-scores, kind="stable")[:n_positive]].mean())


def beside_liblinear(data: Path, run: Path) -> dict[str, object]:
    """Measures, objective and iterations, means over the labels of the run that have test rows."""
    model, bias = Model(run / "model.h5"), bool(read_config(run / CONFIG).get("bias"))
    with h5py.File(data) as file:
        X, Y = matrix(file["X"]), matrix(file["Y"]).tocsc()
        train, test = file["splits/train"][:], file["splits/test"][:]
        names = list(file["label_names"].asstr()[:])
    chosen = [names.index(name) for name in model.label_names]
    if bias:
        X = scipy.sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    W = np.column_stack([model.weights(), model.bias]) if bias else model.weights()
    f_min, steps, lam = model.labels["f_min"], model.labels["steps"], float(model.attrs["lambda"])
    X_train, X_test, m = X[train], X[test], train.size
    rows: list[tuple[float, ...]] = []
    for k, label in enumerate(chosen):
        y = np.asarray(Y[:, label].todense()).ravel() > 0
        sign, judged = np.where(y[train], 1.0, -1.0), y[test]

        def objective(w: np.ndarray, sign: np.ndarray = sign) -> float:
            return 0.5 * lam * w @ w + np.maximum(0.0, 1.0 - sign * (X_train @ w)).sum() / m

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = LinearSVC(loss="hinge", C=1 / (lam * m), fit_intercept=False, tol=1e-3, max_iter=20000, random_state=0)
            w = peer.fit(X_train, sign).coef_.ravel()
        if not judged.any():
            continue
        ours, theirs = X_test @ W[k], X_test @ w
        truth = objective(W[k])
        rows.append(
            (
                *(average_precision_score(judged, s) for s in (ours, theirs)),
                *(break_even(judged, s) for s in (ours, theirs)),
                *(truth, objective(w), abs(truth - f_min[k]) / truth, steps[k]),
            )
        )
    table = np.array(rows)
    mean = table.mean(axis=0)
    return {
        "data": data.name,
        "labels": len(rows),
        "intercept": bias,
        "iterations": mean[7],
        "map": {"probe": mean[0], "liblinear": mean[1], "difference": mean[0] - mean[1]},
        "break_even": {"probe": mean[2], "liblinear": mean[3], "difference": mean[2] - mean[3]},
        "objective": {"probe": mean[4], "liblinear": mean[5], "largest_relative_error_of_reported_f": table[:, 6].max()},
    }

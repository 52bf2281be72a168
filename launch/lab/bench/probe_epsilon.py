"""How far `probe` ends above the minimum, for every loss and several ε. Prints JSON lines.

usage: python launch/bench/probe_epsilon.py SET ... [--labels 16] [--epsilon 0.2 0.05 0.005] [--min-positives 10]

SET is a name of `defaults.py`, whose training rows are taken, and so many labels of it, evenly over the order by frequency.
λ = X/m, with an intercept. `mean` and `largest` are of f / min f − 1 in per cent, over the labels; `steps` is the mean number of
steps. The minimum of the hinge is that of `dual` with a certified gap of at most 10⁻⁶, those of the smooth losses are scipy's
L-BFGS: as f is λ-strongly convex, f − min f ≤ ‖∇f‖²/(2λ), which is at most 10⁻⁶ of f, too. `certified` is the largest of these.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from defaults import made, matrix
from scipy.optimize import minimize
from scipy.special import expit
from tune import sample

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile, default_split


class Minimum(NamedTuple):
    """An objective, and how far above the minimum it can be, relative."""

    f: float
    certified: float


def slope_of(loss: str, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ℓ and ℓ′ of the margins."""
    if loss == "logistic":
        return np.logaddexp(0.0, -margins), -expit(-margins)
    short = np.maximum(0.0, 1.0 - margins)
    return np.where(margins < -1, -4.0 * margins, short**2), np.where(margins < -1, -4.0, -2.0 * short)


def smooth_minimum(X: sp.csr_matrix, y: np.ndarray, lam: float, loss: str) -> Minimum:
    """The minimum by L-BFGS, and its certificate by the gradient."""

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        losses, slopes = slope_of(loss, y * (X @ w))
        return 0.5 * lam * (w @ w) + losses.mean(), lam * w + X.T @ (y * slopes) / y.size

    w = minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 0, "gtol": 1e-9}).x
    f, gradient = objective(w)
    return Minimum(f, float(gradient @ gradient) / (2 * lam) / f)


def minima(X: sp.csr_matrix, Y: np.ndarray, lam: float, loss: str) -> list[Minimum]:
    """The minimum for every label."""
    if loss == "hinge":
        fitted = hpcml.DualClassifier(loss="hinge", max_gap=1e-6, precision="double", max_iter=100_000).fit(X, np.squeeze(Y))
        return [Minimum(float(f), float(gap)) for f, gap in zip(fitted.f_min_, fitted.gap_, strict=True)]
    with_constant = sp.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    return [smooth_minimum(with_constant, np.where(y, 1.0, -1.0), lam, loss) for y in Y.T]


def measured(path: Path, given: argparse.Namespace) -> list[dict[str, object]]:
    """A line for each loss and ε."""
    with DataFile(path) as dataset:
        train = np.array(dataset.split(default_split(dataset, "train")))
        X, Y = matrix(dataset.file["X"])[train].astype(np.float32), matrix(dataset.file["Y"])[train]
    some = sample(np.asarray(Y.sum(axis=0), dtype=int).ravel(), given.min_positives, given.labels)[1]
    labels, lines = Y[:, some].toarray().astype(np.int8), []
    lam = float(np.sqrt(X.multiply(X).sum(axis=1)).mean()) ** 2 / train.size
    for loss in ("hinge", "huber", "logistic"):
        least = minima(X, labels, lam, loss)
        for epsilon in given.epsilon:
            fitted = hpcml.ProbeClassifier(loss=loss, epsilon=epsilon, max_iter=100_000).fit(X, np.squeeze(labels))
            above = 100 * (np.asarray(fitted.f_min_) / [each.f for each in least] - 1)
            line = {"loss": loss, "epsilon": epsilon, "labels": some.size, "mean": round(float(above.mean()), 3)}
            line |= {"largest": round(float(above.max()), 3), "steps": round(float(np.mean(fitted.n_iter_)), 1)}
            lines.append(line | {"certified": float(f"{max(each.certified for each in least):.2g}")})
    return lines


def main() -> None:
    """Print the lines of every set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--labels", type=int, default=16)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 0.05, 0.005])
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=30_000)
    given, comm = parser.parse_args(), mpi.start()
    for name in given.sets:
        with tempfile.TemporaryDirectory() as folder:
            for line in measured(made(comm, name, Path(folder), given.most_rows)[0], given):
                print(json.dumps({"set": name, **line}), flush=True)


if __name__ == "__main__":
    main()

"""The exact elastic net beside LIBLINEAR's L1 logistic regression, both on one core. Prints JSON lines.

`elastic-net` trains all labels with λ₂ = 0; LIBLINEAR (scikit-learn's, C = 1 / (λ₁ m), its default tolerance) trains a sample of
the labels of each size (1 to 9 positive rows, 10 to 99, and so on). `seconds` of a size is what LIBLINEAR takes for a label,
`excess` the largest relative difference of its objective from ours (it regularises the intercept, which `intercept_scaling` makes
small). The last line has the seconds of all labels: ours as the command reports them, LIBLINEAR's estimated from the samples.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import hpcml
from launch.lab.bench._common import parser_of, read_rows, train
from launch.lab.core.timing import print_json


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("elastic_net", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--l1", default="1/m")
    parser.add_argument("--sample", type=int, default=20, help="labels of each size that LIBLINEAR trains (default: 20)")
    parser.add_argument("--split", default="train")
    given, rng, estimated = parser.parse_args(words), np.random.default_rng(0), 0.0
    options = ("--loss", "logistic", "--l1", given.l1, "--lambda", 0, "--split", given.split, "--min-positives", 1)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        train("elastic-net", given.data, run, *options, "--max-steps", 1)  # compiles
        ours = train("elastic-net", given.data, run, *options)
        model = hpcml.Model(ours.model)
        rows = read_rows(given.data, train_split=given.split)
        X, Y = rows.X.astype(float), rows.Y[:, rows.columns(model.label_names)].tocsc()
        m, l1, W = X.shape[0], float(model.attrs["l1"]), model.weight_matrix()
        sizes = np.diff(Y.indptr)
        trainable = np.flatnonzero((sizes > 0) & (sizes < m))
        powers = np.floor(np.log10(sizes[trainable])).astype(int)
        for power in np.unique(powers):
            labels = trainable[powers == power]
            seconds, excess = [], []
            for label in rng.permutation(labels)[: given.sample]:
                y = np.where(Y[:, [label]].toarray().ravel() > 0, 1.0, -1.0)
                f = [np.logaddexp(0, -y * (X @ W[label].toarray().ravel() + model.bias[label])).mean() + l1 * abs(W[label]).sum()]
                solver = LogisticRegression(
                    penalty="l1", C=1 / (l1 * m), solver="liblinear", intercept_scaling=100.0, random_state=0
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # how far it converged; how newer versions name the penalty
                    began = time.perf_counter()
                    solver.fit(X, y)
                seconds.append(time.perf_counter() - began)
                f.append(
                    np.logaddexp(0, -y * (X @ solver.coef_[0] + solver.intercept_[0])).mean() + l1 * np.abs(solver.coef_).sum()
                )
                excess.append(f[1] / f[0] - 1)
            line = {"positives": f"{10**power} to {10 ** (power + 1) - 1}", "labels": labels.size, "sample": len(seconds)}
            if seconds:
                estimated += np.mean(seconds) * labels.size
                line |= {"liblinear": round(float(np.mean(seconds)), 6), "excess": float(f"{max(excess):.2g}")}
            print_json(**line)
        whole = {"labels": trainable.size, "seconds": ours.seconds, "visited": round(float(np.mean(model.labels["visited"])), 5)}
        print_json(**whole, liblinear=round(estimated, 2), ratio=ours.seconds / estimated if estimated else None)

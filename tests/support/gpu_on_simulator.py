"""Naive Bayes on numba's simulator of a GPU; prints a JSON object with what `tests/unit/model/test_gpu_bayes.py` looks at.

python tests/support/gpu_on_simulator.py FOLDER, with NUMBA_ENABLE_CUDASIM=1
"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1]))
from hpcml import PsbmlClassifier, mpi
from hpcml.cli import app as cli
from hpcml.kernels import device
from hpcml.model import gpu_bayes
from hpcml.model.classifier import ClassifierModel
from hpcml.model.densities import GaussianDensities, KernelDensities
from hpcml.model.learner import cpu_version
from support import make

TWINS = {KernelDensities: gpu_bayes.KernelDensitiesOnGpu, GaussianDensities: gpu_bayes.GaussianDensitiesOnGpu}


def rows(rng, n, kind):
    X = np.zeros((n, 7))
    X[:, 0] = rng.poisson(1.5, n)
    X[:, 1] = rng.normal(size=n)
    X[:, 2] = 7.0
    X[:, 4] = np.where(rng.random(n) < 0.2, rng.exponential(size=n), 0.0)
    X[:, 5] = rng.normal(size=n) * 1e-5
    X[:, 6] = rng.integers(-9, 9, n) / 2
    return X.astype(kind)


def differences(folder):
    rng, found = np.random.default_rng(5), {}
    gpu_bayes._MOST_ROWS = 20  # so that there are several blocks
    for cpu, gpu in TWINS.items():
        for n_classes in (2, 3):
            for kind in (np.float32, np.float64):
                X, y = rows(rng, 60, kind), np.arange(60) % n_classes
                X[:, 1] += y
                X[:, 5] += y * 1e-5
                unseen = np.concatenate([X[:25], rows(rng, 15, kind) * 3, np.full((1, 7), 1e6, kind), np.zeros((1, 7), kind)])
                for how in (np.ascontiguousarray, sp.csr_matrix):
                    one, other = cpu().fit(how(X), y), gpu().fit(how(X), y)
                    test = how(unseen)
                    logs, expected = other.predict_joint_log_proba(test), one.predict_joint_log_proba(test)
                    saved = cpu_version(other)
                    found[f"{cpu.__name__} {n_classes} {kind.__name__} {how.__name__}"] = {
                        "confidence": float(np.abs(other.confidence(test) - one.confidence(test)).max()),
                        "logs": float((np.abs(logs - expected) / np.maximum(1, np.abs(expected))).max()),
                        "spread": float(np.ptp(one.confidence(test))),
                        "same_model": make.classifier_bytes(other) == make.classifier_bytes(one),
                        "saved": type(saved).__name__,
                        "same_scores": bool((saved.predict_joint_log_proba(test) == expected).all()),
                    }
    gpu_bayes._MOST_ROWS = 1 << 22
    return found


def runs(folder):
    rng, lines = np.random.default_rng(2), []
    for i in range(90):
        values = rng.normal(size=3) + (i % 2)
        lines.append(f"{i % 2} " + " ".join(f"{j}:{v:.4f}" for j, v in enumerate(values, 1)))
    (folder / "rows.svm").write_text("\n".join(lines) + "\n")
    run("convert", "svmlight", folder / "rows.svm", "-o", folder / "rows.h5")
    found = {}
    for base in ("kernel-nb", "gaussian-nb"):
        models = []
        for kind in ("cpu", "gpu"):
            out = folder / f"{base}-{kind}"
            common = f"--grid 2x1 --cycles 3 --replace 0.5 --validation-share 0.4 --judge auc --base {base}".split()
            run("train", "psbml", folder / "rows.h5", "-o", out, "--device", kind, *common)
            models.append(ClassifierModel(out / "model.h5"))
        one, other = models
        histories = [np.genfromtxt(folder / f"{base}-{kind}" / "history.csv", delimiter=",", names=True) for kind in ("cpu", "gpu")]
        names = [name for name in histories[0].dtype.names if name != "seconds"]
        found[base] = {
            "cycles": [int(model.cycle) for model in models],
            "same_rows": np.array_equal(one.margin_rows, other.margin_rows),
            "rows": int(one.margin_rows.size),
            "weights": float(np.abs(one.margin_weights - other.margin_weights).max()),
            "history": float(max(np.nanmax(np.abs(histories[0][name] - histories[1][name]), initial=0) for name in names)),
            "length": len(histories[1]),
        }
    return found


def estimators(_):
    rng, found = np.random.default_rng(2), {}
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 3)) + y[:, None]
    for base in ("kernel-nb", "gaussian-nb"):
        options = {"base": base, "grid": "2x1", "cycles": 3, "replace": 0.5, "validation_share": 0.4, "judge": "auc"}
        one, other = (PsbmlClassifier(**options, device=kind).fit(X, y) for kind in ("cpu", "gpu"))
        other = pickle.loads(pickle.dumps(other))
        found[base] = {
            "kinds": [type(each.classifier_).__name__ for each in (one, other)],
            "same_rows": np.array_equal(one.margin_rows_, other.margin_rows_),
            "same_scores": np.array_equal(one.predict_proba(X), other.predict_proba(X)),
        }
    return found


def run(*tokens):
    cli.run([str(token) for token in tokens], mpi.self_comm)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    launches = []
    real = device.launch
    device.launch = lambda kernel, n, *given: (launches.append(kernel.fn.__name__), real(kernel, n, *given))
    found = {"differences": differences(folder), "runs": runs(folder), "launches": sorted(set(launches))}
    del launches[:]
    found["estimators"] = estimators(folder)
    found["launches of estimators"] = len(launches)
    (folder / "found.json").write_text(json.dumps(found))

"""Naive Bayes beside Weka's on the same rows: error and area under the ROC curve, with kernels and with Gaussians.

usage: python launch/bench/weka.py WEKA.JAR FILE.svm[.xz]...

Needs `java` and Weka (https://www.cs.waikato.ac.nz/ml/weka/). Debian's package `weka` has /usr/share/java/weka.jar (3.6.14), and
the Python package `python-weka-wrapper3` has python/weka/lib/weka.jar (3.9.7). A file NAME.svm with NAME.t.svm beside it is trained
on the one and tested on the other; else 70 % of its rows are trained on. At most ROWS rows of either. Prints a JSON line for each
file and learner: Weka's version, percent wrong, and AUC in percent (each class against the rest, weighted by its rows), ours and
Weka's, and how many predictions differ.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import roc_auc_score

from hpcml.model.gaussian_bayes import GaussianNB
from hpcml.model.kernel_bayes import KernelNB

ROWS = 4000
LEARNERS = {"kernel-nb": (KernelNB, ["-K"]), "gaussian-nb": (GaussianNB, [])}


def read(path: Path, n_features: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows and labels."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        X, y = load_svmlight_file(file, n_features=n_features)
    order = np.random.default_rng(1).permutation(y.size)
    return X[order].toarray(), y[order]


def split(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and labels, test rows and labels; labels are numbers of classes."""
    X, y = read(path)
    test = path.with_name(path.name.replace(".svm", ".t.svm"))
    if test.exists():
        X_test, y_test = read(test, X.shape[1])
    else:
        n = int(0.7 * y.size)
        X, X_test, y, y_test = X[:n], X[n:], y[:n], y[n:]
    X, y, X_test, y_test = X[:ROWS], y[:ROWS], X_test[:ROWS], y_test[:ROWS]
    classes = np.unique(y)
    known = np.isin(y_test, classes)
    return X, np.searchsorted(classes, y), X_test[known], np.searchsorted(classes, y_test[known])


def write_arff(path: Path, X: np.ndarray, y: np.ndarray, n_classes: int) -> None:
    """Rows as Weka reads them, with all digits."""
    with path.open("w") as file:
        file.write("@relation rows\n")
        file.writelines(f"@attribute f{j} numeric\n" for j in range(X.shape[1]))
        file.write(f"@attribute class {{{','.join(map(str, range(n_classes)))}}}\n@data\n")
        file.writelines(",".join(map(repr, row.tolist())) + f",{label}\n" for row, label in zip(X, y, strict=True))


def version(jar: str) -> str:
    """Weka's version."""
    with zipfile.ZipFile(jar) as file:
        return file.read("weka/core/version.txt").decode().strip().replace("-", ".")


def weka(jar: str, options: list[str], folder: Path, n_classes: int) -> np.ndarray:
    """The probabilities of the test rows (n × classes) that Weka finds; it prints three digits after the point."""
    call = ["java", "-Xmx2g", "-cp", f"{jar}:{folder}", "Distributions", *options]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(call)}: {done.stderr}")
    return np.array(done.stdout.split(), dtype=float).reshape(-1, n_classes)


PROGRAM = """
import java.io.*;
import weka.classifiers.bayes.NaiveBayes;
import weka.core.Instances;
public class Distributions {
    static Instances read(String path) throws Exception {
        Instances rows = new Instances(new BufferedReader(new FileReader(path)));
        rows.setClassIndex(rows.numAttributes() - 1);
        return rows;
    }
    public static void main(String[] options) throws Exception {
        NaiveBayes bayes = new NaiveBayes();
        bayes.setOptions(options);
        bayes.buildClassifier(read("train.arff"));
        Instances test = read("test.arff");
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < test.numInstances(); i++)
            for (double p : bayes.distributionForInstance(test.instance(i))) out.append(p).append('\\n');
        System.out.print(out);
    }
}
"""


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Each class against the rest, weighted by its rows."""
    there = [c for c in range(scores.shape[1]) if 0 < np.count_nonzero(y == c) < y.size]
    return float(np.average([roc_auc_score(y == c, scores[:, c]) for c in there], weights=[np.sum(y == c) for c in there]))


def compare(jar: str, path: Path) -> None:
    """Print the lines of one file."""
    X, y, X_test, y_test = split(path)
    n_classes = int(y.max()) + 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_arff(folder / "train.arff", X, y, n_classes)
        write_arff(folder / "test.arff", X_test, y_test, n_classes)
        (folder / "Distributions.java").write_text(PROGRAM)
        subprocess.run(["javac", "-nowarn", "-cp", jar, "Distributions.java"], cwd=folder, check=True, capture_output=True)
        for name, (kind, options) in LEARNERS.items():
            ours = kind().fit(X, y).predict_proba(X_test)
            theirs = weka(jar, options, folder, n_classes)
            of = {"weka": version(jar), "data": path.name.split(".")[0], "learner": name}
            line = {"bench": "weka", **of, "rows": len(X), "test_rows": len(X_test)}
            for whose, p in (("hpcml", ours), ("weka", theirs)):
                line[f"{whose}_error"] = round(100 * float(np.mean(p.argmax(axis=1) != y_test)), 2)
                line[f"{whose}_auc"] = round(100 * auc(y_test, p), 2)
            line["other_predictions"] = int(np.sum(ours.argmax(axis=1) != theirs.argmax(axis=1)))
            line["largest_difference"] = float(f"{np.abs(ours - theirs).max():.2g}")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for file in sys.argv[2:]:
        compare(sys.argv[1], Path(file))

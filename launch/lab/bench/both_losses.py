"""Both losses of `dual` beside LIBLINEAR, with an intercept: processor time of one process for a label, objectives, gaps.

usage: python launch/bench/both_losses.py DATA.h5 [MIN-POSITIVES=10] [LABELS=24]

`dual` trains all labels with at least so many training rows, three times; the least time counts. LIBLINEAR, as scikit-learn carries
it, trains so many of them, evenly chosen. The objectives are compared on these.
"""

import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.methods.dual.by_loss import dual
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.linear.objective import Risk
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

REPEATS = 3


def ours(rows: CompactRows, labels: np.ndarray, options: DualOptions) -> tuple[float, dict[int, tuple[float, float]]]:
    """Seconds a label, and (objective, gap) by label."""
    solver = dual(Risk(rows, options, Profile()), labels, 16, options)
    solver.warm_up()
    begin, found = time.thread_time(), {}
    for finished in solver.solve(range(labels.size), NEVER):
        found |= {int(labels[done.label]): (done.f, done.gap) for done in finished}
    return (time.thread_time() - begin) / labels.size, found


def theirs(rows: CompactRows, label: int, loss: str, lam: float, tolerance: float) -> tuple[float, float]:
    """Seconds of LIBLINEAR for a label, and its objective."""
    X = sp.csr_matrix((rows.data.astype(float), rows.indices, rows.indptr.astype(np.int32)), (rows.n_local, rows.n_columns))
    sign = np.full(rows.n_local, -1)
    sign[rows.rows_of(label)] = 1
    name = loss.replace("-", "_")
    solver = LinearSVC(loss=name, C=1 / (lam * rows.n_global), fit_intercept=False, tol=tolerance, max_iter=20000, random_state=0)
    begin = time.thread_time()
    w = solver.fit(X, sign).coef_[0]
    seconds = time.thread_time() - begin
    short = np.maximum(0.0, 1.0 - sign * (X @ w))
    return seconds, 0.5 * lam * w @ w + (short if loss == "hinge" else short**2).mean()


def main(path: str, min_positives: int = 10, n_theirs: int = 24) -> None:
    """Print a table."""
    with DataFile(path) as data:
        split = "train" if "train" in data.split_names() else "all"
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), data, split), True)
    labels = np.flatnonzero((rows.n_positive >= min_positives) & (rows.n_positive < rows.n_global))
    some = labels[np.unique(np.linspace(0, labels.size - 1, n_theirs).astype(int))].tolist()
    lam = rows.scale / rows.n_global
    print(f"{path}: {rows.n_global:,} rows, {labels.size} labels; LIBLINEAR: {len(some)} of them; λ = {lam:.4g}; processor time")
    heads = ("loss", "tolerance", "dual, ms", "LIBLINEAR, ms", "ratio", "f, %", "mean gap, %", "largest")
    print(" ".join(f"{head:>13}" for head in heads))
    for loss in ("squared-hinge", "hinge"):
        for tolerance in (0.1, 0.01):
            options = DualOptions(loss=loss, bias=True, dual_tol=tolerance)
            seconds, found = min((ours(rows, labels, options) for _ in range(REPEATS)), key=lambda result: result[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of LIBLINEAR, that it has not converged
                peer = np.mean([theirs(rows, label, loss, lam, tolerance) for label in some], axis=0)
            f, gaps = np.mean([found[label][0] for label in some]), np.array([gap for _, gap in found.values()])
            numbers = [seconds * 1e3, peer[0] * 1e3, seconds / peer[0]]
            numbers += [(f / peer[1] - 1) * 100, gaps.mean() * 100, gaps.max() * 100]
            print(f"{loss:>13} {tolerance:>13}", *(f"{number:>13.3f}" for number in numbers))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit("usage: python launch/bench/both_losses.py DATA.h5 [MIN-POSITIVES=10] [LABELS=24]")
    main(sys.argv[1], *(int(number) for number in sys.argv[2:]))

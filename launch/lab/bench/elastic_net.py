"""The exact elastic net beside LIBLINEAR's L1 logistic regression, label by label on one core. Prints JSON lines.

usage: python launch/bench/elastic_net.py DATA.h5 [--l1 1/m] [--sample 20] [--split train]
       python launch/bench/elastic_net.py --rows 10000 100000 1000000 [--sizes 10 100 1000 10000] [--sample 2]
       python launch/bench/elastic_net.py DATA.h5 --optimum skglm|saga [--l1 1/m] [--sample 5] [--split train]

The first form takes the labels of a dataset, in classes by their number of positive rows. `elastic-net` trains all of them;
LIBLINEAR, scikit-learn's with C = 1 / (λ₁ m), no λ₂ and its default tolerance, a sample of each class (--sample 0: none). `passes`
are what a label visited over all rounds, in passes over the rows; `touched` is the share of the rows that its optimum touches, the
mean of the class, and `most_touched` the largest one. `ratio` is that of the mean seconds of a label, `of_all` that of all labels
together, where the sample stands for its class; `excess` is how far LIBLINEAR's objective is above ours at most (it regularises the
intercept, which `intercept_scaling` makes small).

The second form generates rows of 50 Zipf-distributed words and labels of given sizes, each tied to five words of its own, which
half of its rows have and as many others. Each size has two labels at each number of rows. Then come the exponents of
the seconds of a label in its positives, at the most rows, and in the number of rows, for each size.

The third form trains labels whose sizes are spread evenly (in logarithms) from 10 rows to those of the largest label, in float64,
with us and with skglm or with scikit-learn's saga, to small tolerances. `relative` is how far our objective is above theirs,
`support` the largest magnitude of a weight that is 0 in one of the two models only. Features that have the same value in every row
count as one, with the sum of their weights, since an optimum can share it out in any way.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from hpcml import mpi
from hpcml.data.compact import CompactRows, compact_rows
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.shard import Shard, load_shard
from hpcml.methods.elastic_net.judge import HISTORY, ElasticRisk
from hpcml.methods.elastic_net.newton import NewtonSolver
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.linear.solver import Finished
from hpcml.run.profile import Profile
from hpcml.run.stop import NEVER

WORDS, LENGTH, OWN = 30_000, 50, 5  # of generated rows


def zipf(rng: np.random.Generator, n_words: int, n: int) -> np.ndarray:
    """Words whose frequency falls as their number."""
    return np.minimum(np.exp(rng.uniform(0, np.log(n_words), n)).astype(np.int32) - 1, n_words - 1)


def text_rows(rows: np.ndarray, words: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    """Rows of unit length, of log(tf + 1) · idf, from the words of each."""
    X = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, words)), shape)
    X.sort_indices()
    frequency = np.bincount(X.indices, minlength=shape[1])
    X.data = (np.log1p(X.data) * np.log(shape[0] / np.maximum(1, frequency))[X.indices]).astype(np.float32)
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    return X


def generated(n_rows: int, sizes: list[int], seed: int = 0) -> Shard:
    """Rows of unit length, and two labels of each size."""
    rng = np.random.default_rng(seed)
    words = [zipf(rng, WORDS, n_rows * LENGTH)]
    rows, label_rows, label_columns = [np.repeat(np.arange(n_rows), LENGTH)], [], []
    for label, size in enumerate(size for size in sizes for _ in range(2)):
        positive = rng.choice(n_rows, size, replace=False)
        label_rows.append(positive)
        label_columns.append(np.full(size, label))
        for word in range(OWN):
            some = np.concatenate([rng.permutation(positive)[: (size + 1) // 2], rng.integers(0, n_rows, (size + 1) // 2)])
            rows.append(some)
            words.append(np.full(some.size, WORDS + OWN * label + word, np.int32))
    n_labels = 2 * len(sizes)
    X = text_rows(np.concatenate(rows), np.concatenate(words), (n_rows, WORDS + OWN * n_labels))
    r, c = np.concatenate(label_rows), np.concatenate(label_columns)
    Y = sp.csr_matrix((np.ones(r.size), (r, c)), (n_rows, n_labels))
    arrays = (X.indptr.astype(np.int64), X.indices, X.data, Y.indptr.astype(np.int64), Y.indices)
    return Shard(0, np.arange(n_rows), *arrays, n_rows, 0, X.shape[1], n_labels)


class Race:
    """The rows of a shard, and what trains a label of them in both ways."""

    def __init__(self, shard: Shard, l1: str, precision: str = "single") -> None:
        options = ElasticNetOptions(loss="logistic", l1=l1, lam="0", precision=precision)
        comm = mpi.self_comm()
        self.rows: CompactRows = compact_rows(comm, shard, False, fold=False)[0]
        begin = time.perf_counter()
        self.risk = ElasticRisk(self.rows, options, Profile())
        self.risk.prepare(comm)
        self.index_seconds = time.perf_counter() - begin
        self.solver = NewtonSolver(self.risk, np.arange(self.rows.n_labels), 1, options)
        rows = self.rows
        self.X = sp.csr_matrix((rows.data.astype(float), rows.indices.copy(), rows.indptr), (rows.n_local, rows.n_columns))
        self.X.sort_indices()  # scikit-learn would do so, in place
        self.C = 1 / (self.risk.l1 * rows.n_global)
        small = int(np.argmin(np.where(self.sizes > 0, self.sizes, rows.n_global)))
        self.ours(small)  # compiles

    @property
    def sizes(self) -> np.ndarray:
        """The positive rows of each label."""
        return np.asarray(self.rows.n_positive)

    def train(self, label: int) -> Finished:
        """The label as the run takes it."""
        ((done,),) = self.solver.solve([label], NEVER)
        return done

    def ours(self, label: int) -> tuple[float, float, float, float]:
        """(seconds, m times the objective, passes' worth of rows visited, share of the rows that the optimum touches)."""
        begin = time.perf_counter()
        done = self.train(label)
        seconds, touched = time.perf_counter() - begin, done.history[-1][HISTORY.index("rows")] / self.rows.n_global
        return seconds, done.f * self.rows.n_global, done.visited * done.steps, touched

    def signs(self, label: int) -> np.ndarray:
        """+1 for the rows that have the label, else −1."""
        y = np.full(self.rows.n_local, -1.0)
        y[self.rows.rows_of(label)] = 1.0
        return y

    def objective(self, y: np.ndarray, w: np.ndarray, b: float) -> float:
        """m times the objective."""
        return float(np.logaddexp(0, -y * (self.X @ w + b)).sum() + np.abs(w).sum() / self.C)

    def liblinear(self, label: int) -> tuple[float, float]:
        """(seconds, m times the objective)."""
        y = self.signs(label)
        solver = LogisticRegression(penalty="l1", C=self.C, solver="liblinear", intercept_scaling=100.0, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of how far it came, and of how newer versions call the penalty
            begin = time.perf_counter()
            solver.fit(self.X, y)
            seconds = time.perf_counter() - begin
        return seconds, self.objective(y, solver.coef_[0], float(solver.intercept_[0]))

    def reference(self, label: int, solver: str) -> tuple[np.ndarray, float]:
        """Weights and intercept of another exact solver."""
        if solver == "skglm":
            from skglm import GeneralizedLinearEstimator
            from skglm.datafits import Logistic
            from skglm.penalties import L1
            from skglm.solvers import ProxNewton

            steps = ProxNewton(max_iter=200, max_pn_iter=2000, fit_intercept=True, tol=1e-9, warm_start=False)
            other = GeneralizedLinearEstimator(Logistic(), L1(1 / (self.C * self.rows.n_global)), steps)
        else:
            other = LogisticRegression(penalty="l1", C=self.C, solver="saga", tol=1e-10, max_iter=50_000, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.fit(self.X.tocsc() if solver == "skglm" else self.X, self.signs(label))
        return np.ravel(other.coef_), float(np.ravel(other.intercept_)[0])


def beside_liblinear(race: Race, sample: int) -> None:
    """A line for each class of labels, and one for all."""
    rng, totals = np.random.default_rng(0), np.zeros(2)
    sizes = race.sizes
    trainable = np.flatnonzero((sizes > 0) & (sizes < race.rows.n_global))
    classes = np.floor(np.log10(sizes[trainable])).astype(int)
    for power in np.unique(classes).tolist():
        labels = trainable[classes == power]
        ours = np.array([race.ours(int(label)) for label in labels])
        chosen = rng.permutation(labels.size)[:sample]
        theirs = np.array([race.liblinear(int(labels[place])) for place in chosen]).reshape(-1, 2)
        line = {"positives": f"{10**power} to {10 ** (power + 1) - 1}", "labels": labels.size, "sample": chosen.size}
        line |= {"seconds": round(float(ours[:, 0].mean()), 6), "passes": round(float(ours[:, 2].mean()), 3)}
        line |= {"touched": round(float(ours[:, 3].mean()), 5), "most_touched": round(float(ours[:, 3].max()), 4)}
        totals[0] += ours[:, 0].sum()
        if sample:
            totals[1] += theirs[:, 0].mean() * labels.size
            line |= {"liblinear": round(float(theirs[:, 0].mean()), 6)}
            line |= {"ratio": round(float(ours[chosen, 0].sum() / theirs[:, 0].sum()), 5)}
            line |= {"excess": float(f"{(theirs[:, 1] / ours[chosen, 1] - 1).max():.2g}")}
        print(json.dumps(line), flush=True)
    total = {"labels": trainable.size, "seconds": round(float(totals[0]), 2), "index_seconds": round(race.index_seconds, 2)}
    if sample:
        total |= {"liblinear": round(float(totals[1]), 2), "of_all": round(float(totals[0] / totals[1]), 5)}
    print(json.dumps(total))


def beside_optimum(race: Race, solver: str, sample: int) -> None:
    """A line for each of some labels."""
    same = np.unique(race.X.T @ np.random.default_rng(0).random(race.X.shape[0]), return_inverse=True)[1]
    order = np.argsort(race.sizes, kind="stable")
    sizes = race.sizes[order]
    for label in order[np.searchsorted(sizes, np.geomspace(min(10, sizes[-1]), sizes[-1], sample).astype(int))].tolist():
        done, y = race.train(label), race.signs(label)
        w = np.zeros(race.X.shape[1])
        w[done.w.columns] = done.w.values
        v, b = race.reference(label, solver)
        f, g = race.objective(y, w, done.w.intercept), race.objective(y, v, b)
        w, v = np.bincount(same, w), np.bincount(same, v)
        support = np.maximum(np.abs(w), np.abs(v))[(w != 0) != (v != 0)].max(initial=0.0)
        line = {"positives": int(race.sizes[label]), "weights": int((w != 0).sum()), solver: int((v != 0).sum())}
        print(json.dumps(line | {"relative": float(f"{f / g - 1:.2g}"), "support": float(f"{support:.2g}")}), flush=True)


def exponents(n_rows: list[int], sizes: list[int], l1: str, sample: int) -> None:
    """A line for each size and number of rows, then the slopes of the logarithms."""
    seconds = np.full((len(n_rows), len(sizes)), np.nan)
    for i, n in enumerate(n_rows):
        race = Race(generated(n, [size for size in sizes if size <= n // 10]), l1)
        for label, size in enumerate(size for size in sizes if size <= n // 10 for _ in range(2)):
            found = [race.ours(label) for _ in range(3)]
            best = min(found)
            seconds[i, sizes.index(size)] = np.nanmin([seconds[i, sizes.index(size)], best[0]])
            line = {"rows": n, "positives": size, "seconds": round(best[0], 6), "passes": round(best[2], 4)}
            if label % 2 == 0 and label // 2 < sample:
                theirs = race.liblinear(label)
                line |= {"liblinear": round(theirs[0], 3), "ratio": round(best[0] / theirs[0], 5)}
            print(json.dumps(line), flush=True)
    whole = ~np.isnan(seconds[-1])
    if whole.sum() > 1:
        slope = np.polyfit(np.log(np.array(sizes)[whole]), np.log(seconds[-1][whole]), 1)[0]
        print(json.dumps({"rows": n_rows[-1], "exponent_in_positives": round(float(slope), 2)}))
    for j, size in enumerate(sizes):
        there = ~np.isnan(seconds[:, j])
        if there.sum() > 1:
            slope = np.polyfit(np.log(np.array(n_rows)[there]), np.log(seconds[there, j]), 1)[0]
            print(json.dumps({"positives": size, "exponent_in_rows": round(float(slope), 2)}))


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--l1", default="1/m")
    parser.add_argument("--sample", type=int, default=20, help="labels of each class, or sizes, that LIBLINEAR trains, too")
    parser.add_argument("--split")
    parser.add_argument("--optimum", choices=("skglm", "saga"), help="compare the optimum with that of this solver")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000, 10000])
    given = parser.parse_args()
    if (given.data is None) == (given.rows is None):
        parser.error("give a dataset, or --rows")
    if given.rows:
        exponents(given.rows, given.sizes, given.l1, given.sample)
        return
    with DataFile(given.data) as dataset:
        shard = load_shard(mpi.self_comm(), dataset, given.split or default_split(dataset, "train"))
    if given.optimum:
        beside_optimum(Race(shard, given.l1, "double"), given.optimum, given.sample)
    else:
        beside_liblinear(Race(shard, given.l1), given.sample)


if __name__ == "__main__":
    main()

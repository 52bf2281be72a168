"""Table 8 of the PSBML paper anew: wrong classes in the training rows, for PSBML, its base learners and AdaBoostM1 of them.

`python launch/bench/psbml.py noise` runs it. Each seed draws other rows to train on and other rows to test, the same for all
methods and shares of noise, and the rows that are wrong at 10 % are wrong at 20 %. The validation rows of PSBML are a tenth of the
training rows, and as noisy. Test rows keep their classes. A line of JSON for each model stands in the folder, and a continued
run trains those that are missing.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from hpcml import PsbmlClassifier
from hpcml.conversion.noise import noisy_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_rows
from hpcml.methods.psbml.adaboost import boosted
from hpcml.methods.psbml.seeds import Paired, paired
from hpcml.model import learner as learners

SHARES = (0.0, 0.1, 0.2)
PR_SET_PDEATHSIG = 1  # of Linux's prctl
ROUNDS = 10  # of AdaBoostM1, as Weka's default
METHODS = {"NB": "kernel-nb", "AdaBoostM1/DS": "stump", "AdaBoostM1/NB": "kernel-nb", "PSBML/NB": "kernel-nb"}
PAIRS = (("PSBML/NB", "NB"), ("PSBML/NB", "AdaBoostM1/NB"), ("PSBML/NB", "AdaBoostM1/DS"))
Key = tuple[str, str, float, int]  # set, method, share of noise, seed


def drawn(path: Path, seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train on (at most n_rows), and those to test (a third of the file or fewer)."""
    with DataFile(path) as dataset:
        order = np.random.default_rng(seed).permutation(dataset.n_rows)
    n_test = min(3 * n_rows // 4, order.size // 3)
    return np.sort(order[n_test : n_test + n_rows]), np.sort(order[:n_test])


def train_all(path: Path, seed: int, n_rows: int, wanted: list[tuple[str, float]]) -> list[dict]:
    """The lines of the methods and shares of noise that are wanted, for the rows of a seed."""
    train, test = drawn(path, seed, n_rows)
    with DataFile(path) as dataset:
        has = np.diff(dataset.map("Y/indptr"))
        X, X_test, y, y_test = read_rows(dataset, train, True), read_rows(dataset, test, True), has[train], has[test]
    found = []
    for method, share in wanted:
        noisy = y ^ noisy_rows(seed, share, train)
        begin = time.process_time()
        score = score_of(method, X, noisy, X_test, seed)
        line = {"data": path.stem, "method": method, "noise": share, "seed": seed, "roc": 100 * roc_auc_score(y_test, score)}
        found.append(line | {"cpu": time.process_time() - begin, "rows": train.size, "test_rows": test.size})
    return found


def score_of(method: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, seed: int) -> np.ndarray:
    """Train a method, score the test rows."""
    base = METHODS[method]
    if method.startswith("PSBML"):
        return PsbmlClassifier(base, judge="auc", random_state=seed).fit(X, y).decision_function(X_test)
    learner = learners.parse_learner(base.split())
    if method.startswith("AdaBoostM1"):
        learner = boosted(learner, ROUNDS)
    return learners.scores(learners.fit(learner, X, y, seed), X_test, 2)[:, 0]


def workers(n_processes: int) -> ProcessPoolExecutor:
    """Processes that train, and end when this one does, however it ends."""
    return ProcessPoolExecutor(n_processes, initializer=end_with_parent, initargs=(os.getpid(),))


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process as soon as its parent has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)


def run_all(paths: list[Path], seeds: range, n_rows: int, folder: Path, n_processes: int) -> dict[Key, dict]:
    """All lines; those that the folder does not have yet are added to it."""
    results = folder / f"noise-{n_rows}.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    found = {_key(line): line for line in lines}
    wanted = {
        (path, seed): [(m, share) for m in METHODS for share in SHARES if (path.stem, m, share, seed) not in found]
        for seed in seeds
        for path in paths
    }
    with workers(n_processes) as pool, results.open("a") as file:
        waiting = [pool.submit(train_all, path, seed, n_rows, todo) for (path, seed), todo in wanted.items() if todo]
        for done in waiting:
            for line in done.result():
                file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
                found[_key(line)] = line
            file.flush()
            os.fsync(file.fileno())
    return found


def _key(line: dict) -> Key:
    return line["data"], line["method"], line["noise"], line["seed"]


def tables(
    found: dict[Key, dict], names: list[str], seeds: range, published: dict[str, dict], in_paper: dict[str, str]
) -> list[str]:
    """What to tell of the lines: ROC areas, impacts, gains, and what noise costs one more than another."""

    def areas(name: str, method: str, share: float) -> np.ndarray:
        return np.array([found[name, method, share, seed]["roc"] for seed in seeds])

    def ratio(name: str) -> float:
        line = found[name, "NB", 0.0, seeds[0]]
        return line["test_rows"] / line["rows"]

    said = ["ROC area, mean ± deviation (the paper's)"]
    for share in SHARES:
        paper = published.get(f"{100 * share:.0f}", {})
        for method in METHODS:
            theirs = paper.get(method, {})
            cells = [f"{(a := areas(name, method, share)).mean():.2f} ± {a.std(ddof=1):.2f}" for name in names]
            cells = [f"{cell} ({theirs.get(in_paper.get(name, ''), '-')})" for name, cell in zip(names, cells, strict=True)]
            of_means = [abs(float(areas(name, method, 0.0).mean() - areas(name, method, share).mean())) for name in names]
            said.append(f"| {100 * share:.0f} % | {method} | " + " | ".join([*cells, f"{np.mean(of_means):.2f}"]) + " |")
    said.append("differences: mean ± deviation, p and corrected p of a paired t-test")
    for share in SHARES:
        for ours, theirs in PAIRS:
            cells = [_cell(paired(areas(name, theirs, share), areas(name, ours, share), ratio(name))) for name in names]
            said.append(f"| {100 * share:.0f} % | {ours} − {theirs} | " + " | ".join(cells) + " |")
    said.append("what noise costs the first, less what it costs the second")
    for share in SHARES[1:]:
        for ours, theirs in PAIRS:
            cost = {who: {name: areas(name, who, 0.0) - areas(name, who, share) for name in names} for who in (ours, theirs)}
            cells = [_cell(paired(cost[theirs][name], cost[ours][name], ratio(name))) for name in names]
            said.append(f"| {100 * share:.0f} % | {ours} − {theirs} | " + " | ".join(cells) + " |")
    cpu = sum(line["cpu"] for line in found.values())
    return [*said, f"CPU time of the models: {cpu / 60:.1f} minutes"]


def _cell(of: Paired) -> str:
    p = "-" if np.isnan(of.p) else f"p = {of.p:.1g}, {of.p_corrected:.1g}"
    return f"{of.difference:+.2f} ± {of.difference_deviation:.2f} ({p})"

"""Winnow learners and wrong labels, on generated rows: what a pass over random labels leaves, and what labels with errors cost.

usage: python launch/bench/label_noise.py [--random 1000000] [--rows 50000] [--test 5000]

A row has up to 20 of 1,000 features, frequent ones first (Zipf's exponent 0.7); it is positive if it has one of 60 of them, which
three of five have. Prints JSON lines: for each learner percent wrong, and percent of the positive test rows missed, (a) after
--random rows with random labels and then 1,000 to 10,000 right ones, beside a new model of the same rows; (b) after --rows rows of
which 0 to 30 % have the other label. Test rows have right labels.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import scipy.sparse as sp

from hpcml import OnlineClassifier

N_FEATURES, N_TOPIC, LONGEST, ZIPF = 1000, 60, 20, 0.7
PIECE = 100_000  # rows made at a time
LEARNERS = [(method, voted) for method in ("mbw", "bw", "pw", "perceptron", "pa") for voted in (False, True)]


def make(n_rows: int, seed: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows and their right labels."""
    rng, share = np.random.default_rng(seed), np.arange(1, N_FEATURES + 1) ** -ZIPF
    places = rng.choice(N_FEATURES, size=(n_rows, LONGEST), p=share / share.sum())
    X = sp.csr_matrix(
        (np.ones(places.size, dtype=np.float32), places.ravel(), LONGEST * np.arange(n_rows + 1)), shape=(n_rows, N_FEATURES)
    )
    X.sum_duplicates()
    X.data[:] = 1
    topic = np.isin(np.arange(N_FEATURES), np.random.default_rng(7).permutation(N_FEATURES)[:N_TOPIC])
    return X, (X @ topic.astype(np.float32) > 0).astype(np.int64)


def judged(model: OnlineClassifier, X: sp.csr_matrix, y: np.ndarray) -> dict[str, float]:
    """Percent wrong, and percent of the positive rows missed."""
    found = model.predict(X)
    return {"wrong": round(100 * float(np.mean(found != y)), 2), "missed": round(100 * float(np.mean(found[y == 1] == 0)), 2)}


def after_random_labels(name: str, method: str, voted: bool, n_random: int, test: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """Print the lines of (a)."""
    model = OnlineClassifier(method, voted=voted)
    for begin in range(0, n_random, PIECE):
        X, _ = make(min(PIECE, n_random - begin), begin + 10)
        model.partial_fit(X, np.random.default_rng(begin).integers(0, 2, X.shape[0]), classes=[0, 1])
    X, y = make(10_000, 1)
    done = 0
    for n in (1000, 2000, 5000, 10_000):
        model.partial_fit(X[done:n], y[done:n], classes=[0, 1])
        done = n
        new = judged(OnlineClassifier(method, voted=voted).fit(X[:n], y[:n]), *test)
        line = {"learner": name, "random_rows": n_random, "right_rows": n, **judged(model, *test), "new_wrong": new["wrong"]}
        print(json.dumps({"bench": "label_noise"} | line), flush=True)


def with_wrong_labels(name: str, method: str, voted: bool, n_rows: int, test: tuple[sp.csr_matrix, np.ndarray]) -> None:
    """Print the lines of (b)."""
    X, y = make(n_rows, 2)
    for share in (0.0, 0.1, 0.2, 0.3):
        flipped = np.random.default_rng(3).random(n_rows) < share
        model = OnlineClassifier(method, voted=voted).fit(X, np.where(flipped, 1 - y, y))
        print(
            json.dumps({"bench": "label_noise", "learner": name, "rows": n_rows, "wrong_labels": share, **judged(model, *test)}),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--test", type=int, default=5000)
    given = parser.parse_args()
    rows = make(given.test, 4)
    for method, voted in LEARNERS:
        name = f"v-{method}" if voted else method
        after_random_labels(name, method, voted, given.random, rows)
        with_wrong_labels(name, method, voted, given.rows, rows)

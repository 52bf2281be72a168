"""Table 8 of the PSBML paper: class noise in the training rows of PSBML and AdaBoostM1.

Each seed draws training and test rows, which are the same for all methods and shares of noise. Rows that are noisy at 10 % are also
noisy at 20 %. The validation rows of PSBML are a tenth of the training rows, with the same noise. Test rows have no noise.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np

import hpcml
from hpcml.methods.psbml.train import boosted
from hpcml.model import learner as learners
from hpcml.rng import uniform
from launch.lab.core.exhibit import Claim, Finding, Numbers, claim
from launch.lab.core.study import PaperStudy
from launch.lab.papers.psbml_quality import SEEDS, SIGNIFICANT, p_value

SHARES = (0.0, 0.1, 0.2)
ROUNDS = 10  # of AdaBoostM1, as Weka's default
BOOSTED = ("AdaBoostM1/DS", "AdaBoostM1/NB")
OURS = "PSBML/NB"
METHODS = {"NB": "kernel-nb", "AdaBoostM1/DS": "stump", "AdaBoostM1/NB": "kernel-nb", OURS: "kernel-nb"}
MOST_ROWS = 4000  # to train on


def table_8(study: PaperStudy) -> Finding:
    areas: dict[tuple[str, str], dict[str, list[float]]] = {key: {} for key in product(map(noise_name, SHARES), METHODS)}
    most, seeds, cycles = (200, 2, 2) if study.quick else (MOST_ROWS, SEEDS, hpcml.PsbmlClassifier().cycles)
    for rows in study.datasets():
        calls = (partial(areas_of_seed, rows.train, most, cycles, seed) for seed in range(seeds))
        lines = study.compute_once(f"{rows.train.stem}-noise", *calls)
        for key, of in areas.items():
            of[rows.name] = [line[", ".join(key)] for line in lines]
    numbers = {", ".join(key): {name: fmean(values) for name, values in of.items()} for key, of in areas.items()}
    clean = noise_name(SHARES[0])
    for share, method in product(map(noise_name, SHARES[1:]), METHODS):
        numbers[f"{share}, {method}"]["impact"] = impact(numbers[f"{clean}, {method}"], numbers[f"{share}, {method}"])
    for method in BOOSTED:
        ours, theirs = areas[clean, OURS], areas[clean, method]
        numbers[f"{clean}, p of {OURS} and {method}"] = {name: p_value(ours[name], theirs[name]) for name in ours}
    return Finding(numbers)


def noisy_rows(seed: int, share: float, rows: np.ndarray) -> np.ndarray:
    """Return a mask of the rows whose class is flipped: about `share` of them."""
    return uniform(seed, "label noise", rows) < share


def noise_name(share: float) -> str:
    return f"{100 * share:.0f} % noise" if share else "no noise"


def impact(clean: dict[str, float], noisy: dict[str, float]) -> float:
    """Return the mean absolute change by noise over the datasets."""
    return fmean(abs(clean[name] - noisy[name]) for name in clean)


def drawn(path: Path, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on (at most `most`) and those to test (at most a third of the file)."""
    with hpcml.Dataset(path) as dataset:
        order = np.random.default_rng(seed).permutation(dataset.n_rows)
    n_test = min(3 * most // 4, order.size // 3)
    return np.sort(order[n_test : n_test + most]), np.sort(order[:n_test])


def areas_of_seed(path: Path, most: int, cycles: int, seed: int) -> dict[str, float]:
    """Return all areas of a seed, in per cent."""
    from sklearn.metrics import roc_auc_score

    train, test = drawn(path, seed, most)
    with hpcml.Dataset(path) as dataset:
        has, rows = np.diff(dataset.labels().indptr), dataset.matrix()
    X, X_test, y, y_test = rows[train].toarray(), rows[test].toarray(), has[train], has[test]
    scores = {}
    for share, method in product(SHARES, METHODS):
        score = score_of(method, X, y ^ noisy_rows(seed, share, train), X_test, (seed, cycles))
        scores[f"{noise_name(share)}, {method}"] = 100 * float(roc_auc_score(y_test, score))
    return scores


def score_of(method: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, how: tuple[int, int]) -> np.ndarray:
    base, (seed, cycles) = METHODS[method], how
    if method == OURS:
        scores: np.ndarray = (
            hpcml.PsbmlClassifier(base, judge="auc", cycles=cycles, random_state=seed).fit(X, y).decision_function(X_test)
        )
        return scores
    learner = learners.parse_learner(base.split())
    if method in BOOSTED:
        learner = boosted(learner, ROUNDS)
    return learners.scores(learners.fit(learner, X, y, seed), X_test, 2)[:, 0]


def _is_better(numbers: Numbers, name: str, method: str) -> bool:
    clean = noise_name(SHARES[0])
    ours, theirs = numbers[f"{clean}, {OURS}"][name], numbers[f"{clean}, {method}"][name]
    return ours > theirs and numbers[f"{clean}, p of {OURS} and {method}"][name] < SIGNIFICANT


@claim(
    "table-8", f"Without noise PSBML is better than both AdaBoostM1 variants on three datasets (paired t-test, p < {SIGNIFICANT})"
)
def _better_without_noise(numbers: Numbers) -> bool:
    names = numbers[f"{noise_name(SHARES[0])}, {OURS}"]
    return sum(all(_is_better(numbers, name, method) for method in BOOSTED) for name in names) >= 3


def less_impact(share: float) -> Claim:
    name = noise_name(share)
    return Claim(
        f"{100 * share:.0f} % noise has less impact on PSBML than on either AdaBoostM1",
        lambda numbers: all(numbers[f"{name}, {OURS}"]["impact"] < numbers[f"{name}, {each}"]["impact"] for each in BOOSTED),
    )


TABLE_8 = tuple(map(less_impact, SHARES[1:]))

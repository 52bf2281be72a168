"""Are the rows that PSBML finds hard an SVM's support vectors? (Kamath et al. 2018, table 1)"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

HARD = 0.1  # the share of the rows that are called hard
COSTS = tuple(2.0**power for power in range(-5, 16, 2))  # that cross-validation chooses from: those of LIBSVM's guide
FOLDS = 5


class SupportVectors(NamedTuple):
    """Of an SVM: places among its training rows, their α, its C."""

    places: np.ndarray
    alphas: np.ndarray
    C: float

    @classmethod
    def of(cls, fitted: Any) -> SupportVectors:
        """Those of a fitted SVC."""
        return cls(fitted.support_, np.abs(fitted.dual_coef_[0]), float(fitted.C))


class Overlap(NamedTuple):
    """Of the hardest rows and the support vectors, as shares; by chance: as of random rows."""

    vectors: float  # of highest α, as many as there are hard rows (or all), that are hard
    vectors_by_chance: float
    hard: float  # rows that are support vectors
    hard_by_chance: float
    n_vectors: int
    C: float


def support_vectors(X: np.ndarray, y: np.ndarray, kernel: str, seed: int) -> tuple[SupportVectors, SupportVectors]:
    """Two SVMs of X (n × 2), y (n): of the least and greatest C that cross-validation finds best.

    Classes that are easily told apart are so by many C, with few or many support vectors.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.svm import SVC

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    accuracies = [cross_val_score(SVC(C=C, kernel=kernel), X, y, cv=folds).mean() for C in COSTS]
    best = [C for C, accuracy in zip(COSTS, accuracies, strict=True) if accuracy >= max(accuracies) - 1e-12]
    least, greatest = (SVC(C=C, kernel=kernel).fit(X, y) for C in (best[0], best[-1]))
    return SupportVectors.of(least), SupportVectors.of(greatest)


def overlap(weights: np.ndarray, vectors: SupportVectors) -> Overlap:
    """Table 1 for the weights (n) that PSBML gives the rows."""
    n = weights.size
    hard = hardest(weights, max(1, round(HARD * n)))
    strongest = vectors.places[highest(vectors.alphas, hard.size)]
    return Overlap(
        vectors=share_within(strongest, hard),
        vectors_by_chance=hard.size / n,
        hard=share_within(hard, vectors.places),
        hard_by_chance=vectors.places.size / n,
        n_vectors=vectors.places.size,
        C=vectors.C,
    )


def hardest(weights: np.ndarray, n: int) -> np.ndarray:
    """The places of the n greatest weights, the first of equal ones."""
    return np.sort(np.argsort(-weights, kind="stable")[:n])


def highest(alphas: np.ndarray, n: int) -> np.ndarray:
    """The places of the n greatest α, and of those equal to the last (all at C are equal)."""
    least = np.sort(alphas)[::-1][min(n, alphas.size) - 1]
    return np.flatnonzero(alphas >= least * (1 - 1e-9))


def share_within(some: np.ndarray, others: np.ndarray) -> float:
    """The share of some rows that are among others."""
    return float(np.isin(some, others).mean())

"""How methods are judged: F1 in stratified folds, or precision in the first ranks of random splits.

A protocol says which labels have rows enough, which rows a part (a fold, a split) judges on, and
what it measures there. The rows of a part are drawn from a key by their numbers in the file, so
they are the same on any number of ranks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpcml.errors import ConfigError
from hpcml.model import learner as learners
from hpcml.rng import bits


@dataclass(frozen=True)
class Folds:
    """Each row is judged once, by the model of the other folds; F1 (Carvalho & Cohen 2006, 4.2)."""

    n_parts: int
    part: ClassVar[str] = "fold"

    def check(self) -> None:
        """Raise ConfigError for numbers that make no sense."""
        if self.n_parts < 2:
            raise ConfigError(f"--folds {self.n_parts}: expected at least 2")

    @property
    def needs(self) -> str:
        """The rows that a label needs, in words."""
        return f"{self.n_parts} folds need at least {self.n_parts} rows of each class"

    def enough(self, n_positive: np.ndarray, n_negative: np.ndarray) -> np.ndarray:
        """Which labels can be judged, by the numbers of rows with and without them."""
        return np.minimum(n_positive, n_negative) >= self.n_parts

    def key(self, seed: int, label: int, part: int) -> int:
        """The key that draws a part's rows and their order: the same for all labels."""
        return seed

    def judged(self, key: int, part: int, rows: np.ndarray, has: np.ndarray) -> np.ndarray:
        """Which rows are judged (n_rows, bool); the others are trained on."""
        return folds_of(key, rows, has, self.n_parts) == part

    def measure(self, classifier: Any, X: Any, y: np.ndarray) -> float:
        """F1 of class 1 in per cent."""
        return f1_score(np.asarray(classifier.predict(X)) == 1, y == 1)


@dataclass(frozen=True)
class TopRanks:
    """Splits hold out `top` positives, and negatives by share; precision at `top` (Wilbur 2000)."""

    n_parts: int
    top: int
    part: ClassVar[str] = "split"

    def check(self) -> None:
        """Raise ConfigError for numbers that make no sense."""
        if self.top < 1:
            raise ConfigError(f"--top {self.top}: expected at least 1")
        if self.n_parts < 2:
            raise ConfigError(f"--splits {self.n_parts}: expected at least 2")

    @property
    def needs(self) -> str:
        """The rows that a label needs, in words."""
        with_it = f"{2 * self.top} rows with the label ({self.top} to rank, as many to train on)"
        return f"--top {self.top} needs at least {with_it}, and so many without it that the same share of them is a row"

    def enough(self, n_positive: np.ndarray, n_negative: np.ndarray) -> np.ndarray:
        """Which labels can be judged, by the numbers of rows with and without them."""
        return (n_positive >= 2 * self.top) & (negatives_held_out(n_positive, n_negative, self.top) >= 1)

    def key(self, seed: int, label: int, part: int) -> int:
        """The key that draws a part's rows and their order: each label's splits have their own."""
        return int(bits(seed, f"split of label {label}", np.array(part)))

    def judged(self, key: int, part: int, rows: np.ndarray, has: np.ndarray) -> np.ndarray:
        """Which rows are judged (n_rows, bool); the others are trained on."""
        order = np.lexsort((rows, bits(key, "held out", rows)))
        positive, negative = (order[has[order] == which] for which in (1, 0))
        out = np.zeros(rows.size, dtype=bool)
        out[positive[: self.top]] = True
        out[negative[: int(negatives_held_out(positive.size, negative.size, self.top))]] = True
        return out

    def measure(self, classifier: Any, X: Any, y: np.ndarray) -> float:
        """Precision in the first ranks, in per cent. Raises HpcmlError."""
        return precision_at(ranking_scores(classifier, X), y == 1, self.top)


Protocol = Folds | TopRanks


def folds_of(seed: int, rows: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows) of each row, drawn by its number in the file; `has` is its class.

    The rows of each class are dealt out in turn, in the order of their random bits, so that folds
    differ by at most one row, and by at most one row of each class (stratified).
    """
    order = np.lexsort((rows, bits(seed, "fold", rows), has))
    fold = np.empty(rows.size, dtype=np.int64)
    fold[order] = np.arange(rows.size) % n_folds
    return fold


def negatives_held_out(n_positive: Any, n_negative: Any, top: int) -> Any:
    """top / n_positive of the negatives, to the nearest, a half down: a share ≤ 1/2 leaves some."""
    n_positive = np.maximum(n_positive, 1)
    return (2 * top * n_negative + n_positive - 1) // (2 * n_positive)


def training_order(seed: int, rows: np.ndarray) -> np.ndarray:
    """Positions in `rows`, drawn: single-pass learners depend on order, files may be sorted."""
    return np.lexsort((rows, bits(seed, "order", rows)))


def f1_score(predicted: np.ndarray, true: np.ndarray) -> float:
    """F1 in per cent; 0 where it is not defined (Carvalho & Cohen 2006, 4.2)."""
    hits = np.count_nonzero(predicted & true)
    return 200.0 * hits / (np.count_nonzero(predicted) + np.count_nonzero(true)) if hits else 0.0


def precision_at(scores: np.ndarray, positive: np.ndarray, top: int) -> float:
    """The per cent of positives in the first `top` ranks, expected over the orders of ties."""
    last = np.partition(scores, scores.size - top)[scores.size - top]  # the score in rank `top`
    above, tied = scores > last, scores == last
    share = np.count_nonzero(tied & positive) / np.count_nonzero(tied)
    return 100.0 * (np.count_nonzero(above & positive) + (top - np.count_nonzero(above)) * share) / top


def ranking_scores(classifier: Any, X: Any) -> np.ndarray:
    """The scores that rank rows (n_rows float64): decision function or log-odds, maybe infinite.

    Not the probability, which rounds to 0 or 1 for many rows of a long text, and so would tie them.
    Raises HpcmlError.
    """
    if hasattr(classifier, "decision_function") or not hasattr(classifier, "predict_log_proba"):
        return learners.scores(classifier, X, 2)[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the logarithm of 0
        log_p = np.asarray(classifier.predict_log_proba(X), dtype=np.float64)
    odds: np.ndarray = log_p[:, 1] - log_p[:, 0]
    if np.isnan(odds).any():
        raise ConfigError("its probabilities are not numbers for some row")
    return odds

"""Stratified folds and F1 in them.

The fold of a row is drawn from the seed by the row's number in the file, so it does not depend on
the number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.errors import ConfigError
from hpcml.rng import bits


@dataclass(frozen=True)
class Folds:
    """Each row is judged once, by the model of the other folds; F1 (Carvalho & Cohen 2006, 4.2)."""

    n_parts: int

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

    def judged(self, seed: int, part: int, rows: np.ndarray, has: np.ndarray) -> np.ndarray:
        """Which rows are judged (n_rows, bool); the others are trained on."""
        return folds_of(seed, rows, has, self.n_parts) == part

    def measure(self, classifier: Any, X: Any, y: np.ndarray) -> float:
        """F1 of class 1 in per cent."""
        return f1_score(np.asarray(classifier.predict(X)) == 1, y == 1)


def folds_of(seed: int, rows: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows) of each row, drawn by its number in the file; `has` is its class.

    The rows of each class are dealt out in turn, in the order of their random bits, so that folds
    differ by at most one row, and by at most one row of each class (stratified).
    """
    order = np.lexsort((rows, bits(seed, "fold", rows), has))
    fold = np.empty(rows.size, dtype=np.int64)
    fold[order] = np.arange(rows.size) % n_folds
    return fold


def training_order(seed: int, rows: np.ndarray) -> np.ndarray:
    """Positions in `rows`, drawn: single-pass learners depend on order, files may be sorted."""
    return np.lexsort((rows, bits(seed, "order", rows)))


def f1_score(predicted: np.ndarray, true: np.ndarray) -> float:
    """F1 in per cent; 0 where it is not defined (Carvalho & Cohen 2006, 4.2)."""
    hits = np.count_nonzero(predicted & true)
    return 200.0 * hits / (np.count_nonzero(predicted) + np.count_nonzero(true)) if hits else 0.0

"""Stratified folds and F1 in them.

The fold of a row is drawn from the seed by the key of the row or its group, so it does not depend on
the number of ranks, nor on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcml.data import stratify
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

    def judged(self, seed: int, part: int, keys: np.ndarray, has: np.ndarray) -> np.ndarray:
        """Which rows are judged (n_rows, bool); the others are trained on."""
        return folds_of(seed, keys, has, self.n_parts) == part

    def measure(self, classifier: Any, X: Any, y: np.ndarray) -> float:
        """F1 of class 1 in per cent."""
        return f1_score(np.asarray(classifier.predict(X)) == 1, y == 1)


def folds_of(seed: int, keys: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows) of each row, by the keys of rows or groups; `has` is its class.

    Folds have even shares of each class, as far as groups allow (`hpcml.data.stratify`).
    """
    return stratify.deal(2, np.arange(has.size + 1), has, n_folds, keys, bits(seed, "fold", keys)).astype(np.int64)


def training_order(seed: int, keys: np.ndarray) -> np.ndarray:
    """Positions in `keys`, drawn: single-pass learners depend on order, files may be sorted."""
    return np.lexsort((np.arange(keys.size), bits(seed, "order", keys)))


def f1_score(predicted: np.ndarray, true: np.ndarray) -> float:
    """F1 in per cent; 0 where it is not defined (Carvalho & Cohen 2006, 4.2)."""
    hits = np.count_nonzero(predicted & true)
    return 200.0 * hits / (np.count_nonzero(predicted) + np.count_nonzero(true)) if hits else 0.0

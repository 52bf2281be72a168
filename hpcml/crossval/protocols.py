"""Stratified folds and F1 in them.

The fold of a row is drawn from the seed by the key of the row or its group, so it does not depend on
the number of ranks, nor on the order of the rows.
"""

from __future__ import annotations

import numpy as np

from hpcml.data import stratify
from hpcml.rng import bits


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

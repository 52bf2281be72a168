"""Stratified folds and F1 in them.

The fold of a row is drawn from the seed by the row's number in the file, so it does not depend on
the number of ranks.
"""

from __future__ import annotations

import numpy as np

from hpcml.rng import bits


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

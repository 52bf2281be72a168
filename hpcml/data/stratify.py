"""Rows dealt to folds, or divided into splits of given sizes, with the labels balanced.

Rows are drawn by their keys (`hpcml.data.row_keys`), and rows of one group stay together.
"""

from __future__ import annotations

import numpy as np

from hpcml import rng
from hpcml.kernels import row_keys as kernels
from hpcml.data.row_keys import groups_of
from hpcml.partition import offsets


def by_label(n_labels: int, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the rows of each label begin (n_labels + 1), and the rows, label by label."""
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    return offsets(np.bincount(indices, minlength=n_labels)), rows[order]


def _in_drawn_order(indptr: np.ndarray, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the rows of each label in the order of their draws, which their places do not change."""
    rank = np.empty(draws.size, np.int64)
    rank[np.argsort(draws, kind="stable")] = np.arange(draws.size)
    return rows[np.lexsort((rank[rows], np.repeat(np.arange(indptr.size - 1), np.diff(indptr))))]


def deal(
    label_indptr: np.ndarray, label_rows: np.ndarray, labels: np.ndarray, n_folds: int, keys: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Return the fold of every row.

    Each fold has an even share of the rows of each of `labels` (numbers), as far as groups allow.

    Parameters
    ----------
    label_indptr, label_rows : ndarray
        The rows of each label.
    labels : ndarray of int64
        The labels that are balanced.
    n_folds : int
        Their number.
    keys : ndarray of uint64 (n_rows,)
        Rows with equal keys are in one fold.
    draws : ndarray of uint64 (n_rows,)
        Random bits of each row, equal for equal keys.

    Returns
    -------
    ndarray of int8 (n_rows,)
    """
    sizes = np.diff(label_indptr)
    wanted = np.repeat(sizes[:, None] / n_folds, n_folds, axis=1)
    capacity = np.full(n_folds, draws.size, np.int64)  # none is ever full
    order = labels[np.argsort(sizes[labels], kind="stable")].astype(np.int64)
    fold = np.full(draws.size, -1, np.int8)
    kernels.assign(
        label_indptr, _in_drawn_order(label_indptr, label_rows, draws), order, wanted, capacity, draws, *groups_of(keys), fold
    )
    return fold


def divide(
    n_labels: int, y_indptr: np.ndarray, y_indices: np.ndarray, shares: np.ndarray, keys: np.ndarray, seed: int
) -> np.ndarray:
    """Return the part (int8) of every row: parts of exactly these shares, with labels balanced.

    A part has its share of the rows, rounded (with groups as close as these allow). Labels in at
    least two rows are balanced, the rarest first. The number of a label's rows in a part is its
    share, rounded at random so that small labels do not all go to the largest part.

    Parameters
    ----------
    n_labels : int
    y_indptr, y_indices : ndarray
        The label sets of the rows, as CSR.
    shares : ndarray of float64 (n_parts,)
        Their sum is 1.
    keys : ndarray of uint64 (n_rows,)
        The keys of rows or groups, by which ties are broken.
    seed : int
        Of the draws.
    """
    n_rows = y_indptr.size - 1
    indptr, rows = by_label(n_labels, y_indptr, y_indices)
    draws = rng.bits(seed, "split", keys)
    sizes = np.diff(indptr)
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    capacity = np.diff(np.floor(ends * n_rows + 0.5).astype(np.int64), prepend=0)
    shift = rng.uniform(seed, "rounding of a label", np.arange(n_labels))[:, None]
    wanted = np.diff(np.floor(ends * sizes[:, None] + np.where(ends < 1, shift, 0.0)), axis=1, prepend=0.0)
    order = np.flatnonzero(sizes > 1)
    order = order[np.argsort(sizes[order], kind="stable")].astype(np.int64)
    part = np.full(n_rows, -1, np.int8)
    kernels.assign(indptr, _in_drawn_order(indptr, rows, draws), order, wanted, capacity, draws, *groups_of(keys), part)
    return part

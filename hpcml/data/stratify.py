"""Stratified folds and splits: rows are assigned to parts of given sizes with balanced labels.

Iterative stratification (Sechidis, Tsoumakas & Vlahavas 2011: rows with rare labels first), with a different choice of the part:
the one that keeps all labels of a row closest to their shares, not only the rarest one. Mean square of (rows of a label in the test
part − its share), on 6,000 rows with 5 of 20,000 labels (probabilities proportional to rank^-0.8) and a share of .2: .23; published
choice .72; random split .79. On 4,000 rows of debian_tags_en: .37, 3.1 and 9.7.

Rows are drawn by their keys (`hpcml.data.row_keys`), and rows of one group stay together.
"""

import numpy as np

from hpcml import rng
from hpcml.data.row_keys import groups_of
from hpcml.errors import OptionError
from hpcml.kernels import row_keys as kernels
from hpcml.log import plural
from hpcml.partition import offsets


def transpose_csr(n_labels: int, indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return offsets(np.bincount(indices, minlength=n_labels)), rows[np.argsort(indices, kind="stable")]


def assign(
    n_labels: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    shares: np.ndarray,
    room: np.ndarray,
    keys: np.ndarray,
    draws: np.ndarray,
) -> np.ndarray:
    """Return the part (int8) of each row: equal `keys` stay together; `room`: most rows of a part; `draws`: random bits by key."""
    n_rows = indptr.size - 1
    sizes = np.bincount(indices, minlength=n_labels)
    weights = np.where(sizes > 1, 1.0 / np.sqrt(np.maximum(sizes, 1)), 0.0)
    rarest = np.full(n_rows, n_rows + 1)
    labelled = np.flatnonzero(np.diff(indptr))
    if labelled.size:
        rarest[labelled] = np.minimum.reduceat(np.where(sizes > 1, sizes, n_rows)[indices], indptr[labelled])
    group_indptr, group_rows = groups_of(keys)
    of_groups = np.minimum.reduceat(rarest[group_rows], group_indptr[:-1])
    order = np.lexsort((draws[group_rows[group_indptr[:-1]]], of_groups))
    part, deviations = np.full(n_rows, -1, np.int8), np.zeros((n_labels + 1, shares.size))
    arrays = (indptr.astype(np.int64), indices.astype(np.int64), weights, shares, room.copy(), draws)
    kernels.assign(*arrays, order, group_indptr, group_rows, deviations, part)
    return part


def deal(n_labels: int, indptr: np.ndarray, indices: np.ndarray, n_folds: int, keys: np.ndarray, draws: np.ndarray) -> np.ndarray:
    fold = assign(n_labels, indptr, indices, np.full(n_folds, 1 / n_folds), np.full(n_folds, keys.size), keys, draws)
    if not np.bincount(fold, minlength=n_folds).all():
        n_groups = plural(np.unique(keys).size, "group")
        why = f"{n_groups} of rows leave a fold empty (rows with the same id or content also form a group)"
        raise OptionError("folds", n_folds, why)
    return fold


def divide(n_labels: int, indptr: np.ndarray, indices: np.ndarray, shares: np.ndarray, keys: np.ndarray, seed: int) -> np.ndarray:
    """Return the part (int8) of every row: `assign` with parts that have their share of the rows, rounded."""
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    room = np.diff(np.floor(ends * keys.size + 0.5).astype(np.int64), prepend=0)
    return assign(n_labels, indptr, indices, shares, room, keys, rng.bits(seed, "split", keys))

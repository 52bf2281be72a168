"""What a feature says about a label, from counts of rows (Yang & Pedersen 1997): information gain and chi-square.

A feature is present in a row if its value is not 0. The counts are integers, summed over the ranks, and a score is computed from
the counts alone, so its bits do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.partition import even_bounds, offsets

Score = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
BLOCK_BYTES = 1 << 26  # the counts of a block of labels, unless one label alone needs more
ROWS_NNZ = 1 << 22  # the values that are looked at together


def information_gain(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """The mutual information, in nats, of "the feature is present" and "the row has the label".

    `both` counts rows that have the label and the feature; `present` and `positive`, of shapes that go with it, those that have
    the one and the other.
    """
    total = np.zeros(both.shape)
    for count, with_feature, with_label in (
        (both, present, positive),
        (present - both, present, n_rows - positive),
        (positive - both, n_rows - present, positive),
        (n_rows - present - positive + both, n_rows - present, n_rows - positive),
    ):
        expected = with_feature.astype(np.float64) * with_label
        ratio = np.divide(count.astype(np.float64) * n_rows, expected, out=np.ones(both.shape), where=expected > 0)
        total += xlogy(count, ratio)
    return np.maximum(total / max(1, n_rows), 0.0)


def chi_square(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """χ² = N (AD − CB)² / ((A + C)(B + D)(A + B)(C + D)) of the same counts; 0 where it is not defined.

    A, B: rows with the feature that have the label or not; C, D: the same without the feature. AD − CB = A N − (A + B)(A + C).
    """
    with_feature, with_label = present.astype(np.float64), positive.astype(np.float64)
    difference = both.astype(np.float64) * n_rows - with_feature * with_label
    expected = with_feature * with_label * (n_rows - with_feature) * (n_rows - with_label)
    return np.divide(n_rows * difference**2, expected, out=np.zeros(both.shape), where=expected > 0)


SCORES: dict[str, Score] = {"ig": information_gain, "chi2": chi_square}


def _row_blocks(shard: Shard) -> Iterator[np.ndarray]:
    """The shard's rows in pieces of about ROWS_NNZ values."""
    ends = np.cumsum(shard.indptr[shard.rows + 1] - shard.indptr[shard.rows])
    begin = 0
    while begin < shard.n_local:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + ROWS_NNZ, "right")))
        yield shard.rows[begin:end]
        begin = end


def _places(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of some rows' entries in CSR arrays, and indptr of those rows alone."""
    sizes = indptr[rows + 1] - indptr[rows]
    ends = offsets(sizes)
    return np.arange(ends[-1]) + np.repeat(indptr[rows] - ends[:-1], sizes), ends


def _indicators(shard: Shard, rows: np.ndarray) -> sp.csr_matrix:
    """Which features are present in some rows (n × d, int64 ones)."""
    places, ends = _places(shard.indptr, rows)
    kept = shard.data[places] != 0
    ends = offsets(kept)[ends]
    return sp.csr_matrix((np.ones(int(ends[-1]), np.int64), shard.indices[places[kept]], ends), (rows.size, shard.n_features))


def count_present(shard: Shard) -> np.ndarray:
    """In how many of the shard's rows each feature is present (d, int64). Local."""
    out = np.zeros(shard.n_features, dtype=np.int64)
    for rows in _row_blocks(shard):
        places, _ = _places(shard.indptr, rows)
        out += np.bincount(shard.indices[places[shard.data[places] != 0]], minlength=out.size)
    return out


def count_both(shard: Shard, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of the shard's rows have each of `labels` (B) and each feature (B × d), and each label (B); int64. Local."""
    number = np.full(shard.n_labels, -1)
    number[labels] = np.arange(labels.size)
    both, positive = np.zeros((labels.size, shard.n_features), np.int64), np.zeros(labels.size, np.int64)
    for rows in _row_blocks(shard):
        places, ends = _places(shard.y_indptr, rows)
        columns = number[shard.y_indices[places]]
        wanted = columns >= 0
        ends = offsets(wanted)[ends]
        Y = sp.csr_matrix((np.ones(int(ends[-1]), np.int64), columns[wanted], ends), (rows.size, labels.size))
        positive += np.bincount(columns[wanted], minlength=labels.size)
        some = np.flatnonzero(np.diff(ends))  # rows without a label count for nothing
        product = (Y[some].T @ _indicators(shard, rows[some])).tocoo()
        both[product.row, product.col] += product.data
    return both, positive


def _scores_of(score: Score, both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """The scores (B × d) of counts. Most features and labels never meet; then only the two frequencies matter."""
    frequencies, place = np.unique(present, return_inverse=True)
    column = positive[:, None]
    out = score(np.zeros((positive.size, frequencies.size), np.int64), frequencies, column, n_rows)[:, place]
    labels, features = np.nonzero(both)
    out[labels, features] = score(both[labels, features], present[features], positive[labels], n_rows)
    return out


@mpi.collective
def feature_scores(comm: mpi.Comm, shard: Shard, labels: np.ndarray, score: Score, over: str) -> tuple[np.ndarray, np.ndarray]:
    """Collective over `comm`. The score of every feature (d float64) over `labels`, and in how many rows it is present (d int64).

    `shard` are this rank's training rows; `over` is "max", the largest score for any label, or "mean", weighted by how many rows
    have the label. Each rank computes the scores of a range of the features, one block of labels after another.
    """
    with mpi.agreed(comm, "counting features"):
        present = count_present(shard)
    mpi.allreduce_sum(comm, present)
    begin, end = (int(bound) for bound in even_bounds(shard.n_features, comm.size)[comm.rank : comm.rank + 2])
    own, weight = np.zeros(end - begin), 0
    width = max(1, BLOCK_BYTES // (8 * max(1, shard.n_features)))
    for first in range(0, labels.size, width):
        with mpi.agreed(comm, "counting features with labels"):
            both, positive = count_both(shard, labels[first : first + width])
        mpi.allreduce_sum(comm, both)
        mpi.allreduce_sum(comm, positive)
        scores = _scores_of(score, both[:, begin:end], present[begin:end], positive, shard.n_global)
        for number, row in enumerate(scores):  # one after another, so that blocks do not change a bit
            own = np.maximum(own, row) if over == "max" else own + positive[number] * row
        weight += int(positive.sum())
    if over == "mean":
        own /= max(1, weight)
    return np.concatenate(mpi.allgather_arrays(comm, own)), present

"""Information gain and chi-square of features for labels, from counts (Yang & Pedersen 1997).

A feature is present in a row if its value is not 0. Counts are integers, summed over the ranks, and a score is computed from the
counts alone, so its bits do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcml import mpi, slices
from hpcml.data.shard import Shard
from hpcml.kernels import elementwise
from hpcml.kernels.rows import count_features, count_labels, transpose
from hpcml.measures import chi_square
from hpcml.partition import even_bounds, offsets

Score = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
BLOCK_BYTES = 1 << 26  # counts per block of labels (at least one label)


def information_gain(both: np.ndarray, present: np.ndarray, positive: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the mutual information, in nats, of "the feature is present" and "the row has the label".

    `both` are rows with label and feature; `present` and `positive`, of broadcastable shapes, rows with one of them.
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
        total += count * elementwise.log(np.where(count > 0, ratio, 1.0))
    return np.maximum(total / max(1, n_rows), 0.0)


SCORES: dict[str, Score] = {"ig": information_gain, "chi2": chi_square}


def _count_features(shard: Shard, rows: np.ndarray, out: np.ndarray) -> None:
    step = slices.rows_in_slice(shard.indptr.size - 1, shard.data.size)
    for first in range(0, rows.size, step):
        count_features(shard.indptr, shard.indices, shard.data, rows[first : first + step], out)


class RowsByLabel:
    """The positions in `shard.rows` of the rows with each label: 4 bytes per label of a row."""

    def __init__(self, shard: Shard) -> None:
        self.shard, counts = shard, np.zeros(shard.n_labels, np.int64)
        count_labels(shard.y_indptr, shard.y_indices, shard.rows, counts)
        self.ends = offsets(counts)
        self.rows = np.empty(int(self.ends[-1]), np.int32 if shard.y_indptr.size < 1 << 31 else np.int64)
        begins, ends = shard.y_indptr[shard.rows], shard.y_indptr[shard.rows + 1]
        transpose(begins, ends, shard.y_indices, None, 0, self.ends[:-1].copy(), self.rows, None)

    def count_both(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows with each of `labels` (B) and each feature (B × d), and with each label (B). Local."""
        both = np.zeros((labels.size, self.shard.n_features), np.int64)
        for label, counts in zip(labels, both, strict=True):
            _count_features(self.shard, self.shard.rows[self.rows[self.ends[label] : self.ends[label + 1]]], counts)
        return both, np.diff(self.ends)[labels]


def feature_scores(comm: mpi.Comm, shard: Shard, labels: np.ndarray, score: Score, over: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the score (d) of each feature over `labels`, and the rows with it (d). Collective over `comm`.

    `shard` are this rank's training rows; `over` is "max", or "mean" weighted by the rows of each label. Each rank scores a range
    of features, by blocks of labels.
    """
    with mpi.agreed(comm, "counting features"):
        present, by_label = np.zeros(shard.n_features, dtype=np.int64), RowsByLabel(shard)
        _count_features(shard, shard.rows, present)
    mpi.allreduce_sum(comm, present)
    begin, end = (int(bound) for bound in even_bounds(shard.n_features, comm.size)[comm.rank : comm.rank + 2])
    own, weight = np.zeros(end - begin), 0
    frequencies, frequency_number = np.unique(present[begin:end], return_inverse=True)
    width = max(1, BLOCK_BYTES // (8 * max(1, shard.n_features)))
    for first in range(0, labels.size, width):
        with mpi.agreed(comm, "counting features with labels"):
            both, positive = by_label.count_both(labels[first : first + width])
        mpi.allreduce_sum(comm, both)
        mpi.allreduce_sum(comm, positive)
        # scores (B × d) of features in frequencies[frequency_number[j]] rows; most features never occur with most labels
        own_both, n_rows = both[:, begin:end], shard.n_global
        never = np.zeros((positive.size, frequencies.size), np.int64)
        scores = score(never, frequencies, positive[:, None], n_rows)[:, frequency_number]
        lanes, features = np.nonzero(own_both)
        scores[lanes, features] = score(own_both[lanes, features], frequencies[frequency_number[features]], positive[lanes], n_rows)
        for number, row in enumerate(scores):  # one by one, so that bits do not depend on the block size
            own = np.maximum(own, row) if over == "max" else own + positive[number] * row
        weight += int(positive.sum())
    if over == "mean":
        own /= max(1, weight)
    return np.concatenate(mpi.allgather_arrays(comm, own)), present

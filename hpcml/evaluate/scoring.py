"""Scores of a model's labels on a shard, one block of rows × labels at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcml import mpi
from hpcml.data.shard import Shard
from hpcml.errors import NonFiniteError
from hpcml.kernels import scores as kernels
from hpcml.model import Model

WEIGHT_BYTES = 1 << 28  # the weights of a block of labels (d × B doubles, expanded), unless one label alone needs more
SCORE_BYTES = 1 << 25  # the scores of a block of rows × labels
MAX_LANES = 32  # wider blocks of labels are no faster


def label_blocks(n_labels: int, n_features: int) -> list[tuple[int, int]]:
    """Ranges (begin, end) of labels whose weights fit WEIGHT_BYTES, at most MAX_LANES wide."""
    width = max(1, min(MAX_LANES, WEIGHT_BYTES // (8 * max(1, n_features))))
    return [(begin, min(begin + width, n_labels)) for begin in range(0, n_labels, width)]


def blocks_of(rows: np.ndarray, n_columns: int) -> Iterator[tuple[int, np.ndarray]]:
    """(begin, rows[begin:end]) for consecutive ranges whose rows × n_columns doubles fit SCORE_BYTES."""
    step = max(1, SCORE_BYTES // (8 * max(1, n_columns)))
    for begin in range(0, rows.size, step):
        yield begin, rows[begin : begin + step]


class Scorer:
    """The scores of some labels of a model on the rows of a shard."""

    def __init__(self, model: Model, shard: Shard, labels: np.ndarray) -> None:
        """`labels` (n, int64, ascending) are label numbers of the model."""
        self.model, self.labels = model, labels
        self.rows = shard.rows
        self._csr = (shard.indptr, shard.indices, shard.data)
        self._stored = (model.W, model.columns, model.factors)
        self.blocks = label_blocks(labels.size, model.n_features)

    def weights(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Wt (d, B), the weights of every feature, and bias (B) of labels[begin:end]."""
        (W, columns, factors), labels = self._stored, self.labels[begin:end]
        Wt = np.empty((columns.size, labels.size))
        kernels.expand_weights(W, labels, columns, factors, Wt)
        return Wt, self.model.bias[labels]

    def rows_scores(self, rows: np.ndarray, Wt: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """The scores (n, B) of `rows` for a block's weights."""
        out = np.empty((rows.size, bias.size))
        kernels.score_rows(*self._csr, rows, Wt, bias, out)
        return out

    def pairs_scores(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The scores (n_pairs) of row rows[p] for label labels[p] of the model: the same bits as `rows_scores`."""
        out = np.empty(rows.size)
        kernels.score_pairs(*self._csr, rows, labels, *self._stored, self.model.bias, out)
        return out

    def check_numbers(self, scores: np.ndarray, labels: np.ndarray) -> None:
        """Raise NonFiniteError if scores[i], of label labels[i], is not a number."""
        bad = np.flatnonzero(np.isnan(scores))
        if bad.size:
            name = self.model.label_names[int(labels[bad[0]])]
            raise NonFiniteError(f"{self.model.path}: a score of label {name!r} is not a number: its weights are; train it again")

    @mpi.collective
    def warm_up(self, comm: mpi.Comm) -> None:
        """Collective over `comm`. Compile the kernels for these arrays' types, first on one rank of each node."""
        none = np.empty(0, dtype=np.int64)
        with mpi.node_first(comm):
            self.rows_scores(none, *self.weights(0, 0))
            self.pairs_scores(none, none)
            kernels.count_sorted(np.empty(0), np.empty(0), np.zeros(1, dtype=np.int64), none)

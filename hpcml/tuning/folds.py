"""The training rows in folds: the rows of each fold, and all other rows as a view.

The rows are copied once, fold after fold, and then all folds except two again. In this ring, the rows outside any fold are
contiguous, so they need no further copy. K folds take (2K − 2)/K times the memory of the rows, once per node.
"""

from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from hpcml import mpi, rng
from hpcml.data import stratify
from hpcml.data.compact import CompactRows
from hpcml.data.scaling import feature_factors, multiply_features
from hpcml.data.shard import Shard
from hpcml.data.shared_rows import shared_array
from hpcml.errors import OptionError
from hpcml.partition import even_bounds, offsets
from hpcml.tuning import kernels

Csr = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, data


@dataclass
class TrainingRows(CompactRows):
    """The rows outside a fold: row i is row (i + start) mod n of the order by folds; `label_rows` are numbers of all rows."""

    position: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # (n) of each row in the order by folds
    start: int = 0

    def rows_of(self, label: int) -> np.ndarray:
        rows = (self.position[super().rows_of(label)].astype(np.int64) - self.start) % self.position.size
        return np.sort(rows[rows < self.n_local])


class Fold(NamedTuple):
    training: TrainingRows
    held_out: Csr
    numbers: np.ndarray


def deal(rows: CompactRows, labels: np.ndarray, n_folds: int, seed: int, keys: np.ndarray) -> np.ndarray:
    """Return the fold (n int8) of every row; each fold has an even share of each label. Raises ConfigError for too few rows.

    `keys` (n uint64) are those of the rows, or of their groups, which are not split. Every rank has all rows.
    """
    if rows.n_global < n_folds:
        raise OptionError("folds", n_folds, f"expected at most the number of training rows ({rows.n_global})")
    sizes = np.diff(rows.label_indptr)[labels]
    chosen = np.concatenate([rows.rows_of(label) for label in labels.tolist()])
    indptr, indices = stratify.transpose_csr(rows.n_global, offsets(sizes), chosen)
    return stratify.deal(labels.size, indptr, indices, n_folds, keys, rng.bits(seed, "folds", keys))


def fold_rows(node: mpi.Comm, rows: CompactRows, fold: np.ndarray, n_folds: int, scale: str | None = None) -> list[Fold]:
    """Return every fold, scaled by its training rows. Raises DataError. Collective over `node`, whose ranks have the same rows."""
    order = np.argsort(fold, kind="stable").astype(np.int32)
    bounds = offsets(np.bincount(fold, minlength=n_folds))
    ring = np.concatenate([order, order[: bounds[n_folds - 2]]])
    position = np.empty_like(order)
    position[order] = np.arange(order.size, dtype=np.int32)
    indptr = offsets(np.diff(rows.indptr)[ring])
    if rows.mapped:  # each rank of the node copies a part
        indices, data = (shared_array(node, int(indptr[-1]), dtype) for dtype in (np.int32, np.float32))
        part = slice(*even_bounds(ring.size, node.size)[node.rank : node.rank + 2].tolist())
    else:
        with mpi.agreed(node, "allocating the folds"):
            indices, data = np.empty(int(indptr[-1]), np.int32), np.empty(int(indptr[-1]), np.float32)
        part = slice(0, ring.size)
    kernels.copy_rows(rows.indptr, rows.indices, rows.data, ring[part], indptr[part.start : part.stop + 1], indices, data)
    if rows.mapped:
        node.Barrier()
    counts = np.array([np.bincount(fold[rows.rows_of(label)], minlength=n_folds) for label in range(rows.n_labels)])
    common = {each.name: getattr(rows, each.name) for each in fields(CompactRows)}
    folds = []
    for k in range(n_folds):
        held_out = slice(int(bounds[k]), int(bounds[k + 1]))
        start, n = held_out.stop % order.size, order.size - (held_out.stop - held_out.start)
        (train, test) = (
            (indptr[first : last + 1] - indptr[first], indices[indptr[first] : indptr[last]], data[indptr[first] : indptr[last]])
            for first, last in ((start, start + n), (held_out.start, held_out.stop))
        )
        changed = dict(zip(("indptr", "indices", "data"), train, strict=True))
        column_counts = np.bincount(train[1], minlength=rows.n_columns).astype(np.int32)
        changed |= {"first": 0, "n_global": n, "n_positive": rows.n_positive - counts[:, k], "counts": column_counts}
        if scale not in (None, "none"):
            more, test = _scale(rows, train, test, str(scale))
            changed |= more
        training = TrainingRows(**{**common, **changed}, position=position, start=start)
        folds.append(Fold(training, test, order[held_out]))
    return folds


def _scale(rows: CompactRows, train: Csr, test: Csr, scale: str) -> tuple[dict[str, object], Csr]:
    shard = Shard.of_csr(train, rows.n_columns, 0)
    factors = feature_factors(mpi.self_comm(), shard, scale)
    factors[rows.counts == 1] = 1.0  # several features may share the column of a row
    data = multiply_features(shard, factors).data
    sizes = np.abs(data)
    largest = np.zeros(rows.n_columns, np.float32)
    np.maximum.at(largest, train[1], sizes)
    squares = np.bincount(np.repeat(np.arange(train[0].size - 1), np.diff(train[0])), np.square(data, dtype=np.float64))
    smallest, max_norm = float(sizes[sizes > 0].min(initial=1.0)), float(np.sqrt(squares.max(initial=0.0))) * (1 + 1e-6)
    changed = {"data": data, "largest": largest, "smallest": smallest, "max_norm": max_norm}
    return changed, (*test[:2], test[2] * factors[test[1]])

"""Features on a common scale (`--scale`), and a warning where their scales differ.

A feature is divided by its standard deviation over the training rows or by its largest magnitude. Nothing is subtracted, so a
value of 0 stays 0 and sparse rows stay sparse. The rows are scaled before they are copied into columns. The model's `factors`
contain the factors of the features, so its weights are those of unscaled values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hpcml import mpi, slices
from hpcml.data.compact import ColumnMap, CompactRows, feature_values, row_slices
from hpcml.data.dataset import DataFile, names_of
from hpcml.data.shard import Shard
from hpcml.kernels import rows as kernels
from hpcml.log import Log

CONSTANT = 1e-6  # a smaller standard deviation, divided by the largest magnitude, may be rounding of float32
WIDE = 100.0  # above this ratio of largest magnitudes, training warns
COMMON = 0.01  # share of the rows, and at least COMMON_ROWS, that must have a feature for it to be compared
COMMON_ROWS = 10


def feature_factors(comm: mpi.Comm, shard: Shard, scale: str, look: slices.Look = slices.never_stop) -> np.ndarray:
    """Return the factor (n_features float32) that scales each feature; 1 for an unused feature.

    The sums are exact, so the result does not depend on the number of ranks. Raises what `look` does. Collective over `comm`.
    """
    none, values, sums = shard.rows[:0], np.zeros(0, np.float32), np.zeros((2, 0), np.int64)
    with mpi.node_first(comm):
        kernels.column_extremes(shard.indptr, shard.indices, shard.data, none, values, np.zeros(0, np.int32), values)
        kernels.add_moments(shard.indptr, shard.indices, shard.data, none, np.zeros(0), 1.0, sums)
    largest = feature_values(comm, shard, look).largest.astype(np.float64)
    factors = np.divide(1.0, largest, out=np.ones(largest.size), where=largest > 0)
    if scale == "standard":
        grid = 2.0 ** min(52, 62 - shard.n_global.bit_length())  # the sums of n_global numbers of size ≤ 1 fit int64
        with mpi.agreed(comm, "making room for the features"):
            sums = np.zeros((2, largest.size), np.int64)
            for _, *arrays in row_slices(shard, look):
                kernels.add_moments(*arrays, factors, grid, sums)
        mean, square = mpi.allreduce_sum(comm, sums) / (grid * max(1, shard.n_global))
        deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
        np.divide(factors, deviation, out=factors, where=deviation > CONSTANT)
    return np.minimum(factors, np.finfo(np.float32).max).astype(np.float32)


def multiplied(shard: Shard, factors: np.ndarray) -> Shard:
    """Return the shard with each feature times its factor: a copy of the values. Local."""
    return replace(shard, data=shard.data * factors[shard.indices], factors=factors)


def scaled(comm: mpi.Comm, shard: Shard, scale: str | None, look: slices.Look = slices.never_stop) -> Shard:
    """Return the shard with its features scaled. Raises what `look` does. Collective over `comm`."""
    if scale in (None, "none"):
        return shard
    factors = feature_factors(comm, shard, str(scale), look)
    with mpi.agreed(comm, "scaling the features"):
        return multiplied(shard, factors)


def scale_matrices(scale: str, training: sp.csr_matrix, others: sp.csr_matrix) -> None:
    """Scale the features of two matrices, in place, by factors of the training rows. Local."""
    shard = Shard.of_csr((training.indptr, training.indices, training.data), training.shape[1], 0)
    factors = feature_factors(mpi.self_comm(), shard, scale)
    for matrix in (training, others):
        matrix.data *= factors[matrix.indices]


def warn_of_scales(comm: mpi.Comm, dataset: DataFile, rows: CompactRows, columns: ColumnMap, log: Log) -> None:
    """Warn if features that many rows have are of very different scale. Collective over `comm`."""
    if rows.max_norm * rows.max_norm - rows.bias < 1.002 and rows.scale > 0.9:
        return  # nearly all rows have norm 1: somebody weighted the features, as by tf-idf, which makes "the" small on purpose
    enough = min(rows.n_global, max(COMMON_ROWS, int(np.ceil(COMMON * rows.n_global))))
    common = np.flatnonzero(rows.counts[: columns.n_shared] >= enough)
    if not common.size:
        return
    large, small = common[np.argmax(rows.largest[common])], common[np.argmin(rows.largest[common])]
    ratio = float(rows.largest[large]) / float(rows.largest[small])
    if not ratio > WIDE:
        return
    numbers = np.array([np.argmax(columns.column_of == column) for column in (large, small)])

    def named() -> list[str]:
        found = names_of(dataset, numbers)
        return [f"feature {number}" for number in numbers] if found is None else [repr(name) for name in found]

    names = mpi.run_on_root(comm, f"reading the features of {dataset.path}", named)
    log(
        f"warning: the scales of features differ by a factor of {ratio:,.0f} (largest magnitudes: {names[0]} "
        f"{rows.largest[large]:.3g}, {names[1]} {rows.largest[small]:.3g}); the regularisation then suppresses the features with "
        "small values, and the predictions are often much worse; give --scale max-abs or --scale standard (--scale none keeps the "
        "values and omits this warning)"
    )

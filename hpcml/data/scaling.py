"""Scaling of features to a common scale (`--scale`), and a warning if their scales differ.

A feature is divided by its standard deviation over the training rows or by its largest magnitude. Nothing is subtracted, so zeros
stay zeros and sparse rows stay sparse. Rows are scaled before they are copied into columns. The model's `factors` contain the
factors of the features, so its weights apply to unscaled values.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.compact import ColumnMap, CompactRows, feature_values, row_slices
from hpcml.data.dataset import DataFile, read_feature_names
from hpcml.data.shard import Shard
from hpcml.kernels import rows as kernels
from hpcml.log import Log
from hpcml.slices import StopCheck, no_stop_check

CONSTANT = 1e-6  # smaller standard deviations, relative to the largest magnitude, may be float32 rounding
WIDE = 100.0  # ratio of largest magnitudes above which training warns
COMMON = 0.01  # share of rows, and at least COMMON_ROWS rows, that a feature needs to be compared
COMMON_ROWS = 10


def feature_factors(comm: mpi.Comm, shard: Shard, scale: str, check_stop: StopCheck = no_stop_check) -> np.ndarray:
    """Return the factor (n_features, float32) of each feature, 1 if unused. Raises as `check_stop`. Collective over `comm`."""
    none, values, sums = shard.rows[:0], np.zeros(0, np.float32), np.zeros((2, 0), np.int64)
    with mpi.node_first(comm):
        kernels.column_extremes(shard.indptr, shard.indices, shard.data, none, values, np.zeros(0, np.int32), values)
        kernels.add_moments(shard.indptr, shard.indices, shard.data, none, np.zeros(0), 1.0, sums)
    largest = feature_values(comm, shard, check_stop).largest.astype(np.float64)
    factors = np.divide(1.0, largest, out=np.ones(largest.size), where=largest > 0)
    if scale == "standard":
        grid = 2.0 ** min(52, 62 - shard.n_global.bit_length())  # sums of n_global numbers of magnitude ≤ 1 fit int64
        with mpi.agreed(comm, "making room for the features"):
            sums = np.zeros((2, largest.size), np.int64)
            for _, *arrays in row_slices(shard, check_stop):
                kernels.add_moments(*arrays, factors, grid, sums)
        mean, square = mpi.allreduce_sum(comm, sums) / (grid * max(1, shard.n_global))
        deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
        np.divide(factors, deviation, out=factors, where=deviation > CONSTANT)
    return np.minimum(factors, np.finfo(np.float32).max).astype(np.float32)


def multiply_features(shard: Shard, factors: np.ndarray) -> Shard:
    return replace(shard, data=shard.data * factors[shard.indices], factors=factors)


def scaled(comm: mpi.Comm, shard: Shard, scale: str | None, check_stop: StopCheck = no_stop_check) -> Shard:
    if scale in (None, "none"):
        return shard
    factors = feature_factors(comm, shard, str(scale), check_stop)
    with mpi.agreed(comm, "scaling the features"):
        return multiply_features(shard, factors)


def scale_matrices(scale: str, training: "sp.csr_matrix", others: "sp.csr_matrix") -> None:
    shard = Shard.of_csr((training.indptr, training.indices, training.data), training.shape[1], 0)
    factors = feature_factors(mpi.self_comm(), shard, scale)
    for matrix in (training, others):
        matrix.data *= factors[matrix.indices]


def warn_about_scales(comm: mpi.Comm, dataset: DataFile, rows: CompactRows, columns: ColumnMap, log: Log) -> None:
    if rows.max_norm * rows.max_norm - rows.bias < 1.002 and rows.scale > 0.9:
        return  # nearly all rows have norm 1: features were weighted, as by tf-idf, which makes frequent words small on purpose
    min_rows = min(rows.n_global, max(COMMON_ROWS, int(np.ceil(COMMON * rows.n_global))))
    common = np.flatnonzero(rows.counts[: columns.n_shared] >= min_rows)
    if not common.size:
        return
    large, small = common[np.argmax(rows.largest[common])], common[np.argmin(rows.largest[common])]
    ratio = float(rows.largest[large]) / float(rows.largest[small])
    if not ratio > WIDE:
        return
    numbers = np.array([np.argmax(columns.column_of == column) for column in (large, small)])

    def describe_features() -> list[str]:
        feature_names = read_feature_names(dataset, numbers)
        return [f"feature {number}" for number in numbers] if feature_names is None else [repr(name) for name in feature_names]

    names = mpi.run_on_root(comm, f"reading the features of {dataset.path}", describe_features)
    log(
        f"warning: the scales of features differ by a factor of {ratio:,.0f} (largest magnitudes: {names[0]} "
        f"{rows.largest[large]:.3g}, {names[1]} {rows.largest[small]:.3g}); the regularisation then suppresses the features with "
        "small values, and predictions are often much worse; use --scale max-abs or --scale standard (--scale none keeps the "
        "values without this warning)"
    )

"""The rows by columns: which rows have a feature, and with what value. One copy a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.data.shared_rows import shared_array
from hpcml.kernels.rows import transpose
from hpcml.methods.elastic_net import judge_kernels as kernels
from hpcml.methods.elastic_net.judge_kernels import Vectors
from hpcml.partition import bounds_by_weight, offsets


@dataclass(frozen=True)
class ColumnIndex:
    """The columns of all rows, ascending in each, and their sums."""

    columns: Vectors
    totals: np.ndarray  # (n_columns) float64
    by_size: np.ndarray  # columns, the largest |total| first


def column_index(node: mpi.Comm, rows: CompactRows) -> ColumnIndex:
    """Collective over `node`, whose ranks have the same rows, all of them. Each fills some columns.

    Raises DataError if there is no room on the disk.
    """
    indptr = offsets(rows.counts)
    size = int(indptr[-1])
    found, values = (
        (np.empty(size, dtype) if node.size == 1 else shared_array(node, size, dtype)) for dtype in (np.int32, np.float32)
    )
    columns, bounds = Vectors(indptr, found, values), bounds_by_weight(indptr, node.size)
    first, last = (int(bound) for bound in bounds[node.rank : node.rank + 2])
    with mpi.agreed(node, "indexing the features"):
        places = indptr[first:last].copy()
        transpose(rows.indptr[:-1], rows.indptr[1:], rows.indices, rows.data, first, places, found, values)
    node.Barrier()
    with mpi.agreed(node, "indexing the features"):
        totals = np.zeros(rows.n_columns)
        kernels.column_totals(columns, totals)
        return ColumnIndex(columns, totals, np.argsort(-np.abs(totals), kind="stable"))

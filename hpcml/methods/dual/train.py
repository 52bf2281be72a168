"""`hpcml train dual`."""

from __future__ import annotations

from hpcml.methods.dual.alone import VALUES_PER_POSITIVE
from hpcml.methods.dual.chunks import CHUNK_VALUES
from hpcml.methods.dual.dual import DualSolver
from hpcml.methods.dual.fitter import DualFitter
from hpcml.methods.dual.lanes import HALF
from hpcml.methods.dual.newton import MOST_COLUMNS
from hpcml.methods.linear.layout import Sharding
from hpcml.methods.linear.method import LinearMethod
from hpcml.methods.linear.objective import Risk
from hpcml.methods.linear.settings import LAMBDA, Axis


def bytes_per_rank_dual(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Return the bytes that a rank needs for dual coordinate descent, if `shards` ranks divide the rows.

    Per row: place, norm, weight, order, flags, scores in float64, and duals of a panel, of its start, and of up to two panels
    between rounds. Per column: weights likewise, those of a label that is being written, up to 8 float64, and if other ranks share
    the rows, the panel's weights before a pass. If none do, rare labels take 42 bytes a row, 16 a column, and an index of the
    values in rare columns, counted as half of all. Newton's method takes 24 bytes a row and 8 for each pair of columns, if few.
    """
    newton = 24 * n_rows // shards + 8 * n_columns * n_columns if n_columns <= MOST_COLUMNS else 0
    copies = (2 if shards > 1 else 1) * n_lanes + 2
    row, column = 32 + (n_lanes + 2) * weight_bytes + 8 * n_lanes, 8 * min(n_lanes, HALF) + copies * weight_bytes
    if shards == 1:
        row, column, n_values = row + 42, column + 16, n_values + n_values // 2 * (n_values >= VALUES_PER_POSITIVE)
    between = 2 * n_lanes * ((weight_bytes + 1) * n_rows // shards + weight_bytes * n_columns)  # rounds: weights, duals, flags
    return (8 * n_values + row * n_rows) // shards + column * n_columns + between + newton


WEIGHT = Axis("positive_weight", (1.0, 4.0), 4.0, least=1.0)
METHOD = LinearMethod(
    solver=DualSolver,
    sharding=Sharding.INEXACT,
    memory=bytes_per_rank_dual,
    risk=Risk,
    certified=True,
    axes=(LAMBDA, WEIGHT),
    fitter=DualFitter,
    chunk=CHUNK_VALUES,
)

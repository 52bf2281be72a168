"""How much memory the elastic net takes."""

from __future__ import annotations


def bytes_per_rank_elastic(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: rows twice; of a row slots, duals and losses; of a column sums, weights and lanes'
    squares.
    """
    return 16 * n_values + 128 * n_rows + (56 + 2 * n_lanes * weight_bytes) * n_columns

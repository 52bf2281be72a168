"""How much memory the elastic net takes."""

from __future__ import annotations


def bytes_per_rank_elastic(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: rows twice; of a row its slots; of a column sums, weights and squares of lanes."""
    return 16 * n_values + 56 * n_rows + (48 + 2 * n_lanes * weight_bytes) * n_columns

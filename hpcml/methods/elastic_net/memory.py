"""How much memory the elastic net takes."""

from __future__ import annotations


def bytes_per_rank_elastic(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes that a rank needs: the rows twice, by rows and by columns; of each row its slots; of
    each column its sums, and the weights and squares of the labels that share a pass.
    """
    return 16 * n_values + 56 * n_rows + (48 + 2 * n_lanes * weight_bytes) * n_columns

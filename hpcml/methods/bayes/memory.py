"""How much memory naive Bayes and its relatives take."""

from __future__ import annotations


def bytes_per_rank_bayes(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """Bytes: the rows; of a row weights and scores; of a column counts and weights."""
    return 8 * n_values + 120 * n_rows + 56 * n_columns

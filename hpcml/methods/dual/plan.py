"""How much memory dual coordinate descent takes."""

from __future__ import annotations


def bytes_per_rank_dual(n_values: int, n_rows: int, n_columns: int, n_lanes: int, shards: int, weight_bytes: int) -> int:
    """What a rank needs for dual coordinate descent, if `shards` ranks divide the rows.

    Per row its place, norm, order and flags, and duals: of the labels in a panel, where they begin, and of up to two panels' labels
    between two rounds; per column weights likewise, those of the labels that are just done, and 8 float64.
    """
    row, column = 32 + (3 * n_lanes + 1) * weight_bytes + 2 * n_lanes, 64 + (4 * n_lanes + 1) * weight_bytes
    return (8 * n_values + row * n_rows) // shards + column * n_columns

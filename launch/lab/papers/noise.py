"""Wrong labels for experiments, drawn by the number of the row."""

from __future__ import annotations

import numpy as np

from hpcml.rng import uniform


def noisy_rows(seed: int, share: float, rows: np.ndarray) -> np.ndarray:
    """Return which of these rows (bool) get another class: about this share of all rows."""
    return uniform(seed, "label noise", rows) < share

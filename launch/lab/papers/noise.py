"""Draw wrong labels for experiments. A draw depends only on the seed and the global row number."""

from __future__ import annotations

import hashlib

import numpy as np


def _mix(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of SplitMix64 (Steele, Lea & Flood 2014) to each uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _uniform(seed: int, purpose: str, rows: np.ndarray) -> np.ndarray:
    """Return uniform float64 in [0, 1), equal to those that hpcml draws."""
    key = np.frombuffer(hashlib.sha256(f"{seed}:{purpose}".encode()).digest()[:8], dtype="<u8").astype(np.uint64)[0]
    with np.errstate(over="ignore"):
        counter = (np.asarray(rows).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = _mix(_mix(counter ^ key) + key)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def noisy_rows(seed: int, share: float, rows: np.ndarray) -> np.ndarray:
    """Return a mask of the global rows that get another class: about `share` of all rows."""
    return _uniform(seed, "label noise", rows) < share


def other_label(seed: int, n_labels: int, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return another label for each global row, uniform among the others."""
    steps = 1 + (_uniform(seed, "label noise class", rows) * (n_labels - 1)).astype(np.int64)
    return (labels + steps) % n_labels

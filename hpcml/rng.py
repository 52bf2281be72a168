"""Counter-based random numbers: a pure function of (seed, purpose, global index), never of the rank."""

import hashlib

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014), elementwise on uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bits(seed: int, purpose: str, index: np.ndarray) -> np.ndarray:
    """Return 64 random bits (uint64, shape of `index`) for each global index."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    key = np.frombuffer(digest[:8], dtype="<u8").astype(np.uint64)[0]
    with np.errstate(over="ignore"):
        counter = (np.asarray(index).astype(np.uint64) + np.uint64(1)) * _GOLDEN
        return _mix(_mix(counter ^ key) + key)


def uniform(seed: int, purpose: str, index: np.ndarray) -> np.ndarray:
    """Return uniform float64 in [0, 1), shape of `index`, for each global index."""
    return (bits(seed, purpose, index) >> np.uint64(11)).astype(np.float64) * 2.0**-53

"""Bands of least hashes: rows that agree on all hashes of one band are compared exactly.

Two rows of similarity s (the Jaccard index of their features) agree on one least hash with
probability s, on all of a band of r with s^r, and on at least one of b bands with 1 − (1 − s^r)^b:
A. Broder, *On the resemblance and containment of documents* (1997); J. Leskovec, A. Rajaraman, J.
Ullman, *Mining of Massive Datasets*, chapter 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcml.errors import ConfigError
from hpcml.kernels.elementary import log, log1p, power
from hpcml.rng import bits

LEAST_SIMILARITY = 0.1
MISSED = 0.001  # of the pairs that are just similar enough, at most
MOST_HASHES = 192
LARGEST_BAND = 12
SLICE = 1 << 20  # features that are hashed together


class Bands(NamedTuple):
    """`number` bands of `size` least hashes each."""

    number: int
    size: int

    def recall(self, similarity: float) -> float:
        """The probability that two rows of that similarity are compared."""
        return 1.0 if similarity >= 1 else 1 - power(1 - power(similarity, float(self.size)), float(self.number))


def choose_bands(similarity: float) -> Bands:
    """The largest bands (fewest comparisons) that find all but MISSED. Raises ConfigError."""
    if not LEAST_SIMILARITY <= similarity <= 1:
        raise ConfigError(f"--similarity {similarity}: expected a number from {LEAST_SIMILARITY} to 1")
    if similarity == 1:
        return Bands(0, 1)  # equal rows are found in another way
    for size in range(LARGEST_BAND, 0, -1):
        number = math.ceil(log(MISSED) / log1p(-power(similarity, float(size))))
        if size * number <= MOST_HASHES:
            break
    return Bands(number, size)


def feature_hashes(n_features: int) -> np.ndarray:
    """A hash (uint32) of each feature, by its number."""
    out = np.empty(n_features, np.uint32)
    for begin in range(0, n_features, SLICE):
        end = min(begin + SLICE, n_features)
        out[begin:end] = bits(0, "duplicates: features", np.arange(begin, end)) >> np.uint64(32)
    return out


def hash_functions(bands: Bands) -> tuple[np.ndarray, np.ndarray]:
    """Odd factors and addends (bands × size, uint32) that make other hashes of features'."""
    drawn = bits(0, "duplicates: functions", np.arange(2 * bands.number * bands.size)).reshape(2, bands.number, bands.size)
    factors, addends = (drawn >> np.uint64(32)).astype(np.uint32)
    return factors | np.uint32(1), addends

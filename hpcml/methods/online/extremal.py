"""Which features to keep when each has a number: the best ones, or the two extremes (Carvalho &
Cohen 2006, section 5).
"""

from __future__ import annotations

import numpy as np


def n_from_the_top(keep: int, share: float) -> int:
    """How many of `keep` features come from the top: `share` of them; halves, even inexact, up."""
    return min(keep, int(share * keep + 0.5 + 1e-9))


def extremal(importance: np.ndarray, seen: np.ndarray, keep: int, share: float) -> np.ndarray:
    """The sorted numbers (int64) of `keep` features that are `seen` (d, bool): `share` of them with
    the largest importance |u_j − v_j| (d), the rest with the least; both ends prefer lower numbers.
    """
    numbers = np.flatnonzero(seen)
    down = numbers[np.argsort(-importance[numbers], kind="stable")]
    top, rest = np.split(down, [n_from_the_top(keep, share)])
    rest = np.sort(rest)
    bottom = rest[np.argsort(importance[rest], kind="stable")][: keep - top.size]
    return np.sort(np.concatenate([top, bottom]))


def best(scores: np.ndarray, present: np.ndarray, keep: int) -> np.ndarray:
    """The sorted numbers (int64) of the `keep` best scores among `present` (d); low ones first."""
    return extremal(scores, present, keep, 1.0)

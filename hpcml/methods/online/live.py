"""Which features to keep when each has a number: the best ones, or the two extremes (Carvalho &
Cohen 2006, section 5); and online feature selection: the least important make room for new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hpcml.data.shard import Shard
from hpcml.methods.online import live_kernels as kernels

SLICE = 512  # rows to look at together: calls cost little beside them, and few rows come before a ranking that is due
STAY = 0.75  # of the live features that stay when there is no room for a new one: more of them, and features are ranked more often;
# fewer, and features are dropped that would have been used


def n_from_the_top(keep: int, share: float) -> int:
    """Return the number of features from the top: `share` of `keep`, rounded, halves (also inexact ones) up."""
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


class LiveFeatures:
    """Which features have a slot. The table and the slots take memory for `size` features, from the start to the end.

    When a row brings more new features than there are free slots, the features are ranked by importance; of `STAY` · size, `share`
    have the largest and the others the smallest importance; the rest is forgotten, as if never seen. Which features are live
    depends on the rows and the importance only, so it is the same on all ranks.
    """

    def __init__(self, size: int, share: float) -> None:
        self.size, self.share = size, share
        self.numbers = np.full(size, kernels.FREE, dtype=np.int64)  # of the feature in each slot
        self._keys = np.full(2 << int(size).bit_length(), kernels.FREE, dtype=np.int64)
        self._slots = np.zeros(self._keys.size, dtype=np.int64)
        self._free, self._n_free = np.arange(size)[::-1].copy(), size

    def take(
        self, shard: Shard, rows: np.ndarray, importance: Callable[[], np.ndarray], forget: Callable[[np.ndarray], None]
    ) -> Iterator[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]]:
        """Yield pieces of `rows`: (CSR arrays over slots, positions in them, rows of the shard).

        Between pieces `importance` is asked and slots are emptied by `forget`.
        """
        done, forced = 0, False
        while done < rows.size or rows.size == 0:  # of no rows an empty piece, to compile the kernels with
            some = rows[done : done + SLICE]
            n = int((shard.indptr[some + 1] - shard.indptr[some]).sum())
            indptr, indices, data = out = np.zeros(some.size + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
            csr, table = (shard.indptr, shard.indices, shard.data), (self._keys, self._slots, self.numbers, self._free)
            taken, self._n_free = kernels.take_rows(csr, some, table, self._n_free, forced, out)
            if taken or rows.size == 0:
                end = int(indptr[taken])
                yield (indptr[: taken + 1], indices[:end], data[:end]), np.arange(taken), some[:taken]
            if rows.size == 0:
                return
            done, forced = done + taken, False
            if taken < some.size:
                forget(self._prune(importance()))
                forced = True

    def _prune(self, importance: np.ndarray) -> np.ndarray:
        """Empty the slots of the features that do not stay; which they are."""
        live = np.flatnonzero(self.numbers != kernels.FREE)
        live = live[np.argsort(self.numbers[live])]  # of equally important features the lower number stays
        stays = np.zeros(live.size, dtype=np.bool_)
        stays[extremal(importance[live], ~stays, int(STAY * self.size), self.share)] = True
        self._fill(self.numbers[live[stays]], live[stays])
        return live[~stays]

    def _fill(self, numbers: np.ndarray, slots: np.ndarray) -> None:
        """Make exactly these the live features."""
        self._keys[:] = self.numbers[:] = kernels.FREE
        self.numbers[slots] = numbers
        kernels.put_all(self._keys, self._slots, numbers, slots)
        free = np.flatnonzero(self.numbers == kernels.FREE)[::-1]
        self._n_free = free.size
        self._free[: free.size] = free

    def restore(self, numbers: np.ndarray) -> np.ndarray:
        """Make `numbers` (ascending, at most `size`) the live features; their slots."""
        slots = np.arange(numbers.size)
        self._fill(numbers, slots)
        return slots

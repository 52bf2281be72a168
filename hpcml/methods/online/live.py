"""Feature selection by importance, and a bounded set of live features for online selection (Carvalho & Cohen 2006, section 5)."""

from collections.abc import Callable, Iterator

import numpy as np

from hpcml.data.shard import Shard
from hpcml.methods.online import live_kernels as kernels

SLICE = 512  # rows per kernel call: enough to hide the cost of the call, few enough that little work precedes a ranking
# Share of the live features that remain after a ranking. A larger share causes more rankings; a smaller one drops useful features.
KEEP_SHARE = 0.75


def n_largest(keep: int, share: float) -> int:
    """Return `share` of `keep`, rounded, with halves (also inexact ones) rounded up."""
    return min(keep, int(share * keep + 0.5 + 1e-9))


def select_extremal(importance: np.ndarray, seen: np.ndarray, keep: int, share: float) -> np.ndarray:
    """Return the sorted numbers (int64) of `keep` features that are `seen` (d, bool).

    `share` of them have the largest `importance` (d), the others the smallest. Ties: lowest number first.
    """
    numbers = np.flatnonzero(seen)
    down = numbers[np.argsort(-importance[numbers], kind="stable")]
    top, rest = np.split(down, [n_largest(keep, share)])
    rest = np.sort(rest)
    bottom = rest[np.argsort(importance[rest], kind="stable")][: keep - top.size]
    return np.sort(np.concatenate([top, bottom]))


class LiveFeatures:
    """A bounded set of features with a slot each. Memory for `size` features is allocated at the start.

    When a row brings more new features than there are free slots, the features are ranked by importance. Of the KEEP_SHARE · size
    features that remain, `share` have the largest and the others the smallest importance; the rest is dropped, as if never seen.
    The result depends on the rows and the importance only, so it is the same on all ranks.
    """

    def __init__(self, size: int, share: float) -> None:
        self.size, self.share = size, share
        self.numbers = np.full(size, kernels.FREE, dtype=np.int64)  # feature number of each slot
        self._keys = np.full(2 << int(size).bit_length(), kernels.FREE, dtype=np.int64)
        self._slots = np.zeros(self._keys.size, dtype=np.int64)
        self._free, self._n_free = np.arange(size)[::-1].copy(), size

    def map_rows(
        self, shard: Shard, rows: np.ndarray, importance: Callable[[], np.ndarray], reset: Callable[[np.ndarray], None]
    ) -> Iterator[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]]:
        """Yield parts of `rows` as (CSR arrays over slots, positions in them, rows of the shard); one empty part without rows.

        Between parts, `importance` ranks the features and `reset` clears slots.
        """
        done, allow_dropping = 0, False
        while done < rows.size or rows.size == 0:
            part = rows[done : done + SLICE]
            n = int((shard.indptr[part + 1] - shard.indptr[part]).sum())
            indptr, indices, data = out = np.zeros(part.size + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
            csr, table = (shard.indptr, shard.indices, shard.data), (self._keys, self._slots, self.numbers, self._free)
            n_mapped, self._n_free = kernels.map_rows(csr, part, table, self._n_free, allow_dropping, out)
            if n_mapped or rows.size == 0:
                end = int(indptr[n_mapped])
                yield (indptr[: n_mapped + 1], indices[:end], data[:end]), np.arange(n_mapped), part[:n_mapped]
            if rows.size == 0:
                return
            done, allow_dropping = done + n_mapped, n_mapped < part.size
            if allow_dropping:
                reset(self._drop_features(importance()))

    def _drop_features(self, importance: np.ndarray) -> np.ndarray:
        live = np.flatnonzero(self.numbers != kernels.FREE)
        live = live[np.argsort(self.numbers[live])]  # ties in importance: the lowest number remains
        remains = np.zeros(live.size, dtype=np.bool_)
        remains[select_extremal(importance[live], ~remains, int(KEEP_SHARE * self.size), self.share)] = True
        self._fill(self.numbers[live[remains]], live[remains])
        return live[~remains]

    def _fill(self, numbers: np.ndarray, slots: np.ndarray) -> None:
        self._keys[:] = self.numbers[:] = kernels.FREE
        self.numbers[slots] = numbers
        kernels.put_all(self._keys, self._slots, numbers, slots)
        free = np.flatnonzero(self.numbers == kernels.FREE)[::-1]
        self._n_free = free.size
        self._free[: free.size] = free

    def restore(self, numbers: np.ndarray) -> np.ndarray:
        """Set the live features to `numbers` (ascending, at most `size`) and return their slots."""
        slots = np.arange(numbers.size)
        self._fill(numbers, slots)
        return slots

"""Counts of keys that do not fit memory: added up by run, merged over ranks by ranges of keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypeVar

import numpy as np

from hpcml import mpi
from hpcml.files.spool import Spool

RUN_KEYS = 1 << 20  # keys that wait in memory for a run
RANGE_KEYS = 1 << 19  # keys of a range, of all runs and ranks together
CHUNK_KEYS = 1 << 12  # read together from a run
SAMPLE = 1 << 9  # of so many keys of a run one says where ranges begin
NO_END = int(np.iinfo(np.int64).max)
T = TypeVar("T")


def summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct keys and the sum of the counts (int64) of each."""
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=counts, minlength=unique.size).astype(np.int64)


class KeyRuns:
    """This rank's keys (int64, may repeat) and counts, outside of memory. Local; raises OSError."""

    def __init__(self, scratch: Path) -> None:
        self.keys, self.counts, self.bounds = Spool(scratch, np.int64), Spool(scratch, np.int64), [0]
        self.samples = np.zeros(0, dtype=np.int64)
        self._waiting: list[np.ndarray] = []

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        """Add counts of keys."""
        self._waiting.append(np.stack([keys, counts]))
        if sum(part.shape[1] for part in self._waiting) >= RUN_KEYS:
            self.close()

    def close(self) -> None:
        """Put away what waits."""
        if self._waiting:
            keys, counts = summed(*np.concatenate(self._waiting, axis=1))
            self._waiting = []
            self.samples = np.concatenate([self.samples, keys[:: min(SAMPLE, max(1, keys.size - 1))]])
            self.keys.append(keys)
            self.counts.append(counts)
            self.bounds.append(self.keys.size)


class _KeyCursor:
    """A run that is read from its first key to its last. Local; raises OSError."""

    def __init__(self, runs: KeyRuns, begin: int, end: int) -> None:
        self.runs, self.read, self.end = runs, begin, end
        self.waiting = np.zeros((2, 0), dtype=np.int64)

    def take(self, until: int) -> list[np.ndarray]:
        """The next keys below `until`, and their counts."""
        taken = []
        while self.waiting.size or self.read < self.end:
            if not self.waiting.size:
                some = slice(self.read, min(self.read + CHUNK_KEYS, self.end))
                self.waiting, self.read = np.stack([self.runs.keys[some], self.runs.counts[some]]), some.stop
            cut = int(np.searchsorted(self.waiting[0], until))
            taken.append(self.waiting[:, :cut])
            self.waiting = self.waiting[:, cut:]
            if self.waiting.size:
                break
        return taken


def range_ends(comm: mpi.Comm, n: int, per_range: int, samples: list[T], last: T) -> list[T]:
    """Collective over `comm`. What is behind ranges of n items, by sorted `samples`, or `last`."""
    _, (total,) = mpi.exclusive_sum(comm, [n])
    n_ranges = comm.size * math.ceil(max(1, int(total)) / per_range / comm.size)
    ends = [samples[number * len(samples) // n_ranges] for number in range(1, n_ranges)] if samples else []
    return ends + [last] * (n_ranges - len(ends))


def merge_keys(comm: mpi.Comm, runs: KeyRuns, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Collective over `comm`. The sorted keys of all ranks with sums from `least` on; the sums."""
    with mpi.agreed(comm, "merging terms"):
        runs.close()
    nothing = np.zeros(0, dtype=np.int64)
    kept, sums = [nothing], [nothing]
    samples: list[int] = np.sort(np.concatenate(mpi.allgather_arrays(comm, runs.samples))).tolist()
    ends = range_ends(comm, runs.keys.size, RANGE_KEYS, samples, NO_END)
    cursors = [_KeyCursor(runs, *bounds) for bounds in zip(runs.bounds[:-1], runs.bounds[1:], strict=True)]
    for first in range(0, len(ends), comm.size):
        with mpi.agreed(comm, "merging terms"):
            parts = [
                np.concatenate(
                    [np.zeros((2, 0), dtype=np.int64), *(part for cursor in cursors for part in cursor.take(end))], axis=1
                )
                for end in ends[first : first + comm.size]
            ]
        received = [np.concatenate(mpi.exchange(comm, [np.ascontiguousarray(part[n]) for part in parts])) for n in (0, 1)]
        keys, counts = summed(*received)
        kept += mpi.allgather_arrays(comm, keys[counts >= least])
        sums += mpi.allgather_arrays(comm, counts[counts >= least])
    return np.concatenate(kept), np.concatenate(sums)

"""The words of a corpus that does not fit memory, and counts of its word pairs, merged over all runs of all ranks.

A run ends at this number of different words, or keys of pairs, which are then stored in order.
Merging goes through all runs of all ranks side by side, one range of terms a rank at a time. Ranges
hold about the same number of terms, and follow each other in order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hpcml import mpi
from hpcml.conversion.vocabulary import pack, unpack
from hpcml.files.spool import Spool, StringSpool
from hpcml.partition import offsets

RUN_WORDS = 1 << 19  # different words of a run, in memory while it is read
RUN_KEYS = 1 << 20  # keys that wait in memory for a run
RANGE_WORDS = 1 << 17  # words of a range, of all runs and ranks together
RANGE_KEYS = 1 << 19
CHUNK_WORDS = 1 << 12  # looked at together
SAMPLE = 1 << 9  # one in this many terms of a run marks where ranges may begin
T = TypeVar("T")


class Runs:
    """This rank's words, run by run, outside of memory. Local; its methods raise OSError."""

    def __init__(self, scratch: Path) -> None:
        self.words, self.numbers = StringSpool(scratch), Spool(scratch, np.int32)
        self.counts, self.places = Spool(scratch, np.int64), Spool(scratch, np.int64)
        self.bounds = [0]
        self.samples: list[bytes] = []

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def add(self, found: list[str]) -> None:
        """Put away the words of a run, by their numbers in it."""
        order = sorted(range(len(found)), key=found.__getitem__)
        self.samples += [found[number].encode() for number in order[:: min(SAMPLE, max(1, len(order) - 1))]]
        for begin in range(0, len(order), CHUNK_WORDS):
            self.words.extend([found[number].encode() for number in order[begin : begin + CHUNK_WORDS]])
        self.numbers.append(np.array(order, dtype=np.int32))
        self.bounds.append(len(self.words))

    def _of(self, run: int) -> slice:
        return slice(self.bounds[run], self.bounds[run + 1])

    def size(self, run: int) -> int:
        """The number of different words of a run."""
        return self.bounds[run + 1] - self.bounds[run]

    def count(self, run: int, counts: np.ndarray) -> None:
        """Say in how many rows the words of a run occur, by their numbers in it."""
        self.counts.put(self.bounds[run], counts[self.numbers[self._of(run)]])

    def place(self, where: Callable[[list[bytes]], np.ndarray]) -> None:
        """Say which word of the vocabulary each one is, or -1: what `where` says of some words."""
        for begin in range(0, len(self.words), CHUNK_WORDS):
            self.places.put(begin, where(self.words.codes(begin, min(begin + CHUNK_WORDS, len(self.words)))))

    def places_of(self, run: int) -> np.ndarray:
        """The vocabulary's word of each number of a run, -1 for none, and -1 for breaks."""
        places = np.full(self.size(run) + 1, -1, dtype=np.int64)
        places[self.numbers[self._of(run)]] = self.places[self._of(run)]
        return places


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


def summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sorted distinct keys and the sum of the counts (int64) of each."""
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=counts, minlength=unique.size).astype(np.int64)


def range_ends(comm: mpi.Comm, n: int, per_range: int, samples: list[T]) -> list[T | None]:
    """Return what is behind each range of `per_range` of all ranks' n terms, by sorted `samples`; None: the end. Collective."""
    _, (total,) = mpi.exclusive_sum(comm, [n])
    n_ranges = comm.size * math.ceil(max(1, int(total)) / per_range / comm.size)
    ends = [samples[number * len(samples) // n_ranges] for number in range(1, n_ranges)] if samples else []
    return [*ends, *[None] * (n_ranges - len(ends))]


def cut_runs(bounds: list[int], ends: list[Any], term_at: Callable[[int], Any]) -> list[list[slice]]:
    """Return, for each range of terms, its places in each run. Raises what `term_at` (place) raises."""
    begins, found = bounds[:-1], []
    for end in ends:
        stops = bounds[1:]
        if end is not None:
            stops = [begin + bisect_left(range(begin, stop), end, key=term_at) for begin, stop in zip(begins, stops, strict=True)]
        found.append(list(map(slice, begins, stops)))
        begins = stops
    return found


def merge_runs(comm: mpi.Comm, runs: Runs, least: int, scratch: Path) -> tuple[StringSpool, np.ndarray]:
    """Return words with counts from `least` on, which the runs then know, and the counts. Collective over `comm`."""
    vocabulary, sums = StringSpool(scratch), [np.zeros(0, dtype=np.int64)]
    samples = sorted(code for packed in mpi.allgather_arrays(comm, pack(runs.samples)) for code in unpack(packed))
    ends = range_ends(comm, len(runs.words), RANGE_WORDS, samples)
    with mpi.agreed(comm, "merging words"):
        ranges = cut_runs(runs.bounds, ends, lambda place: runs.words.codes(place, place + 1)[0])
    for first in range(0, len(ranges), comm.size):
        mine = ranges[first : first + comm.size]
        with mpi.agreed(comm, "merging words"):
            codes = [[code for some in of_rank for code in runs.words.codes(some.start, some.stop)] for of_rank in mine]
            counts = [np.concatenate([np.zeros(0, dtype=np.int64), *(runs.counts[some] for some in of_rank)]) for of_rank in mine]
        received = [unpack(packed) for packed in mpi.exchange(comm, list(map(pack, codes)))]
        kept, totals, answers = _merged(received, mpi.exchange(comm, counts), least)
        places = mpi.exchange(comm, answers)
        everywhere = mpi.allgather_arrays(comm, pack(kept))
        sums += mpi.allgather_arrays(comm, totals)
        sizes = [len(vocabulary), *(part.size for part in sums[-comm.size :])]
        with mpi.agreed(comm, "merging words"):
            for packed in everywhere:
                vocabulary.extend(unpack(packed))
            for of_rank, found, base in zip(mine, places, offsets(sizes)[1:], strict=False):
                found = np.where(found >= 0, found + base, -1)
                at = offsets([some.stop - some.start for some in of_rank])
                for some, begin, end in zip(of_rank, at[:-1], at[1:], strict=True):
                    runs.places.put(some.start, found[begin:end])
    return vocabulary, np.concatenate(sums)


def _merged(codes: list[list[bytes]], counts: list[np.ndarray], least: int) -> tuple[list[bytes], np.ndarray, list[np.ndarray]]:
    """The words kept of a range, sorted, their counts, and each rank's words' places there."""
    totals: Counter[bytes] = Counter()
    for of_rank, numbers in zip(codes, counts, strict=True):
        for code, count in zip(of_rank, numbers.tolist(), strict=True):
            totals[code] += count
    kept = sorted(code for code, total in totals.items() if total >= least)
    sums = np.fromiter((totals[code] for code in kept), np.int64, len(kept))
    place = {code: n for n, code in enumerate(kept)}
    return kept, sums, [np.fromiter((place.get(code, -1) for code in of_rank), np.int64, len(of_rank)) for of_rank in codes]


def merge_keys(comm: mpi.Comm, runs: KeyRuns, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted keys of all ranks with sums from `least` on, and the sums. Collective over `comm`."""
    with mpi.agreed(comm, "merging terms"):
        runs.close()
    nothing = np.zeros(0, dtype=np.int64)
    kept, sums = [nothing], [nothing]
    samples: list[int] = np.sort(np.concatenate(mpi.allgather_arrays(comm, runs.samples))).tolist()
    ends = range_ends(comm, runs.keys.size, RANGE_KEYS, samples)
    with mpi.agreed(comm, "merging terms"):
        ranges = cut_runs(runs.bounds, ends, lambda place: runs.keys[place : place + 1][0])
    for first in range(0, len(ranges), comm.size):
        received = []
        for spool in (runs.keys, runs.counts):
            with mpi.agreed(comm, "merging terms"):
                parts = [
                    np.concatenate([nothing, *(spool[some] for some in of_rank)]) for of_rank in ranges[first : first + comm.size]
                ]
            received.append(np.concatenate(mpi.exchange(comm, parts)))
        keys, counts = summed(*received)
        kept += mpi.allgather_arrays(comm, keys[counts >= least])
        sums += mpi.allgather_arrays(comm, counts[counts >= least])
    return np.concatenate(kept), np.concatenate(sums)

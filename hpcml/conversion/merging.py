"""The words of a corpus that does not fit memory, and counts of its word pairs, merged over all runs of all ranks.

A run ends at this number of different words, or keys of pairs, which are then stored in order. Merging goes through all runs of all
ranks side by side, one range of terms a rank at a time. Ranges hold about the same number of terms, and follow each other in order.
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

    def add(self, found: list[str]) -> None:
        """Put away the words of a run, by their numbers in it."""
        order = sorted(range(len(found)), key=found.__getitem__)
        self.samples += [found[number].encode() for number in order[:: min(SAMPLE, max(1, len(order) - 1))]]
        for begin in range(0, len(order), CHUNK_WORDS):
            self.words.extend([found[number].encode() for number in order[begin : begin + CHUNK_WORDS]])
        self.numbers.append(np.array(order, dtype=np.int32))
        self.bounds.append(len(self.words))

    def count(self, run: int, counts: np.ndarray) -> None:
        """Say in how many rows the words of a run occur, by their numbers in it."""
        self.counts.put(self.bounds[run], counts[self.numbers[self.bounds[run] : self.bounds[run + 1]]])

    def place(self, where: Callable[[list[bytes]], np.ndarray]) -> None:
        """Say which word of the vocabulary each one is, or -1: what `where` says of some words."""
        for begin in range(0, len(self.words), CHUNK_WORDS):
            self.places.put(begin, where(self.words.codes(begin, min(begin + CHUNK_WORDS, len(self.words)))))

    def places_of(self, run: int) -> np.ndarray:
        """The vocabulary's word of each number of a run, -1 for none, and -1 for breaks."""
        some = slice(self.bounds[run], self.bounds[run + 1])
        places = np.full(some.stop - some.start + 1, -1, dtype=np.int64)
        places[self.numbers[some]] = self.places[some]
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


def cut_runs(
    comm: mpi.Comm, bounds: list[int], per_range: int, samples: list[T], term_at: Callable[[int], Any]
) -> list[list[slice]]:
    """Return, for each range of about `per_range` of all ranks' terms, its places in each of this rank's runs. Collective.

    A range ends before one of the sorted `samples` of all ranks, the last ones at the end. `term_at` gives the term at a place.
    """
    _, (total,) = mpi.exclusive_sum(comm, [bounds[-1]])
    n_ranges = comm.size * math.ceil(max(1, int(total)) / per_range / comm.size)
    ends: list[Any] = [samples[number * len(samples) // n_ranges] for number in range(1, n_ranges)] if samples else []
    begins, found = bounds[:-1], []
    with mpi.agreed(comm, "merging terms"):
        for end in [*ends, *[None] * (n_ranges - len(ends))]:
            stops = bounds[1:]
            if end is not None:
                stops = [bisect_left(range(stop), end, begin, key=term_at) for begin, stop in zip(begins, stops, strict=True)]
            found.append(list(map(slice, begins, stops)))
            begins = stops
    return found


def merge_runs(comm: mpi.Comm, runs: Runs, least: int, scratch: Path) -> tuple[StringSpool, np.ndarray]:
    """Return words with counts from `least` on, which the runs then know, and the counts. Collective over `comm`."""
    vocabulary, sums = StringSpool(scratch), [np.zeros(0, dtype=np.int64)]
    samples = sorted(code for packed in mpi.allgather_arrays(comm, pack(runs.samples)) for code in unpack(packed))
    ranges = cut_runs(comm, runs.bounds, RANGE_WORDS, samples, lambda place: runs.words.codes(place, place + 1)[0])
    for first in range(0, len(ranges), comm.size):
        mine = ranges[first : first + comm.size]
        with mpi.agreed(comm, "merging words"):
            codes = [[code for some in of_rank for code in runs.words.codes(some.start, some.stop)] for of_rank in mine]
            counts = [np.concatenate([np.zeros(0, dtype=np.int64), *(runs.counts[some] for some in of_rank)]) for of_rank in mine]
        received = [unpack(packed) for packed in mpi.exchange(comm, list(map(pack, codes)))]
        totals: Counter[bytes] = Counter()
        for words, numbers in zip(received, mpi.exchange(comm, counts), strict=True):
            for code, count in zip(words, numbers.tolist(), strict=True):
                totals[code] += count
        kept = sorted(code for code, total in totals.items() if total >= least)
        place = {code: n for n, code in enumerate(kept)}
        answers = [np.fromiter((place.get(code, -1) for code in words), np.int64, len(words)) for words in received]
        places = mpi.exchange(comm, answers)
        everywhere = mpi.allgather_arrays(comm, pack(kept))
        sums += mpi.allgather_arrays(comm, np.fromiter((totals[code] for code in kept), np.int64, len(kept)))
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


def merge_keys(comm: mpi.Comm, runs: KeyRuns, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted keys of all ranks with sums from `least` on, and the sums. Collective over `comm`."""
    with mpi.agreed(comm, "merging terms"):
        runs.close()
    nothing = np.zeros(0, dtype=np.int64)
    kept, sums = [nothing], [nothing]
    samples: list[int] = np.sort(np.concatenate(mpi.allgather_arrays(comm, runs.samples))).tolist()
    ranges = cut_runs(comm, runs.bounds, RANGE_KEYS, samples, lambda place: runs.keys[place : place + 1][0])
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

"""The words of a corpus that does not fit memory: numbered in each run, merged over all runs.

A run ends when it has so many different words, which are then put away in code-point order. Merging
goes through all runs of all ranks side by side, one range of words a rank at a time. Ranges hold
about the same number of words, and follow each other in code-point order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.conversion.key_runs import range_ends
from hpcml.conversion.vocabulary import pack, unpack
from hpcml.files.spool import Spool, StringSpool
from hpcml.partition import offsets

RUN_WORDS = 1 << 19  # different words of a run, in memory while it is read
RANGE_WORDS = 1 << 17  # words of a range, of all runs and ranks together
CHUNK_WORDS = 1 << 12  # read together from a run
SAMPLE = 1 << 9  # of so many words of a run one says where ranges begin


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


class _WordCursor:
    """A run that is read from its first word to its last. Local; raises OSError."""

    def __init__(self, words: StringSpool, begin: int, end: int) -> None:
        self.words, self.at, self.read, self.end = words, begin, begin, end
        self.waiting: list[bytes] = []

    def take(self, until: bytes | None) -> tuple[int, list[bytes]]:
        """The next words that come before `until` (None: all), and the place of the first."""
        first, taken = self.at, []
        while self.waiting or self.read < self.end:
            if not self.waiting:
                begin, self.read = self.read, min(self.read + CHUNK_WORDS, self.end)
                self.waiting = self.words.codes(begin, self.read)
            cut = len(self.waiting) if until is None else bisect_left(self.waiting, until)
            taken += self.waiting[:cut]
            self.waiting = self.waiting[cut:]
            if self.waiting:
                break
        self.at += len(taken)
        return first, taken


def merge_runs(comm: mpi.Comm, runs: Runs, least: int, scratch: Path) -> tuple[StringSpool, np.ndarray]:
    """Collective over `comm`. Words with counts from `least` on, which runs then know; counts."""
    vocabulary, sums = StringSpool(scratch), [np.zeros(0, dtype=np.int64)]
    samples: list[bytes | None] = sorted(
        code for packed in mpi.allgather_arrays(comm, pack(runs.samples)) for code in unpack(packed)
    )
    ends = range_ends(comm, len(runs.words), RANGE_WORDS, samples, None)
    cursors = [_WordCursor(runs.words, *bounds) for bounds in zip(runs.bounds[:-1], runs.bounds[1:], strict=True)]
    for first in range(0, len(ends), comm.size):
        with mpi.agreed(comm, "merging words"):
            taken = [[cursor.take(end) for cursor in cursors] for end in ends[first : first + comm.size]]
            counts = [
                np.concatenate([np.zeros(0, dtype=np.int64), *(runs.counts[at : at + len(codes)] for at, codes in of_rank)])
                for of_rank in taken
            ]
        codes_in = mpi.exchange(comm, [pack([code for _, codes in of_rank for code in codes]) for of_rank in taken])
        kept, totals, answers = _merged(list(map(unpack, codes_in)), mpi.exchange(comm, counts), least)
        places = mpi.exchange(comm, answers)
        everywhere = mpi.allgather_arrays(comm, pack(kept))
        sums += mpi.allgather_arrays(comm, totals)
        sizes = [len(vocabulary), *(part.size for part in sums[-comm.size :])]
        with mpi.agreed(comm, "merging words"):
            for packed in everywhere:
                vocabulary.extend(unpack(packed))
            for of_rank, found, base in zip(taken, places, offsets(sizes)[1:], strict=False):
                found = np.where(found >= 0, found + base, -1)
                at = offsets([len(codes) for _, codes in of_rank])
                for (place, _), begin, end in zip(of_rank, at[:-1], at[1:], strict=True):
                    runs.places.put(place, found[begin:end])
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

"""Merge the words and word-pair counts of all ranks when they do not fit in memory.

A rank stores words, or keys of pairs, in sorted runs of limited size. The runs of all ranks are merged range by range, one range
per rank at a time. Ranges are consecutive and hold about the same number of terms.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hpcml import mpi
from hpcml.conversion.vocabulary import pack, unpack
from hpcml.files.spool import DiskArray, DiskStrings
from hpcml.partition import offsets

RUN_WORDS = 1 << 19  # distinct words per run, held in memory
RUN_KEYS = 1 << 20  # keys held in memory per run
RANGE_WORDS = 1 << 17  # words per range, over all runs and ranks
RANGE_KEYS = 1 << 19
CHUNK_WORDS = 1 << 12  # words per block of input and output
SAMPLE = 1 << 9  # ranges begin at one in this many terms of a run
T = TypeVar("T")


class Runs:
    def __init__(self, scratch: Path) -> None:
        self.words, self.numbers = DiskStrings(scratch), DiskArray(scratch, np.int32)
        self.counts, self.ids = DiskArray(scratch, np.int64), DiskArray(scratch, np.int64)
        self.bounds = [0]
        self.samples: list[bytes] = []

    def add(self, words: list[str]) -> None:
        order = sorted(range(len(words)), key=words.__getitem__)
        self.samples += [words[number].encode() for number in order[:: min(SAMPLE, max(1, len(order) - 1))]]
        for begin in range(0, len(order), CHUNK_WORDS):
            self.words.extend([words[number].encode() for number in order[begin : begin + CHUNK_WORDS]])
        self.numbers.append(np.array(order, dtype=np.int32))
        self.bounds.append(len(self.words))

    def set_counts(self, run: int, counts: np.ndarray) -> None:
        self.counts.put(self.bounds[run], counts[self.numbers[self.bounds[run] : self.bounds[run + 1]]])

    def assign_ids(self, lookup: Callable[[list[bytes]], np.ndarray]) -> None:
        for begin in range(0, len(self.words), CHUNK_WORDS):
            self.ids.put(begin, lookup(self.words.codes(begin, min(begin + CHUNK_WORDS, len(self.words)))))

    def word_ids(self, run: int) -> np.ndarray:
        """Return the vocabulary id of each word number of a run; the last entry, -1, is for breaks."""
        run_slice = slice(self.bounds[run], self.bounds[run + 1])
        ids = np.full(run_slice.stop - run_slice.start + 1, -1, dtype=np.int64)
        ids[self.numbers[run_slice]] = self.ids[run_slice]
        return ids


class KeyRuns:
    def __init__(self, scratch: Path) -> None:
        self.keys, self.counts, self.bounds = DiskArray(scratch, np.int64), DiskArray(scratch, np.int64), [0]
        self.samples = np.zeros(0, dtype=np.int64)
        self._waiting: list[np.ndarray] = []

    def add(self, keys: np.ndarray, counts: np.ndarray) -> None:
        self._waiting.append(np.stack([keys, counts]))
        if sum(part.shape[1] for part in self._waiting) >= RUN_KEYS:
            self.close()

    def close(self) -> None:
        if self._waiting:
            keys, counts = summed(*np.concatenate(self._waiting, axis=1))
            self._waiting = []
            self.samples = np.concatenate([self.samples, keys[:: min(SAMPLE, max(1, keys.size - 1))]])
            self.keys.append(keys)
            self.counts.append(counts)
            self.bounds.append(self.keys.size)


def summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unique, inverse = np.unique(keys, return_inverse=True)
    return unique, np.bincount(inverse, weights=counts, minlength=unique.size).astype(np.int64)


def cut_runs(
    comm: mpi.Comm, bounds: list[int], per_range: int, samples: list[T], term_at: Callable[[int], Any]
) -> list[list[slice]]:
    """Return slices of this rank's runs per range of about `per_range` terms of all ranks. Collective over `comm`."""
    _, (total,) = mpi.exclusive_sum(comm, [bounds[-1]])
    n_ranges = comm.size * math.ceil(max(1, int(total)) / per_range / comm.size)
    ends: list[Any] = [samples[number * len(samples) // n_ranges] for number in range(1, n_ranges)] if samples else []
    begins, ranges = bounds[:-1], []
    with mpi.agreed(comm, "merging terms"):
        for end in [*ends, *[None] * (n_ranges - len(ends))]:
            stops = bounds[1:]
            if end is not None:
                stops = [bisect_left(range(stop), end, begin, key=term_at) for begin, stop in zip(begins, stops, strict=True)]
            ranges.append(list(map(slice, begins, stops)))
            begins = stops
    return ranges


def merge_runs(comm: mpi.Comm, runs: Runs, min_count: int, scratch: Path) -> tuple[DiskStrings, np.ndarray]:
    """Return the words with a count of at least `min_count`, whose ids the runs receive, and the counts. Collective over `comm`."""
    vocabulary, sums = DiskStrings(scratch), [np.zeros(0, dtype=np.int64)]
    samples = sorted(code for packed in mpi.allgather_arrays(comm, pack(runs.samples)) for code in unpack(packed))
    ranges = cut_runs(comm, runs.bounds, RANGE_WORDS, samples, lambda position: runs.words.codes(position, position + 1)[0])
    for first in range(0, len(ranges), comm.size):
        own_ranges = ranges[first : first + comm.size]
        with mpi.agreed(comm, "merging words"):
            codes = [
                [code for piece in rank_slices for code in runs.words.codes(piece.start, piece.stop)] for rank_slices in own_ranges
            ]
            counts = [
                np.concatenate([np.zeros(0, dtype=np.int64), *(runs.counts[piece] for piece in rank_slices)])
                for rank_slices in own_ranges
            ]
        received = [unpack(packed) for packed in mpi.exchange(comm, list(map(pack, codes)))]
        totals: Counter[bytes] = Counter()
        for words, numbers in zip(received, mpi.exchange(comm, counts), strict=True):
            for code, count in zip(words, numbers.tolist(), strict=True):
                totals[code] += count
        words_kept = sorted(code for code, total in totals.items() if total >= min_count)
        position = {code: n for n, code in enumerate(words_kept)}
        answers = [np.fromiter((position.get(code, -1) for code in words), np.int64, len(words)) for words in received]
        ids = mpi.exchange(comm, answers)
        everywhere = mpi.allgather_arrays(comm, pack(words_kept))
        sums += mpi.allgather_arrays(comm, np.fromiter((totals[code] for code in words_kept), np.int64, len(words_kept)))
        sizes = [len(vocabulary), *(part.size for part in sums[-comm.size :])]
        with mpi.agreed(comm, "merging words"):
            for packed in everywhere:
                vocabulary.extend(unpack(packed))
            for rank_slices, new_ids, base in zip(own_ranges, ids, offsets(sizes)[1:], strict=False):
                new_ids = np.where(new_ids >= 0, new_ids + base, -1)
                at = offsets([piece.stop - piece.start for piece in rank_slices])
                for piece, begin, end in zip(rank_slices, at[:-1], at[1:], strict=True):
                    runs.ids.put(piece.start, new_ids[begin:end])
    return vocabulary, np.concatenate(sums)


def merge_keys(comm: mpi.Comm, runs: KeyRuns, min_count: int) -> tuple[np.ndarray, np.ndarray]:
    with mpi.agreed(comm, "merging terms"):
        runs.close()
    nothing = np.zeros(0, dtype=np.int64)
    keys_kept, sums = [nothing], [nothing]
    samples: list[int] = np.sort(np.concatenate(mpi.allgather_arrays(comm, runs.samples))).tolist()
    ranges = cut_runs(comm, runs.bounds, RANGE_KEYS, samples, lambda position: runs.keys[position : position + 1][0])
    for first in range(0, len(ranges), comm.size):
        received = []
        for spool in (runs.keys, runs.counts):
            with mpi.agreed(comm, "merging terms"):
                parts = [
                    np.concatenate([nothing, *(spool[piece] for piece in rank_slices)])
                    for rank_slices in ranges[first : first + comm.size]
                ]
            received.append(np.concatenate(mpi.exchange(comm, parts)))
        keys, counts = summed(*received)
        keys_kept += mpi.allgather_arrays(comm, keys[counts >= min_count])
        sums += mpi.allgather_arrays(comm, counts[counts >= min_count])
    return np.concatenate(keys_kept), np.concatenate(sums)

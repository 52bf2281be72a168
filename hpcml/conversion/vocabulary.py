"""Terms as integers: a vocabulary of words and word pairs that does not depend on the number of ranks.

Words are numbered in code-point order. With V words, the key of word a is a·(V+1), and the key of the pair "a b" is a·(V+1) + b +
1. A space sorts before letters and digits, so the order of keys is the code-point order of terms. With separate fields (`convert
--fields`), words end with the tag of their field, and both words of a pair have the same tag.

In a field with tag T, the word "earthquake" is the feature "earthquake T", a pair is "new york T", and a whole value is "Disasters
T". A tag has no white space and belongs to one field, so the last word of a name identifies the field, and feature names are
unique.

The words and pair counts of all ranks are merged when they do not fit in memory: a rank stores words, or keys of pairs, in sorted
runs of limited size. The runs of all ranks are merged range by range, one range per rank at a time. Ranges are consecutive and hold
about the same number of terms.
"""

import math
import operator
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.headings import TAG
from hpcml.errors import ConfigError, DataError, nearest, repeated
from hpcml.files.hdf5 import DAMAGE, Strings, write_strings
from hpcml.files.slabs import require_group
from hpcml.files.spool import DiskArray, DiskStrings
from hpcml.model.raw_input import VECTORISER, RawInput
from hpcml.options import quoted_name, split_record
from hpcml.partition import offsets

_SEPARATOR = b"\0"  # never part of a word, label or id
OTHER_KEYS = ("id", "labels", "split")  # keys of a document that are not fields
LONGEST = 1 << 14  # characters of all fields, limited by the HDF5 attribute
RUN_WORDS = 1 << 19  # distinct words per run, held in memory
RUN_KEYS = 1 << 20  # keys held in memory per run
RANGE_WORDS = 1 << 17  # words per range, over all runs and ranks
RANGE_KEYS = 1 << 19
CHUNK_WORDS = 1 << 12  # words per block of input and output
SAMPLE = 1 << 9  # ranges begin at one in this many terms of a run
T = TypeVar("T")


class Field(NamedTuple):
    name: str
    tag: str
    whole: bool = False


# Without --fields there are no tags: a word is the same feature in title and text.
PLAIN = (Field("title", ""), Field("text", ""))


def parse_fields(specs: Iterable[str], whole: Iterable[str] = ()) -> tuple[Field, ...]:
    """Parse texts such as "title=T" and "journal" (the tag is then the name); PLAIN without any. Raises ValueError."""
    whole_names = list(whole)
    pairs = [(name, tag if equals else name) for name, equals, tag in (text.partition("=") for text in specs)]
    names = [name for name, _ in pairs]
    for name in whole_names:
        if name not in names:
            raise ValueError(f"--whole-fields {name}: not among --fields; {nearest(name, names)}".rstrip("; "))
    if sum(map(len, [*names, *(tag for _, tag in pairs)])) > LONGEST:
        raise ValueError(f"--fields: more than {LONGEST:,} characters; choose fewer fields or shorter tags")
    for name, tag in pairs:
        if not name or not tag:
            raise ValueError(f"--fields {name}={tag}: a name is empty; expected a comma-separated list such as title=T,text=A")
        if name in OTHER_KEYS:
            raise ValueError(f"--fields {name}: {name} is not a text field; choose keys with text")
        if not name.isprintable() or not tag.isprintable() or len(tag.split()) != 1 or " " in tag or "=" in tag:
            raise ValueError(f"--fields {name}={tag}: a tag must be one word without spaces or '=', as in {name}=T")
        if tag == TAG:
            raise ValueError(f"--fields {name}={tag}: this tag is reserved for headings; choose another")
    for what, values in (("field", names), ("tag", [tag for _, tag in pairs])):
        if (twice := repeated(values)) is not None:
            raise ValueError(f"--fields: the {what} {twice!r} is repeated; field names and tags must be unique")
    return tuple(Field(name, tag, name in whole_names) for name, tag in pairs) or PLAIN


def as_texts(fields: Sequence[Field]) -> tuple[str, str]:
    every = [f"{field.name}={field.tag}" for field in fields], [field.name for field in fields if field.whole]
    return ",".join(map(quoted_name, every[0])), ",".join(map(quoted_name, every[1]))


@dataclass(eq=False)
class Vocabulary:
    """Words in code-point order, on disk without pairs, and sorted keys (d, int64). `tagged`: words end with a field tag."""

    words: Strings
    keys: np.ndarray
    tagged: bool = False

    def __len__(self) -> int:
        return self.keys.size

    def __getitem__(self, where: slice) -> list[str]:
        firsts, seconds = np.divmod(self.keys[where], len(self.words) + 1)
        if not firsts.size:
            return []
        first = int(firsts[0])
        words = list(self.words[first : int(firsts[-1]) + 1])
        if not seconds.any():
            return [words[a] for a in (firsts - first).tolist()]
        stems = [word.rpartition(" ")[0] for word in words] if self.tagged else words
        return [
            f"{stems[a]} {self._all[b - 1]}" if b else words[a]
            for a, b in zip((firsts - first).tolist(), seconds.tolist(), strict=True)
        ]

    @cached_property
    def _all(self) -> list[str]:
        return list(self.words[:])


@dataclass
class TextSettings:
    """`idf` (d) is None for binary values."""

    vocabulary: Vocabulary
    pairs: bool
    min_df: int
    n_documents: int
    idf: np.ndarray | None
    stop_words: list[str]
    fields: tuple[Field, ...] = PLAIN
    headings: bool = False  # whether labels are also features

    def write(self, file: h5py.File) -> None:
        group = require_group(file, "text")
        group.attrs["weighting"] = "binary" if self.idf is None else "log-idf"
        group.attrs["pairs"] = self.pairs
        group.attrs["min_df"] = self.min_df
        group.attrs["n_documents"] = self.n_documents
        if self.headings:
            file.attrs["headings"] = True  # on the file, so that feature selection keeps it
        if self.fields != PLAIN:
            group.attrs["fields"], group.attrs["whole_fields"] = as_texts(self.fields)
        if self.idf is not None:
            group.create_dataset("idf", data=self.idf)
        write_strings(file, "text/stop_words", self.stop_words)

    @classmethod
    def of(cls, raw_input: RawInput, path: Path) -> Self:
        if VECTORISER in raw_input.attributes:
            how = "use hpcml.Dataset.from_sparse(vectoriser.transform(texts), …) in Python"
            raise ConfigError(f"{path}: its rows come from a scikit-learn vectoriser, not from hpcml convert; {how}")
        try:
            attrs, names = raw_input.attributes, raw_input.names
            fields, headings = fields_of(attrs), bool(attrs.get("headings", False))
            weighted = attrs["weighting"] == "log-idf"
            if names is None or (
                weighted and (raw_input.idf is None or raw_input.idf.shape != (len(names),) or raw_input.idf.dtype.kind != "f")
            ):
                raise ValueError("idf does not fit")
            return cls(
                vocabulary=make_vocabulary(names, fields, headings),
                pairs=bool(attrs["pairs"]),
                min_df=int(attrs["min_df"]),
                n_documents=int(attrs["n_documents"]),
                idf=raw_input.idf if weighted else None,
                stop_words=raw_input.stop_words,
                fields=fields,
                headings=headings,
            )
        except DAMAGE as error:
            raise DataError(f"{path}: damaged text settings ({' '.join(str(error).split())}); make it again") from None


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    if "fields" not in attributes:
        return PLAIN
    fields, whole = str(attributes["fields"]), str(attributes["whole_fields"])
    return parse_fields(split_record(fields, strip=True), split_record(whole, strip=True) if whole else ())


def _words_of(name: str, fields: dict[str, Field], headings: bool) -> list[str]:
    if headings and name.endswith(f" {TAG}"):
        return [name]
    if not fields:
        return name.split(" ", 1)
    term, _, tag = name.rpartition(" ")
    if tag not in fields:
        raise ValueError("a feature without a field")
    return [name] if fields[tag].whole else [f"{word} {tag}" for word in term.split(" ", 1)]


def make_vocabulary(names: Sequence[str], fields: tuple[Field, ...] = PLAIN, headings: bool = False) -> Vocabulary:
    tagged = {field.tag: field for field in fields} if fields != PLAIN else {}
    if not tagged and not headings and not any(" " in name for name in names):  # only words
        words, keys = list(names), np.arange(len(names)) * (len(names) + 1)
        is_sorted = all(map(operator.lt, words, islice(words, 1, None)))
    else:
        words = sorted({word for name in names for word in _words_of(name, tagged, headings)})
        number, width = {word: n for n, word in enumerate(words)}, len(words) + 1
        keys = np.empty(len(names), dtype=np.int64)
        for position, name in enumerate(names):
            first, *second = _words_of(name, tagged, headings)
            keys[position] = number[first] * width + (number[second[0]] + 1 if second else 0)
        is_sorted = bool((np.diff(keys) > 0).all())
    if not is_sorted:
        raise ValueError("the feature names are not sorted and unique")
    return Vocabulary(words, keys, bool(tagged))


def pack(terms: list[bytes]) -> np.ndarray:
    return np.frombuffer(_SEPARATOR.join(terms), dtype=np.uint8)


def unpack(packed: np.ndarray) -> list[bytes]:
    return packed.tobytes().split(_SEPARATOR) if packed.size else []


def merge_terms(comm: mpi.Comm, terms: Iterable[str]) -> list[str]:
    """Terms are not empty and have no NUL; the result is in code-point order. Collective over `comm`."""
    parts: list[list[bytes]] = [[] for _ in range(comm.size)]
    for code in (term.encode() for term in terms):
        parts[zlib.crc32(code) % comm.size].append(code)
    own_terms = {code for packed in mpi.exchange(comm, [pack(part) for part in parts]) for code in unpack(packed)}
    all_terms = mpi.allgather_arrays(comm, pack(list(own_terms)))
    return [code.decode() for code in sorted(code for packed in all_terms for code in unpack(packed))]


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
    nothing = np.zeros(0, dtype=np.int64)
    vocabulary, sums = DiskStrings(scratch), [nothing]
    samples = sorted(code for packed in mpi.allgather_arrays(comm, pack(runs.samples)) for code in unpack(packed))
    ranges = cut_runs(comm, runs.bounds, RANGE_WORDS, samples, lambda position: runs.words.codes(position, position + 1)[0])
    for first in range(0, len(ranges), comm.size):
        own_ranges = ranges[first : first + comm.size]
        with mpi.agreed(comm, "merging words"):
            codes = [
                [code for piece in rank_slices for code in runs.words.codes(piece.start, piece.stop)] for rank_slices in own_ranges
            ]
            counts = [np.concatenate([nothing, *(runs.counts[piece] for piece in rank_slices)]) for rank_slices in own_ranges]
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
        own_ranges, received = ranges[first : first + comm.size], []
        for spool in (runs.keys, runs.counts):
            with mpi.agreed(comm, "merging terms"):
                parts = [np.concatenate([nothing, *(spool[piece] for piece in rank_slices)]) for rank_slices in own_ranges]
            received.append(np.concatenate(mpi.exchange(comm, parts)))
        keys, counts = summed(*received)
        keys_kept += mpi.allgather_arrays(comm, keys[counts >= min_count])
        sums += mpi.allgather_arrays(comm, counts[counts >= min_count])
    return np.concatenate(keys_kept), np.concatenate(sums)

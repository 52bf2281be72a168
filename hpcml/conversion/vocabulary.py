"""Terms as integers: a vocabulary of words and word pairs that is the same for any number of ranks.

Words are numbered in code-point order. The key of word a is a·(V+1), that of the pair "a b" is a·(V+1) + b + 1, V being the number
of words. As a space sorts before every letter and digit, the order of keys is the code-point order of the terms. Where fields are
told apart (`convert --fields`), words end with their fields' tags, and the words of a pair have the same one.

The feature of the word "earthquake" in a field with the tag T is named "earthquake T", that of a
word pair "new york T", and that of a value taken whole "Disasters T". A tag has no white space and
belongs to one field, so the last word of a name says the field, and no two features have one name.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.headings import TAG
from hpcml.errors import ConfigError, DataError, nearest, repeated
from hpcml.files.hdf5 import DAMAGE, Strings, write_strings
from hpcml.files.slabs import group_in
from hpcml.model.raw_input import VECTORISER, RawInput
from hpcml.options import quoted_name, split_record

_SEPARATOR = b"\0"  # in no word, label or id
OTHER_KEYS = ("id", "labels", "split")  # of a document, that are no fields
LONGEST = 1 << 14  # letters of all fields together, which an attribute of the dataset holds


class Field(NamedTuple):
    """A key of a document, the tag of its features, and whether values are features as they are."""

    name: str
    tag: str
    whole: bool = False


# What is not told apart has no tag: a word is one feature, wherever it stands.
PLAIN = (Field("title", ""), Field("text", ""))


def parse_fields(given: Iterable[str], whole: Iterable[str] = ()) -> tuple[Field, ...]:
    """The fields of texts such as "title=T" and "journal": NAME or NAME=TAG (by default NAME).

    `whole` names those whose values are features as they are. PLAIN without any; raises ValueError with the reason.
    """
    whole_names = list(whole)
    pairs = [(name, tag if equals else name) for name, equals, tag in (text.partition("=") for text in given)]
    names = [name for name, _ in pairs]
    for name in whole_names:
        if name not in names:
            raise ValueError(f"--whole-fields {name}: not among --fields; {nearest(name, names)}".rstrip("; "))
    if sum(map(len, [*names, *(tag for _, tag in pairs)])) > LONGEST:
        raise ValueError(f"--fields: more than {LONGEST:,} characters; choose fewer fields or shorter tags")
    for name, tag in pairs:
        if not name or not tag:
            raise ValueError(f"--fields {name}={tag}: a name is empty; expected names with commas between, as in title=T,text=A")
        if name in OTHER_KEYS:
            raise ValueError(f"--fields {name}: {name} is no field; choose keys that hold text")
        if not name.isprintable() or not tag.isprintable() or len(tag.split()) != 1 or " " in tag or "=" in tag:
            raise ValueError(f"--fields {name}={tag}: a tag must be one word without spaces or '=', as in {name}=T")
        if tag == TAG:
            raise ValueError(f"--fields {name}={tag}: headings have that tag; choose another")
    for what, found in (("field", names), ("tag", [tag for _, tag in pairs])):
        if (one := repeated(found)) is not None:
            raise ValueError(f"--fields: the {what} {one!r} stands there twice; give each field a name and a tag of its own")
    return tuple(Field(name, tag, name in whole_names) for name, tag in pairs) or PLAIN


def as_texts(fields: Sequence[Field]) -> tuple[str, str]:
    """Records of fields with tags, and of the names of those taken whole."""
    every = [f"{field.name}={field.tag}" for field in fields], [field.name for field in fields if field.whole]
    return ",".join(map(quoted_name, every[0])), ",".join(map(quoted_name, every[1]))


@dataclass(eq=False)
class Vocabulary:
    """The features of a text dataset as strings (`len`, slices), words and sorted keys (d, int64).

    The words are in code-point order, and outside of memory if there are no pairs. With `tagged` they end
    with the tags of their fields: "new T" and "york T" are the pair "new york T".
    """

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
        beginnings = [word.rpartition(" ")[0] for word in words] if self.tagged else words
        return [
            f"{beginnings[a]} {self._all[b - 1]}" if b else words[a]
            for a, b in zip((firsts - first).tolist(), seconds.tolist(), strict=True)
        ]

    @cached_property
    def _all(self) -> list[str]:
        """All words in memory, for second words of pairs."""
        return list(self.words[:])


@dataclass
class TextSettings:
    """How words became values, for `--like`; `idf` (d) is None for binary values."""

    vocabulary: Vocabulary
    pairs: bool
    min_df: int
    n_documents: int
    idf: np.ndarray | None
    stop_words: list[str]
    fields: tuple[Field, ...] = PLAIN
    headings: bool = False  # are the labels of a row features, too?

    def write(self, file: h5py.File) -> None:
        """Write group `text` of a dataset."""
        group = group_in(file, "text")
        group.attrs["weighting"] = "binary" if self.idf is None else "log-idf"
        group.attrs["pairs"] = self.pairs
        group.attrs["min_df"] = self.min_df
        group.attrs["n_documents"] = self.n_documents
        if self.headings:
            file.attrs["headings"] = True  # of the whole file: a selection of its features has it, too
        if self.fields != PLAIN:
            group.attrs["fields"], group.attrs["whole_fields"] = as_texts(self.fields)
        if self.idf is not None:
            group.create_dataset("idf", data=self.idf)
        write_strings(file, "text/stop_words", self.stop_words)

    @classmethod
    def of(cls, found: RawInput, path: Path) -> TextSettings:
        """Return the settings of a dataset or model `path` of texts. Raises DataError if they are damaged, ConfigError."""
        if VECTORISER in found.attributes:
            how = "hpcml.Dataset.from_sparse(vectoriser.transform(texts), …) makes a dataset in Python"
            raise ConfigError(f"{path}: a vectoriser of scikit-learn makes its rows, not hpcml convert; {how}")
        try:
            attrs, names = found.attributes, found.names
            fields, headings = fields_of(attrs), bool(attrs.get("headings", False))
            weighted = attrs["weighting"] == "log-idf"
            if names is None or (
                weighted and (found.idf is None or found.idf.shape != (len(names),) or found.idf.dtype.kind != "f")
            ):
                raise ValueError("idf does not fit")
            return cls(
                vocabulary=make_vocabulary(names, fields, headings),
                pairs=bool(attrs["pairs"]),
                min_df=int(attrs["min_df"]),
                n_documents=int(attrs["n_documents"]),
                idf=found.idf if weighted else None,
                stop_words=found.stop_words,
                fields=fields,
                headings=headings,
            )
        except DAMAGE as error:
            raise DataError(f"{path}: damaged settings of text ({' '.join(str(error).split())}); make it again") from None


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of texts. Raises KeyError or ValueError if damaged."""
    if "fields" not in attributes:
        return PLAIN
    fields, whole = str(attributes["fields"]), str(attributes["whole_fields"])
    return parse_fields(split_record(fields, strip=True), split_record(whole, strip=True) if whole else ())


def _words_of(name: str, fields: dict[str, Field], headings: bool) -> list[str]:
    """The word of a feature, the two of a pair, with tags, or its heading. Raises ValueError."""
    if headings and name.endswith(f" {TAG}"):
        return [name]
    if not fields:
        return name.split(" ", 1)
    term, _, tag = name.rpartition(" ")
    if tag not in fields:
        raise ValueError("a feature of no field")
    return [name] if fields[tag].whole else [f"{word} {tag}" for word in term.split(" ", 1)]


def make_vocabulary(names: Sequence[str], fields: tuple[Field, ...] = PLAIN, headings: bool = False) -> Vocabulary:
    """Return the features of these names as a vocabulary. Raises ValueError for unsorted names."""
    tagged = {field.tag: field for field in fields} if fields != PLAIN else {}
    if not tagged and not headings and not any(" " in name for name in names):  # only words
        words, keys = list(names), np.arange(len(names)) * (len(names) + 1)
        is_sorted = all(map(operator.lt, words, islice(words, 1, None)))
    else:
        words = sorted({word for name in names for word in _words_of(name, tagged, headings)})
        number, width = {word: n for n, word in enumerate(words)}, len(words) + 1
        keys = np.empty(len(names), dtype=np.int64)
        for place, name in enumerate(names):
            first, *second = _words_of(name, tagged, headings)
            keys[place] = number[first] * width + (number[second[0]] + 1 if second else 0)
        is_sorted = bool((np.diff(keys) > 0).all())
    if not is_sorted:
        raise ValueError("the feature names are not sorted and unique")
    return Vocabulary(words, keys, bool(tagged))


def pack(terms: list[bytes]) -> np.ndarray:
    """Terms as one array of bytes."""
    return np.frombuffer(_SEPARATOR.join(terms), dtype=np.uint8)


def unpack(packed: np.ndarray) -> list[bytes]:
    """The terms in an array made by `pack` (no term is empty)."""
    return packed.tobytes().split(_SEPARATOR) if packed.size else []


def merge_terms(comm: mpi.Comm, terms: Iterable[str]) -> list[str]:
    """Collective over `comm`. The terms of all ranks (not empty, no NUL), once, by code points."""
    parts: list[list[bytes]] = [[] for _ in range(comm.size)]
    for code in (term.encode() for term in terms):
        parts[zlib.crc32(code) % comm.size].append(code)
    mine = {code for packed in mpi.exchange(comm, [pack(part) for part in parts]) for code in unpack(packed)}
    everywhere = mpi.allgather_arrays(comm, pack(list(mine)))
    return [code.decode() for code in sorted(code for packed in everywhere for code in unpack(packed))]

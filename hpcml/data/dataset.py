"""A read-only handle on a dataset file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Self

import h5py
import numpy as np

from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.hdf5 import NAME_CHUNK, TYPES, changed_in_use, map_dataset, open_stamped, readable
from hpcml.files.slabs import BLOCK, GROUP, add_checksums
from hpcml.files.untrusted import read_strings, text_of

UNKNOWN = "unknown_labels"  # the label sets of labels that a dataset made --like another has and that one lacks
NAMES_OF = {"Y": "label_names", UNKNOWN: "unknown_label_names"}  # the names of the columns of label sets
UNLABELLED = "unlabelled"  # the ascending numbers of rows that nobody labelled; missing if there are none
STRINGS, NUMBERS = ("strings",), ("numbers",)  # types that a part may have, besides those of TYPES
NAMES = ("feature_names", "label_names", "label_titles", "row_ids", "unknown_label_names")  # lists of strings that may be there


class DataFile:
    """A read-only handle on a dataset file, of which sizes are read; close it, or use a `with`."""

    def __init__(self, path: Path | str) -> None:
        """Raises DataError if the file is not a dataset that this version reads."""
        self.path = Path(path)
        self.file = open_stamped(path, "dataset", "hpcml convert")
        self._state = self._present_state()
        self._label_names: list[str] | None = None
        try:
            with readable(path, "hpcml convert", "dataset"):
                self.n_rows, self.n_features = (int(n) for n in self.file["X"].attrs["shape"])
                self.n_labels = int(self.file["Y"].attrs["shape"][1])
                self.matrices = {"X": self.n_features, "Y": self.n_labels}  # name -> columns
                if UNKNOWN in self.file or NAMES_OF[UNKNOWN] in self.file:
                    self.matrices[UNKNOWN] = int(self.file[UNKNOWN].attrs["shape"][1])
                self.n_unknown = self.matrices.get(UNKNOWN, 0)  # labels that only the --like dataset does not have
                self.n_unlabelled = int(self.file[UNLABELLED].size) if UNLABELLED in self.file else 0  # rows
                self.has_groups = "row_groups" in self.file  # of rows, which no split, fold or sample divides
                self.has_headings = bool(self.file.attrs.get("headings", False))  # are labels of rows also features?
                self._check_parts()
                self.nnz = int(self.file["X/indices"].shape[0])
                self.vocabulary = text_of(self.file, "vocabulary")
        except DataError:
            self.file.close()
            raise

    def bad(self, what: str, it: str = "it") -> DataError:
        """The error for something that is wrong in the file."""
        return DataError(f"{self.path}: {what}; make {it} again with `hpcml convert`")

    def _check_parts(self) -> None:
        """Raise DataError, or what h5py raises, unless all parts are there, of sizes that agree and of known types.

        The kernels are given the mapped bytes of most of them.
        """
        names = {"feature_names": self.n_features, "row_ids": self.n_rows}
        names |= {"label_names": self.n_labels, "label_titles": self.n_labels, NAMES_OF[UNKNOWN]: self.n_unknown}
        parts: dict[str, tuple[int, tuple[str, ...]]] = {name: (size, STRINGS) for name, size in names.items()}
        for name in self.matrices:
            if (found := self.file[name].attrs.get("encoding-type", "csr_matrix")) != "csr_matrix":
                raise self.bad(f"{name} is stored as {found}, but expected csr_matrix")
            if int(self.file[name].attrs["shape"][0]) != self.n_rows or min(self.n_rows, *self.matrices.values()) < 0:
                raise self.bad(f"the shapes of {name} and X do not fit")
            n_entries = self.file[f"{name}/indices"].size if f"{name}/indices" in self.file else 0
            sizes = {"indptr": self.n_rows + 1, "indices": n_entries, "data": n_entries}
            parts |= {f"{name}/{part}": (sizes[part], types) for part, types in TYPES.items()}
        parts |= {f"rows/{name}": (self.n_rows, NUMBERS) for name in self.row_numbers()}
        parts |= dict.fromkeys(("row_keys", "row_groups"), (self.n_rows, ("<u8",)))
        parts |= {f"splits/{name}": (self.file["splits"][name].size, ("<i8",)) for name in self.split_names()}
        if UNLABELLED in self.file:
            parts[UNLABELLED] = (self.n_unlabelled, ("<i8",))
        for name, (size, types) in parts.items():
            if name not in self.file:
                if "/" in name or name == "row_keys" or (name == NAMES_OF[UNKNOWN] and UNKNOWN in self.matrices):
                    raise self.bad(f"{name} is missing", "the file")
                continue
            shape, dtype = self.file[name].shape, self.file[name].dtype
            if shape != (size,):
                found, what = " × ".join(map(str, shape)) or "single", "entries" if "/" in name else "names"
                raise self.bad(f"{name} has {found} {what}, but expected {size}")
            kind = STRINGS if h5py.check_string_dtype(dtype) else NUMBERS if dtype.kind in "iuf" else ()
            if types != kind and dtype.str not in types:
                raise self.bad(f"{name} has the type {dtype.str}, but expected {types[0]}", "the file")
        if "label_names" not in self.file and self.n_labels > self.path.stat().st_size:
            raise self.bad(f"{self.n_labels} labels, far more than the file has entries")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, values of X, entries of Y: hardly the same in two different files."""
        return self.n_rows, self.nnz, int(self.file["Y/indices"].shape[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _present_state(self) -> tuple[int, int]:
        """The size, and the time of the last change, of the file that was opened."""
        found = os.fstat(self.file.id.get_vfd_handle())
        return found.st_size, found.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raise DataError if the file was written to since it was opened. Local.

        Call it before and after reading what was mapped. A file that took its name does not matter.
        """
        if self._present_state() != self._state:
            raise changed_in_use(self.path)

    def map(self, name: str, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Rows begin..end of a numeric dataset, read-only (`map_dataset`). Raises DataError."""
        return map_dataset(self.path, self.file[name], begin, end)

    def strings(self, name: str, begin: int = 0, end: int | None = None) -> list[str] | None:
        """Entries begin..end of a dataset of strings, or None if the file has none of that name."""
        if name not in self.file:
            return None
        with readable(self.path, "hpcml convert", f"dataset ({name})"):
            return read_strings(self.file[name], begin, end)

    def label_names(self) -> list[str]:
        """Return the labels' names, or numbers. Raises DataError if two are the same."""
        if self._label_names is None:
            names = self.strings("label_names") or [str(label) for label in range(self.n_labels)]
            if (name := repeated(names)) is not None:
                raise DataError(f"{self.path}: two labels have the name {name!r}; make the file again with names that differ")
            self._label_names = names
        return self._label_names

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all values, label sets and keys by their checksums, and of the names of features and labels."""
        digest = hashlib.sha256("\n".join([self.vocabulary, *self.label_names()]).encode("utf-8", "surrogatepass"))
        with readable(self.path, "hpcml convert", "dataset"):
            for name in self.checked_arrays():
                digest.update(name.encode() + self.file[f"{GROUP}/{name}"][()].tobytes())
        return digest.hexdigest()

    def checked_arrays(self) -> list[str]:
        """The names of the arrays that have checksums."""
        found: list[str] = []
        if GROUP in self.file:
            self.file[GROUP].visititems(lambda name, part: found.append(name) if isinstance(part, h5py.Dataset) else None)
        return found

    def verify(self, name: str, begin: int, end: int) -> None:
        """Raise DataError unless entries begin..end of an array are those that were written, if they have checksums. Local.

        Whole blocks are read.
        """
        stored = f"{GROUP}/{name}"
        if stored not in self.file or begin >= end:
            return
        size = BLOCK // (self.file[name].dtype.itemsize // 4)  # entries in a block
        first, last = begin // size, -(-end // size)
        sums = np.zeros(last - first, np.uint64)
        add_checksums(self.map(name, first * size, min(last * size, self.file[name].shape[0])), first * size, sums)
        if not np.array_equal(sums, self.file[stored][first:last]):
            raise self.bad(f"{name} does not have its checksum: the file was changed or damaged")

    def unknown_names(self) -> list[str]:
        """The names of the unknown labels. Raises DataError where one is taken."""
        names = self.strings(NAMES_OF[UNKNOWN]) or []
        if names and (len(set(names)) < len(names) or not set(names).isdisjoint(self.label_names())):
            raise self.bad("an unknown label has the name of another label")
        return names

    def label_titles(self, labels: np.ndarray | None = None) -> list[str] | None:
        """The titles of these labels, or all ("": none); None if there are none. DataError."""
        titles = self.strings("label_titles")
        return titles if titles is None or labels is None else [titles[label] for label in labels.tolist()]

    def split_names(self) -> list[str]:
        """The names of the splits, sorted."""
        return sorted(self.file["splits"].keys()) if "splits" in self.file else []

    def row_numbers(self) -> list[str]:
        """The sorted names of the other numbers of rows, such as the year (group `rows`)."""
        return sorted(self.file["rows"].keys()) if "rows" in self.file else []

    def split(self, name: str) -> np.ndarray:
        """Return sorted rows (int64, mapped if one) of a split, of several with commas between, or "all". Raises ConfigError."""
        names = [name] if name in self.split_names() else list(dict.fromkeys(part.strip() for part in name.split(",")))
        for each in names:
            if each != "all" and each not in self.split_names():
                known = ", ".join([*self.split_names(), "all"])
                raise ConfigError(f"{self.path}: no split named {each!r}; it has: {known} (make one with `hpcml split`)")
        if "all" in names:
            return np.arange(self.n_rows, dtype=np.int64)
        parts = [self.map(f"splits/{each}") for each in names]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def labelled_split(self, name: str) -> np.ndarray:
        """Return the labelled rows of a split, those to train and evaluate on. Raises ConfigError, also if there are none."""
        rows = self.split(name)
        found = self.labelled(rows)
        if rows.size and not found.size:
            raise ConfigError(f"{self.path}: no row of the split {name} is labelled; training and evaluation need labelled rows")
        return found

    def labelled(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some rows that are labelled."""
        return rows[~np.isin(rows, self.map(UNLABELLED), assume_unique=True)] if UNLABELLED in self.file else rows


def checked_slabs(slabs: Collection[str]) -> list[str]:
    """Return those of the arrays of a dataset file that have checksums: all but splits, which `hpcml split` changes, and `rows`."""
    return [name for name in slabs if not name.startswith(("splits/", "rows/"))]


def default_split(dataset: DataFile, wanted: str) -> str:
    """The split to use when the user named none: `wanted` if the file has it, else all rows."""
    return wanted if wanted in dataset.split_names() else "all"


def names_of(dataset: DataFile, numbers: np.ndarray, what: str = "feature_names") -> list[str] | None:
    """The names of some features (or of `what`); None if there are none. Raises DataError."""
    if what not in dataset.file:
        return None
    out = np.empty(numbers.size, dtype=object)
    for begin in range(0, dataset.file[what].shape[0], NAME_CHUNK):
        places = np.flatnonzero((numbers >= begin) & (numbers < begin + NAME_CHUNK))
        if places.size:
            chunk = np.array(dataset.strings(what, begin, begin + NAME_CHUNK), dtype=object)
            out[places] = chunk[numbers[places] - begin]
    return list(out)


def numbers_of(dataset: DataFile, names: list[str]) -> np.ndarray:
    """The numbers (int64) of the features of some names, −1: none. Raises DataError."""
    place = {name: number for number, name in enumerate(names)}
    out = np.full(len(names), -1, dtype=np.int64)
    for begin in range(0, dataset.n_features, NAME_CHUNK):
        for number, name in enumerate(dataset.strings("feature_names", begin, begin + NAME_CHUNK) or [], begin):
            if name in place:
                out[place[name]] = number
    return out

"""Dataset files, opened read-only."""

import hashlib
import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Self

import h5py
import numpy as np

from hpcml.errors import ConfigError, DataError, repeated
from hpcml.files.hdf5 import NAME_CHUNK, TYPES, changed_file_error, map_dataset, open_stamped, readable
from hpcml.files.slabs import BLOCK, GROUP, add_checksums
from hpcml.files.untrusted import read_strings, text_of

UNKNOWN = "unknown_labels"  # label sets of labels that the --like dataset does not have
NAMES_OF = {"Y": "label_names", UNKNOWN: "unknown_label_names"}  # label matrix -> dataset with the names of its columns
UNLABELLED = "unlabelled"  # ascending numbers of unlabelled rows; absent if all rows are labelled
STRINGS, NUMBERS = ("strings",), ("numbers",)  # accepted types of parts that are not in TYPES
NAMES = ("feature_names", "label_names", "label_titles", "row_ids", "unknown_label_names")  # optional lists of strings


class DataFile:
    """A dataset file, opened read-only; close it, or use `with`. Opening reads sizes only."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.file = open_stamped(path, "dataset", "hpcml convert")
        self._state = self._present_state()
        self._label_names: list[str] | None = None
        try:
            with readable(path, "hpcml convert", "dataset"):
                self.n_rows, self.n_features = (int(n) for n in self.file["X"].attrs["shape"])
                self.n_labels = int(self.file["Y"].attrs["shape"][1])
                self.matrices = {"X": self.n_features, "Y": self.n_labels}  # matrix -> number of columns
                if UNKNOWN in self.file or NAMES_OF[UNKNOWN] in self.file:
                    self.matrices[UNKNOWN] = int(self.file[UNKNOWN].attrs["shape"][1])
                self.n_unknown = self.matrices.get(UNKNOWN, 0)  # labels that the --like dataset does not have
                self.n_unlabelled = int(self.file[UNLABELLED].size) if UNLABELLED in self.file else 0  # rows
                self.has_groups = "row_groups" in self.file  # row groups: no split, fold or sample divides one
                self.has_headings = bool(self.file.attrs.get("headings", False))  # the labels of a row are also features
                self._check_parts()
                self.nnz = int(self.file["X/indices"].shape[0])
                self.vocabulary = text_of(self.file, "vocabulary")
        except DataError:
            self.file.close()
            raise

    def damage_error(self, message: str, it: str = "it") -> DataError:
        return DataError(f"{self.path}: {message}; create {it} again with `hpcml convert`")

    def _check_parts(self) -> None:
        names = {"feature_names": self.n_features, "row_ids": self.n_rows}
        names |= {"label_names": self.n_labels, "label_titles": self.n_labels, NAMES_OF[UNKNOWN]: self.n_unknown}
        parts: dict[str, tuple[int, tuple[str, ...]]] = {name: (size, STRINGS) for name, size in names.items()}
        for name in self.matrices:
            if (encoding := self.file[name].attrs.get("encoding-type", "csr_matrix")) != "csr_matrix":
                raise self.damage_error(f"{name} is stored as {encoding}, but expected csr_matrix")
            if int(self.file[name].attrs["shape"][0]) != self.n_rows or min(self.n_rows, *self.matrices.values()) < 0:
                raise self.damage_error(f"{name} and X have different numbers of rows")
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
                    raise self.damage_error(f"{name} is missing", "the file")
                continue
            shape, dtype = self.file[name].shape, self.file[name].dtype
            if shape != (size,):
                n_found, unit = " × ".join(map(str, shape)) or "single", "entries" if "/" in name else "names"
                raise self.damage_error(f"{name} has {n_found} {unit}, but expected {size}")
            kind = STRINGS if h5py.check_string_dtype(dtype) else NUMBERS if dtype.kind in "iuf" else ()
            if types != kind and dtype.str not in types:
                raise self.damage_error(f"{name} has the type {dtype.str}, but expected {types[0]}", "the file")
        if "label_names" not in self.file and self.n_labels > self.path.stat().st_size:
            raise self.damage_error(f"{self.n_labels} labels, more than the file can hold")

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.n_rows, self.nnz, int(self.file["Y/indices"].shape[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _present_state(self) -> tuple[int, int]:
        status = os.fstat(self.file.id.get_vfd_handle())
        return status.st_size, status.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raise DataError if the file was modified since it was opened. Call it before and after reading mapped arrays."""
        if self._present_state() != self._state:
            raise changed_file_error(self.path)

    def map(self, name: str, begin: int = 0, end: int | None = None) -> np.ndarray:
        return map_dataset(self.path, self.file[name], begin, end)

    def strings(self, name: str, begin: int = 0, end: int | None = None) -> list[str] | None:
        if name not in self.file:
            return None
        with readable(self.path, "hpcml convert", f"dataset ({name})"):
            return read_strings(self.file[name], begin, end)

    def label_names(self) -> list[str]:
        """Return the names of the labels; their numbers if the file has no names. Raises DataError."""
        if self._label_names is None:
            names = self.strings("label_names") or [str(label) for label in range(self.n_labels)]
            if (name := repeated(names)) is not None:
                raise DataError(f"{self.path}: two labels have the name {name!r}; create the file again with unique names")
            self._label_names = names
        return self._label_names

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the checksums of values, label sets and keys, and of the names of features and labels."""
        digest = hashlib.sha256("\n".join([self.vocabulary, *self.label_names()]).encode("utf-8", "surrogatepass"))
        with readable(self.path, "hpcml convert", "dataset"):
            for name in self.checked_arrays():
                digest.update(name.encode() + self.file[f"{GROUP}/{name}"][()].tobytes())
        return digest.hexdigest()

    def checked_arrays(self) -> list[str]:
        names: list[str] = []
        if GROUP in self.file:
            self.file[GROUP].visititems(lambda name, part: names.append(name) if isinstance(part, h5py.Dataset) else None)
        return names

    def verify(self, name: str, begin: int, end: int) -> None:
        """Raise DataError if entries begin to end of an array do not match its checksums. Reads whole blocks."""
        stored = f"{GROUP}/{name}"
        if stored not in self.file or begin >= end:
            return
        size = BLOCK // (self.file[name].dtype.itemsize // 4)  # entries in a block
        first, last = begin // size, -(-end // size)
        sums = np.zeros(last - first, np.uint64)
        add_checksums(self.map(name, first * size, min(last * size, self.file[name].shape[0])), first * size, sums)
        if not np.array_equal(sums, self.file[stored][first:last]):
            raise self.damage_error(f"{name} does not have its checksum: the file was changed or damaged")

    def unknown_names(self) -> list[str]:
        names = self.strings(NAMES_OF[UNKNOWN]) or []
        if names and (len(set(names)) < len(names) or not set(names).isdisjoint(self.label_names())):
            raise self.damage_error("an unknown label has the name of a known label")
        return names

    def label_titles(self, labels: np.ndarray | None = None) -> list[str] | None:
        titles = self.strings("label_titles")
        return titles if titles is None or labels is None else [titles[label] for label in labels.tolist()]

    def split_names(self) -> list[str]:
        return sorted(self.file["splits"].keys()) if "splits" in self.file else []

    def row_numbers(self) -> list[str]:
        return sorted(self.file["rows"].keys()) if "rows" in self.file else []

    def split(self, name: str) -> np.ndarray:
        """Return the sorted rows (int64) of a split, of several splits separated by commas, or of "all". Raises ConfigError."""
        names = [name] if name in self.split_names() else list(dict.fromkeys(part.strip() for part in name.split(",")))
        for each in names:
            if each != "all" and each not in self.split_names():
                known = ", ".join([*self.split_names(), "all"])
                raise ConfigError(f"{self.path}: no split named {each!r}; it has: {known} (create one with `hpcml split`)")
        if "all" in names:
            return np.arange(self.n_rows, dtype=np.int64)
        parts = [self.map(f"splits/{each}") for each in names]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def labelled_split(self, name: str) -> np.ndarray:
        """Return the labelled rows of a split. Raises ConfigError, also if there are none."""
        rows = self.split(name)
        labelled = self.labelled(rows)
        if rows.size and not labelled.size:
            raise ConfigError(f"{self.path}: the split {name} has no labelled rows, which training and evaluation need")
        return labelled

    def labelled(self, rows: np.ndarray) -> np.ndarray:
        return rows[~np.isin(rows, self.map(UNLABELLED), assume_unique=True)] if UNLABELLED in self.file else rows


def checked_slabs(slabs: Collection[str]) -> list[str]:
    """Return the arrays that have checksums: all but `splits`, which `hpcml split` changes, and `rows`."""
    return [name for name in slabs if not name.startswith(("splits/", "rows/"))]


def split_or_all(dataset: DataFile, split: str) -> str:
    return split if split in dataset.split_names() else "all"


def read_feature_names(dataset: DataFile, numbers: np.ndarray, strings: str = "feature_names") -> list[str] | None:
    if strings not in dataset.file:
        return None
    out = np.empty(numbers.size, dtype=object)
    for begin in range(0, dataset.file[strings].shape[0], NAME_CHUNK):
        chosen = np.flatnonzero((numbers >= begin) & (numbers < begin + NAME_CHUNK))
        if chosen.size:
            chunk = np.array(dataset.strings(strings, begin, begin + NAME_CHUNK), dtype=object)
            out[chosen] = chunk[numbers[chosen] - begin]
    return list(out)


def numbers_of(dataset: DataFile, names: list[str], strings: str = "feature_names") -> np.ndarray:
    """Return the number (int64) of the first feature, or row, with each name; −1 if there is none. Raises DataError."""
    position = {name: number for number, name in enumerate(names)}
    numbers = np.full(len(names), -1, dtype=np.int64)
    for begin in range(0, dataset.n_rows if strings == "row_ids" else dataset.n_features, NAME_CHUNK):
        for number, name in enumerate(dataset.strings(strings, begin, begin + NAME_CHUNK) or [], begin):
            if name in position and numbers[position[name]] < 0:
                numbers[position[name]] = number
    return numbers

"""The dataset file: format, version, and a read-only handle on one.

An hpcml dataset is an HDF5 file with the attributes `hpcml-format = "dataset"` and `hpcml-version`. Groups `X` (m × d float32)
and `Y` (m × L, the label sets) use AnnData's encoding of a CSR matrix. Beside them may stand `feature_names`, `label_names`,
`row_ids` (variable-length UTF-8), `splits/NAME` (sorted row numbers, int64) and `text` (how words became features).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from hpcml.data.slabs import Slab
from hpcml.errors import ConfigError, DataError

# Of each kind of file, the format that is written and read.
VERSIONS = {"dataset": 1, "model": 2, "classifier": 1, "checkpoint": 1, "scores": 1}
NAME_CHUNK = 1 << 16  # names are read and written so many at a time


def matrix_slabs(name: str, n_rows: int, nnz: int, n_columns: int, dtype: str | None) -> dict[str, Slab]:
    """The datasets of one CSR matrix; `dtype` None is a matrix of ones, whose `data` is described but never written."""
    index = "<i4" if n_columns < 2**31 else "<i8"
    slabs = {f"{name}/indptr": Slab((n_rows + 1,), "<i8"), f"{name}/indices": Slab((nnz,), index)}
    if dtype is not None:
        slabs[f"{name}/data"] = Slab((nnz,), dtype)
    return slabs


def describe_matrix(file: h5py.File, name: str, n_rows: int, n_columns: int, nnz: int, ones: bool) -> None:
    """Give group `name` AnnData's attributes; for a matrix of ones also its unwritten `data` with fill value 1."""
    group = file[name]
    group.attrs["encoding-type"] = "csr_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = np.array([n_rows, n_columns], dtype=np.int64)
    if ones:
        group.create_dataset("data", shape=(nnz,), dtype="<f4", fillvalue=np.float32(1))


def create_strings(file: h5py.File, name: str, size: int) -> h5py.Dataset:
    """An empty dataset of variable-length UTF-8 strings that AnnData reads as a string array."""
    data = file.create_dataset(name, shape=(size,), dtype=h5py.string_dtype())
    data.attrs["encoding-type"] = "string-array"
    data.attrs["encoding-version"] = "0.2.0"
    return data


def write_strings(file: h5py.File, name: str, strings: Sequence[str]) -> None:
    """A dataset of variable-length UTF-8 strings; of `strings` only slices are taken."""
    data = create_strings(file, name, len(strings))
    for begin in range(0, len(strings), NAME_CHUNK):
        data[begin : begin + NAME_CHUNK] = np.array(strings[begin : begin + NAME_CHUNK], dtype=object)


def stamp(file: h5py.File, kind: str) -> None:
    """Mark a file as ours: what it is and the version of its format."""
    file.attrs["hpcml-format"] = kind
    file.attrs["hpcml-version"] = VERSIONS[kind]


def vocabulary_digest(names: Sequence[str] | None, n_features: int) -> str:
    """What must agree between a model and the data it scores: the feature names, or only the width without names."""
    if names is None:
        return f"width:{n_features}"
    digest = hashlib.sha256()
    for begin in range(0, len(names), NAME_CHUNK):
        digest.update("\n".join(names[begin : begin + NAME_CHUNK]).encode())
        digest.update(b"\n")
    return "names:" + digest.hexdigest()


def open_stamped(path: Path | str, kind: str, made_by: str) -> h5py.File:
    """Open an HDF5 file of ours read-only.

    Raises DataError for a missing, unreadable, truncated or foreign file, and for one of a newer or older format.
    """
    path = Path(path)
    try:
        with path.open("rb") as probe:
            if not probe.read(1):
                raise DataError(f"{path}: the file is empty; make it with `{made_by}`")
        if not h5py.is_hdf5(path):
            raise DataError(f"{path}: not an HDF5 file (or damaged); expected one made with `{made_by}`")
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        if error.strerror and error.filename:
            raise DataError(f"{path}: cannot read: {error.strerror}; check the name and its permissions") from None
        raise DataError(f"{path}: truncated or damaged HDF5 file; make it again with `{made_by}`") from None
    try:
        found, version = file.attrs.get("hpcml-format"), file.attrs.get("hpcml-version", 0)
    except (OSError, KeyError, ValueError, RuntimeError):  # h5py raises any of them for damaged attributes
        file.close()
        raise DataError(f"{path}: truncated or damaged HDF5 file; make it again with `{made_by}`") from None
    if found != kind:
        what = f"an hpcml {found}" if found else "an HDF5 file, but not made by hpcml"
        file.close()
        raise DataError(f"{path}: this is {what}; expected a {kind} made with `{made_by}`")
    if not isinstance(version, (int, np.integer)) or version > VERSIONS[kind]:
        file.close()
        raise DataError(f"{path}: format version {version} is newer than this hpcml reads (up to {VERSIONS[kind]}); update hpcml")
    if version < VERSIONS[kind]:
        file.close()
        again = f"{'train' if kind == 'model' else 'make'} it again with `{made_by}`"
        raise DataError(f"{path}: format version {version} is older than this hpcml reads ({VERSIONS[kind]}); {again}")
    return file


def map_dataset(path: Path, data: h5py.Dataset, begin: int = 0, end: int | None = None) -> np.ndarray:
    """Rows begin..end of a numeric HDF5 dataset, read-only: mapped if contiguous, read otherwise, a constant if never written.

    Raises DataError if there are not so many rows or their bytes lie in another file.
    """
    end = data.shape[0] if end is None else end
    if not 0 <= begin <= end <= data.shape[0] or data.external or data.is_virtual:
        where = "other files" if data.external or data.is_virtual else f"rows {begin} to {end} of {data.shape[0]}"
        raise DataError(f"{path}: damaged file: {data.name} points to {where}")
    if end == begin:
        out = np.empty((0, *data.shape[1:]), dtype=data.dtype)
    elif data.chunks is None and data.id.get_offset() is not None:
        first = data.id.get_offset() + begin * data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
        return np.memmap(path, data.dtype, "r", first, (end - begin, *data.shape[1:])).view(np.ndarray)
    elif data.id.get_storage_size() == 0:
        out = np.broadcast_to(data.fillvalue, (end - begin, *data.shape[1:]))
    else:
        out = data[begin:end]
    out.flags.writeable = False
    return out


class Dataset:
    """A read-only handle on a dataset file. Opening reads sizes only; close it or use it in a `with`."""

    def __init__(self, path: Path | str) -> None:
        """Raises DataError if the file is not a dataset that this version reads."""
        self.path = Path(path)
        self.file = open_stamped(path, "dataset", "hpcml convert")
        try:
            self.n_rows, self.n_features = (int(n) for n in self.file["X"].attrs["shape"])
            self.n_labels = int(self.file["Y"].attrs["shape"][1])
            self.nnz = int(self.file["X/indices"].shape[0])
            self.vocabulary = str(self.file.attrs["vocabulary"])
            self._check_shapes()
        except (KeyError, OSError, ValueError, TypeError, AttributeError):
            self.file.close()
            raise DataError(f"{path}: damaged dataset: X, Y or vocabulary is missing; make it again with `hpcml convert`") from None
        except DataError:
            self.file.close()
            raise

    def _check_shapes(self) -> None:
        """The sizes of all parts agree with each other. Raises DataError, or what h5py raises if a part is missing."""
        sizes = {"feature_names": self.n_features, "label_names": self.n_labels, "row_ids": self.n_rows}
        sizes |= {f"{name}/indptr": self.n_rows + 1 for name in "XY"}
        sizes |= {f"{name}/data": int(self.file[f"{name}/indices"].shape[0]) for name in "XY"}
        for name, size in sizes.items():
            if "/" in name and name not in self.file:
                raise DataError(f"{self.path}: {name} is missing; make the file again with `hpcml convert`")
            if name in self.file and self.file[name].shape != (size,):
                found, what = self.file[name].shape[0], "entries" if "/" in name else "names"
                raise DataError(f"{self.path}: {name} has {found} {what}, but expected {size}; make it again with `hpcml convert`")
        if int(self.file["Y"].attrs["shape"][0]) != self.n_rows or min(self.n_rows, self.n_features, self.n_labels) < 0:
            raise DataError(f"{self.path}: the shapes of X and Y do not fit; make it again with `hpcml convert`")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, values of X, entries of Y: what two files that are not the same hardly have in common."""
        return self.n_rows, self.nnz, int(self.file["Y/indices"].shape[0])

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def map(self, name: str, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Rows begin..end of a numeric dataset, read-only (`map_dataset`). Raises DataError if they are not there."""
        return map_dataset(self.path, self.file[name], begin, end)

    def strings(self, name: str, begin: int = 0, end: int | None = None) -> list[str] | None:
        """Entries begin..end of a dataset of strings, or None if the file has none of that name."""
        if name not in self.file:
            return None
        return list(self.file[name].asstr()[begin:end])

    def label_names(self) -> list[str]:
        """The names of the labels; their numbers where the file has no names."""
        return self.strings("label_names") or [str(label) for label in range(self.n_labels)]

    def split_names(self) -> list[str]:
        """The names of the splits, sorted."""
        return sorted(self.file["splits"]) if "splits" in self.file else []

    def split(self, name: str) -> np.ndarray:
        """The sorted row numbers (int64, mapped) of a split; "all" is every row.

        Raises ConfigError for a split that the file does not have.
        """
        if name == "all":
            return np.arange(self.n_rows, dtype=np.int64)
        if name not in self.split_names():
            known = ", ".join([*self.split_names(), "all"])
            raise ConfigError(f"{self.path}: no split named {name!r}; it has: {known} (make one with `hpcml split`)")
        return self.map(f"splits/{name}")


def default_split(dataset: Dataset, wanted: str) -> str:
    """The split to use when the user named none: `wanted` if the file has it, else all rows."""
    return wanted if wanted in dataset.split_names() else "all"

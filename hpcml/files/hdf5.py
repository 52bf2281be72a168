"""The dataset file: format, version, and a read-only handle on one.

An hpcml dataset is an HDF5 file with the attributes `hpcml-format = "dataset"` and `hpcml-version`. Groups `X` (m × d float32) and
`Y` (m × L, the label sets) use AnnData's encoding of a CSR matrix. Optional parts are `feature_names`, `label_names`,
`label_titles` (what people call the labels, "" for none), `row_ids` (variable-length UTF-8), `splits/NAME` (sorted row numbers,
int64), `rows/NAME` (another number of each row, such as the year) and `text` (how words became features). `row_keys`, and
`row_groups` if rows have groups, identify them (uint64; `hpcml.data.row_keys`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import h5py
import numpy as np

from hpcml.errors import DataError, file_error, is_in_use, is_of_the_system, is_out_of_memory
from hpcml.files.opening import open_regular
from hpcml.files.slabs import Slab
from hpcml.files.untrusted import check_parts
from hpcml.log import is_unicode, named, visible
from hpcml.version import version

# Format version of each kind of file. Only this version is read.
VERSIONS = {"dataset": 3, "model": 6, "classifier": 3, "checkpoint": 2, "scores": 3, "predictions": 1}
MADE_BY = "made-by"  # the version of hpcml; like MADE_ON no part of what the file holds
MADE_ON = "made-on"  # of a model: processor and libraries, in JSON
NAME_CHUNK = 1 << 16  # names are read and written so many at a time
TYPES = {"indptr": ("<i8",), "indices": ("<i4", "<i8"), "data": ("<f4",)}  # of the parts of a matrix
# What h5py and numpy raise, one or another, for a damaged part of a file.
DAMAGE = (KeyError, OSError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError)


def matrix_slabs(name: str, n_rows: int, nnz: int, n_columns: int, dtype: str | None) -> dict[str, Slab]:
    """The datasets of a CSR matrix; without a `dtype`, one of ones, `data` is never written."""
    index = "<i4" if n_columns < 2**31 else "<i8"
    slabs = {f"{name}/indptr": Slab((n_rows + 1,), "<i8"), f"{name}/indices": Slab((nnz,), index)}
    if dtype is not None:
        slabs[f"{name}/data"] = Slab((nnz,), dtype)
    return slabs


def describe_matrix(file: h5py.File, name: str, n_rows: int, n_columns: int, nnz: int, ones: bool) -> None:
    """AnnData's attributes of group `name`; of `ones`, also unwritten `data` of fill value 1."""
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


class Strings(Protocol):
    """Strings that may be made when asked for: what has a length and gives slices."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice) -> Sequence[str]: ...


def write_strings(file: h5py.File, name: str, strings: Strings) -> None:
    """Write variable-length UTF-8 strings, taken slice by slice. Raises DataError for one that HDF5 cannot hold."""
    data = create_strings(file, name, len(strings))
    for begin in range(0, len(strings), NAME_CHUNK):
        some = strings[begin : begin + NAME_CHUNK]
        text = "".join(some)
        if "\0" in text or not is_unicode(text):
            bad = next(string for string in some if "\0" in string or not is_unicode(string))
            raise DataError(f"{name}: {named(bad)!r} holds a character that cannot be stored; remove it from the name")
        data[begin : begin + NAME_CHUNK] = np.array(some, dtype=object)


def write_label_titles(file: h5py.File, titles: Sequence[str] | None) -> None:
    """The titles of labels ("": none), if a label has one. Raises as `write_strings`."""
    if titles is not None and any(titles):
        write_strings(file, "label_titles", titles)


def stamp(file: h5py.File, kind: str) -> None:
    """Mark a file as ours: kind, version of the format, version of hpcml; a model also: processor and libraries."""
    file.attrs["hpcml-format"] = kind
    file.attrs["hpcml-version"] = VERSIONS[kind]
    file.attrs[MADE_BY] = version()
    if kind in ("model", "classifier"):
        from hpcml.kernels.processor import computed_by  # with numba, which whoever trains has loaded

        file.attrs[MADE_ON] = json.dumps(computed_by())


def vocabulary_digest(names: Strings | None, n_features: int) -> str:
    """A digest equal for a model and its data: of feature names, else the width."""
    if names is None:
        return f"width:{n_features}"
    digest = hashlib.sha256()
    for begin in range(0, len(names), NAME_CHUNK):
        digest.update("\n".join(names[begin : begin + NAME_CHUNK]).encode())
        digest.update(b"\n")
    return "names:" + digest.hexdigest()


def open_hdf5(path: Path | str) -> h5py.File:
    """Open an HDF5 file read-only, without a lock, which not all have. Raises OSError.

    HDF5 opens a file twice in a process only with the same rules of locking: those of the code that has it open here, such as a
    notebook, whose changes are then seen, too. And to ask for a lock tells of a program that is writing the file.
    """
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        if is_of_the_system(error):
            raise
        try:
            file = h5py.File(path, "r", locking="best-effort")
        except OSError as other:
            if "locking" not in str(other):
                raise
            file = h5py.File(path, "r", locking=True)
    file.flush()  # what this process has written, but HDF5 has not
    return file


def open_checked(path: Path, expected: str) -> h5py.File:
    """Open an HDF5 file read-only. Raises DataError for another or a damaged file; `expected` ends its sentence."""
    try:
        with open_regular(path) as probe:
            if not probe.read(1):
                raise DataError(f"{path}: the file is empty; {expected}")
        if not h5py.is_hdf5(path):
            raise DataError(f"{path}: not an HDF5 file (or damaged); {expected}")
        return open_hdf5(path)
    except OSError as error:
        if is_of_the_system(error):
            raise file_error(path, "read", error) from None
        if error.strerror and error.filename:
            raise DataError(f"{path}: cannot read: {error.strerror}; check the name and its permissions") from None
        if is_in_use(error):
            raise DataError(f"{path}: another program has it open to write; wait until it closes the file") from None
        if refusal := re.search(r"unable to lock file.*error message = '([^']*)'", str(error)):
            why = f"the file system has no locks ({refusal[1]}), but HDF5_USE_FILE_LOCKING asks for one"
            raise DataError(f"{path}: {why}; set HDF5_USE_FILE_LOCKING=FALSE") from None
        raise DataError(f"{path}: truncated or damaged HDF5 file; {expected}") from None


def open_stamped(path: Path | str, kind: str | tuple[str, ...], made_by: str) -> h5py.File:
    """Open an hpcml file of that kind, or of one of some, read-only. Raises DataError if it is damaged or another file."""
    path, kinds = Path(path), (kind,) if isinstance(kind, str) else kind
    file = open_checked(path, f"expected one made with `{made_by}`")
    try:
        with readable(path, made_by):
            if "hpcml-format" in file.attrs:  # else it is not ours
                check_parts(file)
            found, number = file.attrs.get("hpcml-format"), file.attrs.get("hpcml-version")
        if not isinstance(found, str) or found not in kinds:
            what = f"an hpcml {found}" if isinstance(found, str) and found in VERSIONS else "an HDF5 file, but not made by hpcml"
            raise DataError(f"{path}: this is {what}; expected a {kinds[0]} made with `{made_by}`")
        if not isinstance(number, (int, np.integer)) or number != VERSIONS[found]:
            other = f"format {visible(str(number)[:40])}; this version reads format {VERSIONS[found]}"
            raise DataError(f"{path}: was written by another version of hpcml ({other}); make it again with `{made_by}`")
    except DataError:
        file.close()
        raise
    return file


@contextmanager
def readable(path: Path | str, made_by: str, what: str = "file") -> Iterator[None]:
    """Turn any exception of h5py for a damaged file into a DataError; `made_by` ("": another program) makes such files."""
    try:
        yield
    except DAMAGE as error:
        if is_out_of_memory(error):
            raise
        if is_of_the_system(error):
            raise file_error(path, "read", error) from None
        reason = " ".join(str(error).split())[:200]
        again = f"; make it again with `{made_by}`" if made_by else ""
        raise DataError(f"{path}: damaged {what}: {reason or type(error).__name__}{again}") from None


def changed_in_use(path: Path | str) -> DataError:
    """The error for a file that is no longer as it was when it was opened."""
    return DataError(f"{path}: the file was changed while it was in use; restore it, or wait until it is complete")


def map_dataset(path: Path, data: h5py.Dataset, begin: int = 0, end: int | None = None) -> np.ndarray:
    """Rows begin..end of a numeric dataset, read-only: mapped if contiguous, else read.

    A constant if never written. Raises DataError if there are fewer rows, or their bytes are not in the file.
    """
    end = data.shape[0] if end is None else end
    if not 0 <= begin <= end <= data.shape[0] or data.external or data.is_virtual:
        where = "other files" if data.external or data.is_virtual else f"rows {begin} to {end} of {data.shape[0]}"
        raise DataError(f"{path}: damaged file: {data.name} points to {where}")
    if end == begin:
        out = np.empty((0, *data.shape[1:]), dtype=data.dtype)
    elif data.chunks is None and data.id.get_offset() is not None:
        first = data.id.get_offset() + begin * data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
        with open(data.file.id.get_vfd_handle(), "rb", closefd=False) as same:  # the path may lead to another file by now
            try:
                return np.memmap(same, data.dtype, "r", first, (end - begin, *data.shape[1:])).view(np.ndarray)
            except ValueError:  # "mmap length is greater than file size"; h5py compared them when it opened the file
                raise changed_in_use(path) from None
    elif data.id.get_storage_size() == 0:
        out = np.broadcast_to(data.fillvalue, (end - begin, *data.shape[1:]))
    else:
        out = data[begin:end]
    out.flags.writeable = False
    return out

"""Format and versions of hpcml's HDF5 files, and functions to read and write their parts.

A dataset is an HDF5 file with the attributes `hpcml-format = "dataset"` and `hpcml-version`. Groups `X` (m × d float32) and `Y` (m
× L, the label sets) use AnnData's encoding of a CSR matrix. Optional parts are `feature_names`, `label_names`, `label_titles`
(readable names of labels, "" for none), `row_ids` (variable-length UTF-8), `splits/NAME` (sorted row numbers, int64), `rows/NAME`
(a number of each row, such as the year) and `text` (options of text conversion). `row_keys`, and `row_groups` if rows have groups,
identify rows (uint64; `hpcml.data.row_keys`).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import h5py
import numpy as np

from hpcml.errors import DataError, file_error, is_in_use, is_out_of_memory, is_system_error
from hpcml.files.opening import open_regular
from hpcml.files.slabs import Slab
from hpcml.files.untrusted import check_parts
from hpcml.log import is_unicode, named, visible
from hpcml.version import version

# Format version of each kind of file. Only this version is read.
VERSIONS = {"dataset": 3, "model": 6, "classifier": 3, "checkpoint": 2, "scores": 3, "predictions": 1}
WRITTEN_BY = "made-by"  # version of hpcml; like COMPUTED_BY not part of the content
COMPUTED_BY = "made-on"  # processor and libraries of a model, as JSON
NAME_CHUNK = 1 << 16  # names that are read or written at a time
TYPES = {"indptr": ("<i8",), "indices": ("<i4", "<i8"), "data": ("<f4",)}  # types of the parts of a matrix
# Exceptions of h5py and NumPy for damaged files.
DAMAGE = (KeyError, OSError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError)


def matrix_slabs(name: str, n_rows: int, nnz: int, n_columns: int, dtype: str | None) -> dict[str, Slab]:
    index = "<i4" if n_columns < 2**31 else "<i8"
    slabs = {f"{name}/indptr": Slab((n_rows + 1,), "<i8"), f"{name}/indices": Slab((nnz,), index)}
    if dtype is not None:
        slabs[f"{name}/data"] = Slab((nnz,), dtype)
    return slabs


def describe_matrix(file: h5py.File, name: str, n_rows: int, n_columns: int, nnz: int, ones: bool) -> None:
    """Write AnnData's attributes of group `name`; with `ones` also an unwritten `data` of fill value 1."""
    group = file[name]
    group.attrs["encoding-type"] = "csr_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = np.array([n_rows, n_columns], dtype=np.int64)
    if ones:
        group.create_dataset("data", shape=(nnz,), dtype="<f4", fillvalue=np.float32(1))


def create_strings(file: h5py.File, name: str, size: int) -> h5py.Dataset:
    data = file.create_dataset(name, shape=(size,), dtype=h5py.string_dtype())
    data.attrs["encoding-type"] = "string-array"
    data.attrs["encoding-version"] = "0.2.0"
    return data


class Strings(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, where: slice) -> Sequence[str]: ...


def write_strings(file: h5py.File, name: str, strings: Strings) -> None:
    data = create_strings(file, name, len(strings))
    for begin in range(0, len(strings), NAME_CHUNK):
        chunk = strings[begin : begin + NAME_CHUNK]
        text = "".join(chunk)
        if "\0" in text or not is_unicode(text):
            bad = next(string for string in chunk if "\0" in string or not is_unicode(string))
            raise DataError(f"{name}: {named(bad)!r} holds a character that cannot be stored; remove it from the name")
        data[begin : begin + NAME_CHUNK] = np.array(chunk, dtype=object)


def write_label_titles(file: h5py.File, titles: Sequence[str] | None) -> None:
    if titles is not None and any(titles):
        write_strings(file, "label_titles", titles)


def stamp(file: h5py.File, kind: str) -> None:
    file.attrs["hpcml-format"] = kind
    file.attrs["hpcml-version"] = VERSIONS[kind]
    file.attrs[WRITTEN_BY] = version()
    if kind in ("model", "classifier"):
        from hpcml.kernels.processor import computed_by  # imports numba, which training has loaded already

        file.attrs[COMPUTED_BY] = json.dumps(computed_by())


def vocabulary_digest(names: Strings | None, n_features: int) -> str:
    if names is None:
        return f"width:{n_features}"
    digest = hashlib.sha256()
    for begin in range(0, len(names), NAME_CHUNK):
        digest.update("\n".join(names[begin : begin + NAME_CHUNK]).encode())
        digest.update(b"\n")
    return "names:" + digest.hexdigest()


def open_hdf5(path: Path | str) -> h5py.File:
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        if is_system_error(error):
            raise
        try:
            file = h5py.File(path, "r", locking="best-effort")
        except OSError as other:
            if "locking" not in str(other):
                raise
            file = h5py.File(path, "r", locking=True)
    file.flush()  # writes what this process has changed but HDF5 still buffers
    return file


def open_checked(path: Path, expected: str) -> h5py.File:
    try:
        with open_regular(path) as probe:
            if not probe.read(1):
                raise DataError(f"{path}: the file is empty; {expected}")
        if not h5py.is_hdf5(path):
            raise DataError(f"{path}: not an HDF5 file (or damaged); {expected}")
        return open_hdf5(path)
    except OSError as error:
        if is_system_error(error):
            raise file_error(path, "read", error) from None
        if error.strerror and error.filename:
            raise DataError(f"{path}: cannot read: {error.strerror}; check the name and its permissions") from None
        if is_in_use(error):
            raise DataError(f"{path}: another program has it open for writing; wait until it closes the file") from None
        if refusal := re.search(r"unable to lock file.*error message = '([^']*)'", str(error)):
            why = f"the file system has no locks ({refusal[1]}), but HDF5_USE_FILE_LOCKING requires them"
            raise DataError(f"{path}: {why}; set HDF5_USE_FILE_LOCKING=FALSE") from None
        raise DataError(f"{path}: truncated or damaged HDF5 file; {expected}") from None


def open_stamped(path: Path | str, kind: str | tuple[str, ...], made_by: str) -> h5py.File:
    path, kinds = Path(path), (kind,) if isinstance(kind, str) else kind
    file = open_checked(path, f"expected one created with `{made_by}`")
    try:
        with readable(path, made_by):
            if "hpcml-format" in file.attrs:  # otherwise it is not an hpcml file
                check_parts(file)
            format_name, number = file.attrs.get("hpcml-format"), file.attrs.get("hpcml-version")
        if not isinstance(format_name, str) or format_name not in kinds:
            description = (
                f"an hpcml {format_name}"
                if isinstance(format_name, str) and format_name in VERSIONS
                else "an HDF5 file, but not made by hpcml"
            )
            raise DataError(f"{path}: this is {description}; expected a {kinds[0]} created with `{made_by}`")
        if not isinstance(number, (int, np.integer)) or number != VERSIONS[format_name]:
            versions = f"format {visible(str(number)[:40])}; this version reads format {VERSIONS[format_name]}"
            raise DataError(f"{path}: was written by another version of hpcml ({versions}); create it again with `{made_by}`")
    except DataError:
        file.close()
        raise
    return file


@contextmanager
def readable(path: Path | str, made_by: str, what: str = "file") -> Iterator[None]:
    """Turn h5py's exceptions for a damaged file into DataError; `made_by` is the command that creates such files, or ""."""
    try:
        yield
    except DAMAGE as error:
        if is_out_of_memory(error):
            raise
        if is_system_error(error):
            raise file_error(path, "read", error) from None
        reason = " ".join(str(error).split())[:200]
        again = f"; create it again with `{made_by}`" if made_by else ""
        raise DataError(f"{path}: damaged {what}: {reason or type(error).__name__}{again}") from None


def changed_file_error(path: Path | str) -> DataError:
    return DataError(f"{path}: the file was changed while it was in use; restore it, or wait until it is complete")


def map_dataset(path: Path, data: h5py.Dataset, begin: int = 0, end: int | None = None) -> np.ndarray:
    """Return rows begin to end of a numeric dataset: mapped if contiguous, constant if unwritten, else read. Raises DataError."""
    end = data.shape[0] if end is None else end
    if not 0 <= begin <= end <= data.shape[0] or data.external or data.is_virtual:
        where = "other files" if data.external or data.is_virtual else f"rows {begin} to {end} of {data.shape[0]}"
        raise DataError(f"{path}: damaged file: {data.name} points to {where}")
    if end == begin:
        out = np.empty((0, *data.shape[1:]), dtype=data.dtype)
    elif data.chunks is None and data.id.get_offset() is not None:
        first = data.id.get_offset() + begin * data.dtype.itemsize * int(np.prod(data.shape[1:], dtype=np.int64))
        with open(data.file.id.get_vfd_handle(), "rb", closefd=False) as same:  # the path may name another file now
            try:
                return np.memmap(same, data.dtype, "r", first, (end - begin, *data.shape[1:])).view(np.ndarray)
            except ValueError:  # "mmap length is greater than file size"; it was not when the file was opened
                raise changed_file_error(path) from None
    elif data.id.get_storage_size() == 0:
        out = np.broadcast_to(data.fillvalue, (end - begin, *data.shape[1:]))
    else:
        out = data[begin:end]
    out.flags.writeable = False
    return out

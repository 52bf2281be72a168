"""AnnData files (.h5ad): a matrix (X, a layer, raw or one of obsm) by slabs; obs has labels, names and splits.

In files of anndata 0.7, obs is a group whose columns may be codes with a reference to their categories in
`obs/__categories`. Before, obs was a table of records, with the categories in `uns/NAME_categories`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, csr_blocks, dense_blocks, finish, rows_as_csr
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles, describe_rows, numbered, unfit
from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.files.hdf5 import open_checked, readable
from hpcml.files.untrusted import read_strings

ROWS = 1 << 16  # of obs, that are looked at together
CATEGORIES = "__categories"
FILTERS = {32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32015: "zstd", 32026: "blosc2"}  # of hdf5plugin, by HDF5's number


class Matrix(NamedTuple):
    """The matrix that is read: its place in the file, its form (csr, csc, dense or frame), rows, and features."""

    place: str
    form: str
    n_rows: int
    names: list[str]


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an AnnData file. Raises DataError for another or a damaged file, also while it is read."""
    with open_checked(path, "expected an AnnData file (.h5ad)") as file, readable(path, "", "AnnData file"):
        yield file


def _part(group: h5py.Group, name: str) -> Any:
    """Return a part of a file. Raises KeyError without it, ConfigError for a compression that cannot be read."""
    part = group[name]
    if isinstance(part, h5py.Dataset):
        properties = part.id.get_create_plist()
        for code in (properties.get_filter(number)[0] for number in range(properties.get_nfilters())):
            if h5py.h5z.filter_avail(code):
                continue
            advice = "hdf5plugin has no such filter; write the file again with compression='gzip'"
            try:
                import hdf5plugin  # noqa: F401  # makes its filters available
            except ImportError:
                advice = "install hdf5plugin: pip install 'hpcml[h5ad]'"
            if not h5py.h5z.filter_avail(code):
                packed = f"{part.file.filename}: {part.name[1:]} is compressed with {FILTERS.get(code, 'an unknown filter')}"
                raise ConfigError(f"{packed} (HDF5 filter {code}); {advice}")
    return part


def _describe(path: Path, options: ConvertOptions) -> tuple[Matrix, list[str], str]:
    """Return the matrix, the columns of obs, and the one that names rows. Raises ConfigError, DataError, OSError."""
    with _opened(path) as file:
        for name in ("obs", "var"):
            if name not in file:
                raise DataError(f"{path}: no {name}; expected an AnnData file (.h5ad) with X, obs and var")
        place, owner = "X", ""
        for option, name, folder in (("layer", options.layer, "layers"), ("obsm", options.obsm, "obsm")):
            if name is not None:
                place, known = f"{folder}/{name}", list(file.get(folder, ()))
                if name not in known:
                    raise OptionError(option, name, f"{path} has no such matrix; {nearest(name, known) or 'it has others'}")
        if options.raw:
            place, owner = "raw/X", "raw/"
            if place not in file:
                raise OptionError("raw", True, f"{path} has no raw/X; remove it")
        if place not in file:
            raise DataError(f"{path}: no X; expected an AnnData file with a matrix; --layer, --raw and --obsm name others")
        part = file[place]
        kind, names = str(part.attrs.get("encoding-type", part.attrs.get("h5sparse_format", ""))), None
        form = {"csr": "csr", "csc": "csc", "dataframe": "frame"}.get(kind.removesuffix("_matrix"), kind or "of another kind")
        if isinstance(part, h5py.Dataset):
            form, shape = "dense", part.shape
        elif form == "frame":
            names = [str(name) for name in part.attrs["column-order"]]
            shape = (len(_column(file, place, _columns(part)[1])), len(names))
        elif form in ("csr", "csc"):
            shape = tuple(int(n) for n in part.attrs["shape" if "shape" in part.attrs else "h5sparse_shape"])
            major = shape[form == "csc"] + 1
            if part["indptr"].shape != (major,) or part["indices"].shape != part["data"].shape or part["data"].ndim != 1:
                raise DataError(f"{path}: damaged AnnData file: the parts of {place} do not fit")
        else:
            raise DataError(f"{path}: {place} is {form}, but expected a dense or sparse matrix, or a data frame")
        if len(shape) != 2 or (form == "dense" and part.dtype.kind not in "biuf"):
            raise DataError(f"{path}: {place} is no matrix of numbers, rows × features")
        if names is None and options.obsm is not None:
            names = [f"{options.obsm}:{column}" for column in range(shape[1])]
        elif names is None:
            var = f"{owner}var"
            names = [str(name) for name in _column(file, var, _columns(file[var])[1])]
            if len(names) != shape[1]:
                raise DataError(f"{path}: {var} has {len(names)} names, but {place} has {shape[1]} columns")
        return Matrix(place, form, shape[0], names), *_columns(file["obs"])


def _columns(table: Any) -> tuple[list[str], str]:
    """Return the columns of obs or var, and the one that names rows."""
    if isinstance(table, h5py.Dataset):  # before anndata 0.7
        names = list(table.dtype.names or ())
        return names, names[0]
    return [name for name in table if name != CATEGORIES], str(table.attrs["_index"])


def _column(file: h5py.File, table: str, name: str, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
    """Return rows begin..end of a column of obs or var. Raises ValueError, or what h5py raises."""
    part = file[table]
    if isinstance(part, h5py.Group):
        return _values(_part(part, name), begin, end, n_rows)
    if part.shape != (n_rows or part.size,):
        raise ValueError(f"{table} has {part.size} rows, but the matrix has {n_rows}")
    found = _part(file, table).fields(name)[begin:end]
    categories = file.get(f"uns/{name}_categories")
    if found.dtype.kind == "i" and categories is not None:
        return _decoded(found, np.atleast_1d(categories.asstr()[()] if categories.dtype.kind in "OS" else categories[()]).tolist())
    return [value.decode() if isinstance(value, bytes) else value for value in found.tolist()]


def _values(part: Any, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
    """Return rows begin..end of a column: an array of numbers, or a list with None for what is missing. Raises as `_column`."""
    is_group = isinstance(part, h5py.Group)
    if is_group and part.attrs.get("encoding-type") == "categorical":
        return _decoded(_values(_part(part, "codes"), begin, end, n_rows), list(_values(_part(part, "categories"))))
    if is_group and "values" in part and "mask" in part:
        values, mask = (_values(_part(part, name), begin, end, n_rows) for name in ("values", "mask"))
        return [None if is_missing else value for value, is_missing in zip(list(values), mask, strict=True)]
    if is_group:
        raise ValueError(
            f"{part.name[1:]} has the form {part.attrs.get('encoding-type')!r}, but expected strings, numbers or categories"
        )
    if part.ndim != 1 or part.shape != (n_rows or part.size,):
        raise ValueError(f"{part.name[1:]} has {part.size} entries, but the matrix has {n_rows} rows")
    if part.dtype.kind not in "biuf":
        return read_strings(part, begin, end) if part.chunks is None else part.asstr()[begin:end].tolist()
    categories = part.attrs.get("categories")  # anndata 0.7: a reference
    of_column = f"{part.parent.name}/{CATEGORIES}/{part.name.rpartition('/')[2]}"
    if categories is None and part.dtype.kind == "i" and of_column in part.file:
        categories = of_column
    return part[begin:end] if categories is None else _decoded(part[begin:end], list(_values(_part(part.file, categories))))


def _decoded(codes: np.ndarray, categories: list[Any]) -> list[Any]:
    """Return the category of each code, None for a negative one, which is missing. Raises ValueError."""
    if codes.max(initial=-1) >= len(categories):
        raise ValueError(f"code {codes.max()}, but there are {len(categories)} categories")
    return [categories[code] if code >= 0 else None for code in codes.tolist()]


def _blocks(path: Path, file: h5py.File, matrix: Matrix, rows: tuple[int, int], zero: bool) -> Iterator[NumberSlice]:
    """Yield rows begin..end of the matrix; `zero`: NaN is 0. Raises DataError that names the row, and ConfigError."""
    what, names = f"{path}: {matrix.place}", matrix.names

    def wrong(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: feature {names[column]!r}: {unfit(value)}"

    def take(begin: int, end: int) -> np.ndarray:
        columns = (_values(_part(file[matrix.place], name), begin, end, matrix.n_rows) for name in names)
        return np.stack([np.array(column, dtype=np.float64) for column in columns], axis=1)  # None becomes NaN

    if matrix.form == "dense":
        part = _part(file, matrix.place)
        return dense_blocks(lambda low, high: part[low:high], rows, len(names), zero, wrong)
    if matrix.form == "frame":
        return dense_blocks(take, rows, len(names), zero, wrong)
    parts: Any = {name: _part(file[matrix.place], name) for name in ("indptr", "indices", "data")}
    if matrix.form == "csc":
        parts = rows_as_csr(parts, rows, (matrix.n_rows, len(names)), what)
    return csr_blocks(parts, rows, len(names), what, zero)


def read_h5ad(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    (path,), options = task.inputs, task.options
    matrix, obs, index_name = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _describe(path, options))
    roles = Roles.of(options)
    begin, end = task.share(matrix.n_rows)
    with mpi.agreed(task.comm, f"reading {task.what}"):
        if not roles.labels and not roles.indicators and task.like is None:
            raise ConfigError(
                f"{path}: name columns of obs that are labels with --labels or --indicators; it has: {', '.join(obs)}"
            )
        roles.check(str(path), obs)
        roles = replace(roles, id=roles.id or index_name)
        rows = NumberRows(task, matrix.names, len(matrix.names), with_ids=True)
        with _opened(path) as file:
            for block in _blocks(path, file, matrix, (begin, end), options.missing_as_zero):
                rows.add(block)
            used = {*roles.labels, *roles.indicators, roles.id, roles.split, roles.group} - {None}
            for low in range(begin, end, ROWS):
                high = min(low + ROWS, end)
                columns: dict[str, Any] = {name: _column(file, "obs", name, low, high, matrix.n_rows) for name in used}
                describe_rows(rows, Batch(high - low, columns, numbered(path, low)), roles, options)
    task.log(f"{path}: read")
    return finish(task, rows)

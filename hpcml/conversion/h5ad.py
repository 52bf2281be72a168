"""AnnData files (.h5ad): a matrix (X, a layer, raw or one of obsm) by slabs; obs has labels, names and splits.

In files of anndata 0.7, columns of obs may be codes with a reference to their categories in `obs/__categories`. Before,
obs was a table of records, with the categories in `uns/NAME_categories`.
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
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.files.hdf5 import open_checked, readable
from hpcml.files.untrusted import read_strings

ROWS = 1 << 16  # of obs, that are looked at together
CATEGORIES = "__categories"
FILTERS = {32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32015: "zstd", 32026: "blosc2"}  # of hdf5plugin, by HDF5's number


class AnnDataMatrix(NamedTuple):
    """The matrix that is read: its place in the file, its form (csr, csc, dense or dataframe), rows, and features."""

    place: str
    form: str
    n_rows: int
    names: list[str]


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an AnnData file. Raises DataError for another or a damaged file, also while it is read."""
    with open_checked(path, "expected an AnnData file (.h5ad)") as file, readable(path, "", "AnnData file"):
        yield file


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _attribute(part: h5py.Group | h5py.Dataset, name: str) -> str:
    """Return a text attribute, "" without it; other programs than anndata write bytes, or an array of one text."""
    return "".join(map(_text, np.ravel(part.attrs.get(name, "")).tolist()))


def _check_filters(part: h5py.Group | h5py.Dataset) -> None:
    """Raise ConfigError for a part that is compressed by a filter that is not installed."""
    if isinstance(part, h5py.Group):
        for each in part.values():
            _check_filters(each)
        return
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


def _describe(path: Path, options: ConvertOptions) -> tuple[AnnDataMatrix, list[str], str]:
    """Return the matrix, the columns of obs, and the one that names rows. Raises ConfigError, DataError, OSError."""
    folder, name = ("raw", "X") if options.raw else ("obsm", options.obsm) if options.layer is None else ("layers", options.layer)
    place = "X" if name is None else f"{folder}/{name}"
    with _opened(path) as file:
        for each in ("obs", "var", place):
            if each not in file:
                hint = "expected an AnnData file (.h5ad) with X, obs and var"
                if each == place != "X":
                    hint = nearest(name, file[folder], f"h5ls {path}/{folder}") if folder in file else f"it has no {folder}"
                raise DataError(f"{path}: no {each}; {hint}")
        part, var = file[place], "raw/var" if options.raw else "var"
        form = (_attribute(part, "encoding-type") or _attribute(part, "h5sparse_format")).removesuffix("_matrix")
        if isinstance(part, h5py.Dataset):
            form, shape = "dense", part.shape
        elif form == "dataframe":
            columns = [_text(column) for column in part.attrs["column-order"]]
            shape = (len(_column(file, place, _columns(part)[1])), len(columns))
        elif form in ("csr", "csc"):
            shape = tuple(int(n) for n in part.attrs["shape" if "shape" in part.attrs else "h5sparse_shape"])
            size = shape[form == "csc"] + 1
            if part["indptr"].shape != (size,) or part["indices"].shape != part["data"].shape or part["data"].ndim != 1:
                raise DataError(f"{path}: damaged AnnData file: the parts of {place} do not fit")
        else:
            raise DataError(f"{path}: {place} is {form or 'a group'}, but expected a dense or sparse matrix, or a data frame")
        if len(shape) != 2 or (form == "dense" and part.dtype.kind not in "biuf"):
            raise DataError(f"{path}: {place} is no matrix of numbers, rows × features")
        if options.obsm is not None:
            names = columns if form == "dataframe" else [f"{options.obsm}:{column}" for column in range(shape[1])]
        else:
            names = [str(name) for name in _column(file, var, _columns(file[var])[1])]
        if len(names) != shape[1]:
            raise DataError(f"{path}: {var} has {len(names)} names, but {place} has {shape[1]} columns")
        return AnnDataMatrix(place, form, shape[0], names), *_columns(file["obs"])


def _columns(table: h5py.Group | h5py.Dataset) -> tuple[list[str], str]:
    """Return the columns of obs or var, and the one that names rows."""
    if isinstance(table, h5py.Dataset):  # before anndata 0.7
        return list(table.dtype.names), table.dtype.names[0]
    return [name for name in table if name != CATEGORIES], _attribute(table, "_index")


def _column(file: h5py.File, table: str, name: str, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
    """Return rows begin..end of a column of obs or var. Raises ConfigError, ValueError, or what h5py raises."""
    part = file[table]
    if isinstance(part, h5py.Group):
        return _values(part[name], begin, end, n_rows)
    _check_filters(part)
    found = part.fields(name)[begin:end]
    if found.dtype.kind == "i" and (categories := file.get(f"uns/{name}_categories")) is not None:
        return _decoded(found, _values(categories))
    return [_text(value) if found.dtype.kind in "OS" else value for value in found.tolist()]


def _values(part: Any, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
    """Return rows begin..end of a column: an array of numbers, or a list with None for what is missing. Raises as `_column`."""
    if isinstance(part, h5py.Group):
        kind = _attribute(part, "encoding-type")
        if kind == "categorical":
            return _decoded(_values(part["codes"], begin, end, n_rows), _values(part["categories"]))
        if "values" not in part or "mask" not in part:
            raise ValueError(f"{part.name[1:]} has the form {kind!r}, but expected strings, numbers or categories")
        values, mask = (_values(part[name], begin, end, n_rows) for name in ("values", "mask"))
        return [None if is_missing else value for value, is_missing in zip(list(values), mask, strict=True)]
    _check_filters(part)
    if part.ndim != 1 or part.shape != (n_rows or part.size,):
        raise ValueError(f"{part.name[1:]} has {part.size} entries, but the matrix has {n_rows} rows")
    if part.dtype.kind not in "biuf":
        return read_strings(part, begin, end) if part.chunks is None else part.asstr()[begin:end].tolist()
    # Of anndata 0.7: codes, and a reference to their categories.
    group, _, name = part.name.rpartition("/")
    categories = part.file.get(part.attrs.get("categories", f"{group}/{CATEGORIES}/{name}")) if part.dtype.kind == "i" else None
    return part[begin:end] if categories is None else _decoded(part[begin:end], _values(categories))


def _decoded(codes: np.ndarray, categories: Any) -> list[Any]:
    """Return the category of each code, None for a negative one, which is missing. Raises ValueError."""
    if codes.max(initial=-1) >= len(categories):
        raise ValueError(f"code {codes.max()}, but there are {len(categories)} categories")
    return [categories[code] if code >= 0 else None for code in codes.tolist()]


def _blocks(path: Path, file: h5py.File, matrix: AnnDataMatrix, rows: tuple[int, int], zero: bool) -> Iterator[NumberSlice]:
    """Yield rows begin..end of the matrix; `zero`: NaN is 0. Raises DataError that names the row, and ConfigError."""
    part, names, what = file[matrix.place], matrix.names, f"{path}: {matrix.place}"

    def take(begin: int, end: int) -> np.ndarray:
        if matrix.form == "dense":
            return part[begin:end]
        columns = (_values(part[name], begin, end, matrix.n_rows) for name in names)
        return np.stack([np.array(column, dtype=np.float64) for column in columns], axis=1)  # None becomes NaN

    def wrong(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: feature {names[column]!r}: {unfit(value)}"

    _check_filters(part)
    if matrix.form in ("dense", "dataframe"):
        return dense_blocks(take, rows, len(names), zero, wrong)
    parts = part if matrix.form == "csr" else rows_as_csr(part, rows, (matrix.n_rows, len(names)), what)
    return csr_blocks(parts, rows, len(names), what, zero)


def read_h5ad(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    (path,), options = task.inputs, task.options
    matrix, obs, index_name = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _describe(path, options))
    roles = Roles.of(options, obs)
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
    task.log.detail(f"{path}: read")
    return finish(task, rows)

"""AnnData files (.h5ad): a matrix (X, a layer, raw or one of obsm) by slabs; obs has labels, names and splits.

In files of anndata 0.7, columns of obs may be codes with a reference to categories in `obs/__categories`. In older files, obs is a
table of records, with categories in `uns/NAME_categories`.
"""

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
from hpcml.conversion.table import Batch, Roles, describe_rows, invalid_number, row_namer
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.files.hdf5 import open_checked, readable
from hpcml.files.untrusted import read_strings

ROWS = 1 << 16  # rows of obs per batch
CATEGORIES = "__categories"
# HDF5 filter number -> name in hdf5plugin.
FILTERS = {32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32015: "zstd", 32026: "blosc2"}


class AnnDataMatrix(NamedTuple):
    path: str
    form: str
    n_rows: int
    names: list[str]


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    with open_checked(path, "expected an AnnData file (.h5ad)") as file, readable(path, "", "AnnData file"):
        yield file


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _attribute(part: h5py.Group | h5py.Dataset, name: str) -> str:
    """Return "" without it; programs other than anndata write bytes or an array of one text."""
    return "".join(map(_text, np.ravel(part.attrs.get(name, "")).tolist()))


def _check_filters(part: h5py.Group | h5py.Dataset) -> None:
    if isinstance(part, h5py.Group):
        for each in part.values():
            _check_filters(each)
        return
    properties = part.id.get_create_plist()
    for code in (properties.get_filter(number)[0] for number in range(properties.get_nfilters())):
        if h5py.h5z.filter_avail(code):
            continue
        advice = "hdf5plugin lacks this filter; save the file with compression='gzip'"
        try:
            import hdf5plugin  # noqa: F401  # registers its filters
        except ImportError:
            advice = "install hdf5plugin: pip install 'hpcml[h5ad]'"
        if not h5py.h5z.filter_avail(code):
            packed = f"{part.file.filename}: {part.name[1:]} is compressed with {FILTERS.get(code, 'an unknown filter')}"
            raise ConfigError(f"{packed} (HDF5 filter {code}); {advice}")


def _describe(path: Path, options: ConvertOptions) -> tuple[AnnDataMatrix, list[str], str]:
    folder, name = ("raw", "X") if options.raw else ("obsm", options.obsm) if options.layer is None else ("layers", options.layer)
    matrix_path = "X" if name is None else f"{folder}/{name}"
    with _opened(path) as file:
        for each in ("obs", "var", matrix_path):
            if each not in file:
                hint = "expected an AnnData file (.h5ad) with X, obs and var"
                if each == matrix_path != "X":
                    hint = nearest(name, file[folder], f"h5ls {path}/{folder}") if folder in file else f"it has no {folder}"
                raise DataError(f"{path}: no {each}; {hint}")
        part, var = file[matrix_path], "raw/var" if options.raw else "var"
        form = (_attribute(part, "encoding-type") or _attribute(part, "h5sparse_format")).removesuffix("_matrix")
        if isinstance(part, h5py.Dataset):
            form, shape = "dense", part.shape
        elif form == "dataframe":
            columns = [_text(column) for column in part.attrs["column-order"]]
            shape = (len(_column(file, matrix_path, _columns(part)[1])), len(columns))
        elif form in ("csr", "csc"):
            shape = tuple(int(n) for n in part.attrs["shape" if "shape" in part.attrs else "h5sparse_shape"])
            size = shape[form == "csc"] + 1
            if part["indptr"].shape != (size,) or part["indices"].shape != part["data"].shape or part["data"].ndim != 1:
                raise DataError(f"{path}: damaged AnnData file: the parts of {matrix_path} have different sizes")
        else:
            raise DataError(f"{path}: {matrix_path} is {form or 'a group'}, but expected a dense or sparse matrix, or a data frame")
        if len(shape) != 2 or (form == "dense" and part.dtype.kind not in "biuf"):
            raise DataError(f"{path}: {matrix_path} is not a numeric matrix of rows × features")
        if options.obsm is not None:
            names = columns if form == "dataframe" else [f"{options.obsm}:{column}" for column in range(shape[1])]
        else:
            names = [str(name) for name in _column(file, var, _columns(file[var])[1])]
        if len(names) != shape[1]:
            raise DataError(f"{path}: {var} has {len(names)} names, but {matrix_path} has {shape[1]} columns")
        return AnnDataMatrix(matrix_path, form, shape[0], names), *_columns(file["obs"])


def _columns(table: h5py.Group | h5py.Dataset) -> tuple[list[str], str]:
    if isinstance(table, h5py.Dataset):  # before anndata 0.7
        return list(table.dtype.names), table.dtype.names[0]
    return [name for name in table if name != CATEGORIES], _attribute(table, "_index")


def _column(file: h5py.File, table: str, name: str, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
    part = file[table]
    if isinstance(part, h5py.Group):
        return _values(part[name], begin, end, n_rows)
    _check_filters(part)
    values = part.fields(name)[begin:end]
    if values.dtype.kind == "i" and (categories := file.get(f"uns/{name}_categories")) is not None:
        return _decoded(values, _values(categories))
    return [_text(value) if values.dtype.kind in "OS" else value for value in values.tolist()]


def _values(part: Any, begin: int = 0, end: int | None = None, n_rows: int | None = None) -> Any:
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
    # anndata 0.7: codes with a reference to categories.
    group, _, name = part.name.rpartition("/")
    categories = part.file.get(part.attrs.get("categories", f"{group}/{CATEGORIES}/{name}")) if part.dtype.kind == "i" else None
    return part[begin:end] if categories is None else _decoded(part[begin:end], _values(categories))


def _decoded(codes: np.ndarray, categories: Any) -> list[Any]:
    if codes.max(initial=-1) >= len(categories):
        raise ValueError(f"code {codes.max()}, but there are {len(categories)} categories")
    return [categories[code] if code >= 0 else None for code in codes.tolist()]


def _blocks(path: Path, file: h5py.File, matrix: AnnDataMatrix, rows: tuple[int, int], zero: bool) -> Iterator[NumberSlice]:
    part, names, what = file[matrix.path], matrix.names, f"{path}: {matrix.path}"

    def take(begin: int, end: int) -> np.ndarray:
        if matrix.form == "dense":
            return part[begin:end]
        columns = (_values(part[name], begin, end, matrix.n_rows) for name in names)
        return np.stack([np.array(column, dtype=np.float64) for column in columns], axis=1)  # None becomes NaN

    def describe(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: feature {names[column]!r}: {invalid_number(value)}"

    _check_filters(part)
    if matrix.form in ("dense", "dataframe"):
        return dense_blocks(take, rows, len(names), zero, describe)
    parts = part if matrix.form == "csr" else rows_as_csr(part, rows, (matrix.n_rows, len(names)), what)
    return csr_blocks(parts, rows, len(names), what, zero)


def read_h5ad(task: Conversion) -> Part:
    (path,), options = task.inputs, task.options
    matrix, obs, index_name = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: _describe(path, options))
    roles = Roles.from_options(options, obs)
    begin, end = task.share(matrix.n_rows)
    with mpi.agreed(task.comm, f"reading {task.input_name}"):
        if not roles.labels and not roles.indicators and task.like is None:
            raise ConfigError(f"{path}: name label columns of obs with --labels or --indicators; columns: {', '.join(obs)}")
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
                describe_rows(rows, Batch(high - low, columns, row_namer(path, low)), roles, options)
    return finish(task, rows)

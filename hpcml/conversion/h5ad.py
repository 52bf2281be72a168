"""AnnData files (.h5ad): X by slabs; obs has labels, names and splits; var names the features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, csr_blocks, dense_blocks, finish
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles, describe_rows, numbered, unfit
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import open_checked, readable
from hpcml.files.untrusted import read_strings

ROWS = 1 << 16  # of obs, that are looked at together
CSR, CSC = "csr_matrix", "csc_matrix"


class _Described(NamedTuple):
    """What all ranks know of a file; `index_name` is the column of obs that names rows."""

    n_rows: int
    n_features: int
    columns: list[str]
    index_name: str
    names: list[str]


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an AnnData file. Raises DataError for another or a damaged file, also while it is read."""
    with open_checked(path, "expected an AnnData file (.h5ad)") as file, readable(path, "", "AnnData file"):
        yield file


def _describe(path: Path) -> _Described:
    """Raises DataError, OSError."""
    with _opened(path) as file:
        for name in ("X", "obs", "var"):
            if name not in file:
                raise DataError(f"{path}: no {name}; expected an AnnData file (.h5ad) with X, obs and var")
        for name in ("obs", "var"):
            if not isinstance(file[name], h5py.Group):
                raise DataError(f"{path}: {name} in the form of AnnData before 0.7; write it again with a newer anndata")
        X = file["X"]
        if isinstance(X, h5py.Group):
            kind = X.attrs.get("encoding-type")
            if kind != CSR:
                what = "CSC" if kind == CSC else f"in the form {kind!r}"
                raise DataError(
                    f"{path}: X is {what}, but expected CSR or a dense array; write it again with adata.X = adata.X.tocsr()"
                )
            shape = tuple(int(n) for n in X.attrs["shape"])
            if X["indptr"].shape != (shape[0] + 1,) or X["indices"].shape != X["data"].shape or X["data"].ndim != 1:
                raise DataError(f"{path}: damaged AnnData file: the parts of X do not fit")
        else:
            shape = X.shape
        if len(shape) != 2:
            raise DataError(f"{path}: X is no matrix of rows × features")
        var = file["var"]
        names = _strings(var[str(var.attrs["_index"])])
        if len(names) != shape[1]:
            raise DataError(f"{path}: var has {len(names)} names, but X has {shape[1]} columns")
        columns = [name for name in file["obs"] if name not in ("__categories",)]
        return _Described(shape[0], shape[1], columns, str(file["obs"].attrs["_index"]), names)


def _strings(data: h5py.Dataset, begin: int = 0, end: int | None = None) -> list[str]:
    """Entries begin..end of strings or whole numbers. Raises ValueError, and as h5py."""
    if data.dtype.kind in "iu":
        found: list[str] = data[begin:end].astype(str).tolist()
        return found
    if data.chunks is None:
        return read_strings(data, begin, end)
    return data.asstr()[begin:end].tolist()


def _column(obs: h5py.Group, name: str, begin: int, end: int, n_rows: int) -> list[Any] | np.ndarray:
    """Rows begin..end of a column of obs. Raises ValueError, or what h5py raises."""
    column = obs[name]
    if isinstance(column, h5py.Group):
        kind = column.attrs.get("encoding-type")
        if kind == "categorical":
            codes, categories = column["codes"], column["categories"]
            _check_length(codes, name, n_rows)
            values = _strings(categories) if categories.dtype.kind not in "bf" else categories[:].tolist()
            some = codes[begin:end].astype(np.int64)
            if some.max(initial=-1) >= len(values):
                raise ValueError(f"obs/{name} has a code without a category")
            return [values[code] if code >= 0 else None for code in some.tolist()]
        if "values" in column and "mask" in column:
            _check_length(column["values"], name, n_rows)
            found = column["values"]
            whole = found[begin:end].tolist() if found.dtype.kind in "biuf" else _strings(found, begin, end)
            return [None if gone else value for value, gone in zip(whole, column["mask"][begin:end].tolist(), strict=True)]
        raise ValueError(f"obs/{name} has the form {kind!r}, but expected strings, numbers or categories")
    _check_length(column, name, n_rows)
    return column[begin:end] if column.dtype.kind in "biuf" else _strings(column, begin, end)


def _check_length(data: h5py.Dataset, name: str, n_rows: int) -> None:
    if data.shape != (n_rows,):
        raise ValueError(f"obs/{name} has {data.shape[0] if data.shape else 1} entries, but X has {n_rows} rows")


def _numbers(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """A column as float64; NaN for what is missing. Raises ValueError."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def read_h5ad(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    (path,) = task.inputs
    found, roles = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _describe(path)), Roles.of(task.options)
    begin, end = task.share(found.n_rows)
    with task.reading():
        if not roles.labels and not roles.indicators and task.like is None:
            raise ConfigError(
                f"{path}: name columns of obs that are labels with --labels or --indicators; it has: {', '.join(found.columns)}"
            )
        roles.check(str(path), found.columns)
        roles = replace(roles, id=roles.id or found.index_name)
        rows = NumberRows(task, found.names, found.n_features, with_ids=True)
        with _opened(path) as file:
            for block in _blocks(task, file["X"], found, begin, end):
                rows.add(block)
            for low in range(begin, end, ROWS):
                columns = _columns(file["obs"], roles, low, min(low + ROWS, end), found.n_rows)
                batch = Batch(min(ROWS, end - low), columns, numbered(path, low))
                describe_rows(rows, batch, roles, task.options)
    task.log(f"{path}: read")
    return finish(task, rows)


def _columns(obs: h5py.Group, roles: Roles, begin: int, end: int, n_rows: int) -> dict[str, Any]:
    """Labels, names and splits of rows begin..end. Raises ValueError, or what h5py raises."""
    names = {*roles.labels, roles.id, *([roles.split] if roles.split else []), *([roles.group] if roles.group else [])}
    columns: dict[str, Any] = {name: _column(obs, name, begin, end, n_rows) for name in names}
    for name in roles.indicators:
        columns[name] = _numbers(_column(obs, name, begin, end, n_rows))
    return columns


def _blocks(task: Conversion, X: Any, found: _Described, begin: int, end: int) -> Iterator[NumberSlice]:
    """Rows begin..end of X. Raises DataError and what h5py raises."""
    path, options = task.what, task.options
    if isinstance(X, h5py.Group):
        yield from csr_blocks(X, (begin, end), found.n_features, f"{path}: X", options.missing_as_zero)
        return
    if X.dtype.kind not in "biuf":
        raise DataError(f"{path}: X holds no numbers")

    def wrong(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: feature {found.names[column]!r}: {unfit(value)}"

    yield from dense_blocks(lambda low, high: X[low:high], (begin, end), found.n_features, options.missing_as_zero, wrong)

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
from hpcml.conversion.csr_source import csr_blocks
from hpcml.conversion.fields import PLAIN
from hpcml.conversion.like import Like
from hpcml.conversion.number_rows import NumberRows, NumberSlice, columns_like, find_unfit, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.roles import Roles
from hpcml.conversion.table_rows import Batch, add_labels, unfit
from hpcml.errors import ConfigError, DataError, file_error, is_in_use, is_of_the_system, is_out_of_memory
from hpcml.files.hdf5 import DAMAGE, open_hdf5
from hpcml.files.opening import open_regular
from hpcml.files.untrusted import read_strings
from hpcml.log import Log
from hpcml.partition import even_bounds

DENSE = 1 << 20  # numbers of a dense matrix that are looked at together
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
    """An HDF5 file. What h5py raises for a damaged one, now or later, becomes a DataError."""
    with open_regular(path) as probe:
        if not probe.read(1):
            raise DataError(f"{path}: the file is empty; expected an AnnData file (.h5ad)")
    try:
        if not h5py.is_hdf5(path):
            raise DataError(f"{path}: not an HDF5 file (or truncated or damaged); expected an AnnData file (.h5ad)")
        with open_hdf5(path) as file:
            yield file
    except DAMAGE as error:
        if is_out_of_memory(error):
            raise
        if is_of_the_system(error):
            raise file_error(path, "read", error) from None
        if isinstance(error, OSError) and is_in_use(error):
            raise DataError(f"{path}: another program has it open to write; wait until it closes the file") from None
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: truncated or damaged AnnData file: {reason or type(error).__name__}") from None


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


@mpi.collective
def read_h5ad(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read an even share of the rows. Raises DataError with the row."""
    (path,) = inputs
    found = _Described(0, 0, [], "", [])
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            found = _describe(path)
    found = comm.bcast(found)
    roles = Roles.of(options, PLAIN)
    begin, end = even_bounds(found.n_rows, comm.size)[comm.rank : comm.rank + 2].tolist()
    with mpi.agreed(comm, f"reading {path}"):
        if not roles.labels and not roles.indicators and like is None:
            raise ConfigError(
                f"{path}: name columns of obs that are labels with --labels or --indicators; it has: {', '.join(found.columns)}"
            )
        roles.check(str(path), found.columns)
        column_of, width, names = columns_like(like, found.names, found.n_features, str(path))
        rows = NumberRows(scratch, column_of, with_ids=True)
        with _opened(path) as file:
            for block in _blocks(path, file["X"], found, begin, end, options):
                rows.add(block)
            for low in range(begin, end, ROWS):
                high = min(low + ROWS, end)
                _add_obs(path, file["obs"], rows, roles, options, found, low, high, low - begin)
    log(f"{path}: read")
    return finish(comm, rows, options, like, width, names, None)


def _add_obs(
    path: Path,
    obs: h5py.Group,
    rows: NumberRows,
    roles: Roles,
    options: ConvertOptions,
    found: _Described,
    begin: int,
    end: int,
    first: int,
) -> None:
    """Add labels, names and splits of rows begin..end; the first of them is this rank's row
    `first`.
    """
    index = roles.id or found.index_name
    columns: dict[str, Any] = {
        name: _column(obs, name, begin, end, found.n_rows)
        for name in {*roles.labels, index, *([roles.split] if roles.split else [])}
    }
    for name in roles.indicators:
        columns[name] = _numbers(_column(obs, name, begin, end, found.n_rows))
    batch = Batch(end - begin, columns, lambda row: f"{path}: row {begin + row + 1}")
    add_labels(rows, batch, replace(roles, id=index), options, first)


def _blocks(path: Path, X: Any, found: _Described, begin: int, end: int, options: ConvertOptions) -> Iterator[NumberSlice]:
    """Rows begin..end of X. Raises DataError and what h5py raises."""
    if isinstance(X, h5py.Group):
        ends = X["indptr"][begin : end + 1].astype(np.int64)
        if ends[0] < 0 or ends[-1] > X["indices"].shape[0]:
            raise DataError(f"{path}: damaged AnnData file: indptr of X points behind its values")
        yield from csr_blocks(
            lambda part, first, last: X[part][first:last], ends, begin, found.n_features, f"{path}: X", options.missing_as_zero
        )
        return
    if X.dtype.kind not in "biuf":
        raise DataError(f"{path}: X holds no numbers")
    step = max(1, DENSE // max(1, found.n_features))
    for low in range(begin, end, step):
        values = X[low : min(low + step, end)].astype(np.float64)
        if options.missing_as_zero:
            values[np.isnan(values)] = 0
        if (place := find_unfit(values.reshape(-1))) >= 0:
            row, column = divmod(place, found.n_features)
            raise DataError(
                f"{path}: row {low + row + 1}: feature {found.names[column]!r}: {unfit(float(values[row, column]), options)}"
            )
        yield NumberSlice.of_dense(values)

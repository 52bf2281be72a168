"""AnnData files (.h5ad): X by slabs; obs has labels, names and splits; var names the features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, csr_blocks, dense_blocks, finish
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles, describe_rows, numbered, unfit
from hpcml.errors import ConfigError, DataError
from hpcml.files.hdf5 import open_checked, readable
from hpcml.files.untrusted import read_strings

ROWS = 1 << 16  # of obs, that are looked at together
CSR, CSC = "csr_matrix", "csc_matrix"


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an AnnData file. Raises DataError for another or a damaged file, also while it is read."""
    with open_checked(path, "expected an AnnData file (.h5ad)") as file, readable(path, "", "AnnData file"):
        yield file


def _describe(path: Path) -> tuple[int, list[str], list[str], str]:
    """Return the number of rows, the features, the columns of obs, and the one that names rows. Raises DataError, OSError."""
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
        return shape[0], names, columns, str(file["obs"].attrs["_index"])


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
    kind = column.attrs.get("encoding-type") if isinstance(column, h5py.Group) else None
    is_masked = isinstance(column, h5py.Group) and "values" in column and "mask" in column
    if isinstance(column, h5py.Group) and kind != "categorical" and not is_masked:
        raise ValueError(f"obs/{name} has the form {kind!r}, but expected strings, numbers or categories")
    data = column["codes"] if kind == "categorical" else column["values"] if is_masked else column
    if data.shape != (n_rows,):
        raise ValueError(f"obs/{name} has {data.shape[0] if data.shape else 1} entries, but X has {n_rows} rows")
    if kind == "categorical":
        categories = column["categories"]
        values = _strings(categories) if categories.dtype.kind not in "bf" else categories[:].tolist()
        codes = data[begin:end].astype(np.int64)
        if codes.max(initial=-1) >= len(values):
            raise ValueError(f"obs/{name} has a code without a category")
        return [values[code] if code >= 0 else None for code in codes.tolist()]
    found = data[begin:end] if data.dtype.kind in "biuf" else _strings(data, begin, end)
    if is_masked:
        return [None if gone else value for value, gone in zip(list(found), column["mask"][begin:end].tolist(), strict=True)]
    return found


def read_h5ad(task: Conversion) -> Part:
    """Collective. Read an even share of the rows. Raises DataError with the row."""
    (path,) = task.inputs
    n_rows, names, obs, index_name = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: _describe(path))
    roles = Roles.of(task.options, obs)
    begin, end = task.share(n_rows)

    def wrong(row: int, column: int, value: float) -> str:
        return f"{path}: row {row + 1}: feature {names[column]!r}: {unfit(value)}"

    with mpi.agreed(task.comm, f"reading {task.what}"):
        if not roles.labels and not roles.indicators and task.like is None:
            raise ConfigError(
                f"{path}: name columns of obs that are labels with --labels or --indicators; it has: {', '.join(obs)}"
            )
        roles.check(str(path), obs)
        roles = replace(roles, id=roles.id or index_name)
        rows = NumberRows(task, names, len(names), with_ids=True)
        with _opened(path) as file:
            X, zero = file["X"], task.options.missing_as_zero
            if isinstance(X, h5py.Group):
                blocks = csr_blocks(X, (begin, end), len(names), f"{path}: X", zero)
            elif X.dtype.kind not in "biuf":
                raise DataError(f"{path}: X holds no numbers")
            else:
                blocks = dense_blocks(lambda low, high: X[low:high], (begin, end), len(names), zero, wrong)
            for block in blocks:
                rows.add(block)
            used = {*roles.labels, *roles.indicators, roles.id, roles.split, roles.group} - {None}
            for low in range(begin, end, ROWS):
                columns: dict[str, Any] = {name: _column(file["obs"], name, low, min(low + ROWS, end), n_rows) for name in used}
                batch = Batch(min(ROWS, end - low), columns, numbered(path, low))
                describe_rows(rows, batch, roles, task.options)
    task.log(f"{path}: read")
    return finish(task, rows)

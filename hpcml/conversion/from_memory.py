"""Matrices and pandas frames in memory. Each rank has its own rows, in rank order."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hpcml import mpi
from hpcml.conversion import sources
from hpcml.conversion.conversion import Conversion, check_matrix_labels
from hpcml.conversion.convert import ConvertReport, write_dataset
from hpcml.conversion.number_rows import NumberRows, csr_blocks, finish
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Part
from hpcml.conversion.table import Batch, Roles, columns_to_read, describe_rows, read_table, row_namer
from hpcml.data.in_memory import check_csr
from hpcml.errors import ConfigError, DataError, MatrixError, OptionError
from hpcml.log import Log

ROWS = 4096  # frame rows per batch
SPARSE, FRAME = "sparse", "frame"  # attribute `source` of the file


def _csr(matrix: Any, name: str) -> Any:
    import scipy.sparse as sp

    try:
        csr = sp.csr_matrix(check_csr(matrix, name))
    except MatrixError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: expected a matrix of numbers, sparse or dense ({' '.join(str(error).split())})") from None
    if csr.dtype.kind not in "biuf":
        raise ConfigError(f"{name}: expected a matrix of numbers, not of {csr.dtype}")
    return csr


def split_of_rows(splits: Sequence[str] | Mapping[str, ArrayLike] | None, n_rows: int) -> list[str] | None:
    if splits is None or not isinstance(splits, Mapping):
        return None if splits is None else ["" if name is None else name for name in splits]
    split_names = [""] * n_rows
    for name, rows in splits.items():
        numbers = np.asarray(rows)
        numbers = np.flatnonzero(numbers) if numbers.dtype == bool else numbers
        if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= n_rows):
            raise ConfigError(f"splits: {name!r} has rows beyond 0 to {n_rows - 1}")
        for row in numbers.tolist():
            if split_names[row]:
                raise ConfigError(f"splits: row {row} is in {split_names[row]!r} and in {name!r}; a row is in one split")
            split_names[row] = name
    return split_names


class Matrices(NamedTuple):
    X: Any
    Y: Any
    feature_names: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    splits: Sequence[str] | Mapping[str, ArrayLike] | None = None
    groups: Sequence[str] | None = None


def from_sparse(comm: mpi.Comm, matrices: Matrices, output: Path, options: ConvertOptions, force: bool, log: Log) -> ConvertReport:
    sources.check_options(sources.SPARSE, False, options)
    if matrices.splits is not None and options.test_share is not None:
        raise OptionError("test_share", options.test_share, "has no effect with", "splits")

    def read(task: Conversion) -> Part:
        with mpi.agreed(comm, "reading X and Y"):
            X, names = _csr(matrices.X, "X"), None if matrices.feature_names is None else list(map(str, matrices.feature_names))
            n_rows, n_features = X.shape
            if names is not None and len(names) != n_features:
                raise ConfigError(f"feature_names has {len(names)} names, but X has {n_features} columns")
            # Labels are a matrix, or the label names of each row.
            is_matrix = hasattr(matrices.Y, "tocsr") or (isinstance(matrices.Y, np.ndarray) and matrices.Y.ndim == 2)
            label_names: list[str] | None = None
            if is_matrix:
                check_matrix_labels("Y", options)
                Y = _csr(matrices.Y, "Y")
                label_names = list(map(str, range(Y.shape[1]) if matrices.label_names is None else matrices.label_names))
                if Y.shape != (n_rows, len(label_names)):
                    raise ConfigError(f"Y is {Y.shape[0]} × {Y.shape[1]}, but expected {n_rows} rows × {len(label_names)} labels")
            elif matrices.label_names is not None:
                raise ConfigError("label_names has no effect because Y contains label names; remove it")
            rows = NumberRows(task, names, n_features, with_ids=matrices.ids is not None)
            for block in csr_blocks(vars(X), (0, n_rows), n_features, "X", options.missing_as_zero):
                rows.add(block)
            if is_matrix:
                rows.append_label_matrix(csr_blocks(vars(Y), (0, n_rows), Y.shape[1], "Y", False), "Y")
            row_values = {"Y": None if is_matrix else matrices.Y, "ids": matrices.ids, "groups": matrices.groups}
            row_values["splits"] = split_of_rows(matrices.splits, n_rows)
            columns = {
                name: values.tolist() if isinstance(values, np.ndarray) else list(values)
                for name, values in row_values.items()
                if values is not None
            }
            for name, values in columns.items():
                if len(values) != n_rows:
                    raise ConfigError(f"{name} has {len(values)} entries, but X has {n_rows} rows")
            id_column, split, group = (name if name in columns else None for name in ("ids", "splits", "groups"))
            roles = Roles(labels=() if is_matrix else ("Y",), id=id_column, split=split, group=group)
            describe_rows(rows, Batch(n_rows, columns, lambda row: f"row {row + 1}"), roles, options, by_number=is_matrix)
        shared = comm.allgather((n_features, label_names, names))
        if any(each != shared[0] for each in shared):
            raise ConfigError("the ranks have different features or labels; expected equal names and numbers of columns")
        return finish(task, rows, label_names)

    return write_dataset(Conversion(comm, SPARSE, (), options, log, "X", False), read, output, force)


def from_frame(comm: mpi.Comm, frame: Any, output: Path, options: ConvertOptions, force: bool, log: Log) -> ConvertReport:
    is_text = sources.check_options(sources.TABLE, None, options)

    def read(task: Conversion) -> Part:
        with mpi.agreed(task.comm, f"reading {task.input_name}"):
            names = [str(name) for name in frame.columns]
        shared = comm.allgather(names)
        if any(each != shared[0] for each in shared):
            raise ConfigError("the frame: the columns differ between ranks")
        return read_table(task, [names], lambda *roles: _batches(frame, names, *roles))

    return write_dataset(Conversion(comm, FRAME, (), options, log, "the frame", is_text), read, output, force)


def _batches(frame: Any, names: list[str], roles: Roles, features: list[str]) -> Iterator[Batch]:
    numbers, others = columns_to_read(roles, features)
    position_of = {name: column for column, name in enumerate(names)}
    for begin in range(0, len(frame), ROWS):
        rows = frame.iloc[begin : begin + ROWS]
        columns: dict[str, Any] = {}
        for name in numbers:
            column = rows.iloc[:, position_of[name]]
            try:
                if getattr(column.dtype, "kind", "O") not in "biuf":
                    raise ValueError(f"its type is {column.dtype}")
                columns[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                why = f"expected numbers ({error}); choose columns with features or text"
                raise DataError(f"the frame: column {name!r}: {why}") from None
        for name in others:
            column = rows.iloc[:, position_of[name]]
            if name in roles.indicators and getattr(column.dtype, "kind", "O") in "biuf":
                columns[name] = column.to_numpy()
                continue
            values = column.astype(object)
            are_missing = values.isna().tolist()
            columns[name] = [None if is_missing else value for value, is_missing in zip(values.tolist(), are_missing, strict=True)]
        yield Batch(len(rows), columns, row_namer("the frame", begin))

"""Rows in memory: matrices, pandas frames. Each rank has its own rows, in rank order."""

from __future__ import annotations

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
from hpcml.conversion.table import Batch, Roles, describe_rows, numbered, read_table, wanted
from hpcml.data.in_memory import sound_csr
from hpcml.errors import ConfigError, DataError, MatrixError, OptionError
from hpcml.log import Log

ROWS = 4096  # of a frame that are looked at together
SPARSE, FRAME = "sparse", "frame"  # what the file says that it was made from


def _csr(matrix: Any, name: str) -> Any:
    """A matrix as CSR. Raises MatrixError, or ConfigError for what is none."""
    import scipy.sparse as sp

    try:
        found = sp.csr_matrix(sound_csr(matrix, name))
    except MatrixError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: expected a matrix of numbers, sparse or dense ({' '.join(str(error).split())})") from None
    if found.dtype.kind not in "biuf":
        raise ConfigError(f"{name}: expected a matrix of numbers, not of {found.dtype}")
    return found


def split_of_rows(splits: Sequence[str] | Mapping[str, ArrayLike] | None, n_rows: int) -> list[str] | None:
    """The split of each row ("": none), given so, or by each split's rows (numbers, a mask)."""
    if splits is None or not isinstance(splits, Mapping):
        return None if splits is None else ["" if name is None else name for name in splits]
    found = [""] * n_rows
    for name, rows in splits.items():
        some = np.asarray(rows)
        some = np.flatnonzero(some) if some.dtype == bool else some
        if some.size and (some.dtype.kind not in "iu" or some.min() < 0 or some.max() >= n_rows):
            raise ConfigError(f"splits: {name!r} has rows beyond 0 to {n_rows - 1}")
        for row in some.tolist():
            if found[row]:
                raise ConfigError(f"splits: row {row} is in {found[row]!r} and in {name!r}; a row is in one split")
            found[row] = name
    return found


class Matrices(NamedTuple):
    """Rows in memory: features, labels (or their names), and what may be known besides."""

    X: Any
    Y: Any
    feature_names: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    ids: Sequence[str] | None = None
    splits: Sequence[str] | Mapping[str, ArrayLike] | None = None
    groups: Sequence[str] | None = None


def from_sparse(comm: mpi.Comm, given: Matrices, output: Path, options: ConvertOptions, force: bool, log: Log) -> ConvertReport:
    """Collective over `comm`. Write this rank's rows, behind lower ranks'. Raises as `convert`."""
    sources.check_options(sources.SPARSE, False, options)
    if given.splits is not None and options.test_share is not None:
        raise OptionError("test_share", options.test_share, "has no effect with", "splits")

    def read(task: Conversion) -> Part:
        with mpi.agreed(comm, "reading X and Y"):
            X, names = _csr(given.X, "X"), None if given.feature_names is None else list(map(str, given.feature_names))
            n_rows, n_features = X.shape
            if names is not None and len(names) != n_features:
                raise ConfigError(f"feature_names has {len(names)} names, but X has {n_features} columns")
            # Labels are a matrix, or the names of each row's labels.
            is_matrix = hasattr(given.Y, "tocsr") or (isinstance(given.Y, np.ndarray) and given.Y.ndim == 2)
            label_names: list[str] | None = None
            if is_matrix:
                check_matrix_labels("Y", options)
                Y = _csr(given.Y, "Y")
                label_names = [str(label) for label in (range(Y.shape[1]) if given.label_names is None else given.label_names)]
                if Y.shape != (n_rows, len(label_names)):
                    raise ConfigError(f"Y is {Y.shape[0]} × {Y.shape[1]}, but expected {n_rows} rows × {len(label_names)} labels")
            elif given.label_names is not None:
                raise ConfigError("label_names has no effect where Y has names of labels; remove it")
            rows = NumberRows(task, names, n_features, with_ids=given.ids is not None)
            for block in csr_blocks(vars(X), (0, n_rows), n_features, "X", options.missing_as_zero):
                rows.add(block)
            for block in csr_blocks(vars(Y), (0, n_rows), Y.shape[1], "Y", False) if is_matrix else ():
                if (block.data != 1).any():
                    raise DataError(f"Y: {block.data[block.data != 1][0]:g} as a label, but expected 0 or 1")
                rows.labels.add(block.lengths, block.indices)
            of_rows = {"Y": None if is_matrix else given.Y, "ids": given.ids, "groups": given.groups}
            of_rows["splits"] = split_of_rows(given.splits, n_rows)
            columns = {
                name: values.tolist() if isinstance(values, np.ndarray) else list(values)
                for name, values in of_rows.items()
                if values is not None
            }
            for name, values in columns.items():
                if len(values) != n_rows:
                    raise ConfigError(f"{name} has {len(values)} entries, but X has {n_rows} rows")
            id_, split, group = (name if name in columns else None for name in ("ids", "splits", "groups"))
            roles = Roles(labels=() if is_matrix else ("Y",), id=id_, split=split, group=group)
            describe_rows(rows, Batch(n_rows, columns, lambda row: f"row {row + 1}"), roles, options, by_number=is_matrix)
        shared = comm.allgather((n_features, label_names, names))
        if any(each != shared[0] for each in shared):
            raise ConfigError("the ranks have other features or labels; give all ranks the same names and numbers of columns")
        return finish(task, rows, label_names)

    return write_dataset(Conversion(comm, SPARSE, (), options, log, "X", False), read, output, force)


def from_frame(comm: mpi.Comm, frame: Any, output: Path, options: ConvertOptions, force: bool, log: Log) -> ConvertReport:
    """Collective over `comm`. Write a frame's rows, behind lower ranks'. Raises as `convert`."""
    is_text = sources.check_options(sources.TABLE, None, options)

    def read(task: Conversion) -> Part:
        with mpi.agreed(task.comm, f"reading {task.what}"):
            names = [str(name) for name in frame.columns]
        shared = comm.allgather(names)
        if any(each != shared[0] for each in shared):
            raise ConfigError("the frame: its columns are not the same on all ranks")
        return read_table(task, [names], lambda *roles: _batches(frame, names, *roles))

    return write_dataset(Conversion(comm, FRAME, (), options, log, "the frame", is_text), read, output, force)


def _batches(frame: Any, names: list[str], roles: Roles, features: list[str]) -> Iterator[Batch]:
    """The rows of a frame. Raises DataError."""
    numbers, others = wanted(roles, features)
    place = {name: column for column, name in enumerate(names)}
    for begin in range(0, len(frame), ROWS):
        some = frame.iloc[begin : begin + ROWS]
        columns: dict[str, Any] = {}
        for name in numbers:
            column = some.iloc[:, place[name]]
            try:
                if getattr(column.dtype, "kind", "O") not in "biuf":
                    raise ValueError(f"it holds {column.dtype}")
                columns[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise DataError(
                    f"the frame: column {name!r}: expected numbers ({error}); name columns with features, or text"
                ) from None
        for name in others:
            column = some.iloc[:, place[name]]
            if name in roles.indicators and getattr(column.dtype, "kind", "O") in "biuf":
                columns[name] = column.to_numpy()
                continue
            values = column.astype(object)
            missing = values.isna().tolist()
            columns[name] = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
        yield Batch(len(some), columns, numbered("the frame", begin))

"""Parquet files, read in small batches, so no row group is completely in memory."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion, damage_errors
from hpcml.conversion.part import Part
from hpcml.conversion.table import NAME_COLUMNS, Batch, Roles, columns_to_read, read_table, row_namer
from hpcml.errors import DataError
from hpcml.files.opening import open_regular
from hpcml.files.table import pyarrow
from hpcml.partition import bounds_in_items

ROWS = 2048  # per batch
BUFFER = 1 << 20  # bytes per read of a column


class ParquetFile(NamedTuple):
    path: Path
    names: list[str]
    groups: list[int]
    pandas_index: list[str]


def _readable(path: Path) -> AbstractContextManager[None]:
    errors = (pyarrow().ArrowException, ValueError, OSError)
    return damage_errors(path, errors, "not a Parquet file, or truncated or damaged")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with open_regular(path):  # refuses pipes and raises OSError with the system's reason
        pass
    with _readable(path):
        file = pyarrow().parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    with file:
        yield file


def open_parquet(paths: Sequence[Path]) -> list[ParquetFile]:
    pyarrow()
    files = []
    for path in paths:
        with _opened(path) as file:
            names = list(file.schema_arrow.names)
            with _readable(path):
                pandas_metadata = file.schema_arrow.pandas_metadata
            index = pandas_metadata.get("index_columns") if isinstance(pandas_metadata, dict) else None
            index = [name for name in index if isinstance(name, str)] if isinstance(index, list) else []
            groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            files.append(ParquetFile(path, names, groups, index))
    return files


def read_parquet(task: Conversion) -> Part:
    with mpi.agreed(task.comm, f"reading {task.input_name}"):
        pyarrow()
    files = mpi.run_on_root(task.comm, f"reading {task.input_name}", lambda: open_parquet(task.inputs))
    bounds = bounds_in_items([sum(file.groups) for file in files], task.comm.size)

    def batches(roles: Roles, features: list[str]) -> Iterator[Batch]:
        for number, (file, file_bounds) in enumerate(zip(files, bounds, strict=True)):
            begin, end = file_bounds[task.comm.rank : task.comm.rank + 2]
            for batch in batches_of(file, begin, end, roles.indicators, *columns_to_read(roles, features)) if begin < end else ():
                yield batch._replace(file=number)

    return read_table(task, [file.names for file in files], batches, files[0].pandas_index)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def batches_of(
    file: ParquetFile,
    begin: int,
    end: int,
    indicators: Sequence[str],
    numbers: list[str],
    others: list[str],
    hint: str = NAME_COLUMNS,
) -> Iterator[Batch]:
    from pyarrow import types

    ends = np.cumsum(file.groups)
    groups = [group for group, last in enumerate(ends.tolist()) if begin < last and last - file.groups[group] < end]
    at = int(ends[groups[0]]) - file.groups[groups[0]]
    with _opened(file.path) as opened:
        numbers = [*numbers, *(name for name in indicators if _is_number(opened.schema_arrow.field(name).type))]
        others = [name for name in others if name not in numbers]
        for name in numbers:
            kind = opened.schema_arrow.field(name).type
            if not _is_number(kind):
                raise DataError(f"{file.path}: column {name!r} contains {kind}, but expected numbers; {hint}")
        for name in others:
            kind = declared_type = opened.schema_arrow.field(name).type
            while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or types.is_dictionary(kind):
                kind = kind.value_type
            strings = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
            if not (strings or _is_number(kind) or types.is_null(kind)):
                raise DataError(f"{file.path}: column {name!r} contains {declared_type}, but expected strings or whole numbers")
        with _readable(file.path):
            batches = opened.iter_batches(ROWS, row_groups=groups, columns=[*numbers, *others], use_threads=False)
        while at < end:
            with _readable(file.path):
                batch = next(batches, None)
            if batch is None:
                why = f"ends after {at} rows, but its metadata say {int(ends[-1])}; download or create it again"
                raise DataError(f"{file.path}: {why}")
            rows = batch.slice(max(0, begin - at), max(0, min(end, at + batch.num_rows) - max(begin, at)))
            if rows.num_rows:
                with _readable(file.path):
                    columns: dict[str, Any] = {name: rows.column(name).to_pylist() for name in others}
                    for name in numbers:
                        column = rows.column(name).cast(pyarrow().float64(), safe=False)
                        columns[name] = column.to_numpy(zero_copy_only=False)
                yield Batch(rows.num_rows, columns, row_namer(file.path, max(begin, at)))
            at += batch.num_rows

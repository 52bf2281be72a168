"""svmlight: `label idx:value …`, or `l1,l2 idx:value …`; a row may have no label, `#` comments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, finish
from hpcml.conversion.part import LabelColumns, Part
from hpcml.data.svmlight import BINARY, Rows, as_text, check_lines, label_name, parse_text
from hpcml.errors import DataError
from hpcml.files.lines import byte_range, line_blocks, lines_before


def read_svmlight(task: Conversion) -> Part:
    """Collective. Read this rank's lines. Raises DataError that names the line."""
    (path,) = task.inputs
    begin, end = byte_range(task.comm, path)
    width, single, values = 0, True, np.empty(0)  # of the labels, each once, ascending
    with task.reading():
        rows = NumberRows(task, None, 0, index=np.int32)
        for found in _read(path, begin, end, task.options.zero_based, task.max_line):
            rows.add(NumberSlice(found.lengths, found.indices, found.data))
            of_block, places = np.unique(found.labels, return_inverse=True)
            numbers = np.array([rows.label_numbers[label_name(label)] for label in of_block.tolist()], dtype=np.int64)
            rows.labels.add(found.label_lengths, numbers[places])
            width, values = max(width, found.width), np.union1d(values, of_block)
            single &= bool((found.label_lengths == 1).all())
    rows.feature_names = None  # also where the features of --like have some
    if task.like is None:
        rows.n_features = int(mpi.allreduce_max(task.comm, width))
    columns = _label_columns(task, values, single)
    task.log(f"{path}: read")
    return finish(task, rows, columns=columns)


def _read(path: Path, begin: int, end: int, zero_based: bool, max_line: int) -> Iterator[Rows]:
    """The rows of the lines that start in bytes begin..end. Raises DataError, OSError."""
    for offset, block in line_blocks(path, begin, end, max_line=max_line):
        try:
            rows = parse_text(as_text(block), zero_based)
            if (rows.labels != np.floor(rows.labels)).any():
                line, label = _fraction(block)
                raise DataError(
                    f"{path}: line {lines_before(path, offset) + line}: label {label}, but labels are whole numbers, which name "
                    "classes; what this file has to predict is a quantity: make classes of it"
                )
            yield rows
        except (ValueError, OverflowError) as error:
            line, problem = check_lines(block, zero_based)
            first = lines_before(path, offset)
            if line:
                raise DataError(f"{path}: line {first + line}: {problem}") from None
            last = first + block.count(b"\n")
            raise DataError(
                f"{path}: lines {first + 1} to {last}: not svmlight ({error}); expected `label index:value ...`"
            ) from None


def _fraction(block: bytes) -> tuple[int, str]:
    """(line in the block, label) of the first label that is no whole number."""
    for number, line in enumerate(block.split(b"\n")):
        labels, *_ = line.partition(b"#")[0].split() or [b""]
        for label in labels.split(b",") if labels and b":" not in labels else ():
            if not float(label).is_integer():
                return number + 1, label.decode("ascii", "backslashreplace")
    raise ValueError("no label is a fraction")


def _label_columns(task: Conversion, values: np.ndarray, single: bool) -> LabelColumns:
    """Collective. A column "1" if each row is `single` and ±1, or 0 or 1; else one a number."""
    single = not mpi.agreed_any(task.comm, not single)
    everything = np.unique(np.concatenate(mpi.allgather_arrays(task.comm, values)))
    binary = single and everything.tolist() in ([-1.0, 1.0], [0.0, 1.0])
    if binary if task.like is None else task.like.label_names == BINARY:
        everything = everything[~np.isin(everything, (-1, 0))]  # these say that a row is not in the class
    return LabelColumns([label_name(label) for label in everything.tolist()], task.like)

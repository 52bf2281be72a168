"""The extreme-classification repository's text: `rows features labels`, `l1,l2 f:v …`, from 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.number_rows import NumberRows, NumberSlice, finish
from hpcml.conversion.part import Part
from hpcml.conversion.source_lines import read_names
from hpcml.data.svmlight import MAX_INDEX, Rows, as_text, check_lines, parse_text
from hpcml.errors import DataError
from hpcml.files.lines import byte_range, line_blocks, lines_before, open_plain

HEADER_BYTES = 1 << 10
EXPECTED = "expected three numbers: rows, features, labels, as in `1000 500 30`"


class XmcHeader(NamedTuple):
    """The first line."""

    n_rows: int
    n_features: int
    n_labels: int


def read_header(path: Path) -> XmcHeader:
    """The first line of a file. Raises DataError, and as `open_plain`."""
    with open_plain(path) as file:
        line = file.readline(HEADER_BYTES).removeprefix(b"\xef\xbb\xbf")
    parts = line.split()
    if len(parts) != 3 or not all(part.isdigit() and len(part) < 20 for part in parts):
        shown = line[:60].decode("ascii", "backslashreplace").strip()
        raise DataError(f"{path}: line 1: {shown!r}, but {EXPECTED}")
    header = XmcHeader(*map(int, parts))
    if header.n_features > MAX_INDEX + 1 or header.n_labels > MAX_INDEX + 1:
        raise DataError(f"{path}: line 1: more than {MAX_INDEX + 1} features or labels")
    return header


def read_xmc(task: Conversion) -> Part:
    """Collective. Read this rank's lines. Raises DataError that names the line."""
    (path,) = task.inputs
    begin, end = byte_range(task.comm, path)
    header = mpi.run_on_root(task.comm, f"reading {task.what}", lambda: read_header(path))
    feature_names = read_names(task.comm, task.options.feature_names, header.n_features, "features")
    label_names = read_names(task.comm, task.options.label_names, header.n_labels, "labels")
    with task.reading():
        if label_names is None and header.n_labels > path.stat().st_size:
            raise DataError(f"{path}: line 1: {header.n_labels} labels, far more than the file has entries")
        rows = NumberRows(task, feature_names, header.n_features)
        for found in _read(path, begin, end, header, task.max_line):
            rows.add(NumberSlice(found.lengths, found.indices, found.data))
            rows.labels.add(found.label_lengths, found.labels.astype(np.int64))
    _, (n_rows,) = mpi.exclusive_sum(task.comm, [rows.X.n_rows])
    if n_rows != header.n_rows:
        raise DataError(
            f"{path}: {n_rows} rows, but line 1 says {header.n_rows}; it is truncated, or has lines without labels and features"
        )
    task.log(f"{path}: read")
    return finish(task, rows, label_names or [str(label) for label in range(header.n_labels)])


def _read(path: Path, begin: int, end: int, header: XmcHeader, max_line: int) -> Iterator[Rows]:
    """The rows of lines that start in bytes begin..end, but line 1. Raises DataError, OSError."""
    for offset, block in line_blocks(path, begin, end, max_line=max_line):
        if offset == 0:
            block = b"\n" + block.partition(b"\n")[2]
        try:
            rows = parse_text(as_text(block), True)
        except (ValueError, OverflowError) as error:
            line, problem = check_lines(block, True)
            raise DataError(f"{path}: line {lines_before(path, offset) + max(line, 1)}: {problem or error}") from None
        if rows.indices.max(initial=-1) >= header.n_features or not _are_labels(rows.labels, header.n_labels):
            line, problem = _first_unfit(block, header)
            raise DataError(f"{path}: line {lines_before(path, offset) + line}: {problem}")
        yield rows


def _are_labels(labels: np.ndarray, n_labels: int) -> bool:
    return bool(((labels >= 0) & (labels < n_labels) & (labels == np.floor(labels))).all())


def _first_unfit(block: bytes, header: XmcHeader) -> tuple[int, str]:
    """(line in the block, what is wrong) of the first line with what line 1 does not count."""
    for number, line in enumerate(block.split(b"\n")):
        if not line.split():
            continue
        rows = parse_text(as_text(line), True)
        if not _are_labels(rows.labels, header.n_labels):
            wrong = next(label for label in rows.labels.tolist() if not _are_labels(np.array([label]), header.n_labels))
            return number + 1, f"label {wrong:g}, but expected 0 to {header.n_labels - 1}, as line 1 says"
        if rows.indices.max(initial=-1) >= header.n_features:
            return number + 1, f"feature {int(rows.indices.max())}, but expected 0 to {header.n_features - 1}, as line 1 says"
    raise ValueError("no line is wrong")

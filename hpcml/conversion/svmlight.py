"""svmlight: `label idx:value …` or `l1,l2 idx:value …`; labels may be missing; `#` begins a comment.

Files of the extreme-classification repository (xmc) begin with the line `rows features labels`; their indices and labels start at
0.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Block, Conversion, LineLocation, read_names, reading
from hpcml.conversion.number_rows import NumberRows, NumberSlice, finish
from hpcml.conversion.part import Part
from hpcml.data.svmlight import BINARY, MAX_INDEX, Rows, blank_lines, join_lines, label_name, parse_lines, row_line_numbers
from hpcml.errors import DataError
from hpcml.files.lines import BYTE_ORDER_MARK, byte_range, line_blocks, open_decompressed

HEADER_BYTES = 1 << 10
CLASSES = "labels are whole numbers that name classes; convert quantities to classes"
XMC_HEADER = "expected three numbers: rows, features, labels, as in `1000 500 30`"


def _bad_rows(rows: Rows, what: str, fit: np.ndarray, expected: str) -> dict[int, str]:
    if fit.all():
        return {}
    lengths, values = (rows.label_lengths, rows.labels) if what == "label" else (rows.lengths, rows.indices)
    positions = np.flatnonzero(~fit)[::-1]
    row_numbers = np.searchsorted(np.cumsum(lengths), positions, side="right").tolist()
    reasons = (f"{what} {label_name(value)}, but {expected}" for value in values[positions].tolist())
    return dict(zip(row_numbers, reasons, strict=True))


def _blocks(
    task: Conversion, path: Path, begin: int, end: int, check: Callable[[Rows], dict[int, str]], is_xmc: bool = False
) -> Iterator[Rows]:
    for offset, lines in line_blocks(path, begin, end, max_line=task.max_line):
        lines = b"\n" + lines.partition(b"\n")[2] if is_xmc and offset == 0 else lines
        text, bad = np.frombuffer(join_lines(lines), dtype=np.uint8), dict[int, str]()
        while True:
            wrong: dict[int, str] = {}
            rows = parse_lines(text, is_xmc or task.options.zero_based, wrong)
            if not wrong and (bad_rows := check(rows)):
                row_numbers = row_line_numbers(text)
                wrong = {row_numbers[row]: reason for row, reason in bad_rows.items()}
            if not wrong:
                break
            bad |= wrong
            text = blank_lines(text, wrong)
        block = Block(path, offset)
        for line in sorted(bad):
            task.bad.add(bad[line], LineLocation(block, line, 0))
        yield rows


def read_svmlight(task: Conversion) -> Part:
    (path,) = task.inputs
    begin, end = byte_range(task.comm, path)

    def check(rows: Rows) -> dict[int, str]:
        return _bad_rows(rows, "label", rows.labels == np.floor(rows.labels), CLASSES)

    width, single, values = 0, True, np.empty(0)  # `values`: distinct labels, ascending
    with reading(task):
        rows = NumberRows(task, None, 0, index=np.int32)
        for block in _blocks(task, path, begin, end, check):
            labels = block.labels
            rows.add(NumberSlice(block.lengths, block.indices, block.data))
            block_values, positions = np.unique(labels, return_inverse=True)
            numbers = np.array([rows.label_numbers[label_name(label)] for label in block_values.tolist()], dtype=np.int64)
            rows.labels.append(block.label_lengths, numbers[positions])
            width, values = max(width, block.width), np.union1d(values, block_values)
            single &= bool((block.label_lengths == 1).all())
    # One column "1" if each row has one label of ±1, or of 0 and 1; otherwise one column per number.
    single = not mpi.agreed_any(task.comm, not single)
    everything = np.unique(np.concatenate(mpi.allgather_arrays(task.comm, values)))
    binary = single and everything.tolist() in ([-1.0, 1.0], [0.0, 1.0])
    if binary if task.like is None else task.like.label_names == BINARY:
        everything = everything[~np.isin(everything, (-1, 0))]  # negative rows
    columns = [label_name(label) for label in everything.tolist()]
    rows.feature_names = None  # even if --like has feature names
    if task.like is None:
        rows.n_features = int(mpi.allreduce_max(task.comm, width))
    return finish(task, rows, columns=columns)


def read_xmc(task: Conversion) -> Part:
    (path,) = task.inputs
    begin, end = byte_range(task.comm, path)

    def read_header() -> list[int]:
        with open_decompressed(path) as file:
            line = file.readline(HEADER_BYTES).removeprefix(BYTE_ORDER_MARK)
        parts = line.split()
        if len(parts) != 3 or not all(part.isdigit() and len(part) < 20 for part in parts):
            header = line[:60].decode("ascii", "backslashreplace").strip()
            raise DataError(f"{path}: line 1: {header!r}, but {XMC_HEADER}")
        if int(parts[1]) > MAX_INDEX + 1 or int(parts[2]) > MAX_INDEX + 1:
            raise DataError(f"{path}: line 1: more than {MAX_INDEX + 1} features or labels")
        return list(map(int, parts))

    n_rows, n_features, n_labels = mpi.run_on_root(task.comm, f"reading {task.input_name}", read_header)
    feature_names = read_names(task.comm, task.options.feature_names, n_features, "features")
    label_names = read_names(task.comm, task.options.label_names, n_labels, "labels")

    def check(rows: Rows) -> dict[int, str]:
        in_range = (rows.labels >= 0) & (rows.labels < n_labels) & (rows.labels == np.floor(rows.labels))
        bad = _bad_rows(rows, "feature", rows.indices < n_features, f"expected 0 to {n_features - 1}, as in line 1")
        return bad | _bad_rows(rows, "label", in_range, f"expected 0 to {n_labels - 1}, as in line 1")

    with reading(task):
        if label_names is None and n_labels > path.stat().st_size:
            raise DataError(f"{path}: line 1: {n_labels} labels, more than the file has bytes")
        rows = NumberRows(task, feature_names, n_features)
        for block in _blocks(task, path, begin, end, check, is_xmc=True):
            rows.add(NumberSlice(block.lengths, block.indices, block.data))
            rows.labels.append(block.label_lengths, block.labels.astype(np.int64))
    _, (n_read,) = mpi.exclusive_sum(task.comm, [rows.X.n_rows])
    if n_read + task.bad.skipped != n_rows:
        raise DataError(f"{path}: {n_read} rows, but line 1 says {n_rows}; the file is truncated or has empty lines")
    return finish(task, rows, label_names or [str(label) for label in range(n_labels)])

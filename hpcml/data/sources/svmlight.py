"""svmlight: `label idx:value …`, or `l1,l2 idx:value …` for several labels; a row may have none. `#` begins a comment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.config import ConvertOptions
from hpcml.data.like import Like
from hpcml.data.part import Labels, Part, label_sets
from hpcml.data.split import row_splits
from hpcml.data.stream import byte_range, line_blocks, lines_before
from hpcml.errors import DataError
from hpcml.kernels import text as kernels
from hpcml.log import Log

BINARY = ["1"]  # the labels of a file whose rows are each -1 or +1, or each 0 or 1
MAX_INDEX = 2**31 - 2
INDEX = re.compile("[+-]?[0-9]+")
PADDING = b"\n" * 8  # behind every text: the kernels read eight bytes at a time


class Rows(NamedTuple):
    """Rows of a block: entries per row, feature numbers from 0, values; labels per row, labels."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    label_lengths: np.ndarray
    labels: np.ndarray
    width: int  # one more than the largest index, zeros included


def parse_block(block: bytes, zero_based: bool) -> Rows:
    """The rows of a block of whole lines, without zeros. Raises ValueError or OverflowError if there is anything wrong."""
    from sklearn.datasets import load_svmlight_file

    # scikit-learn passes over what begins with qid, and Python reads 1_0 as 10.
    if (b"qid" in block or b"_" in block) and check_lines(block, zero_based)[0]:
        raise ValueError("query ids or underscores")
    X, y = load_svmlight_file(BytesIO(block), dtype=np.float64, multilabel=True, zero_based=True)
    first = 0 if zero_based else 1
    label_lengths = np.fromiter(map(len, y), dtype=np.int64, count=len(y))
    labels = np.fromiter(chain.from_iterable(y), dtype=np.float64, count=int(label_lengths.sum()))
    with np.errstate(over="ignore"):
        data = X.data.astype(np.float32)
    low, high = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (first, first - 1)
    if low < first or high - first > MAX_INDEX or not np.isfinite(data).all() or not np.isfinite(labels).all():
        raise ValueError("out of range")
    lengths = np.diff(X.indptr)
    keep = data != 0
    if not keep.all():
        rows = np.repeat(np.arange(lengths.size), lengths)
        lengths = np.bincount(rows[keep], minlength=lengths.size)
    return Rows(lengths, (X.indices[keep] - first).astype(np.int32), data[keep], label_lengths, labels, high - first + 1)


def padded(*lines: bytes) -> bytearray:
    """Joined lines as the kernels want them: the last one ended, and PADDING behind."""
    last = next((chunk for chunk in reversed(lines) if chunk), b"\n")
    return bytearray().join([*lines, b"" if last.endswith(b"\n") else b"\n", PADDING])


def as_text(lines: bytes) -> np.ndarray:
    """Lines for the kernels (uint8)."""
    return np.frombuffer(padded(lines), dtype=np.uint8)


def parse_text(text: np.ndarray, zero_based: bool) -> Rows:
    """The rows of `text` (uint8, `padded`), as `parse_block` gives them, and some ten times faster if nothing is unusual.

    Raises ValueError or OverflowError if there is anything wrong.
    """
    size, first = text.size - len(PADDING), 0 if zero_based else 1
    n_lines = int(np.count_nonzero(text[:size] == kernels.NEWLINE))
    # A pair takes four bytes at least, a label two; what is not written takes no memory.
    lengths, label_lengths = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    indices, data = np.empty(size // 4 + 1, dtype=np.int32), np.empty(size // 4 + 1, dtype=np.float32)
    labels = np.empty(size // 2 + 1)
    n_rows, n_pairs, n_labels, width = kernels.parse_lines(
        text, size, first, MAX_INDEX + first, lengths, indices, data, label_lengths, labels
    )
    if n_rows < 0:
        return parse_block(text[:size].tobytes(), zero_based)
    return Rows(lengths[:n_rows], indices[:n_pairs], data[:n_pairs], label_lengths[:n_rows], labels[:n_labels], width)


def check_lines(block: bytes, zero_based: bool) -> tuple[int, str]:
    """(line in the block, what is wrong there) of the first bad line of a block; (0, "") if there is none."""
    for number, line in enumerate(block.split(b"\n")):
        if problem := _problem(line, zero_based):
            return number + 1, problem
    return 0, ""


def _problem(line: bytes, zero_based: bool) -> str:
    """What is wrong with a line; "" if nothing."""
    tokens = [token.decode("ascii", "backslashreplace") for token in line.partition(b"#")[0].split()]
    if tokens and ":" not in tokens[0]:
        for label in tokens.pop(0).split(","):
            if not _is_number(label) or not math.isfinite(float(label)):
                return f"label {label!r}, but expected numbers separated by commas"
    last = -1 if zero_based else 0
    for token in tokens:
        index, colon, value = token.partition(":")
        if index == "qid":
            return f"{token!r}: query ids are not supported; remove them"
        if not colon or not INDEX.fullmatch(index) or not _is_number(value):
            return f"{token!r}, but expected index:value"
        if int(index) == 0 and not zero_based:
            return "index 0, but indices start at 1 (use --zero-based)"
        if int(index) < 0:
            return f"index {index}, but indices are not negative"
        if int(index) <= last:
            return f"index {index} after {last}; sort the indices and let each stand once"
        if int(index) > MAX_INDEX + (0 if zero_based else 1):
            return f"index {index}, but expected at most {MAX_INDEX + (0 if zero_based else 1)}"
        if not abs(float(value)) <= float(np.finfo(np.float32).max):
            return f"value {value} of index {index}, but expected a finite number that float32 can hold"
        last = int(index)
    return ""


def _is_number(text: str) -> bool:
    """Whether a text stands for a number, finite or not, to the parser (which sees bytes)."""
    try:
        float(text.encode())
    except ValueError:
        return False
    return "_" not in text


def label_name(label: float) -> str:
    """The name of a numeric label: "3" for 3.0."""
    return str(int(label)) if label == int(label) and abs(label) < 2**53 else repr(float(label))


@mpi.collective
def read_svmlight(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log) -> Part:
    """Collective over `comm`. Read this rank's lines.

    Raises DataError that names file and line.
    """
    (path,) = inputs
    begin, end = byte_range(comm, path)
    with mpi.agreed(comm, f"reading {path}"):
        blocks = list(_read(path, begin, end, options.zero_based))
        empty = np.zeros(0, dtype=np.int64)
        blocks.append(Rows(empty, empty.astype(np.int32), empty.astype(np.float32), empty, empty.astype(np.float64), 0))
        columns = [np.concatenate(column) for column in list(zip(*blocks, strict=True))[:-1]]
        rows = Rows(*columns, max(block.width for block in blocks))
        del blocks, columns
    n_features = int(mpi.allreduce_max(comm, rows.width)) if like is None else like.n_features
    dropped = 0
    if like is not None and rows.width > n_features:
        keep = rows.indices < n_features
        dropped = int(keep.size - np.count_nonzero(keep))
        of = np.repeat(np.arange(rows.lengths.size), rows.lengths)[keep]
        lengths = np.bincount(of, minlength=rows.lengths.size)
        rows = rows._replace(lengths=lengths, indices=rows.indices[keep], data=rows.data[keep])
    split_names, split = row_splits(comm, rows.lengths.size, None, options)
    log(f"{path}: read")
    return Part(
        indptr=np.concatenate([[0], np.cumsum(rows.lengths)]),
        indices=rows.indices,
        data=rows.data,
        labels=_labels(comm, rows, like),
        n_features=n_features,
        split_names=split_names,
        split=split,
        dropped=dropped,
    )


def _read(path: Path, begin: int, end: int, zero_based: bool) -> Iterator[Rows]:
    """The rows of the lines that start in bytes begin..end, block by block. Raises DataError, OSError."""
    for offset, block in line_blocks(path, begin, end):
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
    """(line in the block, label) of the first label that is no whole number, of lines that can be read."""
    for number, line in enumerate(block.split(b"\n")):
        labels, *_ = line.partition(b"#")[0].split() or [b""]
        for label in labels.split(b",") if labels and b":" not in labels else ():
            if not float(label).is_integer():
                return number + 1, label.decode("ascii", "backslashreplace")
    raise ValueError("no label is a fraction")


@mpi.collective
def _labels(comm: mpi.Comm, rows: Rows, like: Like | None) -> Labels:
    """Collective over `comm`. The label sets: one column "1" if every row is -1 or +1, or 0 or 1, else a column for each number."""
    values, entries = np.unique(rows.labels, return_inverse=True)
    single = not mpi.agreed_any(comm, bool((rows.label_lengths != 1).any()))
    everything = np.unique(np.concatenate(mpi.allgather_arrays(comm, values)))
    if like is not None:
        names = like.label_names
    elif single and everything.tolist() in ([-1.0, 1.0], [0.0, 1.0]):
        names = BINARY
    else:
        names = [label_name(label) for label in everything.tolist()]
    number = {name: n for n, name in enumerate(names)}
    columns = np.array([number.get(label_name(label), -1) for label in values.tolist()], dtype=np.int64)
    labels = label_sets(names, rows.label_lengths, columns[entries])
    if names == BINARY:  # -1, or 0, says that the row is not in the class
        labels.dropped -= int(np.count_nonzero((rows.labels == -1) | (rows.labels == 0)))
    return labels

"""svmlight text: `label idx:value … # comment`, or `l1,l2 idx:value …`; a row may have no label."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import NamedTuple

import numpy as np

from hpcml.kernels import text as kernels

BINARY = ["1"]  # the labels of a file whose rows are each -1 or +1, or each 0 or 1
MAX_INDEX = 2**31 - 2
INDEX, TOKEN = re.compile(rb"[+-]?[0-9]+"), re.compile(rb"\S+")
MAX_INDEX_LENGTH = 4000  # so many digits are read as a number; no more can be right
SHOWN = 100  # bytes of a token that messages show
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
    """The rows of whole lines, without zeros. Raises ValueError, OverflowError."""
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
    """The rows of `text` (uint8, `padded`), as `parse_block`, ten times faster if it is usual."""
    size, first = text.size - len(PADDING), 0 if zero_based else 1
    n_lines = int(np.count_nonzero(text[:size] == kernels.NEWLINE))
    # A pair takes four bytes at least, a label two; what is not written takes no memory.
    lengths, label_lengths = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    indices, data = np.empty(size // 4 + 1, dtype=np.int32), np.empty(size // 4 + 1, dtype=np.float32)
    labels = np.empty(size // 2 + 1)
    n_rows, n_pairs, n_labels, width, disordered = kernels.parse_lines(
        text, size, first, MAX_INDEX + first, lengths, indices, data, label_lengths, labels
    )
    if n_rows < 0:
        return parse_block(text[:size].tobytes(), zero_based)
    label_lengths, labels = label_lengths[:n_rows], labels[:n_labels]
    if disordered:
        labels = labels[np.lexsort((labels, np.repeat(np.arange(n_rows), label_lengths)))]
    return Rows(lengths[:n_rows], indices[:n_pairs], data[:n_pairs], label_lengths, labels, width)


def check_lines(block: bytes, zero_based: bool) -> tuple[int, str]:
    """The first bad line of a block, and what is wrong there; (0, "") if there is none."""
    for number, line in enumerate(BytesIO(block)):
        if problem := _problem(line, zero_based):
            return number + 1, problem
    return 0, ""


def _problem(line: bytes, zero_based: bool) -> str:
    """The error in a line, in words; "" if there is none."""
    first = 0 if zero_based else 1
    largest, may_be_labels = MAX_INDEX + first, True
    last: float = first - 1
    for token in TOKEN.finditer(line.partition(b"#")[0]):
        if may_be_labels and b":" not in token[0]:
            for label in _separated(token[0]):
                if not _is_number(label) or not math.isfinite(float(label)):
                    return f"label {_shown(label)!r}, but expected numbers separated by commas"
            may_be_labels = False
            continue
        may_be_labels = False
        index, colon, value = token[0].partition(b":")
        if index == b"qid":
            return f"{_shown(token[0])!r}: query ids are not supported; remove them"
        if not colon or not INDEX.fullmatch(index) or not _is_number(value):
            return f"{_shown(token[0])!r}, but expected index:value"
        number: float = int(index) if len(index) <= MAX_INDEX_LENGTH else -1 if index.startswith(b"-") else math.inf
        if number == 0 and not zero_based:
            return "index 0, but indices start at 1 (use --zero-based)"
        if number < 0:
            return f"index {_shown(index)}, but indices are not negative"
        if number <= last:
            return f"index {_shown(index)} after {last}; sort the indices and let each stand once"
        if number > largest:
            return f"index {_shown(index)}, but expected at most {largest}"
        if not abs(float(value)) <= float(np.finfo(np.float32).max):
            return f"value {_shown(value)} of index {number}, but expected a finite number that float32 can hold"
        last = number
    return ""


def _separated(labels: bytes) -> Iterator[bytes]:
    begin = 0
    while (end := labels.find(b",", begin)) >= 0:
        yield labels[begin:end]
        begin = end + 1
    yield labels[begin:]


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode("ascii", "backslashreplace")
    return text if len(token) <= SHOWN else f"{text[:SHOWN]}…"


def _is_number(text: bytes) -> bool:
    """Whether a token stands for a number, finite or not, to the parser."""
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text


def label_name(label: float) -> str:
    """The name of a numeric label: "3" for 3.0."""
    return str(int(label)) if label == int(label) and abs(label) < 2**53 else repr(float(label))

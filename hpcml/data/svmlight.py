"""svmlight text: `label idx:value … # comment`, or `l1,l2 idx:value …`; a row may have no label."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from typing import NamedTuple

import numpy as np

from hpcml.errors import DataError
from hpcml.kernels import text as kernels

BINARY = ["1"]  # the labels of a file whose rows are each -1 or +1, or each 0 or 1
MAX_INDEX = 2**31 - 2
INDEX, TOKEN = re.compile(rb"[+-]?[0-9]+"), re.compile(rb"\S+")
MAX_INDEX_LENGTH = 4000  # so many digits are read as a number; no more can be right
BEYOND_FLOAT32 = (2 - 2**-24) * 2.0**127  # the smallest double that float32 rounds to infinity
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


def padded(*lines: bytes) -> bytearray:
    """Joined lines as the kernels want them: the last one ended, and PADDING behind."""
    last = next((chunk for chunk in reversed(lines) if chunk), b"\n")
    return bytearray().join([*lines, b"" if last.endswith(b"\n") else b"\n", PADDING])


def parse_lines(text: np.ndarray, zero_based: bool, where: Callable[[int], str]) -> Rows:
    """Return the rows of `text` (uint8, `padded`), without zeros. Raises DataError: `where(n)` names line n, from 0."""
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
        return parse_slowly(text[:size].tobytes(), zero_based, where)
    label_lengths, labels = label_lengths[:n_rows], labels[:n_labels]
    if disordered:
        labels = labels[np.lexsort((labels, np.repeat(np.arange(n_rows), label_lengths)))]
    return Rows(lengths[:n_rows], indices[:n_pairs], data[:n_pairs], label_lengths, labels, width)


def parse_slowly(block: bytes, zero_based: bool, where: Callable[[int], str]) -> Rows:
    """Return the rows of whole lines as `parse_lines` does, whatever form their numbers have; at a tenth of its speed."""
    lengths, indices, data, label_lengths, labels, width = array("q"), array("i"), array("f"), array("q"), array("d"), 0
    for number, line in enumerate(BytesIO(block)):
        before, n_labels = len(data), len(labels)
        tokens = TOKEN.finditer(line.partition(b"#")[0])
        try:
            if (token := next(tokens, None)) is None:
                continue
            if b":" not in token[0]:
                for text in token[0].split(b","):
                    label = _number(text)
                    if label is None or not math.isfinite(label):
                        raise ValueError(f"label {_shown(text)!r}, but expected numbers separated by commas")
                    labels.append(label)
                labels[n_labels:] = array("d", sorted(labels[n_labels:]))
                token = next(tokens, None)
            last = -1 if zero_based else 0
            while token is not None:
                last, value = _pair(token[0], last, zero_based)
                data.append(value)
                if data[-1]:
                    indices.append(last - (not zero_based))
                else:
                    data.pop()
                token = next(tokens, None)
        except ValueError as error:
            raise DataError(f"{where(number)}: {error}") from None
        lengths.append(len(data) - before)
        label_lengths.append(len(labels) - n_labels)
        width = max(width, last + zero_based)
    return Rows(np.array(lengths), np.array(indices), np.array(data), np.array(label_lengths), np.array(labels), width)


def _pair(token: bytes, last: int, zero_based: bool) -> tuple[int, float]:
    """Return index and value of a token behind index `last`. Raises ValueError with the reason."""
    index, colon, text = token.partition(b":")
    value = _number(text) if colon and INDEX.fullmatch(index) else None
    if index == b"qid":
        raise ValueError(f"{_shown(token)!r}: query ids are not supported; remove them")
    if value is None:
        raise ValueError(f"{_shown(token)!r}, but expected index:value")
    largest = MAX_INDEX + (not zero_based)
    number = int(index) if len(index) <= MAX_INDEX_LENGTH else -1 if index.startswith(b"-") else largest + 1
    if number == 0 and not zero_based:
        raise ValueError("index 0, but indices start at 1 (use --zero-based)")
    if number < 0:
        raise ValueError(f"index {_shown(index)}, but indices are not negative")
    if number <= last:
        raise ValueError(f"index {_shown(index)} after {last}; sort the indices and let each stand once")
    if number > largest:
        raise ValueError(f"index {_shown(index)}, but expected at most {largest}")
    if not abs(value) < BEYOND_FLOAT32:
        raise ValueError(f"value {_shown(text)} of index {number}, but expected a finite number that float32 can hold")
    return number, value


def _number(text: bytes) -> float | None:
    """Return the number that a text stands for, finite or not; None if it is none."""
    try:
        return None if b"_" in text else float(text)  # Python reads 1_0 as 10
    except ValueError:
        return None


def _shown(token: bytes) -> str:
    text = token[: SHOWN + 1].decode("ascii", "backslashreplace")
    return text if len(token) <= SHOWN else f"{text[:SHOWN]}…"


def line_of_row(text: np.ndarray, row: int) -> int:
    """Return the line (from 0) of a row of a sound text; blank lines and comments are no rows."""
    rows = (number for number, line in enumerate(BytesIO(text.tobytes())) if line.partition(b"#")[0].split())
    return next(islice(rows, row, None))


def label_name(label: float) -> str:
    """The name of a numeric label: "3" for 3.0."""
    return str(int(label)) if label == int(label) and abs(label) < 2**53 else repr(float(label))

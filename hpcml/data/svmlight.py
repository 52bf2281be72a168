"""svmlight text: `label idx:value … # comment`, or `l1,l2 idx:value …`; a row may have no label.

As a stream, one rank reads a block of lines at a time, and all ranks parse it. The stream may be standard input, a file or a named
pipe, plain or compressed, of any length: memory holds one block. The rows do not depend on the blocks or on the number of ranks.
"""

import io
import math
import os
import re
import select
import sys
import time
from array import array
from collections.abc import Container, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.files import lines as files
from hpcml.files.opening import open_stream
from hpcml.kernels import text as kernels
from hpcml.launcher import launcher
from hpcml.partition import even_bounds, offsets

BINARY = ["1"]  # the label names of a binary file (labels -1 and +1, or 0 and 1)
MAX_INDEX = 2**31 - 2
INDEX, TOKEN = re.compile(rb"[+-]?[0-9]+"), re.compile(rb"\S+")
MAX_INDEX_LENGTH = 4000  # digits; a longer index is out of range anyway
BEYOND_FLOAT32 = (2 - 2**-24) * 2.0**127  # the smallest double that float32 rounds to infinity
MAX_SHOWN = 100  # bytes of a token in a message
STANDARD_INPUT = "-"
BLOCK_BYTES = 1 << 23
PATIENCE = 1.0  # seconds to wait for a full block from a pipe before a partial one is processed
HDF5_MAGIC = b"\x89HDF"
DATASET_ENDINGS = (".h5", ".hdf5")


class Rows(NamedTuple):
    """Rows of a block: number of entries per row, feature numbers from 0, values; number of labels per row, labels."""

    lengths: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    label_lengths: np.ndarray
    labels: np.ndarray
    width: int  # largest index + 1, values of 0 included


def join_lines(*lines: bytes) -> bytearray:
    """Join lines as the kernels require: the last line ends with a newline."""
    last = next((chunk for chunk in reversed(lines) if chunk), b"\n")
    return bytearray().join([*lines, b"" if last.endswith(b"\n") else b"\n"])


def parse_lines(text: np.ndarray, zero_based: bool, wrong: dict[int, str]) -> Rows:
    """Return the rows of `text` (uint8, `join_lines`), without zeros; invalid lines (from 0) and reasons are added to `wrong`."""
    size, first = text.size, 0 if zero_based else 1
    n_lines = int(np.count_nonzero(text == kernels.NEWLINE))
    # A pair has at least four bytes, a label two; pages that are not written take no memory.
    lengths, label_lengths = np.empty(n_lines, dtype=np.int64), np.empty(n_lines, dtype=np.int64)
    indices, data = np.empty(size // 4 + 1, dtype=np.int32), np.empty(size // 4 + 1, dtype=np.float32)
    labels = np.empty(size // 2 + 1)
    n_rows, n_pairs, n_labels, width, disordered = kernels.parse_lines(
        text, first, MAX_INDEX + first, lengths, indices, data, label_lengths, labels
    )
    if n_rows < 0:
        return parse_slowly(text.tobytes(), zero_based, wrong)
    label_lengths, labels = label_lengths[:n_rows], labels[:n_labels]
    if disordered:
        labels = labels[np.lexsort((labels, np.repeat(np.arange(n_rows), label_lengths)))]
    return Rows(lengths[:n_rows], indices[:n_pairs], data[:n_pairs], label_lengths, labels, width)


def parse_slowly(block: bytes, zero_based: bool, wrong: dict[int, str]) -> Rows:
    """Return the rows as `parse_lines` does, for all number formats; ten times slower."""
    lengths, indices, data, label_lengths, labels, width = array("q"), array("i"), array("f"), array("q"), array("d"), 0
    for number, line in enumerate(io.BytesIO(block)):
        before, n_labels = len(data), len(labels)
        tokens = TOKEN.finditer(line.partition(b"#")[0])
        try:
            if (token := next(tokens, None)) is None:
                continue
            if b":" not in token[0]:
                for text in token[0].split(b","):
                    label = parse_number(text)
                    if label is None or not math.isfinite(label):
                        raise ValueError(f"label {_truncate(text)!r}, but expected numbers separated by commas")
                    labels.append(label)
                labels[n_labels:] = array("d", sorted(labels[n_labels:]))
                token = next(tokens, None)
            last = -1 if zero_based else 0
            while token is not None:
                last, value = _parse_pair(token[0], last, zero_based)
                data.append(value)
                if data[-1]:
                    indices.append(last - (not zero_based))
                else:
                    data.pop()
                token = next(tokens, None)
        except ValueError as error:
            wrong[number] = str(error)
            del data[before:], indices[before:], labels[n_labels:]
            continue
        lengths.append(len(data) - before)
        label_lengths.append(len(labels) - n_labels)
        width = max(width, last + zero_based)
    return Rows(np.array(lengths), np.array(indices), np.array(data), np.array(label_lengths), np.array(labels), width)


def _parse_pair(token: bytes, last: int, zero_based: bool) -> tuple[int, float]:
    index, colon, text = token.partition(b":")
    value = parse_number(text) if colon and INDEX.fullmatch(index) else None
    if index == b"qid":
        raise ValueError(f"{_truncate(token)!r}: query ids are not supported; remove them")
    if value is None:
        raise ValueError(f"{_truncate(token)!r}, but expected index:value")
    largest = MAX_INDEX + (not zero_based)
    number = int(index) if len(index) <= MAX_INDEX_LENGTH else -1 if index.startswith(b"-") else largest + 1
    if number == 0 and not zero_based:
        raise ValueError("index 0, but indices start at 1 (use --zero-based)")
    if number < 0:
        raise ValueError(f"index {_truncate(index)}, but indices are not negative")
    if number <= last:
        raise ValueError(f"index {_truncate(index)} after {last}; sort the indices and remove duplicates")
    if number > largest:
        raise ValueError(f"index {_truncate(index)}, but expected at most {largest}")
    if not abs(value) < BEYOND_FLOAT32:
        raise ValueError(f"value {_truncate(text)} of index {number}, but expected a finite number that float32 can hold")
    return number, value


def parse_number(text: str | bytes) -> float | None:
    """Return the number of a text, finite or not; None if it is invalid or has underscores or non-ASCII digits."""
    try:
        return float(text) if text.isascii() and "_" not in repr(text) else None
    except ValueError:
        return None


def _truncate(token: bytes) -> str:
    start = token[: MAX_SHOWN + 1].decode("ascii", "backslashreplace")
    return start if len(token) <= MAX_SHOWN else f"{start[:MAX_SHOWN]}…"


def row_line_numbers(text: np.ndarray) -> list[int]:
    return [number for number, line in enumerate(io.BytesIO(text.tobytes())) if line.partition(b"#")[0].split()]


def blank_lines(text: np.ndarray, lines: Container[int]) -> np.ndarray:
    every = enumerate(io.BytesIO(text.tobytes()))
    return np.frombuffer(join_lines(*(b"\n" if number in lines else line for number, line in every)), dtype=np.uint8)


def label_name(label: float) -> str:
    return str(int(label)) if label == int(label) and abs(label) < 2**53 else repr(float(label))


def is_text(path: Path) -> bool:
    """Return whether `path` is svmlight text: "-", or an existing file that is not HDF5 by name or content. Raises OSError."""
    if str(path) == STANDARD_INPUT:
        return True
    if path.suffix.lower() in DATASET_ENDINGS or not path.exists() or path.is_dir():
        return False
    return not path.is_file() or not h5py.is_hdf5(path)


class TextRows(NamedTuple):
    """Consecutive rows of a stream, from row `first_row`: float32 values ≠ 0, labels as ascending float64."""

    first_row: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    y_indptr: np.ndarray
    labels: np.ndarray

    @property
    def n_rows(self) -> int:
        return self.indptr.size - 1

    def after(self, n: int) -> Self:
        a, b = self.indptr[n], self.y_indptr[n]
        entries = (self.indptr[n:] - a, self.indices[a:], self.data[a:])
        return type(self)(self.first_row + n, *entries, self.y_indptr[n:] - b, self.labels[b:])

    @classmethod
    def empty(cls, first_row: int = 0) -> Self:
        ends = np.zeros(1, dtype=np.int64)
        return cls(first_row, ends, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32), ends, np.empty(0))


class _JoinedStream:
    """A stream whose first bytes were already read, for a decompressor."""

    def __init__(self, head: bytes, rest: io.FileIO) -> None:
        self.head, self.rest = head, rest

    def read(self, size: int) -> bytes:
        head, self.head = self.head[:size], self.head[size:]
        return head or self.rest.read(size) or b""


class LineReader:
    def __init__(self, source: str | Path, block_bytes: int, max_line: int) -> None:
        self.name, self.block_bytes, self.max_line, self.n_lines = name_of(source), min(block_bytes, max_line), max_line, 0
        if str(source) != STANDARD_INPUT:
            self.raw, head = open_stream(source)
        elif sys.stdin is None or os.isatty(0):
            state = "closed" if sys.stdin is None else "a terminal"
            raise DataError(f"{self.name} is {state}; pipe lines into it, or use a file")
        else:
            self.raw, head = open(0, "rb", buffering=0, closefd=False), b""  # noqa: SIM115 - `close` closes it
        self.poll = select.poll()
        self.poll.register(self.raw, select.POLLIN)
        while len(head) < files.HEAD_BYTES and (more := self.raw.read(files.HEAD_BYTES - len(head))):
            head += more
        if head.startswith(HDF5_MAGIC):
            raise DataError(f"{self.name}: an HDF5 file, but expected svmlight text, plain or compressed")
        self.kind = files.detect_compression(head)
        packed: Any = _JoinedStream(head, self.raw)
        if self.kind and self.raw.seekable():
            packed = self.raw
            packed.seek(0)
        try:
            self.file = files.unpacked(packed, self.kind) if self.kind else None
        except files.DAMAGE as error:
            raise files.decompression_error(self.name, self.kind, error) from None
        self.head = head  # of an uncompressed file
        # Read, but not returned yet.
        self.tail = (self._read(len(files.BYTE_ORDER_MARK)) or b"").removeprefix(files.BYTE_ORDER_MARK)

    def _read(self, size: int) -> bytes | None:
        """Return up to `size` bytes; from an uncompressed stream those that arrive within PATIENCE, None if there are none."""
        if self.file is not None:  # decompressors need all the bytes that they request, so this waits
            try:
                return self.file.read(size)
            except files.DAMAGE as error:
                raise files.decompression_error(self.name, self.kind, error) from None
        received, deadline = bytearray(self.head[:size]), time.monotonic() + PATIENCE
        self.head = self.head[size:]
        while len(received) < size:
            if not self.poll.poll(1000 * max(0.0, deadline - time.monotonic())):
                return bytes(received) or None
            if not (more := self.raw.read(size - len(received))):
                break
            received += more
        return bytes(received)

    def pieces(self, n: int) -> list[tuple[np.ndarray, int]] | None:
        """Return `n` pieces of lines, each with the number of lines before it; [] at the end, None if a pipe is slow."""
        chunks, size, end = [self.tail], len(self.tail), 0
        while not end and (chunk := self._read(self.block_bytes)) != b"":
            if chunk is None:
                self.tail = b"".join(chunks)
                return None
            end = chunk.rfind(b"\n") + 1
            chunks.append(chunk)
            size += len(chunk)
            if not end and size > self.max_line:
                raise files.long_line(self.name, self.n_lines + 1, self.max_line)
        self.tail = chunks[-1][end:] if end else b""
        chunks[-1] = chunks[-1][: end or None]
        block = join_lines(*chunks)
        if block.find(b"\n") > self.max_line:  # a later line lies in one chunk
            raise files.long_line(self.name, self.n_lines + 1, self.max_line)
        text, size, bounds, pieces = np.frombuffer(block, dtype=np.uint8), len(block), [0], []
        for target in even_bounds(size, n)[1:].tolist():
            bounds.append(block.find(b"\n", target - 1) + 1 if target > bounds[-1] else bounds[-1])
        for begin, end in pairwise(bounds if size else []):
            pieces.append((text[begin:end], self.n_lines))
            self.n_lines += int(np.count_nonzero(text[begin:end] == kernels.NEWLINE))
        return pieces

    def close(self) -> None:
        self.raw.close()


def name_of(source: str | Path) -> str:
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def check_standard_input(source: str | Path) -> None:
    if str(source) == STANDARD_INPUT and (name := launcher()[0]):
        raise ConfigError(
            f"standard input under mpirun or srun ({name}): launchers drop or duplicate input beyond 64 KB; use a file, or "
            "a pipe: <(zcat FILE), or one created with mkfifo"
        )


class SvmlightStream:
    """The rows of an svmlight text; iterating over it, once, yields the same TextRows on all ranks. Close it, or use `with`."""

    def __init__(
        self,
        comm: mpi.Comm,
        source: str | Path,
        zero_based: bool = False,
        max_line: int = files.LINE_MIB << 20,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.comm, self.name, self.zero_based = comm, name_of(source), zero_based
        check_standard_input(source)
        self.n_rows = 0  # rows read so far, on all ranks
        self._lines: LineReader | None = None
        with mpi.agreed(comm, f"reading {self.name}"):
            if comm.rank == 0:
                self._lines = LineReader(source, block_bytes, max_line)
        with mpi.node_first(comm):  # compile the kernel
            parse_lines(np.frombuffer(join_lines(b"1 1:1\n"), dtype=np.uint8), zero_based, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def __iter__(self) -> Iterator[TextRows]:
        """Yield the next rows on all ranks; no rows if a pipe is slow. Collective over `comm`."""
        for part in self.parts():
            columns = (np.diff(part.indptr), part.indices, part.data, np.diff(part.y_indptr), part.labels)
            everywhere = (np.concatenate(mpi.allgather_arrays(self.comm, column)) for column in columns)
            lengths, indices, data, label_lengths, labels = everywhere
            first = self.comm.bcast(part.first_row)
            yield TextRows(first, offsets(lengths), indices, data, offsets(label_lengths), labels)

    def parts(self) -> Iterator[TextRows]:
        while True:
            pieces: list[tuple[np.ndarray, int]] | None = []
            with mpi.agreed(self.comm, f"reading {self.name}"):
                if self._lines is not None:
                    pieces = self._lines.pieces(self.comm.size)
            lines_before = self.comm.bcast(None if pieces is None else [n_lines for _, n_lines in pieces])
            if lines_before is None:
                yield TextRows.empty(self.n_rows)
                continue
            if not lines_before:
                break
            texts = [piece for piece, _ in pieces or ()] or [np.empty(0, dtype=np.uint8)] * self.comm.size
            text, wrong = mpi.exchange(self.comm, texts)[0], dict[int, str]()
            with mpi.agreed(self.comm, f"reading {self.name}"):
                rows = parse_lines(text, self.zero_based, wrong)
                for line, reason in wrong.items():
                    raise DataError(f"{self.name}: line {lines_before[self.comm.rank] + line + 1}: {reason}")
            (n_before,), (count,) = mpi.exclusive_sum(self.comm, [rows.lengths.size])
            first = self.n_rows + int(n_before)
            self.n_rows += int(count)
            yield TextRows(first, offsets(rows.lengths), rows.indices, rows.data, offsets(rows.label_lengths), rows.labels)
        if self.n_rows == 0:
            raise DataError(f"{self.name}: no rows; expected `label index:value ...`")

"""svmlight text as a stream: one rank reads a block of lines at a time, and all ranks parse it.

The stream may be standard input, a file or a named pipe, plain or compressed, and of any length: no
more than a block is in memory. The rows do not depend on blocks, nor on the number of ranks.
"""

from __future__ import annotations

import io
import os
import select
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, cast

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.svmlight import PADDING, padded, parse_lines
from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import BYTE_ORDER_MARK, DAMAGE, HEAD_BYTES, LINE_MIB, damaged, kind_of, long_line, unpacked
from hpcml.files.opening import open_stream
from hpcml.kernels import text as kernels
from hpcml.partition import even_bounds, offsets

STANDARD_INPUT = "-"
BLOCK_BYTES = 1 << 23
PATIENCE = 1.0  # seconds to wait for a block of a pipe, before what there is of it is taken
HDF5_MAGIC = b"\x89HDF"
DATASET_ENDINGS = (".h5", ".hdf5")


def is_text(path: Path) -> bool:
    """Whether `path` is svmlight text: "-", or there and no HDF5 by name or content. OSError."""
    if str(path) == STANDARD_INPUT:
        return True
    if path.suffix.lower() in DATASET_ENDINGS or not path.exists() or path.is_dir():
        return False
    return not path.is_file() or not h5py.is_hdf5(path)


class TextRows(NamedTuple):
    """Consecutive rows of a stream, the first of which is row `first_row` (from 0).

    `indptr` (n + 1, int64) from 0, `indices` (int32, from 0), `data` (float32, no zeros); by
    `y_indptr` (n + 1, int64) the labels of each row, ascending numbers as in the text (float64).
    """

    first_row: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    y_indptr: np.ndarray
    labels: np.ndarray

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.indptr.size - 1

    def after(self, n: int) -> TextRows:
        """The rows without the first `n`."""
        a, b = self.indptr[n], self.y_indptr[n]
        return TextRows(
            self.first_row + n, self.indptr[n:] - a, self.indices[a:], self.data[a:], self.y_indptr[n:] - b, self.labels[b:]
        )

    @staticmethod
    def empty() -> TextRows:
        """No rows."""
        ends, indices, data = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
        return TextRows(0, ends, indices, data, ends, np.empty(0))


class _Rejoined:
    """A stream of which the first bytes were read already, for what unpacks it."""

    def __init__(self, head: bytes, rest: io.FileIO) -> None:
        self.head, self.rest = head, rest

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        head, self.head = self.head[:size], self.head[size:]
        return head or self.rest.read(size) or b""


class _LineReader:
    """Whole lines of a stream, a block at a time. Local; raises DataError and OSError."""

    def __init__(self, source: str | Path, block_bytes: int, max_line: int) -> None:
        self.name, self.block_bytes, self.max_line, self.n_lines = name_of(source), min(block_bytes, max_line), max_line, 0
        if str(source) != STANDARD_INPUT:
            self.raw, head = open_stream(source)
        elif sys.stdin is None or os.isatty(0):
            what = "closed" if sys.stdin is None else "a terminal"
            raise DataError(f"{self.name} is {what}; pipe svmlight lines into it, or name a file")
        else:
            self.raw, head = open(0, "rb", buffering=0, closefd=False), b""  # noqa: SIM115 - `close` closes it
        self.poll = select.poll()
        self.poll.register(self.raw, select.POLLIN)
        while len(head) < HEAD_BYTES and (more := self.raw.read(HEAD_BYTES - len(head))):
            head += more
        if head.startswith(HDF5_MAGIC):
            raise DataError(f"{self.name}: an HDF5 file, but expected svmlight text, plain or compressed")
        self.kind = kind_of(head)
        self.file = unpacked(cast("BinaryIO", _Rejoined(head, self.raw)), self.kind) if self.kind else None
        self.head = head  # of a plain file
        self.tail = (self._read(len(BYTE_ORDER_MARK)) or b"").removeprefix(BYTE_ORDER_MARK)  # read, but not given out

    def _read(self, size: int) -> bytes | None:
        """The next bytes, at most `size`; without compression those that come within PATIENCE, or None."""
        if self.file is not None:  # what unpacks cannot do with less than it asks for, so it waits
            try:
                return self.file.read(size)
            except DAMAGE as error:
                raise damaged(self.name, self.kind, error) from None
        found, deadline = bytearray(self.head[:size]), time.monotonic() + PATIENCE
        self.head = self.head[size:]
        while len(found) < size:
            if not self.poll.poll(1000 * max(0.0, deadline - time.monotonic())):
                return bytes(found) or None
            if not (more := self.raw.read(size - len(found))):
                break
            found += more
        return bytes(found)

    def block(self) -> bytearray | None:
        """The next lines, `padded`; only padding at the end; None if no line has come yet."""
        chunks, size, end = [self.tail], len(self.tail), 0
        while not end and (chunk := self._read(self.block_bytes)) != b"":
            if chunk is None:
                self.tail = b"".join(chunks)
                return None
            end = chunk.rfind(b"\n") + 1
            chunks.append(chunk)
            size += len(chunk)
            if not end and size > self.max_line:
                raise long_line(self.name, self.n_lines + 1, self.max_line)
        self.tail = chunks[-1][end:] if end else b""
        chunks[-1] = chunks[-1][: end or None]
        lines = padded(*chunks)
        if lines.find(b"\n") > self.max_line:  # a later line lies in one chunk
            raise long_line(self.name, self.n_lines + 1, self.max_line)
        return lines

    def pieces(self, n: int) -> list[tuple[np.ndarray, int]] | None:
        """The next lines in `n` pieces and lines before; none at the end; None as `block`."""
        if (block := self.block()) is None:
            return None
        text, size, bounds, found = np.frombuffer(block, dtype=np.uint8), len(block) - len(PADDING), [0], []
        for target in even_bounds(size, n)[1:].tolist():
            bounds.append(block.find(b"\n", target - 1) + 1 if target > bounds[-1] else bounds[-1])
        for begin, end in pairwise(bounds if size else []):
            found.append((text[begin : end + len(PADDING)], self.n_lines))
            self.n_lines += int(np.count_nonzero(text[begin:end] == kernels.NEWLINE))
        return found

    def close(self) -> None:
        self.raw.close()


def name_of(source: str | Path) -> str:
    """The name of a source in messages."""
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


class SvmlightStream:
    """The rows of an svmlight text: iterate over it once, and close it, or use a `with`.

    Iterating is collective, and gives the same TextRows on all ranks; `parts()` gives each its
    part.
    """

    def __init__(
        self,
        comm: mpi.Comm,
        source: str | Path,
        zero_based: bool = False,
        max_line: int = LINE_MIB << 20,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        """Collective over `comm`. `source` is a path, or "-": standard input of rank 0.

        Raises DataError for what cannot be read, a terminal or a line of more than `max_line`
        bytes, ConfigError for standard input under a launcher.
        """
        self.comm, self.name, self.zero_based = comm, name_of(source), zero_based
        if str(source) == STANDARD_INPUT and (launcher := mpi.launcher()):
            raise ConfigError(
                f"standard input under mpirun or srun ({launcher}): launchers lose, or repeat, what exceeds 64 KB; name a file, or "
                "a pipe: <(zcat FILE), or one made with mkfifo"
            )
        self.n_rows = 0  # read so far, on all ranks together
        self._begin = 0  # rows before this one are dropped
        self._lines: _LineReader | None = None
        with mpi.agreed(comm, f"reading {self.name}"):
            if comm.rank == 0:
                self._lines = _LineReader(source, block_bytes, max_line)
        with mpi.node_first(comm):  # compile
            parse_lines(np.frombuffer(padded(b"1 1:1\n"), dtype=np.uint8), zero_based, str)

    def __enter__(self) -> SvmlightStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Local."""
        if self._lines is not None:
            self._lines.close()

    def skip(self, n_rows: int) -> None:
        """Drop the next `n_rows` rows. Local; iterating raises DataError if there are fewer."""
        self._begin = max(self._begin, self.n_rows) + n_rows

    def __iter__(self) -> Iterator[TextRows]:
        """Collective over `comm`. The next rows, on all ranks; none if a pipe is slow."""
        for part in self.parts():
            columns = (np.diff(part.indptr), part.indices, part.data, np.diff(part.y_indptr), part.labels)
            lengths, indices, data, label_lengths, labels = (
                np.concatenate(mpi.allgather_arrays(self.comm, column)) for column in columns
            )
            first = self.comm.bcast(part.first_row)
            yield TextRows(first, offsets(lengths), indices, data, offsets(label_lengths), labels)

    def parts(self) -> Iterator[TextRows]:
        """Collective over `comm`. This rank's part of the next rows. Raises DataError on all."""
        while (part := self._next()) is not None:
            if self.n_rows > self._begin or not part.n_rows:
                yield part
        if self.n_rows == 0:
            raise DataError(f"{self.name}: no rows; expected `label index:value ...`")
        if self.n_rows < self._begin:
            raise DataError(f"{self.name}: ends after {self.n_rows} rows, but the first {self._begin} were to be passed over")

    def _next(self) -> TextRows | None:
        """Collective over `comm`. This rank's part of the next block; None at the end."""
        found: list[tuple[np.ndarray, int]] | None = []
        with mpi.agreed(self.comm, f"reading {self.name}"):
            if self._lines is not None:
                found = self._lines.pieces(self.comm.size)
        lines_before = self.comm.bcast(None if found is None else [n_lines for _, n_lines in found])
        if lines_before is None:
            return TextRows.empty()._replace(first_row=self.n_rows)
        if not lines_before:
            return None
        pieces = [piece for piece, _ in found or ()] or [np.empty(0, dtype=np.uint8)] * self.comm.size
        text = mpi.exchange(self.comm, pieces)[0]
        with mpi.agreed(self.comm, f"reading {self.name}"):
            before = lines_before[self.comm.rank]
            rows = parse_lines(text, self.zero_based, lambda line: f"{self.name}: line {before + line + 1}")
        (above,), (count,) = mpi.exclusive_sum(self.comm, [rows.lengths.size])
        first = self.n_rows + int(above)
        self.n_rows += int(count)
        indptr, y_indptr = offsets(rows.lengths), offsets(rows.label_lengths)
        part = TextRows(first, indptr, rows.indices, rows.data, y_indptr, rows.labels)
        part = part.after(min(max(0, self._begin - first), part.n_rows))
        return part._replace(first_row=max(first, self._begin))

"""Arrays in .npy and .npz files, read in pieces: nothing is unpickled, none is whole in memory."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from hpcml.errors import DataError
from hpcml.files.opening import open_regular

PIECE = 1 << 22  # bytes that are read at once
DAMAGE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, KeyError, SyntaxError)
NPY = b"\x93NUMPY"
ZIP = b"PK"


class ArrayStream:
    """An array of at most two dimensions, read from first row to last, each at most once."""

    def __init__(self, file: BinaryIO, name: str, size: int) -> None:
        """`size`: bytes, header included. Raises ValueError if it cannot be read."""
        self.file, self.name, self.at = file, name, 0
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{name} has the format version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, by_columns, self.dtype = read(file)
        if self.dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which could be anything; save numbers, or strings of a fixed length")
        if len(self.shape) > 2 or self.dtype.kind not in "biufSU":
            raise ValueError(f"{name} is no list or table of numbers or strings")
        if by_columns and len(self.shape) == 2 and min(self.shape) > 1:
            raise ValueError(f"{name} is stored column by column; save np.ascontiguousarray of it")
        self.row_bytes = self.dtype.itemsize * (self.shape[1] if len(self.shape) == 2 else 1)
        if self.n_rows * self.row_bytes > size:
            raise ValueError(f"{name} claims {self.n_rows * self.row_bytes} bytes, but has {size}")

    @property
    def n_rows(self) -> int:
        """Rows of a table, or entries of a list; 1 of a single value."""
        return int(self.shape[0]) if self.shape else 1

    def read(self, begin: int, end: int) -> np.ndarray:
        """Rows begin..end, behind those that were read. Raises ValueError at the end."""
        if begin < self.at or not begin <= end <= self.n_rows:
            raise ValueError(f"{self.name}: rows {begin} to {end} of {self.n_rows}")
        self._skip((begin - self.at) * self.row_bytes)
        size, pieces = (end - begin) * self.row_bytes, bytearray()
        while len(pieces) < size:
            if not (piece := self.file.read(min(PIECE, size - len(pieces)))):
                raise ValueError(f"{self.name} ends too early")
            pieces += piece
        self.at = end
        return np.frombuffer(bytes(pieces), dtype=self.dtype).reshape(end - begin, *self.shape[1:])

    def _skip(self, size: int) -> None:
        if size and self.file.seekable() and isinstance(self.file, io.BufferedReader):
            self.file.seek(size, io.SEEK_CUR)
            return
        while size > 0:
            if not (piece := self.file.read(min(PIECE, size))):
                raise ValueError(f"{self.name} ends too early")
            size -= len(piece)


class Arrays:
    """The arrays of a .npz file, or the one of a .npy file, named "". Use it in a `with`."""

    def __init__(self, path: Path) -> None:
        """Raises DataError for a file that is neither, and OSError."""
        self.path, self._zip = path, None
        self._raw = io.BufferedReader(open_regular(path))
        head = self._raw.peek(6)[:6]
        try:
            if not head:
                raise DataError(f"{path}: the file is empty; expected arrays of numpy (.npz or .npy)")
            if head.startswith(ZIP):
                with readable(path):
                    self._zip = zipfile.ZipFile(self._raw)
            elif head != NPY:
                raise DataError(
                    f"{path}: no arrays of numpy; expected a .npz file (or .npy), as scipy.sparse.save_npz and numpy.save make"
                )
        except BaseException:
            self._raw.close()
            raise

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._raw.close()

    @property
    def names(self) -> list[str]:
        """The names of the arrays."""
        return [""] if self._zip is None else [name.removesuffix(".npy") for name in self._zip.namelist()]

    @contextmanager
    def open(self, name: str) -> Iterator[ArrayStream]:
        """The array of that name. Raises DataError if it is damaged, also while it is read."""
        with readable(self.path):
            if self._zip is None:
                self._raw.seek(0)
                yield ArrayStream(self._raw, "the array", self.path.stat().st_size)
            else:
                entry = self._zip.getinfo(f"{name}.npy")
                with self._zip.open(entry) as file:
                    yield ArrayStream(file, f"array {name}", entry.file_size)  # type: ignore[arg-type]

    def whole(self, name: str) -> np.ndarray:
        """All of a small array. Raises DataError."""
        with self.open(name) as stream:
            return stream.read(0, stream.n_rows).reshape(stream.shape)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of numpy and zipfile about a damaged file into a DataError."""
    try:
        yield
    except DataError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"{path}: cannot be read: {reason or type(error).__name__}; get or make it again") from None

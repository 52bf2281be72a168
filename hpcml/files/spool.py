"""Numbers that wait for their place in a file: a little of them in memory, more in a temporary file without a name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

MEMORY_BYTES = 1 << 24  # of one spool
SLICE = 1 << 20  # numbers that are looked at together


class Spool:
    """An array of one dimension that grows at its end and is read by slices. Local; every method raises OSError."""

    def __init__(self, folder: Path, dtype: str | type) -> None:
        """What does not fit MEMORY_BYTES goes to the file system of `folder`."""
        self.folder, self.dtype, self.size = folder, np.dtype(dtype), 0
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - it goes with the spool

    def append(self, values: np.ndarray) -> None:
        """Put `values` behind those that are there."""
        if values.size == 0:
            return
        try:
            self._file.seek(self.size * self.dtype.itemsize)
            self._file.write(np.ascontiguousarray(values, dtype=self.dtype).data.cast("B"))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None
        self.size += values.size

    def __getitem__(self, where: slice) -> np.ndarray:
        begin, end, _ = where.indices(self.size)
        values = np.empty(max(0, end - begin), dtype=self.dtype)
        self._file.seek(begin * self.dtype.itemsize)
        self._file.readinto(values.data.cast("B"))
        return values

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> np.ndarray:
        """All of it, in memory."""
        return np.asarray(self[:], dtype or self.dtype)


def slices(size: int, step: int = SLICE) -> Iterator[slice]:
    """Consecutive ranges of `size` numbers, one at a time."""
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


class ArraySpool:
    """Tuples of arrays, appended one at a time and gone through any number of times. Local; every method raises OSError."""

    def __init__(self, folder: Path) -> None:
        """What does not fit MEMORY_BYTES goes to the file system of `folder`."""
        self.folder, self._starts = folder, [0]
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - it goes with the spool

    def append(self, arrays: Iterable[ArrayLike]) -> None:
        """Put a tuple behind those that are there."""
        self._file.seek(self._starts[-1])
        try:
            for array in arrays:
                np.lib.format.write_array(self._file, np.asarray(array), allow_pickle=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None
        self._starts.append(self._file.tell())

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        for start, end in pairwise(self._starts):
            self._file.seek(at := start)
            arrays = []
            while at < end:
                arrays.append(np.lib.format.read_array(self._file, allow_pickle=False))
                at = self._file.tell()
            yield arrays

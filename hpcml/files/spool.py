"""Numbers that wait for their place in a file: a few in memory, more in a file without a name."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

MEMORY_BYTES = 1 << 22  # of one spool
SLICE = 1 << 20  # numbers that are looked at together
T = TypeVar("T", bound=Any)  # a NamedTuple


class Spool:
    """An array of one dimension that grows at its end, read by slices. Local; raises OSError."""

    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        """Numbers that do not fit MEMORY_BYTES go to the file system of `folder`."""
        self.folder, self.dtype, self.size = folder, np.dtype(dtype), 0
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - it goes with the spool

    def append(self, values: np.ndarray) -> None:
        """Put `values` behind those that are there."""
        self.put(self.size, values)

    def put(self, first: int, values: np.ndarray) -> None:
        """Put `values` in the place of those from `first` on; what is left out before them is 0."""
        if values.size == 0:
            return
        try:
            self._file.seek(first * self.dtype.itemsize)
            self._file.write(np.ascontiguousarray(values, dtype=self.dtype).data.cast("B"))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None
        self.size = max(self.size, first + values.size)

    def __getitem__(self, where: slice) -> np.ndarray:
        begin, end, _ = where.indices(self.size)
        values = np.empty(max(0, end - begin), dtype=self.dtype)
        self._file.seek(begin * self.dtype.itemsize)
        self._file.readinto(values.data.cast("B"))
        return values


def slices(size: int, step: int = SLICE) -> Iterator[slice]:
    """Consecutive ranges of `size` numbers, one at a time."""
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


class ArraySpool(Generic[T]):
    """Named tuples of arrays and numbers, appended one by one, gone through again. Local; raises OSError."""

    def __init__(self, folder: Path, kind: type[T]) -> None:
        """Numbers that do not fit MEMORY_BYTES go to the file system of `folder`."""
        self.folder, self.kind, self.size = folder, kind, 0
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - it goes with the spool

    def append(self, arrays: T) -> None:
        """Put a tuple behind those that are there."""
        self._file.seek(0, io.SEEK_END)
        try:
            for array in arrays:
                np.lib.format.write_array(self._file, np.asarray(array), allow_pickle=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None
        self.size += 1

    def __iter__(self) -> Iterator[T]:
        at = 0
        for _ in range(self.size):
            self._file.seek(at)
            arrays = [np.lib.format.read_array(self._file, allow_pickle=False) for _ in self.kind._fields]
            at = self._file.tell()
            yield self.kind(*(array if array.ndim else array.item() for array in arrays))


class StringSpool:
    """Strings that grow at their end: `len`, slices as lists. Local; raises OSError."""

    def __init__(self, folder: Path) -> None:
        """Items that do not fit memory go to the file system of `folder`."""
        self.text, self.ends = Spool(folder, np.uint8), Spool(folder, np.int64)
        self.ends.append(np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return self.ends.size - 1

    def extend(self, codes: Sequence[bytes]) -> None:
        """Put strings, as UTF-8, behind those that are there."""
        self.ends.append(np.fromiter(accumulate(map(len, codes)), np.int64, len(codes)) + self.text.size)
        self.text.append(np.frombuffer(b"".join(codes), dtype=np.uint8))

    def codes(self, begin: int, end: int) -> list[bytes]:
        """Strings begin..end as UTF-8."""
        ends = self.ends[begin : end + 1]
        text = self.text[ends[0] : ends[-1]].tobytes()
        return [text[a:b] for a, b in pairwise((ends - ends[0]).tolist())]

    def __getitem__(self, where: slice) -> list[str]:
        begin, end, _ = where.indices(len(self))
        return [code.decode() for code in self.codes(begin, max(begin, end))]

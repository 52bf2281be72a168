"""Growing arrays in unnamed temporary files; small ones stay in memory."""

import io
import tempfile
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike

MEMORY_BYTES = 1 << 22  # of one array; larger ones are in a file
SLICE = 1 << 20  # numbers that are processed together
T = TypeVar("T", bound=Any)  # a NamedTuple


class DiskArray:
    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        self.folder, self.dtype, self.size = folder, np.dtype(dtype), 0
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - lives as long as this object

    def append(self, values: np.ndarray) -> None:
        self.put(self.size, values)

    def put(self, first: int, values: np.ndarray) -> None:
        """Write `values` from position `first` on; a gap before them is filled with zeros."""
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
    return (slice(begin, min(begin + step, size)) for begin in range(0, size, step))


class DiskTuples(Generic[T]):
    def __init__(self, folder: Path, kind: type[T]) -> None:
        self.folder, self.kind, self.size = folder, kind, 0
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - lives as long as this object

    def append(self, arrays: T) -> None:
        self._file.seek(0, io.SEEK_END)
        try:
            for array in arrays:
                np.lib.format.write_array(self._file, np.asarray(array), allow_pickle=False)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder)) from None
        self.size += 1

    def __iter__(self) -> Iterator[T]:
        position = 0
        for _ in range(self.size):
            self._file.seek(position)
            arrays = [np.lib.format.read_array(self._file, allow_pickle=False) for _ in self.kind._fields]
            position = self._file.tell()
            yield self.kind(*(array if array.ndim else array.item() for array in arrays))


class DiskStrings:
    def __init__(self, folder: Path) -> None:
        self.text, self.ends = DiskArray(folder, np.uint8), DiskArray(folder, np.int64)
        self.ends.append(np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return self.ends.size - 1

    def extend(self, codes: Sequence[bytes]) -> None:
        self.ends.append(np.fromiter(accumulate(map(len, codes)), np.int64, len(codes)) + self.text.size)
        self.text.append(np.frombuffer(b"".join(codes), dtype=np.uint8))

    def codes(self, begin: int, end: int) -> list[bytes]:
        ends = self.ends[begin : end + 1]
        text = self.text[ends[0] : ends[-1]].tobytes()
        return [text[a:b] for a, b in pairwise((ends - ends[0]).tolist())]

    def __getitem__(self, where: slice) -> list[str]:
        begin, end, _ = where.indices(len(self))
        return [code.decode() for code in self.codes(begin, max(begin, end))]

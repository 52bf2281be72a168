"""Writing of one HDF5 file by all ranks without parallel HDF5: rank 0 creates the layout, each rank writes slabs.

The layout has contiguous datasets whose space is allocated at once, so a slab is a range of bytes that any rank can write with
`pwrite`. Until it is complete, the file has a temporary name.

Arrays can have checksums, in blocks, which are verified on reading. The checksum of a block is the sum modulo 2^64 of its 32-bit
words, each multiplied by an odd factor that depends on its position. A change of a single word is always detected, and ranks that
write parts of a block add their sums.
"""

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from hpcml import mpi
from hpcml.files.atomic import temporary_path
from hpcml.kernels import row_keys as kernels

GROUP = "checksums"
BLOCK = 1 << 16  # 32-bit words that share a checksum
_ALIGNED = {"alignment_threshold": 1, "alignment_interval": 64}  # so that mapped datasets are aligned


class Slab(NamedTuple):
    shape: tuple[int, ...]
    dtype: str


def add_checksums(values: np.ndarray, first: int, sums: np.ndarray) -> None:
    """Add entries from number `first` of an array to checksums (uint64), which begin with the block of `first`."""
    words = np.ascontiguousarray(values).view(np.uint32)
    if words.size:
        kernels.add_sums(words, first * (values.itemsize // 4), BLOCK, sums)


class SlabFile:
    """An HDF5 file that is being written; `write`, `flush` and `close` are local, the other methods collective."""

    def __init__(self, comm: mpi.Comm, path: Path, target: Path | None = None) -> None:
        self.comm, self.path, self.target = comm, path, target or path
        self.offsets: dict[str, tuple[int, Slab]] = {}
        self.sums: dict[str, np.ndarray] = {}  # checksums of what this rank has written
        self.descriptor = -1

    def layout(
        self, slabs: dict[str, Slab], describe: Callable[[h5py.File], None] | None = None, checked: Iterable[str] = ()
    ) -> None:
        """Create the file on rank 0, allocate `slabs`, and call `describe`; `checked` 1-d slabs get checksums. Collective."""
        sizes = {name: -(-slabs[name].shape[0] * (np.dtype(slabs[name].dtype).itemsize // 4) // BLOCK) for name in checked}
        slabs = slabs | {f"{GROUP}/{name}": Slab((size,), "<u8") for name, size in sizes.items()}
        offsets = {}
        with mpi.agreed(self.comm, f"creating {self.target}"):
            if self.comm.rank == 0:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)  # contiguous space that is allocated at once but not written
                plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                plist.set_obj_track_times(False)  # so that the bytes of a file depend only on its content
                with open_for_update(self.path, new=True, target=self.target) as file:
                    for name, slab in slabs.items():
                        group, _, last = name.rpartition("/")
                        parent, space = require_group(file, group) if group else file, h5py.h5s.create_simple(slab.shape)
                        dtype = h5py.h5t.py_create(np.dtype(slab.dtype), logical=True)
                        h5py.h5d.create(parent.id, last.encode(), dtype, space, dcpl=plist)
                    if describe is not None:
                        describe(file)
                    offsets = {name: (file[name].id.get_offset() or 0, slab) for name, slab in slabs.items()}
        self.attach(offsets)
        self.sums = {name: np.zeros(size, np.uint64) for name, size in sizes.items()}

    def write_checksums(self) -> None:
        sums, self.sums = self.sums, {}
        for name, values in sums.items():
            mpi.allreduce_sum(self.comm, values.view(np.int64))
            if self.comm.rank == 0:
                self.write(f"{GROUP}/{name}", 0, values)

    def attach(self, offsets: dict[str, tuple[int, Slab]]) -> None:
        self.offsets = self.comm.bcast(offsets)
        with mpi.agreed(self.comm, f"opening {self.path}"):
            self.descriptor = os.open(self.path, os.O_RDWR)

    def write(self, name: str, first: int, rows: np.ndarray) -> None:
        offset, slab = self.offsets[name]
        values = np.ascontiguousarray(rows, dtype=slab.dtype)
        width = math.prod(slab.shape[1:])
        if first < 0 or first * width + values.size > math.prod(slab.shape):
            raise IndexError(f"{name}: rows {first} + {values.size} do not fit {slab.shape}")
        if name in self.sums:
            add_checksums(values, first, self.sums[name][first * (values.itemsize // 4) // BLOCK :])
        self.write_bytes(offset + first * width * values.itemsize, values.reshape(-1).data.cast("B"))

    def write_bytes(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        write_at(self.descriptor, memoryview(data), offset, self.target)

    def flush(self) -> None:
        if self.descriptor >= 0:
            os.fsync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class DeferredErrorFile(io.FileIO):
    """A file that defers its first write error, because HDF5 crashes when it cannot write; later writes are kept in memory."""

    error: OSError | None = None

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._lost: list[tuple[int, bytes]] = []  # (offset, bytes) of writes since the error
        self._end = 0  # end of the file if the writes had succeeded

    def write(self, data: Any) -> int:
        begin, view = self.tell(), memoryview(data)
        try:
            write_at(self.fileno(), view, begin, Path(self.name))
        except OSError as error:
            self.error = self.error or error
        if self.error is not None:
            self._lost.append((begin, bytes(view)))
            self._end = max(self._end, begin + len(view))
        self.seek(begin + len(view))
        return len(view)

    def readinto(self, buffer: Any) -> int:
        begin, view = self.tell(), memoryview(buffer).cast("B")
        n = super().readinto(view)
        if self.error is None:
            return n
        view[n:] = bytes(len(view) - n)
        for offset, data in self._lost:
            first, last = max(begin, offset), min(begin + len(view), offset + len(data))
            if first < last:
                view[first - begin : last - begin] = data[first - offset : last - offset]
        self.seek(begin + len(view))
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = super().seek(offset, whence)
        return super().seek(max(position, self._end + offset)) if whence == io.SEEK_END else position

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            self._end = max(self._end, size or 0)
            return size or 0


def _new(raw: DeferredErrorFile) -> h5py.h5f.FileID:
    access, creation = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_alignment(*_ALIGNED.values())
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, raw)
    creation.set_obj_track_times(False)
    return h5py.h5f.create(repr(raw).encode("ascii", "replace"), h5py.h5f.ACC_TRUNC, fapl=access, fcpl=creation)


def require_group(file: h5py.File, name: str) -> h5py.Group:
    if name not in file:
        above, _, last = name.rpartition("/")
        parent = require_group(file, above) if above else file
        creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        h5py.h5g.create(parent.id, last.encode(), gcpl=creation)
    return file[name]


@contextmanager
def open_for_update(path: Path, new: bool = False, target: Path | None = None) -> Iterator[h5py.File]:
    """Open an HDF5 file for writing; `target` is its name in messages. Raises OSError if any byte was not written."""
    with DeferredErrorFile(path, "w+" if new else "r+") as raw:
        try:
            with h5py.File(_new(raw)) if new else h5py.File(raw, "r+", libver=("v110", "v110"), **_ALIGNED) as file:
                yield file
        except Exception:
            if raw.error is None:
                raise
        if raw.error is not None:
            raise OSError(raw.error.errno, raw.error.strerror, str(target or path))


def write_at(descriptor: int, data: memoryview, offset: int, path: Path) -> None:
    """Write all of `data` at `offset`; an OSError names `path`."""
    try:
        while len(data):
            written = os.pwrite(descriptor, data[: 1 << 30], offset)
            data, offset = data[written:], offset + written
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def new_file(comm: mpi.Comm, path: Path | str, overwrite: bool = False, inputs: Iterable[Path | None] = ()) -> Iterator[SlabFile]:
    """Yield a SlabFile that appears at `path` after the body, or not at all. Collective over `comm`."""
    with temporary_path(comm, path, overwrite, inputs) as temporary:
        out = SlabFile(comm, temporary, Path(path))
        try:
            yield out
            with mpi.agreed(comm, f"writing {path}"):
                out.flush()
        finally:
            out.close()

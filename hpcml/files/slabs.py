"""Writing one HDF5 file by all ranks without a parallel HDF5: rank 0 lays it out, each fills slabs.

The layout has contiguous datasets whose space is allocated at once, so a slab is a range of bytes
that any rank can write with `pwrite`. Until it is complete the file has a temporary name.

Arrays can have checksums, in blocks, which are verified while they are read. The checksum of a block
is the sum modulo 2^64 of its 32-bit words, each times an odd factor that depends on its place. So
the change of a single word always shows, and ranks that write parts of a block add their sums.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import h5py
import numpy as np

from hpcml import mpi
from hpcml.files.atomic import temporary_path
from hpcml.kernels import checksums as kernels

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


GROUP = "checksums"
BLOCK = 1 << 16  # 32-bit words that have a checksum in common
_ALIGNED = {"alignment_threshold": 1, "alignment_interval": 64}  # so that a mapped dataset is an aligned array


class Slab(NamedTuple):
    """A dataset that ranks fill: its full shape and its type."""

    shape: tuple[int, ...]
    dtype: str


def add_checksums(values: np.ndarray, first: int, sums: np.ndarray) -> None:
    """Add entries from number `first` of an array to the checksums (uint64), of which the first is that of the block of `first`."""
    words = np.ascontiguousarray(values).view(np.uint32)
    if words.size:
        kernels.add_sums(words, first * (values.itemsize // 4), BLOCK, sums)


class SlabFile:
    """An HDF5 file under construction; `write` is local, the other methods are collective."""

    def __init__(self, comm: mpi.Comm, path: Path, target: Path | None = None) -> None:
        """`target` is the name that messages give the file; by default `path`."""
        self.comm, self.path, self.target = comm, path, target or path
        self.offsets: dict[str, tuple[int, Slab]] = {}
        self.sums: dict[str, np.ndarray] = {}  # of the arrays with checksums, what this rank has written
        self.descriptor = -1

    def layout(
        self, slabs: dict[str, Slab], describe: Callable[[h5py.File], None] | None = None, checked: Iterable[str] = ()
    ) -> None:
        """Collective. Rank 0 creates the file, allocates `slabs`, and calls `describe`.

        `write_checksums` writes checksums of the slabs `checked`, which have one dimension.
        """
        sizes = {name: -(-slabs[name].shape[0] * (np.dtype(slabs[name].dtype).itemsize // 4) // BLOCK) for name in checked}
        slabs = slabs | {f"{GROUP}/{name}": Slab((size,), "<u8") for name, size in sizes.items()}
        offsets = {}
        with mpi.agreed(self.comm, f"creating {self.target}"):
            if self.comm.rank == 0:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)  # of contiguous bytes that exist at once but are not written
                plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                plist.set_obj_track_times(False)  # the bytes of a file depend on its content alone
                with editing(self.path, new=True, target=self.target) as file:
                    for name, slab in slabs.items():
                        group, _, last = name.rpartition("/")
                        parent, space = group_in(file, group) if group else file, h5py.h5s.create_simple(slab.shape)
                        dtype = h5py.h5t.py_create(np.dtype(slab.dtype), logical=True)
                        h5py.h5d.create(parent.id, last.encode(), dtype, space, dcpl=plist)
                    if describe is not None:
                        describe(file)
                    offsets = {name: (file[name].id.get_offset() or 0, slab) for name, slab in slabs.items()}
        self.attach(offsets)
        self.sums = {name: np.zeros(size, np.uint64) for name, size in sizes.items()}

    def write_checksums(self) -> None:
        """Collective. Write the checksums of what all ranks have written."""
        sums, self.sums = self.sums, {}
        for name, found in sums.items():
            mpi.allreduce_sum(self.comm, found.view(np.int64))
            if self.comm.rank == 0:
                self.write(f"{GROUP}/{name}", 0, found)

    def attach(self, offsets: dict[str, tuple[int, Slab]]) -> None:
        """Collective. Take rank 0's table of offsets and open the file for `write`."""
        self.offsets = self.comm.bcast(offsets)
        with mpi.agreed(self.comm, f"opening {self.path}"):
            self.descriptor = os.open(self.path, os.O_RDWR)

    def write(self, name: str, first: int, rows: np.ndarray) -> None:
        """Write `rows` at row `first` of dataset `name`. Local; raises OSError."""
        offset, slab = self.offsets[name]
        values = np.ascontiguousarray(rows, dtype=slab.dtype)
        width = math.prod(slab.shape[1:])
        if first < 0 or first * width + values.size > math.prod(slab.shape):
            raise IndexError(f"{name}: rows {first} + {values.size} do not fit {slab.shape}")
        if name in self.sums:
            add_checksums(values, first, self.sums[name][first * (values.itemsize // 4) // BLOCK :])
        write_at(self.descriptor, values.reshape(-1).data.cast("B"), offset + first * width * values.itemsize, self.target)

    def flush(self) -> None:
        """Force what this rank has written to the disk. Local; raises OSError."""
        if self.descriptor >= 0:
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close this rank's descriptor. Local."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class _Tolerant(io.FileIO):
    """A file that keeps its first write error for later, for HDF5 crashes when it cannot write.

    HDF5 reads what it has written: from that error on, that is in memory, too.
    """

    error: OSError | None = None

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._lost: list[tuple[int, bytes]] = []  # (offset, bytes) of what was written since the error
        self._end = 0  # where the file would end

    def write(self, data: ReadableBuffer) -> int:
        """Write, or note why not and pretend."""
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

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what was written, or would have been."""
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
        """Go to a place; the end is where it would be."""
        place = super().seek(offset, whence)
        return super().seek(max(place, self._end + offset)) if whence == io.SEEK_END else place

    def truncate(self, size: int | None = None) -> int:
        """Change the size, or note why not and pretend."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            self._end = max(self._end, size or 0)
            return size or 0


def _new(raw: _Tolerant) -> h5py.h5f.FileID:
    """Return an empty HDF5 file whose root does not hold the time, with any HDF5.

    The property lists hold `raw`. They must be gone before the program ends, else HDF5 crashes when it frees them.
    """
    access, creation = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    access.set_alignment(*_ALIGNED.values())
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, raw)
    creation.set_obj_track_times(False)
    return h5py.h5f.create(repr(raw).encode("ascii", "replace"), h5py.h5f.ACC_TRUNC, fapl=access, fcpl=creation)


def group_in(file: h5py.File, name: str) -> h5py.Group:
    """The group of this name. One that is made here does not hold the time, with any HDF5."""
    if name not in file:
        above, _, last = name.rpartition("/")
        parent = group_in(file, above) if above else file
        creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        h5py.h5g.create(parent.id, last.encode(), gcpl=creation)
    return file[name]


@contextmanager
def editing(path: Path, new: bool = False, target: Path | None = None) -> Iterator[h5py.File]:
    """An HDF5 file to write, `target` in messages. Raises OSError if any byte was not written."""
    with _Tolerant(path, "w+" if new else "r+") as raw:
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
    """Collective over `comm`. A SlabFile that appears at `path` after the body, or not at all."""
    with temporary_path(comm, path, overwrite, inputs) as temporary:
        out = SlabFile(comm, temporary, Path(path))
        try:
            yield out
            with mpi.agreed(comm, f"writing {path}"):
                out.flush()
        finally:
            out.close()

"""Checkpoints: complete or absent, two generations, readable on any number of ranks.

A checkpoint is an HDF5 file in which every array row has a CRC-32, so that a damaged one is noticed
and the older one is used. `Pace` decides when a checkpoint is due.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.hdf5 import DAMAGE, open_stamped, readable, stamp
from hpcml.files.slabs import Slab, SlabFile, new_file
from hpcml.log import Log

KEPT = 2
READ_BYTES = 1 << 20

# A checkpoint is due when the work since the last one has taken WORTH times what that cost: checkpoints then take 2 % of the time,
# and a killed run loses no more than that work. Measured by `train dual` and `train probe` on 50,000 rows, 200,000 features and
# 1,000 labels (convert synthetic text), on a machine with several times as much to do as it has cores: 0.13 s (0.011 s of the
# processor) and 32 kB for dual, which begins labels in training anew; 0.2 to 0.6 s (0.04 to 0.1 s) and 19 MB for probe.
WORTH = 50.0
# Seconds. Below LEAST little is lost, and file systems that many share should not be asked for files all the time; MOST is how
# often checkpoints were written before their cost was looked at.
LEAST, MOST = 5.0, 600.0
_NAME = re.compile(r"state-(\d{6})\.h5")


@contextmanager
def reading_checkpoint(path: Path) -> Iterator[h5py.File]:
    """A checkpoint that `newest` found; damage becomes a DataError."""
    with readable(path, "hpcml train --force", "checkpoint"), open_stamped(path, "checkpoint", "hpcml train") as file:
        yield file


def _rows(array: h5py.Dataset) -> Iterator[np.ndarray]:
    """The rows of a two-dimensional array, which are read many at a time if they are short."""
    together = max(1, READ_BYTES // max(1, array.dtype.itemsize * array.shape[1]))
    for first in range(0, len(array), together):
        yield from array[first : first + together]


class CheckpointWriter:
    """Writes rows of the arrays of one checkpoint, each with its CRC."""

    def __init__(self, file: SlabFile) -> None:
        self.file = file

    def write_row(self, name: str, row: int, values: np.ndarray) -> None:
        """Write one row of array `name`. Local; raises OSError."""
        self.write_rows(name, row, values.reshape(1, -1))

    def write_rows(self, name: str, first: int, values: np.ndarray) -> None:
        """Write rows of array `name`. Local; raises OSError."""
        values = np.ascontiguousarray(values, dtype=self.file.offsets[name][1].dtype)
        self.file.write(name, first, values)
        self.file.write(f"crc/{name}", first, np.array([zlib.crc32(row.data) for row in values]))


class Pace:
    """How often checkpoints are written: every so many seconds, or as often as is worth it."""

    def __init__(self, every: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.every, self.clock = every, clock
        self.cost, self.saved = 0.0, clock()

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        worth = min(max(LEAST, WORTH * self.cost), MOST)
        return self.clock() - self.saved >= (worth if self.every is None else self.every)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """In the body a checkpoint is written."""
        begin = self.clock()
        yield
        self.saved = self.clock()
        self.cost = self.saved - begin


class Checkpoints:
    """The generations of one run, in `folder`."""

    def __init__(self, comm: mpi.Comm, folder: Path, log: Log) -> None:
        self.comm, self.folder, self.log = comm, folder, log

    def _generations(self) -> list[Path]:
        """The checkpoints present, newest first."""
        return sorted((p for p in self.folder.glob("state-*.h5") if _NAME.fullmatch(p.name)), reverse=True)

    def save(self, arrays: dict[str, Slab], fill: Callable[[CheckpointWriter], None]) -> None:
        """Collective. A new generation of two-dimensional arrays, which `fill` writes."""
        present = mpi.run_on_root(self.comm, f"reading {self.folder}", self._generations)
        number = 1 + (int(present[0].stem.removeprefix("state-")) if present else 0)
        slabs = arrays | {f"crc/{name}": Slab(slab.shape[:1], "<i8") for name, slab in arrays.items()}
        with new_file(self.comm, self.folder / f"state-{number:06d}.h5") as out:
            out.layout(slabs, lambda file: stamp(file, "checkpoint"))
            with mpi.agreed(self.comm, f"writing a checkpoint in {self.folder}"):
                fill(CheckpointWriter(out))
        with mpi.agreed(self.comm, f"removing old checkpoints in {self.folder}"):
            if self.comm.rank == 0:
                for old in self._generations()[KEPT:]:
                    old.unlink()

    def newest(self) -> Path | None:
        """Collective. The newest sound checkpoint, or None. DataError if all are damaged."""
        return mpi.run_on_root(self.comm, f"reading {self.folder}", self._newest)

    def _newest(self) -> Path | None:
        present, found, reason = self._generations(), None, ""
        for path in present:
            if not (reason := self._damage(path)):
                found = path
                break
            self.log(f"warning: checkpoint {path.name} is damaged ({reason}); using an older one")
        if reason and found is None:
            raise DataError(f"{self.folder}: no checkpoint can be used ({reason}); start again with --force")
        for damaged in present[: present.index(found)] if found is not None else []:
            damaged.unlink()  # else it would count as one of the generations kept
        return found

    def _damage(self, path: Path) -> str:
        """Return why the file cannot be used (its version, or a row that does not have its CRC), or ""."""
        try:
            with open_stamped(path, "checkpoint", "hpcml train") as file:
                names: list[str] = []
                file["crc"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
                for name in names:
                    for row, (values, crc) in enumerate(zip(_rows(file[name]), file[f"crc/{name}"][:], strict=True)):
                        if zlib.crc32(values.data) != crc:
                            raise DataError(f"{path}: {name}, row {row}: the checksum is wrong")
        except (DataError, *DAMAGE) as error:
            return str(error)
        return ""

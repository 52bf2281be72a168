"""Checkpoints: complete or absent, two generations, readable on any number of ranks.

A checkpoint is an HDF5 file in which every array row has a CRC-32, so that a damaged one is detected and the previous one is used.
`Pace` decides when a checkpoint is due.
"""

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

GENERATIONS = 2  # checkpoints that are kept
READ_BYTES = 1 << 20

# A checkpoint is due when the work since the last one has taken COST_RATIO times the cost of that one: checkpoints then take 2 % of
# the time, and a killed run loses at most that work. Measured with `train dual` and `train probe` on 50,000 rows, 200,000 features
# and 1,000 labels (convert synthetic text), on a machine with several times more processes than cores: 0.13 s (0.011 s of CPU time)
# and 32 kB for dual, which restarts labels in training; 0.2 to 0.6 s (0.04 to 0.1 s) and 19 MB for probe.
COST_RATIO = 50.0
# Seconds between checkpoints. A shorter interval saves little work and burdens shared file systems; the longest was the fixed
# interval before costs were measured.
MIN_SECONDS, MAX_SECONDS = 5.0, 600.0
_NAME = re.compile(r"state-(\d{6})\.h5")


@contextmanager
def reading_checkpoint(path: Path) -> Iterator[h5py.File]:
    with readable(path, "hpcml train --force", "checkpoint"), open_stamped(path, "checkpoint", "hpcml train") as file:
        yield file


def _iterate_rows(array: h5py.Dataset) -> Iterator[np.ndarray]:
    together = max(1, READ_BYTES // max(1, array.dtype.itemsize * array.shape[1]))
    for first in range(0, len(array), together):
        yield from array[first : first + together]


class CheckpointWriter:
    """Writes rows of the arrays of one checkpoint, each with its CRC. Raises OSError."""

    def __init__(self, file: SlabFile) -> None:
        self.file = file

    def write_row(self, name: str, row: int, values: np.ndarray) -> None:
        self.write_rows(name, row, values.reshape(1, -1))

    def write_rows(self, name: str, first: int, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values, dtype=self.file.offsets[name][1].dtype)
        self.file.write(name, first, values)
        self.file.write(f"crc/{name}", first, np.array([zlib.crc32(row.data) for row in values]))


class Pace:
    def __init__(self, every: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.every, self.clock = every, clock
        self.cost, self.saved = 0.0, clock()

    @property
    def due(self) -> bool:
        interval = min(max(MIN_SECONDS, COST_RATIO * self.cost), MAX_SECONDS)
        return self.clock() - self.saved >= (interval if self.every is None else self.every)

    @contextmanager
    def saving(self) -> Iterator[None]:
        begin = self.clock()
        yield
        self.saved = self.clock()
        self.cost = self.saved - begin


class Checkpoints:
    def __init__(self, comm: mpi.Comm, folder: Path, log: Log) -> None:
        self.comm, self.folder, self.log = comm, folder, log

    def _generations(self) -> list[Path]:
        return sorted((p for p in self.folder.glob("state-*.h5") if _NAME.fullmatch(p.name)), reverse=True)

    def save(self, arrays: dict[str, Slab], fill: Callable[[CheckpointWriter], None]) -> None:
        """Write a new generation of 2-d arrays, which `fill` writes. Collective."""
        present = mpi.run_on_root(self.comm, f"reading {self.folder}", self._generations)
        number = 1 + (int(present[0].stem.removeprefix("state-")) if present else 0)
        slabs = arrays | {f"crc/{name}": Slab(slab.shape[:1], "<i8") for name, slab in arrays.items()}
        with new_file(self.comm, self.folder / f"state-{number:06d}.h5") as out:
            out.layout(slabs, lambda file: stamp(file, "checkpoint"))
            with mpi.agreed(self.comm, f"writing a checkpoint in {self.folder}"):
                fill(CheckpointWriter(out))
        with mpi.agreed(self.comm, f"removing old checkpoints in {self.folder}"):
            if self.comm.rank == 0:
                for old in self._generations()[GENERATIONS:]:
                    old.unlink()

    def newest(self) -> Path | None:
        return mpi.run_on_root(self.comm, f"reading {self.folder}", self._find_newest)

    def _find_newest(self) -> Path | None:
        present, sound, reason = self._generations(), None, ""
        for path in present:
            if not (reason := self._find_damage(path)):
                sound = path
                break
            self.log(f"warning: checkpoint {path.name} is damaged ({reason}); using an older one")
        if reason and sound is None:
            raise DataError(f"{self.folder}: no checkpoint can be used ({reason}); start again with --force")
        for damaged in present[: present.index(sound)] if sound is not None else []:
            damaged.unlink()  # otherwise it would count as a generation
        return sound

    def _find_damage(self, path: Path) -> str:
        """Return why a file cannot be used (version, or a row that does not match its CRC), or ""."""
        try:
            with open_stamped(path, "checkpoint", "hpcml train") as file:
                names: list[str] = []
                file["crc"].visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
                for name in names:
                    for row, (values, crc) in enumerate(zip(_iterate_rows(file[name]), file[f"crc/{name}"][:], strict=True)):
                        if zlib.crc32(values.data) != crc:
                            raise DataError(f"{path}: {name}, row {row}: the checksum is wrong")
        except (DataError, *DAMAGE) as error:
            return str(error)
        return ""

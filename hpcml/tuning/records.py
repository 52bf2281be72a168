"""The scores of each label at each setting: a file filled label by label, kept for --resume."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.evaluation.decision import OWN_PLACES, PLACE, Summary, even_places
from hpcml.files.hdf5 import DAMAGE, open_hdf5, open_stamped, stamp
from hpcml.files.slabs import Slab, SlabFile
from hpcml.methods.linear.settings import Setting
from hpcml.run.checkpoint import CheckpointWriter


def record_of(n_labels: int) -> np.dtype:
    """The type of a record, where there are so many labels: it has room for any summary."""
    return np.dtype([("score", "<f8"), ("n", "<i4"), ("places", PLACE, OWN_PLACES + even_places(n_labels) + 2)])


class Records:
    """A record for each label and setting of one round, in the folder of the checkpoints."""

    def __init__(self, comm: mpi.Comm, path: Path, n_labels: int, settings: Sequence[Setting], origin: dict[str, object]) -> None:
        """A continuation must have `origin` and settings in common. Local."""
        self.path, self.n_labels, self.n_settings = path, n_labels, len(settings)
        self.file = SlabFile(comm, path)
        self.about = {name: str(value) for name, value in origin.items()} | {
            "settings": json.dumps([dict(each) for each in settings])
        }
        self.record = record_of(n_labels)
        width = self.n_settings * self.record.itemsize
        self.slabs = {"records": Slab((n_labels, width), "|u1"), "crc/records": Slab((n_labels,), "<i8")}

    def begin(self, resume: bool) -> np.ndarray:
        """Collective. Open the file, new or to go on: the known labels. Raises DataError."""

        def look() -> tuple[dict[str, tuple[int, Slab]], np.ndarray]:
            return self._look() if resume and self.path.exists() else ({}, np.zeros(self.n_labels, bool))

        offsets, known = mpi.run_on_root(self.file.comm, f"reading {self.path}", look)
        if offsets:
            self.file.attach(offsets)
        else:
            self.file.layout(self.slabs, self._describe)
        return known

    def _describe(self, file: h5py.File) -> None:
        stamp(file, "checkpoint")
        file.attrs.update(self.about)
        file["crc/records"][:] = -1

    def _look(self) -> tuple[dict[str, tuple[int, Slab]], np.ndarray]:
        """Where the slabs are, and which labels are written and sound. Raises DataError."""
        try:
            with open_stamped(self.path, "checkpoint", "hpcml tune") as file:
                if any(file.attrs[name] != value for name, value in self.about.items()):
                    raise DataError(f"{self.path}: the run was started on other data or settings; resume with the same, or --force")
                if {name: Slab(file[name].shape, file[name].dtype.str) for name in self.slabs} != self.slabs:
                    raise ValueError("sizes or types do not fit")
                offsets = {name: (file[name].id.get_offset(), slab) for name, slab in self.slabs.items()}
                crcs = file["crc/records"][:]
                rows = (file["records"][label] for label in range(self.n_labels))
                return offsets, np.array([zlib.crc32(row.data) == crc for row, crc in zip(rows, crcs, strict=True)], bool)
        except DAMAGE:
            raise DataError(f"{self.path}: damaged; start again with --force") from None

    def write(self, label: int, scores: Sequence[float], summaries: Sequence[Summary]) -> None:
        """Write the records of a label. Local; raises OSError."""
        records = np.zeros(self.n_settings, self.record)
        for record, score, summary in zip(records, scores, summaries, strict=True):
            n = summary.places.size
            record["score"], record["n"] = score, n
            record["places"][:n] = summary.places
        CheckpointWriter(self.file).write_row("records", label, records.view(np.uint8))

    def scores(self, known: np.ndarray) -> np.ndarray:
        """The scores (n_labels × n_settings), NaN where there are none. Local; raises OSError."""
        out = np.full((self.n_labels, self.n_settings), np.nan)
        with open_hdf5(self.path) as file:
            for label in np.flatnonzero(known):
                out[label] = file["records"][label].view(self.record)["score"]
        return out

    def summaries(self, labels: np.ndarray, settings: np.ndarray) -> list[Summary]:
        """The summaries of some labels, each at one setting. Local; raises OSError."""
        found = []
        with open_hdf5(self.path) as file:
            for label, setting in zip(labels.tolist(), settings.tolist(), strict=True):
                record = file["records"][label].view(self.record)[setting]
                found.append(Summary(record["places"][: record["n"]].copy()))
        return found

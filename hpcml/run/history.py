"""history.csv: a line for every step of every label, label by label.

While a run goes on, labels are appended as they finish, by rank 0, whenever a checkpoint is
written; where each label's lines lie is remembered, so that a continued run can drop what its
checkpoint does not know, and the end can put them in order.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.atomic import sync
from hpcml.files.table import csv_text


class HistoryFile:
    """A run's history. `index` (n_labels, 2): each label's offset and size, 0 if unwritten."""

    def __init__(
        self, comm: mpi.Comm, path: Path, names: list[str], columns: tuple[str, ...], line: Callable[[tuple[float, ...]], str]
    ) -> None:
        """`line` formats the numbers of a step."""
        self.comm, self.path, self.names, self.columns, self.line = comm, path, names, columns, line
        self.index = np.zeros((len(names), 2))
        self._waiting: list[tuple[int, bytes]] = []

    def _header(self) -> bytes:
        return (",".join(("label", *self.columns)) + "\n").encode()

    def add(self, label: int, steps: list[tuple[float, ...]]) -> None:
        """Take the steps of a finished label (its place in `names`). Local."""
        name = csv_text([[self.names[label]]]).removesuffix("\n")
        self._waiting.append((label, "".join(f"{name},{self.line(step)}\n" for step in steps).encode()))

    def start(self) -> None:
        """Collective. Begin an empty file."""
        with mpi.agreed(self.comm, f"writing {self.path}"):
            if self.comm.rank == 0:
                self.path.write_bytes(self._header())

    def resume(self, index: np.ndarray) -> None:
        """Collective. Go on with a file of which a checkpoint knows these labels."""
        self.index = np.array(index)
        end = max(float(self.index.sum(axis=1).max(initial=0.0)), len(self._header()))
        with mpi.agreed(self.comm, f"writing {self.path}"):
            if self.comm.rank == 0:
                if self.path.stat().st_size < end:
                    raise DataError(f"{self.path}: damaged, it is shorter than the checkpoint says; start again with --force")
                with self.path.open("r+b") as out:
                    out.truncate(int(end))

    def write(self) -> None:
        """Collective. Append what the ranks have been given since."""
        with mpi.agreed(self.comm, f"writing {self.path}"):
            out = self.path.open("ab") if self.comm.rank == 0 else io.BytesIO()
        with out:

            def append(piece: tuple[int, bytes]) -> None:
                label, text = piece
                self.index[label] = out.tell(), len(text)
                out.write(text)

            mpi.stream_to_root(self.comm, self._waiting, append)
            with mpi.agreed(self.comm, f"writing {self.path}"):
                out.flush()
                if self.comm.rank == 0:
                    os.fsync(out.fileno())
        self._waiting = []

    def sort(self, target: Path) -> None:
        """Collective. Write the labels in the order of `names` to another file."""
        with mpi.agreed(self.comm, f"writing {target}"):
            if self.comm.rank == 0:
                with self.path.open("rb") as source, target.open("wb") as out:
                    out.write(self._header())
                    for offset, size in self.index.astype(np.int64).tolist():
                        source.seek(offset)
                        out.write(source.read(size))
                sync(target)

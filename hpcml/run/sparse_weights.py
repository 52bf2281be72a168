"""A sparse model in training: the weights of each label that is done, and the model of them.

Of a dense W each rank fills its rows in place; of a sparse one nobody knows where a row will lie
before all are done. So each rank appends the weights of the labels that it has finished to a part
of its own, where they lie is remembered in checkpoints, and the end copies them to their places.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped
from hpcml.files.slabs import SlabFile, new_file
from hpcml.model.linear import OPTIONAL, about_of, describe_model, kept, model_slabs
from hpcml.model.training_keys import read_training_keys
from hpcml.partition import bounds_by_weight, offsets

PARTS = "weights-*.part"
_NUMBER = re.compile(r"weights-(\d+)\.part")
_COLUMN = np.dtype("<i4")
_COPIED = 1 << 22  # weights that are copied at a time
_NOT_WRITTEN = (-1, 0, 0)


class SparseWeights:
    """The weights of a run's labels that are not below `below`, in part files of `folder`.

    A part holds, label by label, the columns (int32) and then the weights. `index` (n_labels, 3,
    int64) has of each label that this rank knows of its part, the byte in it and the number of
    weights; the part is -1 for the others.
    """

    def __init__(self, comm: mpi.Comm, folder: Path, n_labels: int, n_columns: int, precision: str, below: float) -> None:
        """`precision` is the type of the weights, one of `hpcml.model.linear.PRECISIONS`. Local."""
        self.comm, self.folder, self.n_columns, self.below = comm, folder, n_columns, below
        self.weight_type = np.dtype(precision)
        self.index = np.tile(np.array(_NOT_WRITTEN, dtype=np.int64), (n_labels, 1))
        self._file: BinaryIO | None = None

    def _part(self, number: int) -> Path:
        return self.folder / f"weights-{number:06d}.part"

    def write(self, label: int, w: np.ndarray) -> None:
        """Take the weights (n_columns) of a label that is done. Local; raises OSError."""
        self.write_some(label, None, w)

    def write_some(self, label: int, columns: np.ndarray | None, w: np.ndarray) -> None:
        """As `write`, of some ascending columns (None: all); others are 0. Local."""
        w = np.ascontiguousarray(w, dtype=self.weight_type)
        left = np.flatnonzero(kept(w, self.below))
        columns, w = left if columns is None else columns[left], w[left]
        if self._file is None:
            self._file = self._part(self.comm.rank).open("ab")
        self.index[label] = self.comm.rank, self._file.tell(), columns.size
        self._file.write(columns.astype(_COLUMN).tobytes())
        self._file.write(w.tobytes())

    def flush(self) -> None:
        """Force what this rank has written to the disk. Local; raises OSError."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close this rank's part. Local; `flush` would have told what is lost."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return

    def resume(self, index: np.ndarray | None = None) -> None:
        """Collective. Go on with a checkpoint's `index`, or anew. DataError for damage."""
        with mpi.agreed(self.comm, f"reading {self.folder}"):
            if self.comm.rank == 0:
                if index is not None:
                    self.index = np.array(index, dtype=np.int64).reshape(self.index.shape)
                self._cut()

    def _cut(self) -> None:
        """Shorten all parts to what the index knows."""
        part, offset, count = self.index.T
        ends = offset + count * (_COLUMN.itemsize + self.weight_type.itemsize)
        if (part < -1).any() or (offset < 0).any() or not ((count >= 0) & (count <= self.n_columns)).all():
            raise DataError(f"{self.folder}: damaged checkpoint: it does not say where the weights are; start again with --force")
        for number in np.unique(part[count > 0]).tolist():
            end, path = int(ends[part == number].max()), self._part(number)
            if not path.is_file() or path.stat().st_size < end:
                raise DataError(f"{path}: missing, or shorter than the checkpoint says; start again with --force")
            os.truncate(path, end)
        for path in self.folder.glob(PARTS):
            found = _NUMBER.fullmatch(path.name)
            if found and not (part[count > 0] == int(found.group(1))).any():
                path.unlink()

    def gathered(self) -> np.ndarray:
        """Collective. The index of the labels of all ranks, for a checkpoint."""
        return mpi.allreduce_maxima(self.comm, self.index.copy())

    def join(self, out: SlabFile, indptr: np.ndarray, index: np.ndarray) -> None:
        """Collective. Write W into a model file laid out, by `indptr` (n_labels + 1)."""
        begin, end = bounds_by_weight(indptr, self.comm.size)[self.comm.rank : self.comm.rank + 2].tolist()
        with mpi.agreed(self.comm, f"writing {out.target}"):
            if self.comm.rank == 0:
                out.write("W/indptr", 0, indptr)
            parts: dict[int, BinaryIO] = {}
            try:
                for label in range(begin, end):
                    number, offset, count = index[label].tolist()
                    if count and number not in parts:
                        parts[number] = self._part(number).open("rb")
                    if count:
                        values = offset + count * _COLUMN.itemsize
                        self._copy(parts[number], offset, _COLUMN, count, out, "W/indices", int(indptr[label]))
                        self._copy(parts[number], values, self.weight_type, count, out, "W/data", int(indptr[label]))
            finally:
                for file in parts.values():
                    file.close()

    def _copy(self, part: BinaryIO, offset: int, dtype: np.dtype, count: int, out: SlabFile, name: str, first: int) -> None:
        """Copy `count` numbers of a part to their place in a dataset."""
        part.seek(offset)
        for begin in range(0, count, _COPIED):
            size = min(_COPIED, count - begin)
            numbers = np.frombuffer(part.read(size * dtype.itemsize), dtype=dtype)
            if numbers.size < size:
                raise DataError(f"{part.name}: shorter than it was; start again with --force")
            out.write(name, first + begin, numbers)


def complete_model(comm: mpi.Comm, path: Path, weights: SparseWeights) -> None:
    """Collective over `comm`. Give the model at `path` its sparse W. Raises DataError."""
    index = weights.gathered()
    n_labels, n_columns = index.shape[0], weights.n_columns
    indptr = offsets(index[:, 2])
    about, names, titles, keys, tables, slabs = {}, [], None, None, {}, {}
    with mpi.agreed(comm, f"reading {path}"):
        if comm.rank == 0:
            try:
                with open_stamped(path, "model", "hpcml train") as file:
                    about = about_of(file.attrs)
                    names = list(file["label_names"].asstr()[:])
                    titles = list(file["label_titles"].asstr()[:]) if "label_titles" in file else None
                    keys = read_training_keys(path, file)
                    optional = [name for name in OPTIONAL if f"labels/{name}" in file]
                    sizes = (n_labels, file["columns"].size, n_columns, weights.weight_type.str, "labels/gap" in file)
                    slabs = model_slabs(*sizes, int(indptr[-1]), optional)
                    tables = {name: map_dataset(path, file[name]) for name in slabs if not name.startswith("W/")}
            except (DataError, *DAMAGE):
                raise DataError(f"{path}: the unfinished model is damaged; start again with --force") from None
    with new_file(comm, path, overwrite=True) as out:
        out.layout(slabs, lambda file: describe_model(file, about, names, n_columns, titles, keys))
        with mpi.agreed(comm, f"writing {path}"):
            for name, values in tables.items():
                out.write(name, 0, values)
        weights.join(out, indptr, index)

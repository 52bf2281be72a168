"""Finished labels of a run: records in files of its checkpoint folder, from which model.h5 and history.csv are created.

Each rank appends the labels that it finishes to its own file, in any order: a header with a CRC-32, the numbers of the label, its
weights, and its lines of history.csv. Weights are stored with their columns if that takes less space. model.h5 is laid out from
the numbers of weights. A continued run, on any number of ranks, uses all complete records; a partial record of a killed process is
cut off.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.slabs import SlabFile
from hpcml.leave_one_out.cells import ScoreCounts, unpack_counts
from hpcml.model.linear import mask_kept_weights, write_rows
from hpcml.partition import bounds_by_weight, offsets
from hpcml.run.folder import RESULTS

_SIZES = struct.Struct("<6q")  # label; numbers of: numbers, columns (0: all), weights, bytes of scores and of text; then a CRC
_CRC = struct.Struct("<q")  # of the sizes and of all data after it
_COLUMN = np.dtype("<i4")
_NONE = (-1, 0, 0, 0, 0)
FILE = "results-{:06d}.bin"  # file of a rank; pattern: `RESULTS`
LABELS_WRITTEN = 4096  # labels whose scores are written at a time
MAX_OPEN = 100  # files at a time: there is one per rank, and a process may open only some
TEXT = 1 << 20  # bytes of history.csv written at a time


class Result(NamedTuple):
    numbers: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    scores: np.ndarray  # of `unpack_counts`
    text: bytes


class Results:
    """The records of a run's labels; `index` (n_labels, 5): file, position, kept weights, bytes of text, and cells of each."""

    def __init__(self, comm: mpi.Comm, folder: Path, n_labels: int, precision: str, drop: float = 0.0) -> None:
        """Weights smaller than `drop` are discarded; `precision` is one of `hpcml.model.linear.PRECISIONS`."""
        self.comm, self.folder, self.drop = comm, folder, drop
        self.weight_type = np.dtype(precision)
        self.index = np.tile(np.array(_NONE, dtype=np.int64), (n_labels, 1))
        self._file: BinaryIO | None = None

    @property
    def done(self) -> np.ndarray:
        return np.asarray(self.index[:, 0] >= 0)

    def start(self, resume: bool) -> None:
        records: list[tuple[int, tuple[int, ...]]] = []
        doing = f"reading {self.folder}"
        paths = mpi.run_on_root(self.comm, doing, lambda: list(self.folder.glob(RESULTS)))
        with mpi.agreed(self.comm, doing):
            for path in paths[self.comm.rank :: self.comm.size]:
                if not resume:
                    path.unlink()
                    continue
                number, begin = int(path.stem.removeprefix("results-")), 0
                with path.open("r+b") as file:
                    label, result = self._read_record(file)
                    while result is not None:
                        sizes = result.weights.size, len(result.text), result.scores.size
                        records.append((label, (number, begin, *sizes)))
                        begin = file.tell()
                        label, result = self._read_record(file)
                    file.truncate(begin)  # after the last complete record
        for label, position in (each for part in self.comm.allgather(records) for each in part):
            self.index[label] = position

    def _read_record(self, file: BinaryIO) -> tuple[int, Result | None]:
        head = file.read(_SIZES.size + _CRC.size)
        if len(head) < _SIZES.size + _CRC.size:
            return -1, None
        label, _, n_columns, n_weights, _, _ = _SIZES.unpack_from(head)
        sizes, rest = self._sizes(head), os.fstat(file.fileno()).st_size - file.tell()
        if min(sizes) < 0 or not 0 <= label < len(self.index) or sum(sizes) > rest or n_columns not in (0, n_weights):
            return -1, None
        body = file.read(sum(sizes))
        if (zlib.crc32(body, zlib.crc32(head[: _SIZES.size])),) != _CRC.unpack_from(head, _SIZES.size):
            return -1, None
        ends = list(accumulate(sizes))
        numbers, weights = np.frombuffer(body, "<f8", sizes[0] // 8), np.frombuffer(body, self.weight_type, n_weights, ends[1])
        columns = np.frombuffer(body, _COLUMN, n_columns, ends[0])
        if not n_columns:  # of all columns
            columns = np.flatnonzero(mask_kept_weights(weights, 0.0)).astype(_COLUMN)
            weights = weights[columns]
        return label, Result(numbers, columns, weights, unpack_counts(body[ends[2] : ends[3]]), body[ends[3] :])

    def add(
        self, label: int, numbers: np.ndarray, columns: np.ndarray | None, w: np.ndarray, text: bytes, scores: bytes = b""
    ) -> None:
        """Append a finished label with its weights in ascending columns (None: all columns). Raises OSError."""
        w = np.ascontiguousarray(w, dtype=self.weight_type)
        kept = mask_kept_weights(w, self.drop)
        n_kept = int(np.count_nonzero(kept))
        if columns is None and 2 * n_kept >= w.size and not self.drop:
            columns = np.zeros(0, _COLUMN)
        elif columns is None or n_kept < w.size:
            left = np.flatnonzero(kept)
            columns, w = (left if columns is None else columns[left]), w[left]
        head = _SIZES.pack(label, numbers.size, columns.size, w.size, len(scores), len(text))
        arrays = np.ascontiguousarray(numbers, "<f8"), np.ascontiguousarray(columns, _COLUMN), w
        body = b"".join([*(array.data for array in arrays), scores, text])
        if self._file is None:
            self._file = (self.folder / FILE.format(self.comm.rank)).open("ab")
        self.index[label] = self.comm.rank, self._file.tell(), n_kept, len(text), unpack_counts(scores).size
        self._file.write(b"".join([head, _CRC.pack(zlib.crc32(body, zlib.crc32(head))), body]))

    def flush(self, to_disk: bool = True) -> None:
        if self._file is not None:
            self._file.flush()
            if to_disk:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return

    def share_index(self) -> None:
        mpi.allreduce_maxima(self.comm, self.index)

    def _open_records(self, labels: range) -> Iterator[tuple[int, BinaryIO]]:
        files: dict[int, BinaryIO] = {}
        try:
            for label in labels:
                number, begin, *_ = self.index[label].tolist()
                if number not in files:
                    while len(files) >= MAX_OPEN:
                        files.pop(next(iter(files))).close()
                    files[number] = (self.folder / FILE.format(number)).open("rb")
                files[number].seek(begin)
                yield label, files[number]
        finally:
            for file in files.values():
                file.close()

    def write_labels(
        self, out: SlabFile, names: tuple[str, ...], history: SlabFile, header: bytes = b""
    ) -> tuple[int, ScoreCounts]:
        """Write W and the numbers, named `names`, of all labels into a laid-out model file, and their texts after `header` into
        `history`; call `share_index` first. Collective.

        Return the first of this rank's labels, and the counts of the leave-one-out scores of them, empty if the file has none.
        """
        indptr, begins = offsets(self.index[:, 2]), offsets(self.index[:, 3]) + len(header)
        first, end = bounds_by_weight(indptr, self.comm.size)[self.comm.rank : self.comm.rank + 2].tolist()
        numbers, has_scores, cells = np.zeros((end - first, len(names))), "scores/indptr" in out.offsets, offsets(self.index[:, 4])
        scores: list[np.ndarray] = []
        written = [unpack_counts(b"")]

        def write_scores(label: int) -> None:  # those of the labels before it that are not written
            block = np.concatenate([written[0], *scores])
            for name in block.dtype.names or () if scores else ():
                out.write(f"scores/{name}", int(cells[label - len(scores)]), block[name])
            written.append(block)
            scores.clear()

        def read_rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            texts, begin = bytearray(), int(begins[first])
            for label, file in self._open_records(range(first, end)):
                stored_label, result = self._read_record(file)
                if stored_label != label or result is None:
                    raise DataError(f"{file.name}: damaged since it was written; continue with --resume")
                numbers[label - first] = result.numbers
                if has_scores:
                    scores.append(result.scores)
                if len(scores) == LABELS_WRITTEN:
                    write_scores(label + 1)
                texts += result.text
                if len(texts) >= TEXT or label == end - 1:
                    history.write_bytes(begin, texts)
                    texts, begin = bytearray(), int(begins[label + 1])
                yield result.columns, result.weights

        with mpi.agreed(self.comm, f"writing {out.target}"):
            if self.comm.rank == 0:
                history.write_bytes(0, header)
                if "W/indptr" in out.offsets:
                    out.write("W/indptr", 0, indptr)
                if has_scores:
                    out.write("scores/indptr", 0, cells)
            write_rows(out, read_rows(), first, int(indptr[first]))
            for name, column in zip(names, numbers.T, strict=True):
                out.write(name, first, column)
            write_scores(end)
            counts = np.concatenate(written)
        indptr = cells[first : end + 1] - cells[first] if has_scores else np.zeros(end - first + 1, np.int64)
        return first, ScoreCounts(indptr, *(np.ascontiguousarray(counts[name]) for name in ScoreCounts._fields[1:]))

    def _sizes(self, head: bytes) -> tuple[int, ...]:
        _, n_numbers, n_columns, n_weights, *n_bytes = _SIZES.unpack_from(head)
        return 8 * n_numbers, _COLUMN.itemsize * n_columns, self.weight_type.itemsize * n_weights, *n_bytes

"""The rows of a pass, piece by piece: a dataset's split, or svmlight text as it comes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import choose_labels
from hpcml.data.shard import Shard, slab_of, split_bounds, verify
from hpcml.data.svmlight import BINARY, SvmlightStream, TextRows, label_name
from hpcml.errors import DataError, OptionError
from hpcml.kernels import rows as kernels
from hpcml.methods.online.options import OnlineOptions
from hpcml.model.linear import Model
from hpcml.partition import offsets

PIECE_NNZ = 1 << 22  # values that are read of a dataset at a time
DIGEST_NNZ = 1 << 20  # values by which a dataset is known again: checkpoints hold the digest, so it stays
SHOWN = 10  # labels of a row that a message shows
LANES = 16  # labels of a rank that take no longer than a slice is meant to
Piece = tuple[Shard, np.ndarray]  # rows of the shard, in the order in which to learn from them


class RowStream:
    """Rows in order, the same on every rank; every rank sees all of them."""

    name: str
    path: str
    zero_based: bool = False  # whether it is text whose indices start at 0
    names: list[str]  # of the labels to train
    labels: np.ndarray  # their numbers in the pieces
    titles: list[str] | None = None  # of the labels to train, if they have any
    n_labels: int  # numbers of labels are below this
    n_features: int  # as far as known before the first row
    n_rows: int | None = None  # None: not known before the end
    vocabulary: str | None = None  # None: it depends on the width, known at the end
    fingerprint: str = ""  # of a dataset
    initial: Model | None = None  # that is continued
    split: str
    sizes: tuple[int, ...] = ()  # what two sources that are not the same hardly have in common
    digest: tuple[int, ...]  # of the rows: of a dataset's, or, where they cannot be looked at again, of those given so far
    expected: tuple[int, ...] | None = None  # what that must be when the pass goes on

    def pieces(self, begin: int) -> Iterator[Piece]:
        """Collective. The rows from number `begin` of the pass on, a short time's work each."""
        raise NotImplementedError


class DatasetSource(RowStream):
    """The rows of a dataset's split, in the file's order or shuffled."""

    def __init__(self, comm: mpi.Comm, dataset: DataFile, options: OnlineOptions) -> None:
        """Collective over `comm`. Raises ConfigError for a missing split or label, DataError."""
        self.comm, self.dataset, self.name, self.path = comm, dataset, str(dataset.path), str(dataset.path.resolve())
        self.n_features, self.n_labels, self.vocabulary = dataset.n_features, dataset.n_labels, dataset.vocabulary
        self.fingerprint = mpi.run_on_root(comm, f"reading {dataset.path}", lambda: dataset.fingerprint)
        self.split = options.split or default_split(dataset, "train")
        rows, bounds, n_positive, digest = None, None, None, None
        with mpi.agreed(comm, f"reading {dataset.path}"):
            if comm.rank == 0:
                rows = np.array(dataset.labelled_split(self.split))
                nnz = dataset.map("X/indptr")
                n_parts = 1 + int(nnz[rows[-1] + 1] - nnz[rows[0]]) // PIECE_NNZ if rows.size else 1
                bounds = split_bounds(dataset, rows, n_parts)
                # The rows that have each label.
                y_indptr, y_indices = dataset.map("Y/indptr"), dataset.map("Y/indices")
                if y_indices.size and not 0 <= y_indices.min() <= y_indices.max() < self.n_labels:
                    raise DataError(f"{self.name}: damaged dataset: Y/indices out of range; `hpcml info` says where")
                if rows.size and (y_indptr[0] != 0 or y_indptr[-1] != y_indices.size or (y_indptr[1:] < y_indptr[:-1]).any()):
                    raise DataError(f"{self.name}: damaged dataset: Y/indptr decreases; `hpcml info` says where")
                n_positive = np.zeros(self.n_labels, dtype=np.int64)
                kernels.count_labels(y_indptr, y_indices, rows, n_positive)
                # CRC-32 of the rows' numbers, of all sizes, of the first indices and values.
                parts = [dataset.map(name, 0, min(DIGEST_NNZ, dataset.nnz)) for name in ("X/indices", "X/data")]
                digest = tuple(zlib.crc32(np.ascontiguousarray(part).data) for part in (rows, dataset.map("X/indptr"), *parts))
        self.rows, self.bounds = mpi.bcast_array(comm, rows), mpi.bcast_array(comm, bounds)
        self.n_rows = self.rows.size
        self.digest = comm.bcast(digest)
        labels = zlib.crc32(dataset.map("Y/indices").data) if dataset.n_rows else 0
        self.sizes = (*dataset.sizes, self.n_rows, labels)
        self.labels, self.names = choose_labels(comm, dataset, options, n_positive)
        with mpi.agreed(comm, f"reading {dataset.path}"):
            if comm.rank == 0:  # who writes the model
                self.titles = dataset.label_titles(self.labels)
        self.order = np.argsort(rng.bits(options.seed, "shuffle", self.rows), kind="stable") if options.shuffle else None

    def pieces(self, begin: int) -> Iterator[Piece]:
        """Collective. See `RowStream`. Raises DataError for a damaged or changed file."""
        with mpi.agreed(self.comm, f"reading {self.name}"):
            whole = None if self.order is None else slab_of(self.dataset, self.rows, 0, self.rows.size)
            if whole is not None:
                verify(self.dataset, whole)
        for first, last in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            if last <= max(begin, first):
                continue
            first = max(begin, first)
            with mpi.agreed(self.comm, f"reading {self.name}"):
                if whole is None:
                    shard = slab_of(self.dataset, self.rows, first, last)
                    verify(self.dataset, shard)
                    rows = shard.rows
                else:
                    shard, rows = whole, whole.rows[self.order[first:last]]
                self.dataset.check_unchanged()
            n_values = int((shard.indptr[rows + 1] - shard.indptr[rows]).sum())
            for some in piece_slices(rows.size, n_values, len(self.names), self.comm.size):
                yield shard, rows[some]


class TextSource(RowStream):
    """The rows of svmlight text. Labels are known before the first row: those named, else ±1."""

    def __init__(self, comm: mpi.Comm, stream: SvmlightStream, path: str, options: OnlineOptions) -> None:
        """Raises ConfigError for options that only a dataset can follow."""
        for name, given in (("split", options.split), ("shuffle", options.shuffle), ("min_positives", options.min_positives > 1)):
            if given:
                why = "a stream has rows in one order only; convert the data first (`hpcml convert svmlight`)"
                raise OptionError(name, getattr(options, name), why)
        self.comm, self.stream, self.name, self.path = comm, stream, stream.name, path
        names: dict[str, None] = {}
        for label in options.label:
            try:
                names[label_name(float(label))] = None
            except (ValueError, OverflowError):
                raise OptionError("label", label, "the labels of svmlight text are numbers") from None
        self.names = list(names) or BINARY
        self.labels, self.n_labels = np.arange(len(self.names)), len(self.names)
        self.binary = not options.label
        self._number = {name: number for number, name in enumerate(self.names)}
        self.n_features, self.split, self.zero_based = 0, "all", options.zero_based
        self.digest = (0, 0, 0, 0)  # of the rows so far: CRC-32 of their sizes, indices, values, labels

    def pieces(self, begin: int) -> Iterator[Piece]:
        """Collective. See `RowStream`. Raises DataError for bad svmlight, labels but ±1, or other rows before `begin`."""
        passed = begin == 0
        for block in self.stream:
            n = max(0, min(begin - block.first_row, block.n_rows))
            self._note(block, 0, n)
            if not passed and block.first_row + n == begin:
                passed = True
                if self.digest != self.expected:
                    raise DataError(f"{self.name}: this run was started on other rows; resume with the same stream")
            if not passed:
                continue
            block = block.after(n)
            with mpi.agreed(self.comm, f"reading {self.name}"):
                y_indptr, y_indices = self._labels(block)
            self.n_features = max(self.n_features, int(block.indices.max(initial=-1)) + 1)
            rows = np.arange(block.indptr.size - 1)
            csr = (block.indptr, block.indices, block.data, y_indptr, y_indices)
            shard = Shard(block.first_row, rows, *csr, rows.size, 0, self.n_features, self.n_labels)
            for some in piece_slices(rows.size, block.data.size, len(self.names), self.comm.size):
                self._note(block, some.start, some.stop)
                yield shard, rows[some]
        if self.stream.n_rows < begin:
            raise DataError(f"{self.name}: ends after {self.stream.n_rows} rows, but the run had {begin} before")

    def _note(self, block: TextRows, begin: int, end: int) -> None:
        """Take rows begin..end of a block into the digest."""
        a, b, c, d = block.indptr[begin], block.indptr[end], block.y_indptr[begin], block.y_indptr[end]
        parts = (np.diff(block.indptr[begin : end + 1]), block.indices[a:b], block.data[a:b], block.labels[c:d])
        self.digest = tuple(
            zlib.crc32(np.ascontiguousarray(part).data, before) for part, before in zip(parts, self.digest, strict=True)
        )

    def _labels(self, block: TextRows) -> tuple[np.ndarray, np.ndarray]:
        """The label sets (indptr, numbers) of a block of rows."""
        if self.binary:
            sizes = np.diff(block.y_indptr)
            bad = np.flatnonzero(sizes != 1) if (sizes != 1).any() else np.flatnonzero(np.abs(block.labels) != 1)
            if bad.size:
                row = int(bad[0])
                some = block.labels[block.y_indptr[row] : min(block.y_indptr[row + 1], block.y_indptr[row] + SHOWN + 1)].tolist()
                found = ",".join([label_name(v) for v in some[:SHOWN]] + ["…"] * (len(some) > SHOWN))
                raise DataError(
                    f"{self.name}: row {block.first_row + row} (from 0) has the label {found or '(none)'}, but expected -1 or +1; "
                    "name each of other labels to train with --label"
                )
            numbers = np.where(block.labels > 0, 0, -1)
        else:
            values, places = np.unique(block.labels, return_inverse=True)
            numbers = np.array([self._number.get(label_name(v), -1) for v in values.tolist()], dtype=np.int64)[places]
        known = numbers >= 0
        before = offsets(known)
        return before[block.y_indptr], numbers[known].astype(np.int32)


def piece_slices(n_rows: int, n_values: int, n_labels: int, n_ranks: int) -> Iterator[slice]:
    """Slices of rows, shorter for more labels, the same on all ranks; of no rows an empty one."""
    lanes = -(-n_labels // n_ranks)
    return iter([slice(0, 0)]) if n_rows == 0 else slices.row_slices(n_rows, n_values * max(1, lanes // LANES))


def labels_of(names: Sequence[object] | np.ndarray, rank: int, size: int) -> np.ndarray:
    """The places in `names` of a rank's labels: consecutive, evenly many, most on the first."""
    return np.arange(-(-rank * len(names) // size), -(-(rank + 1) * len(names) // size))

"""The rows of a pass, piece by piece: the split of a dataset, or an svmlight stream."""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from hpcml import mpi, rng, slices
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.labels import choose_labels
from hpcml.data.shard import Shard, read_slab, split_bounds, verify
from hpcml.data.svmlight import BINARY, SvmlightStream, TextRows, label_name
from hpcml.errors import DataError, OptionError
from hpcml.kernels import rows as kernels
from hpcml.methods.online.options import OnlineOptions
from hpcml.model.linear import Model
from hpcml.partition import offsets

PIECE_NNZ = 1 << 22  # values read from a dataset at a time
MAX_SHOWN = 10  # labels of a row in an error message
LANES = 16  # labels of a rank for which a slice takes its intended time
Piece = tuple[Shard, np.ndarray]  # a shard, and its rows in the order to learn from


class RowStream:
    """Rows in order, the same on every rank; every rank reads all of them."""

    name: str
    path: str
    zero_based: bool = False  # svmlight indices start at 0
    names: list[str]  # of the labels to train
    labels: np.ndarray  # their numbers in the pieces
    titles: list[str] | None = None  # of the labels to train
    n_labels: int  # upper bound of label numbers
    n_features: int  # as known before the first row
    n_rows: int | None = None  # None: unknown until the end
    vocabulary: str | None = None  # None: depends on the width, known at the end
    fingerprint: str = ""  # of a dataset and its rows
    initial: Model | None = None  # model whose pass is continued
    split: str
    digest: tuple[int, ...] = ()  # of the rows of a stream so far
    expected: tuple[int, ...] | None = None  # digest at the point where a resumed pass continues

    def pieces(self, begin: int) -> Iterator[Piece]:
        """Yield the rows from number `begin` of the pass on, in pieces of short work. Collective."""
        raise NotImplementedError


class DatasetSource(RowStream):
    def __init__(self, comm: mpi.Comm, dataset: DataFile, options: OnlineOptions) -> None:
        """Raises ConfigError for a missing split or label, DataError. Collective over `comm`."""
        self.comm, self.dataset, self.name, self.path = comm, dataset, str(dataset.path), str(dataset.path.resolve())
        self.n_features, self.n_labels, self.vocabulary = dataset.n_features, dataset.n_labels, dataset.vocabulary
        self.split = options.split or split_or_all(dataset, "train")
        rows, bounds, n_positive = None, None, None
        with mpi.agreed(comm, f"reading {dataset.path}"):
            if comm.rank == 0:
                rows = np.array(dataset.labelled_split(self.split))
                nnz = dataset.map("X/indptr")
                n_parts = 1 + int(nnz[rows[-1] + 1] - nnz[rows[0]]) // PIECE_NNZ if rows.size else 1
                bounds = split_bounds(dataset, rows, n_parts)
                y_indptr, y_indices = dataset.map("Y/indptr"), dataset.map("Y/indices")
                if y_indices.size and not 0 <= y_indices.min() <= y_indices.max() < self.n_labels:
                    raise DataError(f"{self.name}: damaged dataset: Y/indices out of range; see `hpcml info`")
                if rows.size and (y_indptr[0] != 0 or y_indptr[-1] != y_indices.size or (y_indptr[1:] < y_indptr[:-1]).any()):
                    raise DataError(f"{self.name}: damaged dataset: Y/indptr decreases; see `hpcml info`")
                n_positive = np.zeros(self.n_labels, dtype=np.int64)
                kernels.count_labels(y_indptr, y_indices, rows, n_positive)
                self.fingerprint = f"{dataset.fingerprint} {zlib.crc32(rows.data)}"
        self.rows, self.bounds = mpi.bcast_array(comm, rows), mpi.bcast_array(comm, bounds)
        self.n_rows, self.fingerprint = self.rows.size, comm.bcast(self.fingerprint)
        self.labels, self.names = choose_labels(comm, dataset, options, n_positive)
        self.titles = mpi.run_on_root(comm, f"reading {dataset.path}", lambda: dataset.label_titles(self.labels))
        self.order = np.argsort(rng.bits(options.seed, "shuffle", self.rows), kind="stable") if options.shuffle else None

    def pieces(self, begin: int) -> Iterator[Piece]:
        with mpi.agreed(self.comm, f"reading {self.name}"):
            whole = None if self.order is None else read_slab(self.dataset, self.rows, 0, self.rows.size)
            if whole is not None:
                verify(self.dataset, whole)
        for first, last in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            if last <= max(begin, first):
                continue
            first = max(begin, first)
            with mpi.agreed(self.comm, f"reading {self.name}"):
                if whole is None:
                    shard = read_slab(self.dataset, self.rows, first, last)
                    verify(self.dataset, shard)
                    rows = shard.rows
                else:
                    shard, rows = whole, whole.rows[self.order[first:last]]
                self.dataset.check_unchanged()
            n_values = int((shard.indptr[rows + 1] - shard.indptr[rows]).sum())
            for part in piece_slices(rows.size, n_values, len(self.names), self.comm.size):
                yield shard, rows[part]


class TextSource(RowStream):
    """The rows of an svmlight stream. Its labels are those of the option --label, else −1 and +1."""

    def __init__(self, comm: mpi.Comm, stream: SvmlightStream, path: str, options: OnlineOptions) -> None:
        for name, is_given in (
            ("split", options.split),
            ("shuffle", options.shuffle),
            ("min_positives", options.min_positives > 1),
        ):
            if is_given:
                why = "not possible with a stream; convert the data first (hpcml convert svmlight)"
                raise OptionError(name, getattr(options, name), why)
        self.comm, self.stream, self.name, self.path = comm, stream, stream.name, path
        names: dict[str, None] = {}
        for label in options.label:
            try:
                names[label_name(float(label))] = None
            except (ValueError, OverflowError):
                raise OptionError("label", label, "expected a number, since svmlight labels are numbers") from None
        self.names = list(names) or BINARY
        self.labels, self.n_labels = np.arange(len(self.names)), len(self.names)
        self.binary = not options.label
        self._number = {name: number for number, name in enumerate(self.names)}
        self.n_features, self.split, self.zero_based = 0, "all", options.zero_based
        self.digest = (0, 0, 0, 0)  # CRC-32 of the sizes, indices, values and labels of the rows so far

    def pieces(self, begin: int) -> Iterator[Piece]:
        """Raises DataError for bad svmlight, unexpected labels, or other rows before `begin`."""
        passed = begin == 0
        for block in self.stream:
            n = max(0, min(begin - block.first_row, block.n_rows))
            self._update_digest(block, 0, n)
            if not passed and block.first_row + n == begin:
                passed = True
                if self.digest != self.expected:
                    raise DataError(f"{self.name}: this run was started on other rows; resume with the same stream")
            if not passed:
                continue
            block = block.after(n)
            with mpi.agreed(self.comm, f"reading {self.name}"):
                y_indptr, y_indices = self._label_sets(block)
            self.n_features = max(self.n_features, int(block.indices.max(initial=-1)) + 1)
            rows = np.arange(block.indptr.size - 1)
            csr = (block.indptr, block.indices, block.data, y_indptr, y_indices)
            shard = Shard(block.first_row, rows, *csr, rows.size, 0, self.n_features, self.n_labels)
            for part in piece_slices(rows.size, block.data.size, len(self.names), self.comm.size):
                self._update_digest(block, part.start, part.stop)
                yield shard, rows[part]
        if self.stream.n_rows < begin:
            raise DataError(f"{self.name}: ends after {self.stream.n_rows} rows, but this run has already read {begin} rows")

    def _update_digest(self, block: TextRows, begin: int, end: int) -> None:
        a, b, c, d = block.indptr[begin], block.indptr[end], block.y_indptr[begin], block.y_indptr[end]
        parts = (np.diff(block.indptr[begin : end + 1]), block.indices[a:b], block.data[a:b], block.labels[c:d])
        self.digest = tuple(
            zlib.crc32(np.ascontiguousarray(part).data, before) for part, before in zip(parts, self.digest, strict=True)
        )

    def _label_sets(self, block: TextRows) -> tuple[np.ndarray, np.ndarray]:
        if self.binary:
            sizes = np.diff(block.y_indptr)
            bad = np.flatnonzero(sizes != 1) if (sizes != 1).any() else np.flatnonzero(np.abs(block.labels) != 1)
            if bad.size:
                row = int(bad[0])
                labels = block.labels[block.y_indptr[row] : min(block.y_indptr[row + 1], block.y_indptr[row] + MAX_SHOWN + 1)]
                names = ",".join([label_name(v) for v in labels[:MAX_SHOWN].tolist()] + ["…"] * (labels.size > MAX_SHOWN))
                raise DataError(
                    f"{self.name}: row {block.first_row + row} (from 0) has the label {names or '(none)'}, but expected -1 or +1; "
                    "use --label to name the labels to train"
                )
            numbers = np.where(block.labels > 0, 0, -1)
        else:
            values, index = np.unique(block.labels, return_inverse=True)
            numbers = np.array([self._number.get(label_name(v), -1) for v in values.tolist()], dtype=np.int64)[index]
        known = numbers >= 0
        before = offsets(known)
        return before[block.y_indptr], numbers[known].astype(np.int32)


def piece_slices(n_rows: int, n_values: int, n_labels: int, n_ranks: int) -> Iterator[slice]:
    """Yield slices of rows, the same on all ranks and shorter for more labels; one empty slice without rows."""
    lanes = -(-n_labels // n_ranks)
    return iter([slice(0, 0)]) if n_rows == 0 else slices.row_slices(n_rows, n_values * max(1, lanes // LANES))


def local_labels(labels: Sequence[object] | np.ndarray, rank: int, size: int) -> np.ndarray:
    """Return the positions in `labels` of a rank's labels: equal consecutive ranges, larger ones first."""
    return np.arange(-(-rank * len(labels) // size), -(-(rank + 1) * len(labels) // size))

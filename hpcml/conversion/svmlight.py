"""svmlight: `label idx:value …`, or `l1,l2 idx:value …`; a row may have no label, `#` comments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpcml import mpi
from hpcml.conversion.label_sets import LabelColumns, waiting_label_sets
from hpcml.conversion.like import Like
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.part import Labels, Part
from hpcml.conversion.split import row_splits
from hpcml.data.svmlight import BINARY, Rows, as_text, check_lines, label_name, parse_text
from hpcml.errors import DataError
from hpcml.files.lines import byte_range, line_blocks, line_limit, lines_before
from hpcml.files.spool import Spool
from hpcml.log import Log


class _ReadRows:
    """This rank's rows, which grow by blocks and wait outside of memory: X and the labels of
    each row as CSR. Local.
    """

    def __init__(self, scratch: Path, n_features: int | None) -> None:
        """Values of features from `n_features` on are dropped, and counted."""
        self.n_features, self.width, self.dropped, self.single = n_features, 0, 0, True
        self.indptr, self.indices, self.data = Spool(scratch, np.int64), Spool(scratch, np.int32), Spool(scratch, np.float32)
        self.label_indptr, self.labels = Spool(scratch, np.int64), Spool(scratch, np.float64)
        self.values = np.empty(0)  # of the labels, each once, ascending
        for ends in (self.indptr, self.label_indptr):
            ends.append(np.zeros(1, dtype=np.int64))

    @property
    def n_rows(self) -> int:
        """The number of rows so far."""
        return self.indptr.size - 1

    def add(self, rows: Rows) -> None:
        """Append a block of rows. Raises OSError."""
        lengths, indices, data = rows.lengths, rows.indices, rows.data
        if self.n_features is not None and rows.width > self.n_features:
            keep = indices < self.n_features
            self.dropped += int(keep.size - np.count_nonzero(keep))
            of = np.repeat(np.arange(lengths.size), lengths)[keep]
            lengths, indices, data = np.bincount(of, minlength=lengths.size), indices[keep], data[keep]
        self.width = max(self.width, rows.width)
        self.single &= bool((rows.label_lengths == 1).all())
        self.indptr.append(self.indices.size + np.cumsum(lengths))
        self.label_indptr.append(self.labels.size + np.cumsum(rows.label_lengths))
        self.indices.append(indices)
        self.data.append(data)
        self.labels.append(rows.labels)
        self.values = np.union1d(self.values, rows.labels)


@mpi.collective
def read_svmlight(comm: mpi.Comm, inputs: list[Path], options: ConvertOptions, like: Like | None, log: Log, scratch: Path) -> Part:
    """Collective over `comm`. Read this rank's lines. Raises DataError that names the line."""
    (path,) = inputs
    max_line = line_limit(options.max_line_mb)
    begin, end = byte_range(comm, path)
    with mpi.agreed(comm, f"reading {path}"):
        columns = _ReadRows(scratch, None if like is None else like.n_features)
        for rows in _read(path, begin, end, options.zero_based, max_line):
            columns.add(rows)
    n_features = int(mpi.allreduce_max(comm, columns.width)) if like is None else like.n_features
    labels = _labels(comm, columns, like, scratch)
    split_names, split = row_splits(comm, columns.n_rows, None, options)
    log(f"{path}: read")
    return Part(
        indptr=columns.indptr,
        indices=columns.indices,
        data=columns.data,
        labels=labels,
        n_features=n_features,
        split_names=split_names,
        split=split,
        dropped=columns.dropped,
    )


def _read(path: Path, begin: int, end: int, zero_based: bool, max_line: int) -> Iterator[Rows]:
    """The rows of the lines that start in bytes begin..end. Raises DataError, OSError."""
    for offset, block in line_blocks(path, begin, end, max_line=max_line):
        try:
            rows = parse_text(as_text(block), zero_based)
            if (rows.labels != np.floor(rows.labels)).any():
                line, label = _fraction(block)
                raise DataError(
                    f"{path}: line {lines_before(path, offset) + line}: label {label}, but labels are whole numbers, which name "
                    "classes; what this file has to predict is a quantity: make classes of it"
                )
            yield rows
        except (ValueError, OverflowError) as error:
            line, problem = check_lines(block, zero_based)
            first = lines_before(path, offset)
            if line:
                raise DataError(f"{path}: line {first + line}: {problem}") from None
            last = first + block.count(b"\n")
            raise DataError(
                f"{path}: lines {first + 1} to {last}: not svmlight ({error}); expected `label index:value ...`"
            ) from None


def _fraction(block: bytes) -> tuple[int, str]:
    """(line in the block, label) of the first label that is no whole number."""
    for number, line in enumerate(block.split(b"\n")):
        labels, *_ = line.partition(b"#")[0].split() or [b""]
        for label in labels.split(b",") if labels and b":" not in labels else ():
            if not float(label).is_integer():
                return number + 1, label.decode("ascii", "backslashreplace")
    raise ValueError("no label is a fraction")


@mpi.collective
def _labels(comm: mpi.Comm, rows: _ReadRows, like: Like | None, scratch: Path) -> Labels:
    """Collective over `comm`. The label sets: one column "1" if every row is -1 or +1, or 0 or
    1, else a column for each number.
    """
    single = not mpi.agreed_any(comm, not rows.single)
    everything = np.unique(np.concatenate(mpi.allgather_arrays(comm, rows.values)))
    binary = single and everything.tolist() in ([-1.0, 1.0], [0.0, 1.0])
    if binary if like is None else like.label_names == BINARY:
        everything = everything[~np.isin(everything, (-1, 0))]  # these say that a row is not in the class
    columns = LabelColumns([label_name(label) for label in everything.tolist()], like)
    places = columns.of(label_name(label) for label in rows.values.tolist())
    with mpi.agreed(comm, "dividing the rows by labels"):
        return waiting_label_sets(
            columns, rows.label_indptr, rows.labels, lambda values: places[np.searchsorted(rows.values, values)], scratch
        )

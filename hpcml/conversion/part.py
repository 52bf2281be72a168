"""The result of a source, for the writer: this rank's rows, and the columns, equal on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpcml.conversion.split import RowSplits
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import UNKNOWN
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import Spool, StringSpool


class WaitingRows:
    """Rows that grow at their end and wait outside of memory: CSR arrays. Local; raises OSError."""

    def __init__(self, scratch: Path, dtype: type = np.int64, with_data: bool = False) -> None:
        self.scratch, self.indptr, self.indices = scratch, Spool(scratch, np.int64), Spool(scratch, dtype)
        self.data = Spool(scratch, np.float32) if with_data else None
        self.indptr.append(np.zeros(1, dtype=np.int64))

    @property
    def n_rows(self) -> int:
        """The number of rows so far."""
        return self.indptr.size - 1

    def add(self, lengths: np.ndarray, indices: np.ndarray, data: np.ndarray | None = None) -> None:
        """Append rows of so many entries."""
        self.indptr.append(self.indices.size + np.cumsum(lengths))
        self.indices.append(indices)
        if self.data is not None and data is not None:
            self.data.append(data)


class RowIds:
    """This rank's row ids, or lines: `len`, and slices as lists; outside of memory. Local."""

    def __init__(self, scratch: Path) -> None:
        self.ids, self.lines = StringSpool(scratch), Spool(scratch, np.int64)
        self.lines_above = 0  # of this rank's, in the file

    def __len__(self) -> int:
        return self.lines.size

    def extend(self, ids: Sequence[str], lines: Sequence[int]) -> None:
        """Append ids ("": none) and lines, from 0, of this rank's lines. Raises OSError."""
        self.ids.extend([row_id.encode() for row_id in ids])
        self.lines.append(np.array(lines, dtype=np.int64))

    def __getitem__(self, where: slice) -> list[str]:
        lines = self.lines[where] + self.lines_above + 1
        return [row_id or str(line) for row_id, line in zip(self.ids[where], lines.tolist(), strict=True)]


@dataclass
class Labels:
    """The label sets of this rank's rows (CSR, no values); `unknown`: of labels --like lacks."""

    names: list[str]
    indptr: np.ndarray | Spool
    indices: np.ndarray | Spool
    unknown: Labels | None = None

    @property
    def sets(self) -> dict[str, Labels]:
        """The label sets by the name of their matrix in the dataset."""
        return {"Y": self} | ({} if self.unknown is None else {UNKNOWN: self.unknown})


@dataclass
class Part:
    """This rank's rows (without `data` their values are 1), and what is known of them.

    `row_numbers` are other numbers of this rank's rows, by name; the dataset keeps them in its
    group `rows`. Everything but the rows, their numbers and `dropped` is the same on all ranks.
    """

    rows: WaitingRows  # of X
    labels: Labels
    n_features: int
    splits: RowSplits
    keys: np.ndarray  # (n_rows) uint64: see hpcml.data.row_keys
    groups: np.ndarray | None = None  # (n_rows) uint64: the key of each row's group
    row_ids: RowIds | None = None
    feature_names: Strings | None = None
    text: TextSettings | None = None
    label_titles: Sequence[str] | None = None  # what people call the labels, "" for none; None: the source does not tell
    row_numbers: dict[str, np.ndarray] = field(default_factory=dict)
    dropped: int = 0  # svmlight: values, text: occurrences of words, that --like does not know

"""The result of a source, for the writer: this rank's rows, and the columns, equal on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hpcml.conversion.row_ids import RowIds
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import UNKNOWN
from hpcml.files.hdf5 import Strings
from hpcml.files.spool import Spool


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
    """This rank's rows, CSR (`data` None: ones); `split` are places in `split_names`, -1 for none.

    `row_numbers` are other numbers of this rank's rows, by name; the dataset keeps them in its
    group `rows`. Everything but the rows, their numbers and `dropped` is the same on all ranks.
    """

    indptr: np.ndarray | Spool
    indices: np.ndarray | Spool
    data: np.ndarray | Spool | None
    labels: Labels
    n_features: int
    split_names: list[str]
    split: np.ndarray
    row_ids: RowIds | None = None
    feature_names: Strings | None = None
    text: TextSettings | None = None
    label_titles: Sequence[str] | None = None  # what people call the labels, "" for none; None: the source does not tell
    row_numbers: dict[str, np.ndarray] = field(default_factory=dict)
    dropped: int = 0  # svmlight: values, text: occurrences of words, that --like does not know

    @property
    def n_rows(self) -> int:
        """The number of this rank's rows."""
        return self.indptr.size - 1

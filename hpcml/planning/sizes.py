"""How large a training is: from a dataset, or from numbers and the laws of words and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcml import mpi, slices
from hpcml.data.dataset import DataFile, default_split
from hpcml.data.labels import choose_labels, count_positives
from hpcml.data.shard import load_shard
from hpcml.errors import OptionError
from hpcml.kernels import rows as kernels

EXPONENT, SHIFT = 1.14, 8.0  # of the law of words: the share of rank j is in proportion to (j + 8)^-1.14
LABEL_EXPONENT, LABEL_SHIFT, TOP_SHARE = 1.2, 4.0, 0.3  # of the law of labels; the share of the rows with the most frequent one
VALUES_PER_ROW = 70.0
PARTS = 1024  # ranges of ranks over which the law of words is summed up
LARGEST = 1 << 50  # words of a law
LAWS = (
    f"labels by Zipf's law: the share of label k is in proportion to (k + {LABEL_SHIFT:g})^-{LABEL_EXPONENT}, "
    f"the first one has {100 * TOP_SHARE:g} % of the rows",
    f"words by Zipf's law, (k + {SHIFT:g})^-{EXPONENT}, of so many that all features are used",
)


@dataclass(frozen=True)
class Sizes:
    """Of the rows to train on, and of the labels to train."""

    n_rows: int
    n_features: int
    n_values: int  # of the file's rows
    n_columns: int  # that have a weight, if features of one row share a column
    n_used: int  # features that some row has
    n_positive: np.ndarray  # (labels) int64: rows of each label that is to be trained
    n_pairs: int = 0  # of a row and a label

    @property
    def n_trained(self) -> int:
        """Labels that have positive and negative rows."""
        return int(np.count_nonzero((self.n_positive > 0) & (self.n_positive < self.n_rows)))


def sizes_of(comm: mpi.Comm, path: Path, options: Any) -> Sizes:
    """Collective over `comm`. Of the chosen rows and labels; raises as training."""
    with mpi.agreed(comm, f"opening {path}"):
        dataset = DataFile(path)
    with dataset:
        split = options.split or default_split(dataset, "train")
        shard = load_shard(comm, dataset, split)
        positive = count_positives(comm, shard)
        labels, _ = choose_labels(comm, dataset, options, positive)
        with mpi.agreed(comm, "making room for the features"):
            largest, counts = np.zeros(shard.n_features, np.float32), np.zeros(shard.n_features, np.int32)
            smallest, lonely = np.full(1, np.inf, np.float32), 0
        parts = list(slices.row_slices(shard.n_local, shard.indices.size))
        for some in parts:
            kernels.column_extremes(shard.indptr, shard.indices, shard.data, shard.rows[some], largest, counts, smallest)
        mpi.allreduce_sum(comm, counts)
        column_of = np.where(counts > 1, 0, np.where(counts == 1, kernels.FOLDED, kernels.ABSENT)).astype(np.int32)
        for some in parts:  # rows that have a feature of their own, whose column they get
            sizes, squares, folded = np.zeros(some.stop - some.start, np.int64), *np.zeros((2, some.stop - some.start))
            kernels.row_sizes(shard.indptr, shard.indices, shard.data, shard.rows[some], column_of, sizes, squares, folded)
            lonely += int(np.count_nonzero(folded))
        n_values = int((shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum())
        n_values, lonely = mpi.allreduce_sum(comm, np.array([n_values, lonely])).tolist()
        with mpi.agreed(comm, f"reading {path}"):
            dataset.check_unchanged()
        used, single = int(np.count_nonzero(counts)), int(np.count_nonzero(counts == 1))
        return Sizes(
            n_rows=shard.n_global,
            n_features=dataset.n_features,
            n_values=n_values,
            n_columns=used - single + lonely,
            n_used=used,
            n_positive=positive[labels],
            n_pairs=int(positive.sum()),
        )


def sizes_of_classes(comm: mpi.Comm, path: Path, split: str | None) -> Sizes:
    """Collective over `comm`. Of the rows of a split, for one classifier of all classes."""
    with mpi.agreed(comm, f"opening {path}"), DataFile(path) as dataset:
        n_rows = len(dataset.labelled_split(split or default_split(dataset, "train")))
        n, d = dataset.nnz, dataset.n_features
        return Sizes(n_rows, d, n, n_columns=d, n_used=d, n_positive=np.zeros(dataset.n_labels, np.int64))


def sizes_from(n_rows: int, n_features: int, n_labels: int, values_per_row: float | None) -> Sizes:
    """Of rows that nobody has yet, by the laws in `LAWS`. Raises OptionError."""
    wanted = VALUES_PER_ROW if values_per_row is None else values_per_row
    if not 0 < wanted <= n_features:
        raise OptionError("values_per_row", wanted, f"expected a number above 0, and at most the number of features, {n_features}")
    low, high = n_features, min(LARGEST, 2 * n_features)  # words that there are, of which so many are seen
    while words_of(n_rows, high, wanted).used < n_features and high < LARGEST:
        low, high = high, min(LARGEST, 2 * high)
    while high > 1.001 * low:
        middle = math.isqrt(low * high)
        low, high = (middle, high) if words_of(n_rows, middle, wanted).used < n_features else (low, middle)
    found = words_of(n_rows, high, wanted)
    k = np.arange(n_labels)
    positive = np.maximum(1, np.rint(n_rows * TOP_SHARE * ((k + LABEL_SHIFT) / LABEL_SHIFT) ** -LABEL_EXPONENT)).astype(np.int64)
    return Sizes(
        n_rows=n_rows,
        n_features=n_features,
        n_values=round(n_rows * wanted),
        n_columns=round(found.columns),
        n_used=min(n_features, round(found.used)),
        n_positive=np.minimum(positive, n_rows),
        n_pairs=int(positive.sum()),
    )


class Words(NamedTuple):
    """Numbers of words in rows: `used` by any, and columns if a single row's words share one."""

    used: float
    columns: float


def words_of(n_rows: int, n_words: int, per_row: float) -> Words:
    """Expected, if each row has `per_row` different words of a law of `n_words`."""
    # Ranges of ranks, ever wider: their middles and widths.
    ends = np.unique(np.concatenate([np.arange(min(n_words, 64)), np.geomspace(1, n_words, PARTS).astype(np.int64), [0, n_words]]))
    ranks, widths = (ends[:-1] + ends[1:] - 1) / 2, np.diff(ends).astype(np.float64)
    shares = (ranks + SHIFT) ** -EXPONENT  # of a draw, of each of a part's words
    shares /= (widths * shares).sum()
    # How many draws give so many different words.
    low, high = per_row, per_row
    while (widths * -np.expm1(-high * shares)).sum() < per_row and high < 1e12:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (widths * -np.expm1(-middle * shares)).sum() < per_row else (low, middle)
    present = -np.expm1(-high * shares)  # of a row, with each word
    rows = n_rows * present
    used, single = float((widths * -np.expm1(-rows)).sum()), float((widths * rows * np.exp(-rows)).sum())
    return Words(used, used - single - n_rows * math.expm1(-single / n_rows))

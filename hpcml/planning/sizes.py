"""The size of a training, from a dataset, or from numbers and statistical laws of words and labels."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcml import mpi
from hpcml.data.compact import feature_values, map_columns
from hpcml.data.dataset import DataFile, split_or_all
from hpcml.data.labels import choose_labels, count_positives
from hpcml.data.shard import load_shard
from hpcml.errors import OptionError

EXPONENT, SHIFT = 1.14, 8.0  # law of words: the share of word j is proportional to (j + 8)^-1.14
LABEL_EXPONENT, LABEL_SHIFT, TOP_SHARE = 1.2, 4.0, 0.3  # law of labels, and the share of rows with the most frequent label
VALUES_PER_ROW = 70.0
PARTS = 1024  # ranges of words over which the law is summed
MAX_WORDS = 1 << 50
LAWS = (
    f"labels by Zipf's law: the share of label k is proportional to (k + {LABEL_SHIFT:g})^-{LABEL_EXPONENT}, "
    f"the most frequent label has {100 * TOP_SHARE:g} % of the rows",
    f"words by Zipf's law, (k + {SHIFT:g})^-{EXPONENT}; the number of words is chosen so that all features occur",
)


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    n_features: int
    n_values: int  # of the file's rows
    n_columns: int  # columns with a weight; features of a single row share one
    n_used: int  # features that occur in a row
    n_positive: np.ndarray  # (labels) int64: positive rows of each label to train
    n_pairs: int = 0  # row-label pairs

    @property
    def n_trained(self) -> int:
        return int(np.count_nonzero((self.n_positive > 0) & (self.n_positive < self.n_rows)))


def read_sizes(comm: mpi.Comm, path: Path, options: Any) -> Sizes:
    """Return the sizes of the chosen rows and labels. Raises the errors of training. Collective over `comm`."""
    with mpi.agreed(comm, f"opening {path}"):
        dataset = DataFile(path)
    with dataset:
        shard = load_shard(comm, dataset, options.split or split_or_all(dataset, "train"))
        positive = count_positives(comm, shard)
        labels, _ = choose_labels(comm, dataset, options, positive)
        counts = feature_values(comm, shard).counts
        columns, *_ = map_columns(comm, shard, counts)
        n_values = int(mpi.allreduce_sum(comm, (shard.indptr[shard.rows + 1] - shard.indptr[shard.rows]).sum(keepdims=True))[0])
        with mpi.agreed(comm, f"reading {path}"):
            dataset.check_unchanged()
        return Sizes(
            n_rows=shard.n_global,
            n_features=dataset.n_features,
            n_values=n_values,
            n_columns=columns.n_shared + columns.n_folds,
            n_used=int(np.count_nonzero(counts)),
            n_positive=positive[labels],
            n_pairs=int(positive.sum()),
        )


def read_class_sizes(comm: mpi.Comm, path: Path, split: str | None) -> Sizes:
    with mpi.agreed(comm, f"opening {path}"), DataFile(path) as dataset:
        n_rows = len(dataset.labelled_split(split or split_or_all(dataset, "train")))
        n, d = dataset.nnz, dataset.n_features
        return Sizes(n_rows, d, n, n_columns=d, n_used=d, n_positive=np.zeros(dataset.n_labels, np.int64))


def estimate_sizes(n_rows: int, n_features: int, n_labels: int, values_per_row: float | None) -> Sizes:
    """Return the sizes of data that do not exist yet, by the laws in `LAWS`. Raises OptionError."""
    per_row = VALUES_PER_ROW if values_per_row is None else values_per_row
    if not 0 < per_row <= n_features:
        raise OptionError("values_per_row", per_row, f"expected a number above 0 and at most the number of features, {n_features}")
    low, high = n_features, min(MAX_WORDS, 2 * n_features)  # bounds of the number of words of which n_features occur
    while expected_words(n_rows, high, per_row)[0] < n_features and high < MAX_WORDS:
        low, high = high, min(MAX_WORDS, 2 * high)
    while high > 1.001 * low:
        middle = math.isqrt(low * high)
        low, high = (middle, high) if expected_words(n_rows, middle, per_row)[0] < n_features else (low, middle)
    used, columns = expected_words(n_rows, high, per_row)
    k = np.arange(n_labels)
    positive = np.maximum(1, np.rint(n_rows * TOP_SHARE * ((k + LABEL_SHIFT) / LABEL_SHIFT) ** -LABEL_EXPONENT)).astype(np.int64)
    return Sizes(
        n_rows=n_rows,
        n_features=n_features,
        n_values=round(n_rows * per_row),
        n_columns=round(columns),
        n_used=min(n_features, round(used)),
        n_positive=np.minimum(positive, n_rows),
        n_pairs=int(positive.sum()),
    )


def expected_words(n_rows: int, n_words: int, per_row: float) -> tuple[float, float]:
    """Return the expected numbers of words that occur and of columns (words of a single row share one).

    Each row has `per_row` different words, drawn by the law of `n_words` words.
    """
    # Ranges of words of increasing width: their centres and widths.
    ends = np.unique(np.concatenate([np.arange(min(n_words, 64)), np.geomspace(1, n_words, PARTS).astype(np.int64), [0, n_words]]))
    centres, widths = (ends[:-1] + ends[1:] - 1) / 2, np.diff(ends).astype(np.float64)
    shares = (centres + SHIFT) ** -EXPONENT  # probability that a draw gives a word of the range
    shares /= (widths * shares).sum()
    # Number of draws that gives `per_row` different words.
    low, high = per_row, per_row
    while (widths * -np.expm1(-high * shares)).sum() < per_row and high < 1e12:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (widths * -np.expm1(-middle * shares)).sum() < per_row else (low, middle)
    rows = n_rows * -np.expm1(-high * shares)  # with each word
    used, single = float((widths * -np.expm1(-rows)).sum()), float((widths * rows * np.exp(-rows)).sum())
    return used, used - single - n_rows * math.expm1(-single / n_rows)

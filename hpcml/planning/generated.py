"""Rows like text, to measure kernels on: words by Zipf's law, half of the rows short."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hpcml import mpi
from hpcml.data.compact import CompactRows
from hpcml.partition import offsets

EXPONENT, SHIFT = 1.14, 8.0  # of the law of words: the share of rank j is in proportion to (j + 8)^-1.14
SHORT, LONG = 24, 104  # values of a row
FREQUENT, N_FREQUENT, N_RARE = 0.3, 16, 16  # the share of rows with a frequent label; labels of each kind
RARE = 1e-3
FEWER = 8  # times fewer rows


@dataclass(frozen=True)
class GeneratedRows:
    """The rows, and fewer of them with the same columns."""

    rows: CompactRows
    fewer: CompactRows


def words(uniform: np.ndarray, size: int) -> np.ndarray:
    """The ranks of words (int32), below `size`, for numbers uniform in [0, 1)."""
    power = 1 - EXPONENT
    total = (size + SHIFT) ** power - SHIFT**power
    return np.minimum((uniform * total + SHIFT**power) ** (1 / power) - SHIFT, size - 1).astype(np.int32)


def generate(n_rows: int, n_columns: int, seed: int = 0) -> GeneratedRows:
    """Short and long rows in turn, on labels that have nothing to do with their words."""
    random = np.random.default_rng([seed, n_rows, n_columns])
    lengths = np.where(np.arange(n_rows) % 2 == 0, SHORT, LONG)
    indptr = offsets(lengths)
    indices = words(random.random(int(indptr[-1])), n_columns)
    data = (1 / np.sqrt(np.repeat(lengths, lengths))).astype(np.float32)
    shares = np.repeat([FREQUENT, RARE], [N_FREQUENT, N_RARE])
    label_rows = [np.flatnonzero(random.random(n_rows) < share) for share in shares]

    def first(n: int) -> CompactRows:
        lists, end = [each[each < n] for each in label_rows], indptr[n]
        sizes = np.array([each.size for each in lists])
        return CompactRows(
            comm=mpi.self_comm(),
            first=0,
            n_global=n,
            n_labels=shares.size,
            n_features=n_columns,
            n_columns=n_columns,
            bias=False,
            indptr=indptr[: n + 1],
            indices=indices[:end],
            data=data[:end],
            label_indptr=offsets(sizes),
            label_rows=np.concatenate(lists),
            counts=np.bincount(indices[:end], minlength=n_columns).astype(np.int32),
            largest=np.full(n_columns, 1 / math.sqrt(SHORT), np.float32),
            smallest=1 / math.sqrt(LONG),
            max_norm=1.0 + 1e-6,
            scale=1.0,
            n_positive=sizes,
        )

    return GeneratedRows(first(n_rows), first(n_rows // FEWER))

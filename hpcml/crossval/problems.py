"""What is cross-validated: labels of dataset files, their rows, and which rows are in which fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hpcml.data.dataset import Dataset
from hpcml.data.headings import find_headings
from hpcml.data.shard import Shard, read_rows, rows_of, slab_of
from hpcml.errors import ConfigError, DataError, nearest
from hpcml.rng import bits

BLOCK_ROWS = 1 << 16  # that are read at a time to look for what methods refuse


@dataclass(frozen=True)
class CvProblem:
    """Some labels of one file, each to be told from all others; the result is the mean over them."""

    path: Path
    split: str
    label: str | None  # the one that was asked for; None: the file's
    labels: list[str]
    numbers: np.ndarray  # (n_labels,) of those labels in the file
    n_positive: np.ndarray  # (n_labels,) rows that have each
    n_left_out: int  # labels of the file that have too few rows
    n_rows: int
    n_features: int
    nnz: int

    @property
    def source(self) -> tuple[Path, str]:
        """What problems have in common whose rows are the same."""
        return self.path, self.split

    def named(self, number: int) -> str:
        """One of the labels, for messages."""
        return f"{self.path}, label {self.labels[number]!r}"


class Loaded:
    """The rows of a problem in memory: X (csr, float32), the label sets Y (csc), and the rows' numbers in the file."""

    def __init__(self, problem: CvProblem) -> None:
        """The rows of its file. Local; raises DataError, MemoryError, OSError."""
        with Dataset(problem.path) as dataset:
            self.source = problem.source
            self.rows = np.array(dataset.split(problem.split))
            self.X = read_rows(dataset, self.rows, dense=False)
            self.Y = _label_sets(slab_of(dataset, self.rows, 0, self.rows.size)).tocsc()
            self.headings = find_headings(dataset)
            dataset.check_unchanged()
        if (*self.X.shape, self.X.nnz) != (problem.n_rows, problem.n_features, problem.nnz):
            raise DataError(f"{problem.path}: the file was changed while it was in use; restore it, or wait until it is complete")

    def rows_for(self, label: int, rows: np.ndarray) -> sp.csr_matrix:
        """Some rows (positions) of X, without the heading that says whether they have the label."""
        X = self.X[rows]
        own = -1 if self.headings is None else int(self.headings.own[label])
        if own >= 0:
            X.data[X.indices == own] = 0
            X.eliminate_zeros()
        return X

    def has(self, label: int) -> np.ndarray:
        """1 for the rows that have the label with this number, else 0 (n_rows, int64)."""
        out = np.zeros(self.rows.size, dtype=np.int64)
        out[self.Y.indices[self.Y.indptr[label] : self.Y.indptr[label + 1]]] = 1
        return out


def _label_sets(slab: Shard) -> sp.csr_matrix:
    """The label sets of a slab's rows (n_local × n_labels)."""
    ones = np.ones(slab.y_indices.size, dtype=np.float32)
    return rows_of((slab.y_indptr, slab.y_indices, ones), slab.rows, slab.n_labels, dense=False)


def read_problem(path: Path, label: str | None, only: Sequence[str], split: str, folds: int, refusing: Sequence[str]) -> CvProblem:
    """What is to be known of a file before its rows are read: its labels (`label`, or those of `only`, or all) and sizes.

    Labels that fewer than `folds` rows have, or have not, are left out unless they were asked for. Local. Raises ConfigError for
    an unknown label or one with too few rows, and for a negative value if some methods (`refusing`) take none; DataError for a
    damaged file.
    """
    with Dataset(path) as dataset:
        rows, names = dataset.split(split), dataset.label_names()
        slab = slab_of(dataset, rows, 0, rows.size)
        nnz = int((slab.indptr[slab.rows + 1] - slab.indptr[slab.rows]).sum())
        counts = np.bincount(_label_sets(slab).indices, minlength=dataset.n_labels)
        enough = np.minimum(counts, rows.size - counts) >= folds
        asked = [_number(path, names, name) for name in dict.fromkeys(only if label is None else [label])]
        for number in asked:
            if not enough[number]:
                found = f"{counts[number]} rows with the label {names[number]!r} and {rows.size - counts[number]} without it"
                raise ConfigError(f"{path}: {folds} folds need at least {folds} rows of each class, but there are {found}")
        numbers = np.array(asked, dtype=np.int64) if asked else np.flatnonzero(enough)
        if not numbers.size:
            raise ConfigError(f"{path}: no label has {folds} rows with it and {folds} without it, as {folds} folds need")
        if refusing:
            _check_signs(dataset, rows, refusing)
        return CvProblem(
            path=path,
            split=split,
            label=label,
            labels=[names[number] for number in numbers],
            numbers=numbers,
            n_positive=counts[numbers],
            n_left_out=0 if asked else dataset.n_labels - numbers.size,
            n_rows=rows.size,
            n_features=dataset.n_features,
            nnz=nnz,
        )


def _number(path: Path, names: list[str], name: str) -> int:
    """The number of a label. Raises ConfigError."""
    if name not in names:
        raise ConfigError(f"{path}: no label {name!r}; {nearest(name, names, 'hpcml info')}")
    return names.index(name)


def _check_signs(dataset: Dataset, rows: np.ndarray, refusing: Sequence[str]) -> None:
    """Raise ConfigError for a negative value, now and not after hours."""
    for begin in range(0, rows.size, BLOCK_ROWS):
        X = read_rows(dataset, rows[begin : begin + BLOCK_ROWS], dense=False)
        below = np.flatnonzero(X.data < 0)
        if below.size:
            row = int(rows[begin + np.searchsorted(X.indptr, below[0], "right") - 1])
            found = f"row {row} (from 0) has the value {X.data[below[0]]:g}, but negative values are refused by"
            raise ConfigError(f"{dataset.path}: {found} {', '.join(refusing)}; leave these methods out, or shift the feature")


def folds_of(seed: int, rows: np.ndarray, has: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n_rows, 0 .. n_folds − 1) of each row, drawn by its number in the file; `has` is its class.

    The rows of each class are dealt out in turn, in the order of their random bits, so that folds differ by at most one row, and
    by at most one row of each class (stratified).
    """
    order = np.lexsort((rows, bits(seed, "fold", rows), has))
    fold = np.empty(rows.size, dtype=np.int64)
    fold[order] = np.arange(rows.size) % n_folds
    return fold


def training_order(seed: int, rows: np.ndarray) -> np.ndarray:
    """An order (positions in `rows`) drawn by the rows' numbers: single-pass learners depend on it, and files may be sorted."""
    return np.lexsort((rows, bits(seed, "order", rows)))

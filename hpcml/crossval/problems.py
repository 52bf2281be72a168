"""The problems of a cross-validation: labels of dataset files, and their rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.crossval.options import CvOptions
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.headings import find_headings
from hpcml.data.row_keys import draw_keys, groups_of
from hpcml.data.scaling import warn_about_scales
from hpcml.data.shard import Shard, mask_empty_rows, mask_empty_texts, read_rows, read_slab, rows_of
from hpcml.errors import ConfigError, nearest
from hpcml.files.hdf5 import changed_file_error
from hpcml.log import Log

BLOCK_ROWS = 1 << 16  # rows per block when checking for negative values


@dataclass(frozen=True)
class CvProblem:
    """Labels of a file, each classified against all others; the result is the mean over the labels."""

    path: Path
    split: str
    label: str | None  # as given on the command line; None: the labels of the file
    labels: list[str]
    numbers: np.ndarray  # (n_labels,) of these labels in the file
    n_positive: np.ndarray  # (n_labels,)
    n_left_out: int  # labels of the file with too few rows
    n_rows: int
    n_features: int
    nnz: int
    n_unlabelled: int = 0  # rows of the split that are skipped
    n_empty: int = 0  # rows of text without a known feature: no label is predicted for them


class LoadedProblem:
    """A problem's rows in memory: X (csr, float32), label sets Y (csc), row numbers in the file."""

    def __init__(self, problem: CvProblem) -> None:
        with DataFile(problem.path) as dataset:
            self.source = problem.path, problem.split
            self.rows = np.array(dataset.labelled_split(problem.split))
            self.X = read_rows(dataset, self.rows, dense=False)
            self.empty = mask_empty_rows(dataset, np.diff(self.X.indptr))  # mask of the rows without a predicted label
            self.Y = _read_label_sets(read_slab(dataset, self.rows, 0, self.rows.size)).tocsc()
            self.headings = find_headings(dataset)
            self.keys, self.row_keys = draw_keys(dataset, self.rows), np.array(dataset.map("row_keys"))[self.rows]
            dataset.check_unchanged()
        if (*self.X.shape, self.X.nnz) != (problem.n_rows, problem.n_features, problem.nnz):
            raise changed_file_error(problem.path)

    def rows_for(self, label: int, rows: np.ndarray) -> sp.csr_matrix:
        X = self.X[rows]
        own = -1 if self.headings is None else int(self.headings.own[label])
        if own >= 0:
            X.data[X.indices == own] = 0
            X.eliminate_zeros()
        return X

    def target(self, label: int) -> np.ndarray:
        out = np.zeros(self.rows.size, dtype=np.int64)
        out[self.Y.indices[self.Y.indptr[label] : self.Y.indptr[label + 1]]] = 1
        return out


def _read_label_sets(slab: Shard) -> sp.csr_matrix:
    ones = np.ones(slab.y_indices.size, dtype=np.float32)
    return rows_of((slab.y_indptr, slab.y_indices, ones), slab.rows, slab.n_labels, dense=False)


def read_problem(path: Path, label: str | None, options: CvOptions, non_negative: Sequence[str], log: Log | None) -> CvProblem:
    """Return a file's labels and sizes; labels with too few rows or groups for the folds are skipped, unless given by name.

    Raises ConfigError for an unknown or rare label, and for a negative value if methods (`non_negative`) reject it; DataError.
    """
    with DataFile(path) as dataset:
        rows, names = dataset.labelled_split(options.split), dataset.label_names()
        slab = read_slab(dataset, rows, 0, rows.size)
        nnz = int((slab.indptr[slab.rows + 1] - slab.indptr[slab.rows]).sum())
        Y = _read_label_sets(slab)
        counts = np.bincount(Y.indices, minlength=dataset.n_labels)
        having, lacking = counts, rows.size - counts
        if dataset.has_groups:  # number of groups with a positive row, and with a negative row
            bounds, order = groups_of(draw_keys(dataset, rows))
            members = sp.csr_matrix((np.ones(rows.size), order, bounds), (bounds.size - 1, rows.size))
            in_groups = (members @ Y).tocsc()
            all_have = in_groups.data == np.diff(bounds)[in_groups.indices]
            column = np.repeat(np.arange(Y.shape[1]), np.diff(in_groups.indptr))
            having = np.diff(in_groups.indptr)
            lacking = bounds.size - 1 - np.bincount(column[all_have], minlength=Y.shape[1])
        enough, units = np.minimum(having, lacking) >= options.folds, "groups of rows" if dataset.has_groups else "rows"
        needs = f"{options.folds} folds need at least {options.folds} positive and negative {units}"
        named = []
        for name in dict.fromkeys(options.label if label is None else [label]):
            if name not in names:
                raise ConfigError(f"{path}: no label {name!r}; {nearest(name, names, 'hpcml info')}")
            named.append(number := names.index(name))
            if not enough[number]:
                raise ConfigError(
                    f"{path}: {needs}, but label {name!r} has {having[number]} positive and {lacking[number]} negative {units}"
                )
        n_left_out = 0 if named else dataset.n_labels - int(np.count_nonzero(enough))
        numbers = np.array(named, dtype=np.int64) if named else np.flatnonzero(enough)
        if not numbers.size:
            raise ConfigError(f"{path}: {needs}, but no label of the file has them")
        for begin in range(0, rows.size if non_negative else 0, BLOCK_ROWS):  # fail before the training, not during it
            X = read_rows(dataset, rows[begin : begin + BLOCK_ROWS], dense=False)
            below = np.flatnonzero(X.data < 0)
            if below.size:
                row = int(rows[begin + np.searchsorted(X.indptr, below[0], "right") - 1])
                value = f"row {row} (from 0) has the value {X.data[below[0]]:g}"
                raise ConfigError(
                    f"{path}: {value}, but {', '.join(non_negative)} need non-negative values; "
                    "remove these methods, or shift the feature"
                )
        if log is not None:
            warn_about_scales(mpi.self_comm(), dataset, *compact_rows(mpi.self_comm(), slab, True), log)
        labels = ([names[number] for number in numbers], numbers, counts[numbers], n_left_out)
        n_unlabelled = dataset.split(options.split).size - rows.size
        n_empty = int(np.count_nonzero(mask_empty_texts(dataset, slab)))
        return CvProblem(path, options.split, label, *labels, rows.size, dataset.n_features, nnz, n_unlabelled, n_empty)

"""Model files with one linear model per label (format: docs/lookup/formats.md).

The weight of feature j for label l is `W[l, columns[j]] · factors[j]`. The score of a row x is `Σ x[j] · weight[j] + bias[l]`; it
is positive if the label is predicted. Most features have their own column and factor 1. Features that occur in a single training
row share a column, because their weights are proportional to their values in that row. Features without training rows have factor 0
and column 0, so W has at least one column if there are features.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

from hpcml.data.in_memory import find_unsorted_entry, row_of
from hpcml.errors import ConfigError, NonFiniteError
from hpcml.files.hdf5 import (
    COMPUTED_BY,
    WRITTEN_BY,
    describe_matrix,
    map_dataset,
    matrix_slabs,
    open_stamped,
    readable,
    stamp,
    write_label_titles,
    write_strings,
)
from hpcml.files.slabs import Slab, SlabFile
from hpcml.files.untrusted import read_strings
from hpcml.leave_one_out.cells import COUNT_TYPES, N_CELLS, ScoreCounts
from hpcml.model.combination import Combination, Rule
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import SIGMOID, Trained
from hpcml.model.training_keys import TrainingKeys, write_training_keys
from hpcml.partition import entries_of, offsets

if TYPE_CHECKING:
    import scipy.sparse as sp

STATUS = ("converged", "degenerate", "step limit", "one pass")  # codes of labels/status
PRECISIONS = ("<f4", "<f8")  # types of W in memory
HALF = "<f2"  # type of a W that is stored smaller, and decoded to float32 when it is opened
HALF_BELOW = float(np.nextafter(np.float32(2.0**-25), np.float32(1)))  # smallest magnitude that is not 0 in float16
CHECKED = 1 << 22  # weights of a sparse W checked at a time
WRITTEN = 1 << 18  # weights of W written at a time; 1 << 22, which does not fit into the cache, takes 1.25 times as long
# Columns labels/* of only some models, float64 each: options tuned per label, and the average precision in cross-validation on the
# training rows (NaN: unknown).
TUNED_OPTIONS = ("lambda", "l1", "positive_weight")
CROSS_VALIDATED_PRECISION = "average_precision_in_folds"
OPTIONAL = ("threshold", *SIGMOID, *TUNED_OPTIONS, CROSS_VALIDATED_PRECISION)


def model_slabs(
    n_labels: int,
    n_features: int,
    n_columns: int,
    precision: str = "<f4",
    certified: bool = False,
    n_weights: int | None = None,
    optional: Collection[str] = (),
    n_cells: int | None = None,
) -> dict[str, Slab]:
    """Return the numeric datasets of a model file; W is dense if `n_weights` is None, else CSR.

    `n_cells` is the number of entries of the counts of leave-one-out scores, or None without them.
    """
    per_label = {"f_min": "<f8", "steps": "<i4", "status": "<i4", "n_positive": "<i8", "visited": "<f8"}
    per_label |= {"gap": "<f8"} if certified else {}
    per_label |= {name: "<f8" for name in OPTIONAL if name in optional}
    slabs = {f"labels/{name}": Slab((n_labels,), dtype) for name, dtype in per_label.items()}
    tables = {"columns": Slab((n_features,), "<i4"), "factors": Slab((n_features,), "<f4")}
    dense = {"W": Slab((n_labels, n_columns), precision)}
    W = dense if n_weights is None else matrix_slabs("W", n_labels, n_weights, n_columns, precision)
    if n_cells is not None:
        slabs |= {f"scores/{name}": Slab((n_cells,), dtype) for name, dtype in COUNT_TYPES.items()}
        slabs["scores/indptr"] = Slab((n_labels + 1,), "<i8")
    return {**W, **tables, "bias": Slab((n_labels,), "<f8"), **slabs}


def count_bytes(slabs: Mapping[str, Slab]) -> int:
    return sum(math.prod(slab.shape) * np.dtype(slab.dtype).itemsize for slab in slabs.values())


def is_smaller_sparse(n_labels: int, n_columns: int, n_weights: int, precision: str) -> bool:
    """Return whether W with `n_weights` entries other than +0 takes fewer bytes as a CSR matrix than as a dense one."""
    dense = {"W": Slab((n_labels, n_columns), precision)}
    return count_bytes(matrix_slabs("W", n_labels, n_weights, n_columns, precision)) < count_bytes(dense)


def write_rows(out: SlabFile, rows: Iterable[tuple[np.ndarray, np.ndarray]], first: int, begin: int) -> None:
    """Write consecutive rows of W, as (columns, weights), in large pieces: from label `first`, or weight `begin` of a sparse W."""
    dense = out.offsets["W"][1] if "W" in out.offsets else None
    block, size = list[tuple[np.ndarray, np.ndarray]](), 0
    for row in chain(rows, [None]):
        if row is not None:
            block.append(row)
            size += row[1].size if dense is None else dense.shape[1]
        if not block or (row is not None and size < WRITTEN):
            continue
        if dense is None:
            for name, arrays in zip(("W/indices", "W/data"), zip(*block, strict=True), strict=True):
                out.write(name, begin, np.concatenate(arrays))
            begin += size
        else:
            W = np.zeros((len(block), dense.shape[1]), dense.dtype)
            for values, (columns, weights) in zip(W, block, strict=True):
                values[columns] = weights
            out.write("W", first, W)
            first += len(block)
        block, size = [], 0


# Attributes of convex training, in the order of the file; the last three come from `Problem.origin`.
ABOUT = ("method", "loss", "lambda", "split", "epsilon", "dormant", "positive_weight", "vocabulary", "n_rows", "fingerprint")
_STAMP = ("hpcml-format", "hpcml-version", WRITTEN_BY, COMPUTED_BY)


def training_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's attributes that describe its training: ABOUT in its order, then those of the method."""
    named = [*ABOUT, *(name for name in attributes if name not in (*ABOUT, *_STAMP))]
    return {name: attributes[name] for name in named if name in attributes}


def describe_model(
    file: h5py.File,
    about: Mapping[str, object],
    label_names: Sequence[str],
    n_columns: int | None = None,
    label_titles: Sequence[str] | None = None,
    keys: TrainingKeys | None = None,
    raw_input: RawInput | None = None,
) -> None:
    """Write the attributes and names of a new model; `n_columns` is given if W is sparse."""
    stamp(file, "model")
    if n_columns is not None:
        describe_matrix(file, "W", len(label_names), n_columns, file["W/indices"].shape[0], ones=False)
    for name, value in about.items():
        file.attrs[name] = value
    write_strings(file, "label_names", label_names)
    write_label_titles(file, label_titles)
    write_training_keys(file, keys)
    if raw_input is not None:
        raw_input.write(file)


def mask_kept_weights(w: np.ndarray, below: float) -> np.ndarray:
    """Return a mask of the weights to keep: other than +0 and not smaller than `below` in magnitude (NaN is kept).

    With `below` = 0 no bit is lost: −0 is kept.
    """
    kept = np.asarray(np.ascontiguousarray(w).view(f"u{w.itemsize}") != 0)
    if below:
        with np.errstate(over="ignore"):
            kept &= ~(np.abs(w) < w.dtype.type(below))
    return kept


def empty_labels_warning(n_emptied: int, n_labels: int, option: str) -> str:
    return f"warning: {n_emptied:,} of {n_labels:,} labels keep no weight and score all rows alike; choose a smaller {option}"


class SparseRows(NamedTuple):
    """A memory-mapped sparse W in CSR form."""

    indptr: np.ndarray  # (n_labels + 1,) int64
    indices: np.ndarray
    data: np.ndarray

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        begin, end = self.indptr[label : label + 2].tolist()
        return self.indices[begin:end], self.data[begin:end]


class Model(Trained):
    """A model file with one linear model per label: read-only and memory-mapped.

    Parameters
    ----------
    path : path
        The model file. `open_model` also accepts a run folder and other kinds of models.
    file : h5py.File or None
        `path`, if it is already open.

    Attributes
    ----------
    n_labels, n_features, n_weights : int
        Number of labels, of features and of stored weights.
    label_names : list of str
        Names of the labels.
    label_titles : list of str or None
        Titles of the labels ("" for a label without one); None if the file has none.
    bias : ndarray (n_labels,) of float64
        Intercepts.
    thresholds : ndarray (n_labels,) of float64
        Scores above which a row gets each label.
    labels : dict of str to ndarray (n_labels,)
        Results of the training: f_min (smallest objective), steps (iterations), status (index of `STATUS`), n_positive (positive
        training rows), visited (mean share of rows visited per iteration); if certified, gap: (f_min − lower bound) / f_min.
        After `hpcml tune`, `threshold` or `calibrate` also their results per label.
    attrs : dict
        Attributes of the file: method, loss, lambda, ...
    W, columns, factors : ndarray
        The compact weights: feature j of label l has the weight W[l, columns[j]] · factors[j]. W may be sparse.

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or has another format version.
    NonFiniteError
        If a weight of a sparse model is not finite.

    Examples
    --------
    >>> model = hpcml.Model("run/model.h5")
    >>> weights = model.weights(model.label_names.index("sea"))
    """

    kind = "model"
    W: np.ndarray | SparseRows
    combination: Combination | None = None  # of labels with several weight vectors
    sparse = False  # whether W is stored sparse
    below = 0.0  # weights of smaller magnitude count as 0
    half = False  # whether weights count as rounded to float16

    def _read(self, file: h5py.File) -> None:
        self.normalised, self.binary = (bool(self.attrs.get(name, False)) for name in ("normalised", "binary"))
        (self.n_features,) = file["columns"].shape
        self.sparse = sparse = isinstance(file["W"], h5py.Group)
        self.n_labels, self.n_columns = (int(n) for n in (file["W"].attrs["shape"] if sparse else file["W"].shape))
        stored = file["W/data"] if sparse else file["W"]
        self.n_weights, self.precision = int(stored.size), stored.dtype.str
        sizes, of_labels = (self.n_labels, self.n_features, self.n_columns), [name for name in OPTIONAL if f"labels/{name}" in file]
        expected = model_slabs(*sizes, self.precision, "labels/gap" in file, self.n_weights if sparse else None, of_labels)
        slabs = {name: Slab(file[name].shape, file[name].dtype.str) for name in expected}
        if self.precision not in (*PRECISIONS, HALF) or slabs != expected or file["label_names"].shape != (self.n_labels,):
            raise ValueError("inconsistent sizes or types")
        self.combination = Combination.of(self.attrs)
        parts = 1 if self.combination is None else self.combination.n_parts
        self.width = self.n_columns if self.combination is None else self.combination.width
        if sparse and self.width > max(1, self.n_features):  # a dense W cannot claim more columns than the file has bytes for
            raise ValueError("more columns than features")
        if parts * self.width > self.n_columns or (parts > 1 and not sparse):
            raise ValueError("inconsistent parts")
        arrays = {name: map_dataset(self.path, file[name]) for name in expected}
        if self.precision == HALF:
            self.precision, name = "<f4", "W/data" if sparse else "W"
            arrays[name] = arrays[name].astype(self.precision)
            arrays[name].flags.writeable = False
        self.W = SparseRows(*(arrays[f"W/{name}"] for name in SparseRows._fields)) if sparse else arrays["W"]
        self.columns, self.factors, self.bias = (arrays[name] for name in ("columns", "factors", "bias"))
        self.labels = {name.removeprefix("labels/"): values for name, values in arrays.items() if name.startswith("labels/")}
        self.label_names: list[str] = read_strings(file["label_names"])
        if "label_titles" in file:
            if file["label_titles"].shape != (self.n_labels,):
                raise ValueError("inconsistent number of titles")
            self.label_titles = read_strings(file["label_titles"])
        if self.n_features and not 0 <= self.columns.min() <= self.columns.max() < self.width:
            raise self._damaged(f"columns {self.columns.min()} to {self.columns.max()}, but W has columns 0 to {self.width - 1}")
        if not (np.isfinite(self.factors).all() and np.isfinite(self.bias).all()):
            raise self._damaged("a factor or a bias is not a finite number")
        if isinstance(self.W, SparseRows):
            self._check_rows(self.W)

    @cached_property
    def scores(self) -> ScoreCounts | None:
        """Counts of the leave-one-out scores of the training rows, read on first access; None: the file has none.

        Raises DataError.
        """
        with open_stamped(self.path, self.kind, "hpcml train") as file, readable(self.path, "hpcml train", self.kind):
            if "scores" not in file:
                return None
            counts = ScoreCounts(*(map_dataset(self.path, file[f"scores/{name}"]) for name in ScoreCounts._fields))
            sizes = [(self.n_labels + 1,)] + 3 * [(int(counts.indptr[-1]),)]
            if [each.shape for each in counts] != sizes or counts.indptr[0] != 0 or (np.diff(counts.indptr) < 0).any():
                raise ValueError("inconsistent sizes of scores")
            if [each.dtype.str for each in counts] != ["<i8", *COUNT_TYPES.values()]:
                raise ValueError("invalid types of scores")
            if counts.cells.size and not 0 <= counts.cells.min() <= counts.cells.max() < N_CELLS:
                raise ValueError("invalid cells of scores")
            return counts

    def _non_finite_error(self, label: int) -> NonFiniteError:
        name = self.label_names[int(label)]
        return NonFiniteError(f"{self.path}: a weight of label {name!r} is not a finite number; train it again")

    def _check_rows(self, W: SparseRows) -> None:
        if W.indptr[0] != 0 or W.indptr[-1] != self.n_weights or (W.indptr[1:] < W.indptr[:-1]).any():
            raise self._damaged(f"W/indptr does not ascend from 0 to {self.n_weights}")
        for begin in range(0, self.n_weights, CHECKED):
            block = W.indices[begin : begin + CHECKED + 1]
            if not 0 <= int(block.min()) <= int(block.max()) < self.n_columns:
                raise self._damaged(f"W/indices {block.min()} to {block.max()}, but W has columns 0 to {self.n_columns - 1}")
            if (position := find_unsorted_entry(W.indptr, block, begin)) >= 0:
                raise self._damaged(f"W/indices do not ascend in the row of label {row_of(W.indptr, position)}")
            if not (finite := np.isfinite(W.data[begin : begin + CHECKED])).all():
                raise self._non_finite_error(row_of(W.indptr, begin + int(np.argmin(finite))))

    def pruned(self, below: float, half: bool = False) -> Model:
        """Return a view of the model without small weights.

        Parameters
        ----------
        below : float
            Weights of smaller magnitude count as 0.
        half : bool
            Round the weights to float16.

        Returns
        -------
        Model
            `row`, `rows`, `weights` and `weight_matrix` skip the small weights and round; `W` still holds all weights. It has no
            leave-one-out scores.
        """
        out = copy.copy(self)
        out.half, out.below = half, max(self.below, below, HALF_BELOW if half else 0.0)
        out.scores = None  # those of other weights
        return out

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of a row of W that are not +0.

        Parameters
        ----------
        label : int
            Number of the label.

        Returns
        -------
        columns : ndarray (n,)
            Ascending columns.
        weights : ndarray (n,)
            Entries of W, before multiplication by `factors`.

        Raises
        ------
        ConfigError
            If the weights are rounded and one is too large for float16.
        """
        indices, w = self.W.row(label) if isinstance(self.W, SparseRows) else (None, self.W[label])
        if indices is not None and not self.below:
            return indices, w
        positions = np.flatnonzero(mask_kept_weights(w, self.below))
        columns, w = (positions if indices is None else indices[positions]), w[positions]
        if self.half:
            with np.errstate(over="ignore"):
                rounded = w.astype(HALF).astype(w.dtype)
            if (lost := np.isinf(rounded) & np.isfinite(w)).any():
                name = self.label_names[label]
                raise ConfigError(f"{self.path}: the weight {w[lost][0]:g} of label {name!r} is too large for float16 (65504)")
            w = rounded
        return columns, w

    def rows(self, labels: np.ndarray, part: int = 0) -> np.ndarray:
        """Return dense rows of W.

        Parameters
        ----------
        labels : ndarray (k,) of int
            Numbers of the labels.
        part : int
            Number of the weight vector, for models with several per label.

        Returns
        -------
        ndarray (k, n_columns)
            Read-only rows with the type of W, before multiplication by `factors`.
        """
        if isinstance(self.W, SparseRows) or self.below > 0:
            out = np.zeros((len(labels), self.width), self.precision)
            for row, label in zip(out, labels, strict=True):
                columns, w = self.row(int(label))
                first, end = np.searchsorted(columns, [part * self.width, (part + 1) * self.width])
                row[columns[first:end] - part * self.width] = w[first:end]
        else:
            out = self.W[labels]
        out.flags.writeable = False
        return out

    def _rule(self, label: int) -> Rule:
        """Return the rule that combines the parts of a label; its numbers follow the weights of all parts in the row of W."""
        assert self.combination is not None
        n_weights = self.combination.n_parts * self.width
        columns, numbers = self.row(label)
        first = int(np.searchsorted(columns, n_weights))
        size = int(columns[-1]) + 1 - n_weights if first < columns.size else 0
        try:
            if size > 2 * (columns.size - first) + 4 * self.combination.n_parts:  # at most two zeros per round
                raise ValueError("too many zeros")
            dense = np.zeros(size)
            dense[columns[first:] - n_weights] = numbers[first:]
            constant = STATUS[self.labels["status"][label]] == "degenerate"
            return self.combination.rule(float(self.bias[label]), constant, dense)
        except (ValueError, IndexError):
            raise self._damaged(f"label {label} has an invalid combination") from None

    def weights(self, labels: slice | np.ndarray | int = slice(None)) -> np.ndarray:
        """Return dense weights of all features; 8 · n_features bytes per label.

        Parameters
        ----------
        labels : int, slice or ndarray of int
            Labels, as an index of an array. Default: all.

        Returns
        -------
        ndarray (k, n_features) of float64, or (n_features,) for a single label
            For models with several weight vectors per label, the first one.
        """
        if isinstance(self.W, SparseRows) or self.below > 0:
            numbers = np.arange(self.n_labels)[labels]
            W = self.rows(numbers.reshape(-1)).reshape(*numbers.shape, self.width)
        else:
            W = self.W[labels]
        out = np.take(W, self.columns, axis=-1).astype(np.float64, copy=False)
        out *= self.factors
        return out

    def weight_matrix(self, labels: np.ndarray | None = None) -> sp.csr_matrix:
        """Return the non-zero weights of all features.

        Parameters
        ----------
        labels : ndarray (k,) of int, or None
            Numbers of the labels. Default: all.

        Returns
        -------
        scipy.sparse.csr_matrix (k, n_features) of float64
            Without the intercepts `bias`. `X @ weight_matrix().T + bias` are the scores of models without `combination`,
            `normalised` and `binary`.

        Examples
        --------
        >>> model = hpcml.Model("run/model.h5")
        >>> X = np.ones((3, model.n_features))
        >>> (X @ model.weight_matrix().T + model.bias).shape
        (3, 2)
        """
        import scipy.sparse as sp

        numbers = np.arange(self.n_labels) if labels is None else np.asarray(labels)
        present = np.flatnonzero(self.factors)
        features = present[np.argsort(self.columns[present], kind="stable")]  # by column
        begins = offsets(np.bincount(self.columns[present], minlength=self.width))
        of_rows, values = [np.zeros(0, np.int64)], [np.zeros(0)]
        for label in numbers.tolist():
            columns, w = self.row(label)
            columns = columns[: np.searchsorted(columns, self.width)]  # of the first part
            sizes, positions = entries_of(begins, columns)
            of_rows.append(features[positions])
            values.append(np.repeat(w[: columns.size].astype(np.float64), sizes) * self.factors[of_rows[-1]])
        arrays = np.concatenate(values), np.concatenate(of_rows), offsets([each.size for each in values[1:]])
        out = sp.csr_matrix(arrays, (numbers.size, self.n_features))
        out.sort_indices()
        out.eliminate_zeros()
        return out

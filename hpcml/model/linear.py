"""Model files with a linear model for each label (docs/lookup/formats.md describes every part of them).

The weight of feature j for label l is `W[l, columns[j]] · factors[j]`, and the score of a row x is
`Σ x[j] · weight[j] + bias[l]`, positive for "has the label". Most features have a column of their own and factor 1.
Features that only one training row has share a column, because their weights are proportional to their values in that
row. Features that no training row has get factor 0 (in column 0, so there is at least one column if there are features).
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

from hpcml.data.in_memory import row_of, unordered
from hpcml.errors import NonFiniteError
from hpcml.files.hdf5 import MADE_BY, MADE_ON, describe_matrix, map_dataset, matrix_slabs, stamp, write_label_titles, write_strings
from hpcml.files.slabs import Slab
from hpcml.files.untrusted import read_strings
from hpcml.model.combination import Combination, Rule
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import SIGMOID, Trained
from hpcml.model.training_keys import TrainingKeys, write_training_keys

if TYPE_CHECKING:
    import scipy.sparse as sp

STATUS = ("converged", "degenerate", "step limit", "one pass")  # the codes of labels/status
PRECISIONS = ("<f4", "<f8")  # the types that W may have
CHECKED = 1 << 22  # columns of a sparse W that are checked at a time
CHOSEN = ("lambda", "l1", "positive_weight")  # of labels/*, options that were chosen for each label (`hpcml tune`)
IN_FOLDS = "average_precision_in_folds"  # of labels/*, by cross-validation on the training rows, NaN where not known (`hpcml tune`)
OPTIONAL = ("threshold", *SIGMOID, *CHOSEN, IN_FOLDS)  # of labels/*, what only some models have, float64 each


def model_slabs(
    n_labels: int,
    n_features: int,
    n_columns: int,
    precision: str = "<f4",
    certified: bool = False,
    n_weights: int | None = None,
    optional: Collection[str] = (),
) -> dict[str, Slab]:
    """The datasets that training fills; W has type `precision`, and `n_weights` if sparse."""
    per_label = {"f_min": "<f8", "steps": "<i4", "status": "<i4", "n_positive": "<i8", "visited": "<f8"}
    per_label |= {"gap": "<f8"} if certified else {}
    per_label |= {name: "<f8" for name in OPTIONAL if name in optional}
    slabs = {f"labels/{name}": Slab((n_labels,), dtype) for name, dtype in per_label.items()}
    tables = {"columns": Slab((n_features,), "<i4"), "factors": Slab((n_features,), "<f4")}
    dense = {"W": Slab((n_labels, n_columns), precision)}
    W = dense if n_weights is None else matrix_slabs("W", n_labels, n_weights, n_columns, precision)
    return {**W, **tables, "bias": Slab((n_labels,), "<f8"), **slabs}


# What a model of convex training says of it; the last three are those of `Problem.origin`.
ABOUT = ("method", "loss", "lambda", "split", "epsilon", "dormant", "positive_weight", "vocabulary", "n_rows", "fingerprint")
_STAMP = ("hpcml-format", "hpcml-version", MADE_BY, MADE_ON)


def about_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A model's attributes about its training: ABOUT in its order, then the method's."""
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
    """Stamp, names, attributes of a new model, in one order; `n_columns` of a sparse `W`."""
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
    """Return a mask of the weights to keep: not 0, and not smaller than `below` in magnitude (NaN is kept)."""
    with np.errstate(over="ignore"):
        below = w.dtype.type(below)
    return np.asarray((w != 0) & ~(np.abs(w) < below))


def emptied_warning(n_emptied: int, n_labels: int, option: str) -> str:
    """A sentence about labels of which `option` has left no weight."""
    what = f"keep no weight, and give every row the same score: {n_emptied:,} of {n_labels:,}"
    return f"warning: labels that {what}; choose a smaller {option}"


class SparseRows(NamedTuple):
    """A sparse W, mapped: row l is data[indptr[l] : indptr[l + 1]] in such columns of `indices`."""

    indptr: np.ndarray  # n_labels + 1, int64
    indices: np.ndarray
    data: np.ndarray

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns and weights of a label."""
        begin, end = self.indptr[label : label + 2].tolist()
        return self.indices[begin:end], self.data[begin:end]


class Model(Trained):
    """A read-only handle on a model file; `W`, `columns` and `factors` are memory-mapped.

    `labels` holds, by name, f_min (the least objective found), steps (iterations), status (an index of STATUS), n_positive
    (training rows that have the label) and visited (the mean share of the rows visited per iteration), n_labels each; of a method
    that certifies it, also gap: (f_min − a lower bound of all objectives) / f_min; and what of OPTIONAL the file has. `n_weights`
    is the number of weights that are stored.
    """

    kind = "model"
    W: np.ndarray | SparseRows
    combination: Combination | None = None  # of the parts of labels that have several weight vectors
    sparse = False  # whether W holds only the weights that are not 0
    below = 0.0  # weights of smaller magnitude count as 0

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
        if self.precision not in PRECISIONS or slabs != expected or file["label_names"].shape != (self.n_labels,):
            raise ValueError("sizes or types do not fit")
        self.combination = Combination.of(self.attrs)
        parts = 1 if self.combination is None else self.combination.n_parts
        self.width = self.n_columns if self.combination is None else self.combination.width
        if sparse and self.width > max(1, self.n_features):  # of a dense one, the file has the bytes
            raise ValueError("more columns than features")
        if parts * self.width > self.n_columns or (parts > 1 and not sparse):
            raise ValueError("parts that do not fit")
        found = {name: map_dataset(self.path, file[name]) for name in expected}
        self.W = SparseRows(*(found[f"W/{name}"] for name in SparseRows._fields)) if sparse else found["W"]
        self.columns, self.factors, self.bias = (found[name] for name in ("columns", "factors", "bias"))
        self.labels = {name.removeprefix("labels/"): values for name, values in found.items() if name.startswith("labels/")}
        self.label_names: list[str] = read_strings(file["label_names"])
        if "label_titles" in file:
            if file["label_titles"].shape != (self.n_labels,):
                raise ValueError("as many titles as labels")
            self.label_titles = read_strings(file["label_titles"])
        if self.n_features and not 0 <= self.columns.min() <= self.columns.max() < self.width:
            raise self._damaged(f"columns {self.columns.min()} to {self.columns.max()}, but W has columns 0 to {self.width - 1}")
        if not (np.isfinite(self.factors).all() and np.isfinite(self.bias).all()):
            raise self._damaged("a factor or a bias is not a finite number")
        if isinstance(self.W, SparseRows):
            self._check_rows(self.W)

    def not_finite(self, label: int) -> NonFiniteError:
        """The error for a label whose weights cannot score."""
        what = f"a weight of label {self.label_names[int(label)]!r}"
        return NonFiniteError(f"{self.path}: {what} is not a finite number; train it again")

    def _check_rows(self, W: SparseRows) -> None:
        """Raise DataError unless a sparse W is sound, NonFiniteError unless it is finite."""
        if W.indptr[0] != 0 or W.indptr[-1] != self.n_weights or (W.indptr[1:] < W.indptr[:-1]).any():
            raise self._damaged(f"W/indptr does not ascend from 0 to {self.n_weights}")
        for begin in range(0, self.n_weights, CHECKED):
            some = W.indices[begin : begin + CHECKED + 1]
            if not 0 <= int(some.min()) <= int(some.max()) < self.n_columns:
                raise self._damaged(f"W/indices {some.min()} to {some.max()}, but W has columns 0 to {self.n_columns - 1}")
            if (place := unordered(W.indptr, some, begin)) >= 0:
                raise self._damaged(f"W/indices do not ascend in the row of label {row_of(W.indptr, place)}")
            if not (fit := np.isfinite(W.data[begin : begin + CHECKED])).all():
                raise self.not_finite(row_of(W.indptr, begin + int(np.argmin(fit))))

    def pruned(self, below: float) -> Model:
        """Return the same model without weights below a magnitude. Read its W by `rows`."""
        out = copy.copy(self)
        out.below = max(self.below, below)
        return out

    def row(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns (ascending) of a label's weights that are not 0, and these as stored."""
        indices, w = self.W.row(label) if isinstance(self.W, SparseRows) else (None, self.W[label])
        places = np.flatnonzero(mask_kept_weights(w, self.below))
        return (places if indices is None else indices[places]), w[places]

    def rows(self, labels: np.ndarray, part: int = 0) -> np.ndarray:
        """Rows of W (k × width, read-only, its type) for labels, of one part, zeros included."""
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

    def rule(self, label: int) -> Rule:
        """How the parts of a label are combined. Raises DataError if the model is damaged."""
        assert self.combination is not None
        behind = self.combination.n_parts * self.width
        columns, numbers = self.row(label)
        first = int(np.searchsorted(columns, behind))
        size = int(columns[-1]) + 1 - behind if first < columns.size else 0
        try:
            if size > 2 * (columns.size - first) + 4 * self.combination.n_parts:  # a round has a 0 among its bounds and its values
                raise ValueError("more zeros than there can be")
            dense = np.zeros(size)
            dense[columns[first:] - behind] = numbers[first:]
            constant = STATUS[self.labels["status"][label]] == "degenerate"
            return self.combination.rule(float(self.bias[label]), constant, dense)
        except (ValueError, IndexError):
            raise self._damaged(f"label {label} has parts that cannot be combined") from None

    def weights(self, labels: slice | np.ndarray | int = slice(None)) -> np.ndarray:
        """The weights of every feature (k × n_features float64) for `labels`, as of an array.

        One number gives one row (n_features); of labels with several parts it is the first one.
        Needs 8 n_features bytes per label, much more than the file where few features have columns.
        """
        if isinstance(self.W, SparseRows) or self.below > 0:
            chosen = np.arange(self.n_labels)[labels]
            W = self.rows(chosen.reshape(-1)).reshape(*chosen.shape, self.width)
        else:
            W = self.W[labels]
        out = np.take(W, self.columns, axis=-1).astype(np.float64, copy=False)
        out *= self.factors
        return out

    def weight_matrix(self, labels: np.ndarray | None = None) -> sp.csr_matrix:
        """Return the weights that are not 0. With X in CSR form, scores are `X @ weight_matrix().T + bias`.

        This holds for models without `combination`, `normalised` and `binary`.

        Parameters
        ----------
        labels : array of int, or None
            The numbers of some labels. Default: all.

        Returns
        -------
        scipy.sparse.csr_matrix (n_labels, n_features) of float64
            The intercepts are not part of it: they are `bias` (n_labels,).

        Examples
        --------
        >>> model = hpcml.Model("runs/first/model.h5")
        >>> scores = X @ model.weight_matrix().T + model.bias
        """
        import scipy.sparse as sp

        chosen = np.arange(self.n_labels) if labels is None else np.asarray(labels)
        parts = [sp.csr_matrix(self.weights(chosen[begin : begin + 16])) for begin in range(0, chosen.size, 16)]
        return sp.vstack(parts, format="csr") if parts else sp.csr_matrix((0, self.n_features))

"""The model file: one linear model per label, and what it was trained on.

A model is an HDF5 file stamped `hpcml-format = "model"`. The weight of feature j for label l is `W[l, columns[j]] · factors[j]`:
`W` (n_labels × n_columns, float32 or float64, contiguous, one row per label) holds a weight per column, `columns` (n_features
int32) and `factors` (n_features float32) say where a feature's weight is. Most features have a column of their own and factor 1.
Those that one training row alone has share a column, because their weights are proportional to their values in that row; those
that no training row has get factor 0 (in column 0, so there is at least one column if there are features). The score of a row x
is `Σ x[j] · weight[j] + bias[l]` (`bias`: n_labels float64), positive for "has the label". `label_names` names the labels;
`labels/*` (n_labels each) say how each label's training ended; attributes hold the method, its loss, λ and the vocabulary.

Models of the Winnow family have the attribute `normalised`: scores are divided by 1 + Σ x[j] over the features with a factor, for
these learners see rows that a bias feature 1 was appended to and that were then divided by their sum. Models of single-pass
learners may have a group `state` with what is needed to continue the pass (hpcml.online.state).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from hpcml.data.parts import attributes, read_strings, text_of
from hpcml.data.schema import DAMAGE, Dataset, map_dataset, open_stamped, stamp, write_strings
from hpcml.data.slabs import Slab
from hpcml.errors import ConfigError, DataError, file_error, is_of_the_system

STATUS = ("converged", "degenerate", "step limit", "one pass")  # the codes of labels/status
PRECISIONS = ("<f4", "<f8")  # the types that W may have


def model_slabs(n_labels: int, n_features: int, n_columns: int, precision: str = "<f4", certified: bool = False) -> dict[str, Slab]:
    """The datasets that are filled while training; `precision` is the type of `W`, one of PRECISIONS."""
    per_label = {"f_min": "<f8", "steps": "<i4", "status": "<i4", "n_positive": "<i8", "visited": "<f8"}
    per_label |= {"gap": "<f8"} if certified else {}
    slabs = {f"labels/{name}": Slab((n_labels,), dtype) for name, dtype in per_label.items()}
    tables = {"columns": Slab((n_features,), "<i4"), "factors": Slab((n_features,), "<f4")}
    return {"W": Slab((n_labels, n_columns), precision), **tables, "bias": Slab((n_labels,), "<f8"), **slabs}


# What a model of convex training says of it; the last three are those of `Problem.origin`.
ABOUT = ("method", "loss", "lambda", "split", "epsilon", "dormant", "vocabulary", "n_rows", "fingerprint")


def describe_model(file: h5py.File, about: Mapping[str, object], label_names: Sequence[str]) -> None:
    """Give a new model file its stamp, names and attributes; in the same order, so that equal models have equal bytes."""
    stamp(file, "model")
    for name, value in about.items():
        file.attrs[name] = value
    write_strings(file, "label_names", label_names)


class Trained:
    """What every model file says of its origin, whatever the model is."""

    path: Path
    attrs: dict[str, object]
    vocabulary: str
    n_features: int
    n_labels: int
    label_names: list[str]
    labels: dict[str, np.ndarray]  # of each label, how its training ended; at least `steps`

    def check_numbering(self, zero_based: bool) -> None:
        """Raises ConfigError for text whose indices are said to start at 1, if those that the model was trained on start at 0."""
        if self.attrs.get("zero_based", False) and not zero_based:
            raise ConfigError(f"{self.path}: it was trained on text with --zero-based; give --zero-based here, too")

    def check_vocabulary(self, dataset: Dataset) -> None:
        """Raises DataError unless the dataset has the features that the model was trained on."""
        if dataset.vocabulary == self.vocabulary and dataset.n_features == self.n_features:
            return
        if dataset.n_features != self.n_features:
            what = f"has {dataset.n_features} features but {self.path} was trained on {self.n_features}"
        else:
            what = f"has other features (as many, but other names) than {self.path} was trained on"
        raise DataError(f"{dataset.path}: {what}; convert the data with `--like` the training file")


class Model(Trained):
    """A read-only handle on a model file; `W` (as stored), `columns` and `factors` are memory-mapped.

    `labels` holds, by name, f_min (the least objective found), steps (iterations), status (an index of STATUS), n_positive
    (training rows that have the label) and visited (the mean share of the rows visited per iteration), n_labels each; of a
    method that certifies it, also gap: (f_min − a lower bound of all objectives) / f_min.
    """

    def __init__(self, path: Path | str) -> None:
        """Raises DataError if the file is not a sound model of the format that this version reads."""
        self.path = Path(path)
        with open_stamped(path, "model", "hpcml train") as file:
            try:
                self.attrs = attributes(file)
                self.vocabulary = text_of(file, "vocabulary")
                self.normalised = bool(self.attrs.get("normalised", False))
                self._map(file)
            except DAMAGE as error:
                if is_of_the_system(error):
                    raise file_error(path, "read", error) from None
                raise DataError(f"{path}: damaged model: a part is missing or of another size; train it again") from None

    def _map(self, file: h5py.File) -> None:
        """Check and map every part; scoring trusts `columns`. Raises DataError, or what h5py and numpy raise for a bad part."""
        self.n_labels, self.n_columns = file["W"].shape
        (self.n_features,) = file["columns"].shape
        precision = file["W"].dtype.str
        expected = model_slabs(self.n_labels, self.n_features, self.n_columns, precision, "labels/gap" in file)
        found = {name: Slab(file[name].shape, file[name].dtype.str) for name in expected}
        if precision not in PRECISIONS or found != expected or file["label_names"].shape != (self.n_labels,):
            raise ValueError("sizes or types do not fit")
        parts = {name: map_dataset(self.path, file[name]) for name in expected}
        self.W, self.columns, self.factors, self.bias = (parts[name] for name in ("W", "columns", "factors", "bias"))
        self.labels = {name.removeprefix("labels/"): values for name, values in parts.items() if name.startswith("labels/")}
        self.label_names: list[str] = read_strings(file["label_names"])
        if self.n_features and not 0 <= self.columns.min() <= self.columns.max() < self.n_columns:
            found_range = f"{self.columns.min()} to {self.columns.max()}"
            raise DataError(
                f"{self.path}: damaged model: columns {found_range}, but W has columns 0 to {self.n_columns - 1}; train it again"
            )

    def weights(self, labels: slice | np.ndarray | int = slice(None)) -> np.ndarray:
        """The weights of every feature (k × n_features float64) for `labels`, given as one gives rows to a numpy array.

        One number gives one row (n_features). Needs 8 n_features bytes per label, much more than the file where few features
        have a column of their own.
        """
        out = np.take(self.W[labels], self.columns, axis=-1).astype(np.float64, copy=False)
        out *= self.factors
        return out

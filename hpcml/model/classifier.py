"""The file of a model that is one classifier, and of the rows that it stands on: see docs/lookup/formats.md.

A classifier of ours is a group `classifier` of its fitted attributes, its `kind` one of `learner.OWN`; one of
scikit-learn's is a dataset `classifier` (uint8), a dump of skops (`skops_file`). Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.in_memory import sound_csr
from hpcml.errors import ConfigError, DataError, OptionError, file_error
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import map_dataset, stamp, write_strings
from hpcml.files.slabs import editing, group_in
from hpcml.files.untrusted import attributes, read_strings, text_of
from hpcml.model import skops_file
from hpcml.model.learner import OWN, Constant, Learner, confidence, fit, one_line, own_class, scores
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import THRESHOLDS, Trained
from hpcml.model.training_keys import TrainingKeys, write_training_keys


def is_own(classifier: Any) -> bool:
    """Return whether the classifier is of a class of ours, which files hold as arrays."""
    return getattr(classifier, "kind", None) in OWN


def fitted_attributes(classifier: Any) -> dict[str, Any]:
    """Return what `fit` left in a classifier of ours: arrays and numbers, by names that end in "_"."""
    return {name: value for name, value in sorted(vars(classifier).items()) if name.endswith("_") and name != "feature_names_in_"}


def check_savable(learner: Learner, n_classes: int = 2, dense: bool = True, save: bool = True) -> None:
    """Train, save and read on made-up rows, so that no long training ends without a file. Local.

    Our own learners are known to be saved; the tests do so. It also compiles the kernels of a learner of ours, so call it on one
    rank of a node first; a rank whose classifiers are saved by another needs only that (`save` False). Raises ConfigError if the
    learner refuses, or if its classifiers could not be saved or would not be trusted when read.
    """
    y = np.arange(20 * n_classes) % n_classes
    X = np.random.default_rng(0).random((y.size, 4), dtype=np.float32) + y[:, None].astype(np.float32)
    X = X if dense else sp.csr_matrix(X)
    kind = type(learner.unfitted(0, dense))
    if save and not hasattr(kind, "kind") and not skops_file.is_savable(kind):
        raise OptionError("base", learner.name, f"its classifiers cannot be saved; choose one of the {skops_file.IN_WORDS}")
    classifier = fit(learner, X, y, 0)
    expected = scores(classifier, X, n_classes)
    confidence(classifier, X)
    if not save or is_own(classifier):
        return
    try:
        found = scores(skops_file.load(skops_file.dump(classifier), X.shape[1]), X, n_classes)
    except ConfigError:  # without skops
        raise
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being saved
        raise OptionError("base", learner.name, f"its classifiers cannot be saved: {one_line(error)}; choose another") from None
    if not np.array_equal(found, expected):
        raise OptionError("base", learner.name, "its classifiers are not the same when saved and read; choose another")


class FoundThreshold(NamedTuple):
    """The score above which a row is of the last of two classes, and how it was found."""

    value: float
    measure: str
    method: str
    split: str


class MarginData(NamedTuple):
    """The rows that a classifier was made from, of a cycle of the training (0: of all rows)."""

    rows: np.ndarray = np.empty(0, dtype=np.int64)  # (n) ascending numbers in the training file
    weights: np.ndarray = np.empty(0, dtype=np.float32)  # (n)
    cycle: int = 0


class Origin(NamedTuple):
    """The training of a classifier, as its file describes it."""

    method: str
    learner: Learner
    split: str
    label_names: Sequence[str]
    n_features: int
    vocabulary: str
    dense: bool
    more: Mapping[str, Any]  # attributes of the method (validation_error, ...)
    keys: TrainingKeys | None = None
    raw_input: RawInput | None = None


def write_classifier(
    path: Path | str, classifier: Any, origin: Origin, margin_data: MarginData, threshold: FoundThreshold | None = None
) -> None:
    """Write the file, whole or not at all, in place of an older one. Local; raises DataError.

    Call it on one rank, in an agreed region. Without a `threshold` it is 0.
    """
    path, dump = Path(path), None if is_own(classifier) else skops_file.dump(classifier)
    base = json.dumps({"name": origin.learner.name, "options": dict(origin.learner.options)}, default=str)
    attrs = {**origin.more, "method": origin.method, "base": base, "split": origin.split, "vocabulary": origin.vocabulary}
    attrs |= {"n_features": int(origin.n_features), "dense": bool(origin.dense)}
    attrs |= {} if threshold is None else dict(zip(THRESHOLDS, threshold[1:], strict=True))
    try:
        with temporary_path(mpi.self_comm(), path, overwrite=True) as temporary, editing(temporary, new=True, target=path) as file:
            stamp(file, "classifier")
            file.attrs.update(attrs)
            write_strings(file, "label_names", list(origin.label_names))
            write_training_keys(file, origin.keys)
            if origin.raw_input is not None:
                origin.raw_input.write(file)
            if dump is None:
                group = group_in(file, "classifier")
                group.attrs["kind"] = classifier.kind
                for name, value in fitted_attributes(classifier).items():
                    if isinstance(value, np.ndarray):
                        group[name] = value
                    else:
                        group.attrs[name] = value
            else:
                file["classifier"] = np.frombuffer(dump, dtype=np.uint8)
            margin = group_in(file, "margin")
            margin["rows"] = np.asarray(margin_data.rows, dtype="<i8")
            margin["weights"] = np.asarray(margin_data.weights, dtype="<f4")
            margin.attrs["cycle"] = int(margin_data.cycle)
            if threshold is not None:
                group_in(file, "labels")["threshold"] = np.array([threshold.value])
    except OSError as error:
        raise file_error(path, "write", error) from None


class ClassifierModel(Trained):
    """A classifier read from its file, with the rows that it was made from.

    `classifier` is the classifier, `dense` whether it takes dense rows, `n_classes` how many classes it tells apart; `base` the
    learner (name, options); `margin_rows`, `margin_weights` and `cycle` the margin data.
    """

    kind = "classifier"

    def _read(self, file: h5py.File) -> None:
        self.n_features = int(file.attrs["n_features"])
        self.base: dict[str, Any] = json.loads(text_of(file, "base"))
        self.dense, self.cycle = bool(file.attrs["dense"]), int(file["margin"].attrs["cycle"])
        self.label_names = read_strings(file["label_names"])
        self.n_labels = len(self.label_names)
        self.n_classes = max(2, self.n_labels)
        self.labels = {"steps": np.zeros(self.n_labels, dtype=np.int32)}
        if "labels/threshold" in file:
            stored = file["labels/threshold"]
            if (stored.shape, stored.dtype.str) != ((self.n_labels,), "<f8"):
                raise ValueError("wrong thresholds")
            self.labels["threshold"] = map_dataset(self.path, stored)
        self.margin_rows, self.margin_weights = (map_dataset(self.path, file[f"margin/{name}"]) for name in ("rows", "weights"))
        stored = file["classifier"]
        if isinstance(stored, h5py.Dataset) and (stored.dtype.str, stored.ndim) != ("|u1", 1):
            raise ValueError("wrong classifier")
        types = (self.margin_rows.dtype.str, self.margin_weights.dtype.str)
        if types != ("<i8", "<f4") or self.margin_rows.ndim != 1:
            raise ValueError("wrong types")
        if self.margin_rows.shape != self.margin_weights.shape or (self.margin_rows[1:] <= self.margin_rows[:-1]).any():
            raise ValueError("wrong margin data")
        if self.n_labels in (0, 2) or self.n_features < 0 or not isinstance(self.base, dict):
            raise ValueError("wrong sizes")
        self.classifier = self._load(stored)

    def scores(self, X: Any) -> np.ndarray:
        """Scores (n_rows × n_labels float64) of X. Raises NonFiniteError, DataError."""
        return scores(self.classifier, sound_csr(X, "X"), self.n_classes)

    def _load(self, stored: h5py.Group | h5py.Dataset) -> Any:
        """The classifier, once it is sound and fits the rest. Raises DataError."""
        try:
            if self.dense and 4 * self.n_features > max(skops_file.SMALL, self.path.stat().st_size):
                raise ValueError(f"dense rows of {self.n_features} features")
            if isinstance(stored, h5py.Group):
                values: dict[str, Any] = {name: np.array(map_dataset(self.path, stored[name])) for name in stored}
                kind = text_of(stored, "kind")
                values |= {name: value.item() for name, value in attributes(stored).items() if isinstance(value, np.generic)}
                if not all(name.endswith("_") and not name.startswith("_") for name in values):
                    raise ValueError("its attributes are damaged")
                classifier: Any = object.__new__(own_class(kind))
                vars(classifier).update(values)
                if kind != "constant":
                    if type(classifier.n_features_in_) is not int or classifier.classes_.ndim != 1:
                        raise ValueError("n_features_in_ or classes_ is damaged")
                    classifier.check_arrays()
            else:
                classifier = skops_file.load(map_dataset(self.path, stored).data, self.n_features)
            classes = np.asarray(classifier.classes_)
            sound = classes.ndim == 1 and classes.size > 0 and classes.dtype.kind == "i" and (classes[1:] > classes[:-1]).all()
            fits = sound and 0 <= classes[0] <= classes[-1] < self.n_classes
            fits = fits and getattr(classifier, "n_features_in_", self.n_features) == self.n_features
            if fits and not isinstance(classifier, Constant):  # its width is that of its arrays
                row = sp.csr_matrix((1, self.n_features), dtype=np.float32)
                row = row.toarray() if self.dense else row
                fits = scores(classifier, row, self.n_classes).shape == (1, self.n_labels)
        except DataError as error:
            raise DataError(f"{self.path}: {error}; read only files of your own training") from None
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
        except Exception as error:  # noqa: BLE001 - whatever skops, zipfile and scikit-learn make of a damaged dump
            raise DataError(
                f"{self.path}: damaged classifier, or one of another scikit-learn version: {one_line(error)}; train it again"
            ) from None
        if not fits:
            raise self._damaged("its classes or features are not those of the file")
        return classifier

"""Model files with one classifier and the training rows on which it was fitted (docs/lookup/formats.md).

A classifier of hpcml (`learner.OWN`) is an HDF5 group `classifier` with its fitted attributes. A scikit-learn classifier is a
dataset `classifier` (uint8) with a skops dump (`skops_file`). Nothing is unpickled.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.in_memory import check_csr
from hpcml.errors import ConfigError, DataError, OptionError, file_error
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import map_dataset, stamp, write_strings
from hpcml.files.slabs import open_for_update, require_group
from hpcml.files.untrusted import attributes, read_strings, text_of
from hpcml.model import skops_file
from hpcml.model.learner import OWN, Constant, Learner, confidence, fit, one_line, own_class, scores
from hpcml.model.raw_input import RawInput
from hpcml.model.trained import THRESHOLDS, Trained
from hpcml.model.training_keys import TrainingKeys, write_training_keys


def is_own(classifier: Any) -> bool:
    """Return whether the classifier has a class of hpcml, which is stored as arrays."""
    return getattr(classifier, "kind", None) in OWN


def fitted_attributes(classifier: Any) -> dict[str, Any]:
    """Return the fitted arrays and numbers of a classifier of hpcml; their names end in "_"."""
    return {name: value for name, value in sorted(vars(classifier).items()) if name.endswith("_") and name != "feature_names_in_"}


def check_savable(learner: Learner, n_classes: int = 2, dense: bool = True, save: bool = True) -> None:
    """Raise ConfigError unless a classifier can be trained, saved (if `save`) and read; also compiles the kernels."""
    y = np.arange(20 * n_classes) % n_classes
    X = np.random.default_rng(0).random((y.size, 4), dtype=np.float32) + y[:, None].astype(np.float32)
    X = X if dense else sp.csr_matrix(X)
    kind = type(learner.unfitted(0, dense))
    if save and not hasattr(kind, "kind") and not skops_file.is_savable(kind):
        raise OptionError("base", learner.name, f"classifiers of this kind cannot be saved; expected {skops_file.SAVABLE_NAMES}")
    classifier = fit(learner, X, y, 0)
    expected = scores(classifier, X, n_classes)
    confidence(classifier, X)
    if not save or is_own(classifier):
        return
    try:
        restored = scores(skops_file.load(skops_file.dump(classifier), X.shape[1]), X, n_classes)
    except ConfigError:  # skops is not installed
        raise
    except Exception as error:  # noqa: BLE001 - skops and scikit-learn raise errors of many kinds
        raise OptionError("base", learner.name, f"its classifiers cannot be saved: {one_line(error)}; choose another") from None
    if not np.array_equal(restored, expected):
        raise OptionError("base", learner.name, "its classifiers score differently after saving and reading; choose another")


class FoundThreshold(NamedTuple):
    """The score above which a row belongs to the second of two classes, and how it was chosen."""

    value: float
    measure: str
    method: str
    split: str


class MarginData(NamedTuple):
    rows: np.ndarray = np.empty(0, dtype=np.int64)  # (n,) ascending row numbers in the training file
    weights: np.ndarray = np.empty(0, dtype=np.float32)  # (n,)
    cycle: int = 0  # training cycle; 0: all rows


class Origin(NamedTuple):
    """Description of a classifier's training, as stored in its file."""

    method: str
    learner: Learner
    split: str
    label_names: Sequence[str]
    n_features: int
    vocabulary: str
    dense: bool
    more: Mapping[str, Any]  # further attributes of the method (validation_error, ...)
    keys: TrainingKeys | None = None
    raw_input: RawInput | None = None


def write_classifier(
    path: Path | str, classifier: Any, origin: Origin, margin_data: MarginData, threshold: FoundThreshold | None = None
) -> None:
    """Write a classifier file atomically, on one rank inside `mpi.agreed`. Raises DataError."""
    path, dump = Path(path), None if is_own(classifier) else skops_file.dump(classifier)
    base = json.dumps({"name": origin.learner.name, "options": dict(origin.learner.options)}, default=str)
    attrs = {**origin.more, "method": origin.method, "base": base, "split": origin.split, "vocabulary": origin.vocabulary}
    attrs |= {"n_features": int(origin.n_features), "dense": bool(origin.dense)}
    attrs |= {} if threshold is None else dict(zip(THRESHOLDS, threshold[1:], strict=True))
    try:
        with (
            temporary_path(mpi.self_comm(), path, overwrite=True) as temporary,
            open_for_update(temporary, new=True, target=path) as file,
        ):
            stamp(file, "classifier")
            file.attrs.update(attrs)
            write_strings(file, "label_names", list(origin.label_names))
            write_training_keys(file, origin.keys)
            if origin.raw_input is not None:
                origin.raw_input.write(file)
            if dump is None:
                group = require_group(file, "classifier")
                group.attrs["kind"] = classifier.kind
                for name, value in fitted_attributes(classifier).items():
                    if isinstance(value, np.ndarray):
                        group[name] = value
                    else:
                        group.attrs[name] = value
            else:
                file["classifier"] = np.frombuffer(dump, dtype=np.uint8)
            margin = require_group(file, "margin")
            margin["rows"] = np.asarray(margin_data.rows, dtype="<i8")
            margin["weights"] = np.asarray(margin_data.weights, dtype="<f4")
            margin.attrs["cycle"] = int(margin_data.cycle)
            if threshold is not None:
                require_group(file, "labels")["threshold"] = np.array([threshold.value])
    except OSError as error:
        raise file_error(path, "write", error) from None


class ClassifierModel(Trained):
    """A model file with one classifier for all labels (psbml).

    Parameters
    ----------
    path : path
        The model file. `open_model` also accepts a run folder and other kinds of models.
    file : h5py.File or None
        `path`, if it is already open.

    Attributes
    ----------
    classifier : object
        The fitted classifier, with `classes_`.
    base : dict
        The base learner: its name and options.
    n_classes, n_labels, n_features : int
        Number of classes (at least 2), of labels (1 for two classes) and of features.
    dense : bool
        Whether the classifier takes dense rows.
    label_names : list of str
        Names of the labels.
    thresholds : ndarray (n_labels,) of float64
        Scores above which a row gets each label.
    margin_rows : ndarray (n,) of int64
        Ascending numbers of the training rows on which the classifier was fitted.
    margin_weights : ndarray (n,) of float32
        Weights of these rows.
    cycle : int
        Training cycle that selected these rows; 0: all rows.
    attrs : dict
        Attributes of the file (method, split, vocabulary, ...).

    Raises
    ------
    DataError
        If the file cannot be read, is damaged, or has another format version.
    ConfigError
        If the classifier needs skops, which is not installed.

    Examples
    --------
    >>> run = hpcml.train("psbml", "docs.h5", "psbml", label="sea", grid="2x2", cycles=2)
    >>> model = hpcml.ClassifierModel(run.model)
    >>> model.scores(np.zeros((3, model.n_features))).shape
    (3, 1)
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
                raise ValueError("invalid thresholds")
            self.labels["threshold"] = map_dataset(self.path, stored)
        self.margin_rows, self.margin_weights = (map_dataset(self.path, file[f"margin/{name}"]) for name in ("rows", "weights"))
        stored = file["classifier"]
        if isinstance(stored, h5py.Dataset) and (stored.dtype.str, stored.ndim) != ("|u1", 1):
            raise ValueError("invalid classifier")
        types = (self.margin_rows.dtype.str, self.margin_weights.dtype.str)
        if types != ("<i8", "<f4") or self.margin_rows.ndim != 1:
            raise ValueError("invalid types")
        if self.margin_rows.shape != self.margin_weights.shape or (self.margin_rows[1:] <= self.margin_rows[:-1]).any():
            raise ValueError("invalid margin data")
        if self.n_labels in (0, 2) or self.n_features < 0 or not isinstance(self.base, dict):
            raise ValueError("invalid sizes")
        self.classifier = self._load(stored)

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores of rows; the predicted class has the only positive score.

        Parameters
        ----------
        X : array or sparse matrix (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray (n_rows, n_labels) of float64
            For two classes, the score of the second one.

        Raises
        ------
        DataError, NonFiniteError
            If the classifier rejects the rows, or a score is not finite.
        """
        return scores(self.classifier, check_csr(X, "X"), self.n_classes)

    def _load(self, stored: h5py.Group | h5py.Dataset) -> Any:
        try:
            if self.dense and 4 * self.n_features > max(skops_file.SMALL, self.path.stat().st_size):
                raise ValueError(f"dense rows of {self.n_features} features need too much memory")
            if isinstance(stored, h5py.Group):
                values: dict[str, Any] = {name: np.array(map_dataset(self.path, stored[name])) for name in stored}
                kind = text_of(stored, "kind")
                values |= {name: value.item() for name, value in attributes(stored).items() if isinstance(value, np.generic)}
                if not all(name.endswith("_") and not name.startswith("_") for name in values):
                    raise ValueError("invalid names of attributes")
                classifier: Any = object.__new__(own_class(kind))
                vars(classifier).update(values)
                if kind != "constant":
                    if type(classifier.n_features_in_) is not int or classifier.classes_.ndim != 1:
                        raise ValueError("invalid n_features_in_ or classes_")
                    classifier.check_arrays()
            else:
                classifier = skops_file.load(map_dataset(self.path, stored).data, self.n_features)
            classes = np.asarray(classifier.classes_)
            ascend = classes.ndim == 1 and classes.size > 0 and classes.dtype.kind == "i" and (classes[1:] > classes[:-1]).all()
            fits = ascend and 0 <= classes[0] <= classes[-1] < self.n_classes
            fits = fits and getattr(classifier, "n_features_in_", self.n_features) == self.n_features
            if fits and not isinstance(classifier, Constant):  # the arrays may have another number of features than the file
                row = sp.csr_matrix((1, self.n_features), dtype=np.float32)
                row = row.toarray() if self.dense else row
                fits = scores(classifier, row, self.n_classes).shape == (1, self.n_labels)
        except DataError as error:
            raise DataError(f"{self.path}: {error}; only classifiers trained by hpcml can be read") from None
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
        except Exception as error:  # noqa: BLE001 - skops, zipfile and scikit-learn raise errors of many kinds
            raise self._damaged(f"{one_line(error)}; or it was saved with another scikit-learn version") from None
        if not fits:
            raise self._damaged("its classes or features differ from those of the file")
        return classifier

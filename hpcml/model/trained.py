"""The base class of models: labels, features, thresholds, probabilities and training rows, read from a file."""

import copy
import math
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, OptionError, file_error, is_system_error
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped, readable
from hpcml.files.untrusted import attributes, text_of
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import NAME as TRAINING_KEYS
from hpcml.model.training_keys import TrainingKeys

SIGMOID = ("sigmoid_slope", "sigmoid_offset")  # columns labels/* that map scores to probabilities
THRESHOLDS = ("threshold_measure", "threshold_method", "threshold_split")  # attributes of a model with thresholds
LEAVE_ONE_OUT = "leave-one-out"  # threshold_method of a training's own thresholds
CALIBRATION = ("calibration_method", "calibration_split")  # attributes of a calibrated model
LOG_ODDS = "logistic"  # the loss whose scores are log-odds


class Trained:
    """Base class of models read from a file; a subclass reads the weights or the classifier in `_read`."""

    path: Path
    kind: str  # of the file
    attrs: dict[str, Any]
    vocabulary: str
    n_features: int
    n_labels: int
    label_names: list[str]
    label_titles: list[str] | None = None  # "" for a label without title; None: the file has no titles
    labels: dict[str, np.ndarray]  # results per label (n_labels,), at least `steps`
    thresholds: np.ndarray  # (n_labels,) float64: scores above which a row gets each label
    threshold: float | None = None  # replaces all stored thresholds
    training_keys: TrainingKeys | None = None  # keys of the training rows, if they have keys

    def __init__(self, path: Path | str, file: h5py.File | None = None) -> None:
        self.path = Path(path)
        with open_stamped(path, self.kind, "hpcml train") if file is None else nullcontext(file) as file:
            try:
                self.attrs = attributes(file)
                self.vocabulary = text_of(file, "vocabulary")
                self._read(file)
                labels = self.labels
                self.thresholds = labels.get("threshold", np.zeros(self.n_labels))
                slope, offset = (labels.get(name, np.zeros(0)) for name in SIGMOID)
                if not np.isfinite(self.thresholds).all():
                    raise ValueError("a threshold is not a finite number")
                if not (np.isfinite(slope).all() and np.isfinite(offset).all() and (slope >= 0).all()):
                    raise ValueError("invalid sigmoids")
                if TRAINING_KEYS in file:
                    stored = file[TRAINING_KEYS]
                    keys = map_dataset(self.path, stored)
                    if stored.dtype.str != "<u8" or stored.ndim != 1 or (keys[1:] <= keys[:-1]).any():
                        raise ValueError("invalid training keys")
                    self.training_keys = TrainingKeys(keys, bool(stored.attrs["complete"]) or not keys.size)
            except DAMAGE as error:
                if is_system_error(error):
                    raise file_error(path, "read", error) from None
                raise self._damaged("a part is missing or of another size") from None

    def _read(self, file: h5py.File) -> None:
        """Read, map and check all parts. Raises DataError and errors of h5py and NumPy."""
        raise NotImplementedError

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path}: damaged {self.kind}: {what}; train it again")

    @cached_property
    def raw_input(self) -> RawInput | None:
        """Description of the features, read on first access; None: the file has none. Raises DataError."""
        with open_stamped(self.path, self.kind, "hpcml train") as file, readable(self.path, "hpcml train", self.kind):
            return RawInput.read(file, self.n_features, self.vocabulary)

    @property
    def has_own_thresholds(self) -> bool:
        """Whether the thresholds are those of the training, from leave-one-out scores."""
        return "threshold" in self.labels and self.attrs.get(THRESHOLDS[1]) == LEAVE_ONE_OUT

    @property
    def threshold_source(self) -> str:
        """Origin of the thresholds as text; "" if they are all 0 by default."""
        if self.threshold is not None:
            return f"{self.threshold:g} for all labels"
        if "threshold" not in self.labels:
            return ""
        measure, method, split = (str(self.attrs.get(name, "?")) for name in THRESHOLDS)
        if self.has_own_thresholds:
            return f"from leave-one-out scores of split {split} (measure {measure})"
        return f"chosen on split {split} (measure {measure}, method {method})"

    @property
    def sigmoids(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Slopes and offsets (n_labels,) of the probabilities 1 / (1 + exp(−slope · score − offset)); None: no probabilities."""
        if SIGMOID[0] in self.labels:
            return self.labels[SIGMOID[0]], self.labels[SIGMOID[1]]
        return (np.ones(self.n_labels), np.zeros(self.n_labels)) if self._has_log_odds else None

    @property
    def _has_log_odds(self) -> bool:
        weights = self.labels.get("positive_weight", np.ones(1))
        is_unweighted = str(self.attrs.get("positive_weight", "1")) == "1" and bool((weights == 1.0).all())
        return self.attrs.get("loss") == LOG_ODDS and is_unweighted

    @property
    def probability_source(self) -> str:
        """Origin of the probabilities as text; "" if the model has none."""
        if SIGMOID[0] in self.labels:
            method, split = (str(self.attrs.get(name, "?")) for name in CALIBRATION)
            return f"calibrated ({method}, on split {split})"
        return f"log-odds of --loss {self.attrs['loss']}, not calibrated" if self._has_log_odds else ""

    def check_probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sigmoids that turn scores into probabilities 1 / (1 + exp(−slope · score − offset)).

        Returns
        -------
        slopes, offsets : ndarray (n_labels,) of float64
            Parameters of each label's sigmoid.

        Raises
        ------
        ConfigError
            If the model has no probabilities.
        """
        if self.sigmoids is None:
            raise ConfigError(f"{self.path}: has no probabilities; add them with hpcml calibrate (linear models)")
        return self.sigmoids

    def with_threshold(self, threshold: float) -> Self:
        """Return the model with one threshold for all labels.

        Parameters
        ----------
        threshold : float
            Score above which a row gets a label.

        Returns
        -------
        Model or ClassifierModel
            A view of the model; the file is unchanged.

        Raises
        ------
        ConfigError
            If the threshold is not finite.
        """
        if not math.isfinite(threshold):
            raise OptionError("threshold", threshold, "expected a finite number")
        out = copy.copy(self)
        out.threshold, out.thresholds = float(threshold), np.full(self.n_labels, float(threshold))
        return out

    def check_numbering(self, zero_based: bool) -> None:
        """Check that svmlight text numbers its features as the training text did.

        Parameters
        ----------
        zero_based : bool
            Whether the indices of the text start at 0.

        Raises
        ------
        ConfigError
            If only the training text was zero-based.
        """
        if self.attrs.get("zero_based", False) and not zero_based:
            raise ConfigError(f"{self.path}: the model was trained with --zero-based; add --zero-based")

    def check_vocabulary(self, dataset: DataFile) -> None:
        """Check that a dataset has the features of the model.

        Parameters
        ----------
        dataset : Dataset
            The dataset to score.

        Raises
        ------
        DataError
            If it has other features.
        """
        if dataset.n_features != self.n_features:
            problem = f"has {dataset.n_features} features but {self.path} was trained on {self.n_features}"
        elif dataset.vocabulary != self.vocabulary:
            problem = f"has other features (the same number, but other names) than {self.path} was trained on"
        else:
            return
        raise DataError(f"{dataset.path}: {problem}; convert the data with `--like` the training file")

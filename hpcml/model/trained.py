"""A model read from its file, the part that every kind of model has: labels, features, thresholds, probabilities, training rows."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, DataError, OptionError, file_error, is_of_the_system
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped, readable
from hpcml.files.untrusted import attributes, text_of
from hpcml.model.raw_input import RawInput
from hpcml.model.training_keys import NAME as TRAINING_KEYS
from hpcml.model.training_keys import TrainingKeys

SIGMOID = ("sigmoid_slope", "sigmoid_offset")  # of labels/*, what makes scores probabilities
THRESHOLDS = ("threshold_measure", "threshold_method", "threshold_split")  # what a model with thresholds says of them
CALIBRATION = ("calibration_method", "calibration_split")  # what a model with probabilities says of them
LOG_ODDS = "logistic"  # the loss whose scores are the log-odds of probabilities


class Trained:
    """A model read from its file: the part about its origin, which every kind of model has."""

    path: Path
    kind: str  # of its file
    attrs: dict[str, Any]
    vocabulary: str
    n_features: int
    n_labels: int
    label_names: list[str]
    label_titles: list[str] | None = None  # what people call the labels ("" where one has no title), if the file says so
    labels: dict[str, np.ndarray]  # of each label, how its training ended; at least `steps`
    thresholds: np.ndarray  # the scores (n_labels float64) above which a row gets each label
    threshold: float | None = None  # of all labels, in place of the stored ones
    training_keys: TrainingKeys | None = None  # which rows it was trained on, if these have keys

    def __init__(self, path: Path | str, file: h5py.File | None = None) -> None:
        """Raises DataError if the file (or `file`, which is that one, open) is no sound model of this version's format."""
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
                    raise ValueError("a sigmoid is not one")
                if TRAINING_KEYS in file:
                    stored = file[TRAINING_KEYS]
                    keys = map_dataset(self.path, stored)
                    if stored.dtype.str != "<u8" or stored.ndim != 1 or (keys[1:] <= keys[:-1]).any():
                        raise ValueError("wrong keys of training rows")
                    complete = bool(stored.attrs["complete"])
                    self.training_keys = TrainingKeys(keys, int(keys[-1]) if keys.size else 0, complete)
            except DAMAGE as error:
                if is_of_the_system(error):
                    raise file_error(path, "read", error) from None
                raise self._damaged("a part is missing or of another size") from None

    def _read(self, file: h5py.File) -> None:
        """Read, map and check every part. Raises DataError, or what h5py and numpy raise."""
        raise NotImplementedError

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path}: damaged {self.kind}: {what}; train it again")

    @cached_property
    def raw_input(self) -> RawInput | None:
        """How raw input becomes rows, read when it is first needed; None: the file does not say. Raises DataError."""
        with open_stamped(self.path, self.kind, "hpcml train") as file, readable(self.path, "hpcml train", self.kind):
            return RawInput.read(file, self.n_features, self.vocabulary)

    @property
    def threshold_source(self) -> str:
        """The origin of the thresholds, in a few words; "" if nobody set them."""
        if self.threshold is not None:
            return f"{self.threshold:g} for all labels"
        if "threshold" not in self.labels:
            return ""
        measure, method, split = (str(self.attrs.get(name, "?")) for name in THRESHOLDS)
        return f"those of the model (measure {measure}, method {method}, found on split {split})"

    @property
    def sigmoids(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Slope and offset (n_labels each) of probabilities 1 / (1 + exp(−slope s − offset)).

        The stored ones, or else 1 and 0 for scores that are log-odds already; None without.
        """
        if SIGMOID[0] in self.labels:
            return self.labels[SIGMOID[0]], self.labels[SIGMOID[1]]
        return (np.ones(self.n_labels), np.zeros(self.n_labels)) if self.has_log_odds else None

    @property
    def has_log_odds(self) -> bool:
        """Whether the scores are log-odds: logistic loss, with rows of equal weight."""
        equal = str(self.attrs.get("positive_weight", "1")) == "1" and bool(np.all(self.labels.get("positive_weight", 1.0) == 1.0))
        return self.attrs.get("loss") == LOG_ODDS and equal

    @property
    def probability_source(self) -> str:
        """Where the probabilities come from, in a few words; "" if the model has none."""
        if SIGMOID[0] in self.labels:
            method, split = (str(self.attrs.get(name, "?")) for name in CALIBRATION)
            return f"calibrated ({method}, on split {split})"
        return f"log-odds of --loss {self.attrs['loss']}, not calibrated" if self.has_log_odds else ""

    def check_probabilities(self) -> tuple[np.ndarray, np.ndarray]:
        """The sigmoids. Raises ConfigError if there are none. Local."""
        if self.sigmoids is None:
            raise ConfigError(f"{self.path} has no probabilities; a linear model gets them from held-out rows by hpcml calibrate")
        return self.sigmoids

    def with_threshold(self, threshold: float) -> Self:
        """The same model with one threshold. Raises ConfigError."""
        if not math.isfinite(threshold):
            raise OptionError("threshold", threshold, "expected a finite number")
        out = copy.copy(self)
        out.threshold, out.thresholds = float(threshold), np.full(self.n_labels, float(threshold))
        return out

    def check_numbering(self, zero_based: bool) -> None:
        """Raise ConfigError for text from 1 if training's indices began at 0."""
        if self.attrs.get("zero_based", False) and not zero_based:
            raise ConfigError(f"{self.path}: it was trained on text with --zero-based; give --zero-based here, too")

    def check_vocabulary(self, dataset: DataFile) -> None:
        """Raises DataError unless the dataset has the features that the model was trained on."""
        if dataset.n_features != self.n_features:
            what = f"has {dataset.n_features} features but {self.path} was trained on {self.n_features}"
        elif dataset.vocabulary != self.vocabulary:
            what = f"has other features (as many, but other names) than {self.path} was trained on"
        else:
            return
        raise DataError(f"{dataset.path}: {what}; convert the data with `--like` the training file")

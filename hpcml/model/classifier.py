"""The file of a model that is one scikit-learn classifier, and of the rows that it stands on.

It is an HDF5 file stamped `hpcml-format = "classifier"`. `classifier` (uint8) holds the classifier
as skops saves it: a ZIP archive of arrays and a description in JSON, which runs no code of the
file's when it is read, unlike a pickle. `label_names` has one name for two classes, that of class
1, else one for each class. `margin/rows` (row numbers of the training file, ascending) and
`margin/weights` (float32) are the rows that the classifier was made from, when attribute `cycle` of
`margin` counted the training. `labels/threshold` is as in a linear model. Attributes hold the
method, the base learner (JSON), split, vocabulary, whether rows are `dense`, and what its `scores`
are.

The bytes depend on the classifier alone, so that one training gives one file, whatever the process:
a dump is rewritten without dates and addresses in memory (`canonical`).
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.earlier_names import BASES, name_of_now, with_names_of_now
from hpcml.errors import ConfigError, DataError, file_error
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import DAMAGE, map_dataset, open_stamped, stamp, write_strings
from hpcml.files.slabs import editing, group_in
from hpcml.files.untrusted import attributes, read_strings, text_of
from hpcml.model import own_dump
from hpcml.model.estimator_checks import KEPT, check_classifier, kept_classifiers, path_of
from hpcml.model.learner import LEARNERS, Constant, Learner, confidence, fit, one_line, scores
from hpcml.model.linear import THRESHOLDS, Trained, check_labels
from hpcml.model.untrusted_dump import CLASSES, SMALL, check_dump

LOG_ODDS = "log-odds"  # attribute `scores`: what they are of a learner that has them; absent, as before version 0.9: probabilities
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP archive knows
_IN_FILES = {path: name for name, path in CLASSES.items()}


def _skops() -> Any:
    """skops.io without its list of all estimators, which takes 0.7 s. Raises ConfigError."""
    if "skops.io" not in sys.modules:
        import sklearn.utils

        gather, sklearn.utils.all_estimators = sklearn.utils.all_estimators, list
        try:
            importlib.import_module("skops.io")
        except ImportError:
            raise ConfigError("classifiers of scikit-learn are saved by skops; install it: pip install 'hpcml[sklearn]'") from None
        finally:
            sklearn.utils.all_estimators = gather
    return sys.modules["skops.io"]


def dump_classifier(classifier: Any) -> bytes:
    """The classifier as skops saves it, in canonical form. Raises what skops raises."""
    return canonical(own_dump.dump(classifier) if own_dump.is_own(classifier) else _skops().dumps(classifier))


def canonical(dump: bytes) -> bytes:
    """The same dump without what differs by process: dates, padding, addresses, file names; of a
    class of ours, also without the version of skops.

    Arrays are named by their order in the description; equal ones are stored once.
    """
    out, names = io.BytesIO(), dict[str, str]()
    with zipfile.ZipFile(io.BytesIO(dump)) as source, zipfile.ZipFile(out, "w") as target:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            target.writestr(entry, content)

        def renamed(name: str) -> str:
            content = _without_padding(source.read(name)) if name.endswith(".npy") else source.read(name)
            digest = hashlib.sha256(content).hexdigest()
            if digest not in names:
                names[digest] = f"{len(names)}{Path(name).suffix}"
                add(names[digest], content)
            return names[digest]

        def without_address(node: dict[str, Any]) -> dict[str, Any]:
            kept = {key: part for key, part in node.items() if key != "__id__" or not isinstance(part, int)}
            kept = _with_class(kept, _IN_FILES)
            return kept | {"file": renamed(kept["file"])} if isinstance(kept.get("file"), str) else kept

        root = json.loads(source.read("schema.json"))
        if own_dump.own_path(root) is not None:  # which needs no skops
            root.pop("_skops_version", None)
        add("schema.json", json.dumps(_rewritten(root, without_address)).encode())
    return out.getvalue()


def _rewritten(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A dump's description with each of its parts changed, the inner ones first."""
    if isinstance(node, list):
        return [_rewritten(part, change) for part in node]
    return change({key: _rewritten(part, change) for key, part in node.items()}) if isinstance(node, dict) else node


def _with_class(node: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A part of a dump's description with the class that `names` has for its own, if it has one."""
    module, _, name = names.get(f"{node.get('__module__')}.{node.get('__class__')}", "").rpartition(".")
    return node | {"__class__": name, "__module__": module} if name else node


def _with_our_classes(dump: bytes) -> bytes:
    """The same dump, which is sound, with our classes named by what they are called here."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(dump)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "schema.json":
                content = json.dumps(_rewritten(json.loads(content), lambda node: _with_class(node, CLASSES))).encode()
            target.writestr(name, content)
    return out.getvalue()


def _without_padding(content: bytes) -> bytes:
    """A saved array with zeros between its records' fields, where any bytes may be."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, out = np.zeros(array.shape, array.dtype), io.BytesIO()
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(out, clean, allow_pickle=False)
    return out.getvalue()


def load_classifier(dump: bytes, n_features: int) -> Any:
    """The classifier of a dump. DataError for a class that is not kept, any for damage."""
    check_dump(dump, n_features)  # every part of it is of a type that is kept, so all may be trusted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = own_dump.load(dump)
        if classifier is None:
            dump = _with_our_classes(dump)
            classifier = _skops().loads(dump, trusted=_skops().get_untrusted_types(data=dump))
        check_classifier(classifier, n_features)
    return classifier


def is_kept(learner: Learner) -> bool:
    """Whether files may hold the learner's classifiers."""
    path = path_of(type(learner.unfitted(0)))
    return path in KEPT and KEPT[path].classifies


def check_savable(learner: Learner, n_classes: int = 2, dense: bool = True, save: bool = True) -> None:
    """Train, save and read on made-up rows, so that no long training ends without a file. Local.

    Learners of ours with plain options are known to be saved; the tests do so. It also compiles
    what kernels of ours the learner has, so call it on one rank of a node first; a rank whose
    classifiers are saved by another needs only that (`save` False). Raises ConfigError if the
    learner refuses, or if its classifiers could not be saved or would not be trusted when read.
    """
    y = np.arange(20 * n_classes) % n_classes
    X = np.random.default_rng(0).random((y.size, 4), dtype=np.float32) + y[:, None].astype(np.float32)
    X = X if dense else sp.csr_matrix(X)
    if save and not is_kept(learner):
        raise ConfigError(f"--base {learner.name}: its classifiers cannot be saved; choose one of {kept_classifiers()}")
    classifier = fit(learner, X, y, 0)
    expected = scores(classifier, X, n_classes)
    confidence(classifier, X)
    if save and not own_dump.is_own(classifier):
        _skops()
    if not save or (learner.name in LEARNERS and learner.path == LEARNERS[learner.name].path and learner.is_plain):
        return
    try:
        found = scores(load_classifier(dump_classifier(classifier), X.shape[1]), X, n_classes)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being saved
        raise ConfigError(f"--base {learner.name}: its classifiers cannot be saved: {one_line(error)}; choose another") from None
    if not np.array_equal(found, expected):
        raise ConfigError(f"--base {learner.name}: its classifiers are not the same when saved and read; choose another")


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

    @property
    def attributes(self) -> dict[str, Any]:
        """The file's."""
        path = _IN_FILES.get(self.learner.path, self.learner.path)
        base = {"name": self.learner.name, "path": path, "options": dict(self.learner.options)}
        found = {**self.more, "method": self.method, "base": json.dumps(base, default=str), "split": self.split}
        sizes = {"n_features": int(self.n_features), "dense": bool(self.dense)}
        return {**found, "vocabulary": self.vocabulary, **sizes, "scores": LOG_ODDS}


def write_classifier(
    path: Path | str, classifier: Any, origin: Origin, margin_data: MarginData, threshold: FoundThreshold | None = None
) -> None:
    """Write the file, whole or not at all, in place of an older one. Local; raises DataError.

    Call it on one rank, in an agreed region. Without a `threshold` it is 0.
    """
    path, dump = Path(path), dump_classifier(classifier)
    attrs = origin.attributes | ({} if threshold is None else dict(zip(THRESHOLDS, threshold[1:], strict=True)))
    try:
        with temporary_path(mpi.self_comm(), path, overwrite=True) as temporary, editing(temporary, new=True, target=path) as file:
            stamp(file, "classifier")
            file.attrs.update(attrs)
            write_strings(file, "label_names", list(origin.label_names))
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

    `classifier` is the scikit-learn classifier, `dense` whether it takes dense rows, `n_classes`
    how many classes it tells apart; `base` the learner (name, path, options); `margin_rows`,
    `margin_weights` and `cycle` the margin data.
    """

    def __init__(self, path: Path | str) -> None:
        """Raises DataError if it is no sound classifier of this version's format."""
        self.path = Path(path)
        with open_stamped(path, "classifier", "hpcml train") as file:
            try:
                self._read(file)
            except DAMAGE:
                raise DataError(f"{path}: damaged classifier: a part is missing or of another size; train it again") from None
            dump = map_dataset(self.path, file["classifier"]).data
        self.classifier = self._load(dump)

    def _read(self, file: h5py.File) -> None:
        """Everything but the classifier. Raises what h5py and numpy raise for a bad part."""
        self.attrs = with_names_of_now(attributes(file))
        self.vocabulary, self.n_features = text_of(file, "vocabulary"), int(file.attrs["n_features"])
        self.base: dict[str, Any] = json.loads(text_of(file, "base"))
        self.log_odds = "scores" in file.attrs
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
            check_labels(self.labels)
        self.margin_rows, self.margin_weights = (map_dataset(self.path, file[f"margin/{name}"]) for name in ("rows", "weights"))
        types = (self.margin_rows.dtype.str, self.margin_weights.dtype.str, file["classifier"].dtype.str)
        if types != ("<i8", "<f4", "|u1") or file["classifier"].ndim != 1 or self.margin_rows.ndim != 1:
            raise ValueError("wrong types")
        if self.margin_rows.shape != self.margin_weights.shape or (self.margin_rows[1:] <= self.margin_rows[:-1]).any():
            raise ValueError("wrong margin data")
        if self.log_odds and text_of(file, "scores") != LOG_ODDS:
            raise ValueError("unknown scores")
        if self.n_labels in (0, 2) or self.n_features < 0 or not isinstance(self.base, dict):
            raise ValueError("wrong sizes")
        if "name" in self.base:
            self.base["name"] = name_of_now(self.base["name"], BASES)

    def scores(self, X: Any) -> np.ndarray:
        """Scores (n_rows × n_labels float64) of X. Raises NonFiniteError, DataError."""
        return scores(self.classifier, X, self.n_classes, self.log_odds)

    def _load(self, dump: bytes | memoryview) -> Any:
        """The classifier, once it is sound and fits the rest. Raises DataError."""
        try:
            if self.dense and 4 * self.n_features > max(SMALL, len(dump)):
                raise ValueError(f"dense rows of {self.n_features} features")
            if len(dump) > SMALL:  # a large one is looked at where it lies; the copy is checked again, for it is what is read
                check_dump(dump, self.n_features)
            classifier = load_classifier(bytes(dump), self.n_features)
            classes = np.asarray(classifier.classes_)
            sound = classes.ndim == 1 and classes.size > 0 and classes.dtype.kind == "i" and (classes[1:] > classes[:-1]).all()
            fits = sound and 0 <= classes[0] <= classes[-1] < self.n_classes
            fits = fits and getattr(classifier, "n_features_in_", self.n_features) == self.n_features
            if fits and not isinstance(classifier, Constant):  # its width is that of its arrays
                row = sp.csr_matrix((1, self.n_features), dtype=np.float32)
                row = row.toarray() if self.dense else row
                fits = scores(classifier, row, self.n_classes, self.log_odds).shape == (1, self.n_labels)
        except DataError as error:
            raise DataError(f"{self.path}: {error}; read only files of your own training") from None
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
        except Exception as error:  # noqa: BLE001 - whatever skops, zipfile and scikit-learn make of a damaged dump
            raise DataError(
                f"{self.path}: damaged classifier, or one of another scikit-learn version: {one_line(error)}; train it again"
            ) from None
        if not fits:
            raise DataError(f"{self.path}: damaged classifier: its classes or features are not those of the file; train it again")
        return classifier

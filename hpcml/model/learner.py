"""Base learners: classifiers that a method trains many times.

A learner is given as a name and options (`tree max_depth=5`, `sklearn.linear_model.LogisticRegression C=0.5`). `confidence` returns
the confidence of a classifier in each row, `scores` a score per label, positive for the predicted class. Classes are the numbers
0 .. n_classes − 1; the training rows of a classifier may lack some of them. The scores of a row by trees, naive Bayes and linear
classifiers do not depend on the other rows, bit for bit.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hpcml.errors import ConfigError, DataError, NonFiniteError, OptionError, nearest
from hpcml.loading import one_thread

# Minimum density for dense rows. A CSR non-zero takes 8 bytes and a dense entry 4, so dense rows then need no more memory.
ALWAYS_DENSE = 0.5
# Minimum density for dense rows if the learner is faster on them.
OFTEN_DENSE = 0.05
# Score of a class that is not in the training rows; finite in float32, too.
LOWEST = -float(np.finfo(np.float32).max)
# Replaces log(0): finite, and below every other logarithm of a probability.
_LOG_0 = -1e30
_ABOVE_0 = np.nextafter(0.0, 1.0)
# scikit-learn accepts seeds below this number.
_SEEDS = 1 << 32
# Errors that classifiers raise for invalid rows or options.
_LEARNER_ERRORS = (ValueError, TypeError, ArithmeticError, RuntimeError, IndexError, AttributeError)

SKLEARN_TREE = "sklearn.tree.DecisionTreeClassifier"
KERNEL_NB, GAUSSIAN_NB = "hpcml.model.naive_bayes.KernelNB", "hpcml.model.naive_bayes.GaussianNB"
# Classifier classes of hpcml by their kind in files. None of them imports scikit-learn, which takes one second.
OWN = {
    "constant": "hpcml.model.learner.Constant",
    "gaussian-nb": "hpcml.model.densities.GaussianDensities",
    "kernel-nb": "hpcml.model.densities.KernelDensities",
    "tree": "hpcml.model.decision_tree.DecisionTree",
}

# Options that DecisionTree supports; with others, scikit-learn's tree is used.
_TREE_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "criterion": lambda value: bool(value == "entropy"),
    "max_depth": lambda value: value is None or (type(value) is int and value > 0),
    "min_samples_leaf": lambda value: type(value) is int and value > 0,
}

# Classes of learners that can score rows on a GPU.
ON_GPU = {KERNEL_NB: "hpcml.model.gpu_bayes.KernelDensitiesOnGpu", GAUSSIAN_NB: "hpcml.model.gpu_bayes.GaussianDensitiesOnGpu"}


def cpu_version(classifier: Any) -> Any:
    """Return the CPU version of a classifier that scores on a GPU, or the classifier itself."""
    kind = getattr(classifier, "kind", None)
    if kind not in ("kernel-nb", "gaussian-nb"):
        return classifier
    twin = own_class(kind)()
    vars(twin).update(vars(classifier))
    return twin


def own_class(kind: str) -> type:
    cls: type = _import(OWN[kind])
    return cls


@dataclass(frozen=True)
class Learner:
    name: str
    path: str
    options: tuple[tuple[str, Any], ...] = ()
    prefers_dense: bool = False
    on_gpu: bool = False

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.options)])

    @cached_property
    def _class(self) -> Any:
        return _import(self.path)

    def make(self, seed: int) -> Any:
        """Return a new classifier of scikit-learn; `seed` is its random_state unless the options set one."""
        classifier = self._class(**dict(self.options))
        if "random_state" in classifier.get_params(deep=False) and "random_state" not in dict(self.options):
            classifier.set_params(random_state=int(seed) % _SEEDS)
        return classifier

    @property
    def own_kind(self) -> str | None:
        """The kind in OWN that implements the learner (trees: for dense rows only); None: scikit-learn's class."""
        if self.name in ("tree", "stump"):
            known = all(name in _TREE_OPTIONS and _TREE_OPTIONS[name](value) for name, value in self.options)
            return "tree" if known else None
        return None if self.options else {KERNEL_NB: "kernel-nb", GAUSSIAN_NB: "gaussian-nb"}.get(self.path)

    def unfitted(self, seed: int, dense: bool = True) -> Any:
        """Return a new classifier: of hpcml where possible, else of scikit-learn."""
        kind = self.own_kind
        if self.on_gpu:
            return _import(ON_GPU[self.path])()
        if kind is None or (kind == "tree" and not dense):
            return self.make(seed)
        return own_class(kind)(**{name: value for name, value in self.options if name != "criterion"})

    def with_gpu_scoring(self) -> Learner:
        """Return the learner whose classifiers score on a GPU. Raises ConfigError if there is none."""
        if self.path not in ON_GPU:
            names = " and ".join(sorted(name for name, learner in LEARNERS.items() if learner.path in ON_GPU))
            raise OptionError("device", "gpu", f"{self.name} cannot score on a GPU, only {names}; remove it")
        return replace(self, on_gpu=True)

    @property
    def accepts_sparse(self) -> bool:
        if self.own_kind is not None:
            return True
        from sklearn.utils import get_tags

        return bool(get_tags(self.make(0)).input_tags.sparse)

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        """Whether the rows should be dense float32. The numbers are those of the data set, so all ranks decide alike."""
        density = nnz / max(1, n_rows * n_features)
        return density >= (OFTEN_DENSE if self.prefers_dense else ALWAYS_DENSE) or not self.accepts_sparse


# Trees split by information gain as C4.5; linear-svm is LIBLINEAR with squared hinge loss; naive Bayes is as in Weka, with and
# without -K.
LEARNERS = {
    learner.name: learner
    for learner in (
        Learner("tree", SKLEARN_TREE, (("criterion", "entropy"), ("min_samples_leaf", 2)), prefers_dense=True),
        Learner("stump", SKLEARN_TREE, (("criterion", "entropy"), ("max_depth", 1)), prefers_dense=True),
        Learner("linear-svm", "sklearn.svm.LinearSVC"),
        Learner("kernel-nb", KERNEL_NB),
        Learner("gaussian-nb", GAUSSIAN_NB),
    )
}


class Constant:
    kind = "constant"

    def __init__(self, label: int) -> None:
        self.classes_ = np.array([label], dtype=np.int64)

    def predict(self, X: Any) -> np.ndarray:
        return np.full(X.shape[0], self.classes_[0])


def parse_learner(tokens: Sequence[str]) -> Learner:
    """Parse a name in LEARNERS or the dotted path of a scikit-learn class, and KEY=VALUE options. Raises ConfigError."""
    if not tokens:
        expected = f"{', '.join(sorted(LEARNERS))} or the dotted path of a scikit-learn classifier"
        raise OptionError("base", None, f"no learner; expected {expected}")
    name, *rest = tokens
    if name not in LEARNERS and "." not in name:
        near = nearest(name, LEARNERS)
        raise OptionError("base", name, f"unknown learner; {near} (or the dotted path of a scikit-learn classifier)")
    known = LEARNERS.get(name, Learner(name, name))
    options: dict[str, Any] = {}
    for token in rest:
        key, equals, text = token.partition("=")
        if not equals or not key:
            raise OptionError("base", name, f"{token!r} is not an option; expected KEY=VALUE")
        if key in options:
            raise OptionError("base", name, f"{key} is given twice")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            options[key] = text
    learner = replace(known, options=tuple((dict(known.options) | options).items()))
    if learner.own_kind is None:
        _check_sklearn_class(learner)
    return learner


def _import(path: str) -> Any:
    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError, SyntaxError) as error:
        raise OptionError("base", path, f"cannot import {module_name or path}: {one_line(error)}") from None
    if not hasattr(module, name):
        near = nearest(name, [known for known in dir(module) if known[:1].isupper()])
        raise OptionError("base", path, f"{module_name} has no {name}" + (f"; {near}" if near else ""))
    return getattr(module, name)


def _check_sklearn_class(learner: Learner) -> None:
    """Raise ConfigError unless the class is a scikit-learn classifier with scores or probabilities, and its options are valid."""
    from sklearn.base import BaseEstimator, is_classifier

    kind, options = learner._class, dict(learner.options)
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise OptionError("base", learner.name, f"{learner.path} is not a scikit-learn classifier")
    known = learner._class._get_param_names()
    for key in options:
        if key not in known:
            near = nearest(key, known) or f"see scikit-learn's documentation of {kind.__name__}"
            raise OptionError("base", learner.name, f"unknown option {key!r}; {near}")
    try:
        classifier = learner.make(0)
        if not is_classifier(classifier):
            raise OptionError("base", learner.name, f"{learner.path} is not a scikit-learn classifier")
        if hasattr(classifier, "_parameter_constraints"):
            classifier._validate_params()
        has_scores = hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")
    except _LEARNER_ERRORS as error:
        raise OptionError("base", learner.name, one_line(error)) from None
    if not has_scores:
        raise OptionError("base", learner.name, "with these options it has neither predict_proba nor decision_function")
    if options.get("decision_function_shape") == "ovo":
        raise OptionError("base", learner.name, "decision_function_shape=ovo gives no value per class; remove it")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def fit(learner: Learner, X: Any, y: np.ndarray, seed: int) -> Any:
    """Fit a classifier to X (n_rows, n_features) and y (n_rows,), without warnings. Raises ConfigError if it rejects the rows."""
    classes = np.flatnonzero(np.bincount(y))
    if classes.size == 1:
        return Constant(int(classes[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            classifier = learner.unfitted(seed, isinstance(X, np.ndarray))
            with one_thread():
                return classifier.fit(_cast_rows(classifier, X), y)
        except _LEARNER_ERRORS as error:
            raise OptionError("base", learner.name, f"cannot be trained on these rows: {one_line(error)}") from None


def confidence(classifier: Any, X: Any) -> np.ndarray:
    """Return the distance of each row from the decision boundary (n_rows,).

    It is the difference of the two largest class probabilities. Without probabilities, it is the difference of the two largest
    values of the decision function, or the magnitude of its only value; for a `Constant` it is infinite. Raises NonFiniteError.
    """
    if isinstance(classifier, Constant):
        return np.full(X.shape[0], np.inf)
    if hasattr(classifier, "confidence"):
        return _numbers(classifier, "confidence", X)
    values = _numbers(classifier, "predict_proba" if hasattr(classifier, "predict_proba") else "decision_function", X)
    if values.ndim == 1:
        return np.asarray(np.abs(values))
    first, second = np.partition(values, -2, axis=1)[:, -2:].T[::-1]
    return np.asarray(first - second)


def scores(classifier: Any, X: Any, n_classes: int) -> np.ndarray:
    """Return the scores of X (n_rows, n_labels); for two classes, n_labels is 1 and the score is that of class 1.

    The value of a class is its decision function ((0, d) for two classes), else its joint log probability (which distinguishes rows
    whose probabilities round to 0 or 1), else its probability p. With two classes, the score is the difference of the values, or
    2 p₁ − 1. With more, it is the value of the class minus the largest value of another class, and LOWEST for a class that is not
    in the training rows. Only the class with the largest value, the first of equals, has a positive score. Raises NonFiniteError.
    """
    classes, n_rows = np.asarray(classifier.classes_, dtype=np.int64), X.shape[0]
    decides, joint = hasattr(classifier, "decision_function"), hasattr(classifier, "predict_joint_log_proba")
    if isinstance(classifier, Constant):
        values = np.ones((n_rows, 1))
    elif not decides:
        values = _numbers(classifier, "predict_joint_log_proba" if joint else "predict_proba", X)
    else:
        values = _numbers(classifier, "decision_function", X)
        if values.ndim == 1:
            values = np.column_stack([np.zeros(n_rows), values])
        elif values.shape[1] != classes.size:
            if not hasattr(classifier, "predict_proba"):
                name = type(classifier).__name__
                raise ConfigError(f"{name}: its decision function has no value per class; choose other options")
            values = _numbers(classifier, "predict_proba", X)
    if classes.size == 1:
        labels = np.array([1]) if n_classes == 2 else np.arange(n_classes)
        return np.tile(np.where(labels == classes, 1.0, -1.0), (n_rows, 1))
    predicted = values.argmax(axis=1)
    if n_classes == 2:
        out = (values[:, 1] - values[:, 0] if decides or joint else 2.0 * values[:, 1] - 1.0)[:, None]
        is_predicted = predicted[:, None] == 1
    else:
        out, is_predicted = np.full((n_rows, n_classes), LOWEST), classes[predicted][:, None] == np.arange(n_classes)
        order = np.sort(values, axis=1)
        largest_other = np.where(np.arange(classes.size) == predicted[:, None], order[:, -2:-1], order[:, -1:])
        out[:, classes] = values - largest_other
    out[is_predicted] = np.maximum(out[is_predicted], _ABOVE_0)  # rounding and ties can change the sign of a score
    out[~is_predicted] = np.minimum(out[~is_predicted], 0.0)
    return out


def _cast_rows(classifier: Any, X: Any) -> Any:
    """Return rows in float64; unchanged for scikit-learn's trees and for classifiers of hpcml."""
    kind = type(getattr(classifier, "estimator", None) or classifier)
    return X if kind.__module__.startswith(("sklearn.tree.", "hpcml.")) else X.astype(np.float64)


def _numbers(classifier: Any, method: str, X: Any) -> np.ndarray:
    """Call a method of a classifier. Raises NonFiniteError for non-finite results, DataError if it rejects X."""
    function = getattr(classifier, method)
    linear = sys.modules.get("sklearn.linear_model._base")  # imported with any linear classifier
    if linear is not None and getattr(function, "__func__", None) is linear.LinearClassifierMixin.decision_function:
        from scipy import sparse

        if not sparse.issparse(X):
            X = sparse.csr_matrix(X)  # the bits of a dense product depend on the other rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with one_thread():
                values = np.asarray(function(_cast_rows(classifier, X)), dtype=np.float64)
        except _LEARNER_ERRORS as error:
            raise DataError(
                f"{type(classifier).__name__}: invalid rows: {one_line(error)}; use rows like the training rows"
            ) from None
    if method == "predict_joint_log_proba":
        values = np.where(values == -np.inf, _LOG_0, values)
    if not np.isfinite(values).all():
        raise NonFiniteError(f"{type(classifier).__name__}: {method} is not finite for at least one row; choose other options")
    return values

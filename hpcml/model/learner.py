"""Base learners: scikit-learn classifiers that a method trains many times.

A learner is named on the command line (`tree max_depth=5`, `sklearn.linear_model.LogisticRegression C=0.5`). Methods use the
confidence of its classifiers in a row (`confidence`), and a score per label like that of our linear models (`scores`, positive for
"has the label"). Classes are the numbers 0 .. n_classes−1; a classifier may have seen only some of them. The scores by trees, naive
Bayes and linear classifiers have the same bits with any other rows.
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

# A CSR non-zero takes 8 bytes, a dense entry 4: from this density on dense rows take no more memory.
ALWAYS_DENSE = 0.5
OFTEN_DENSE = 0.05  # from this density on a learner that is faster on dense rows gets them
LOWEST = -float(np.finfo(np.float32).max)  # the score of a class that the classifier has not seen: finite in float32 too
_LOG_0 = -1e30  # for the logarithm of a probability of 0: finite, and below all others
_ABOVE_0 = np.nextafter(0.0, 1.0)
_SEEDS = 1 << 32  # scikit-learn takes seeds below
# What a learner may raise when the rows or options are not to its liking; anything else is a bug of it.
_REFUSALS = (ValueError, TypeError, ArithmeticError, RuntimeError, IndexError, AttributeError)


SKLEARN_TREE = "sklearn.tree.DecisionTreeClassifier"
KERNEL_NB, GAUSSIAN_NB = "hpcml.model.naive_bayes.KernelNB", "hpcml.model.naive_bayes.GaussianNB"
# Our own classes of classifiers, by their kind in files. None imports scikit-learn, which takes a second.
OWN = {
    "constant": "hpcml.model.learner.Constant",
    "gaussian-nb": "hpcml.model.densities.GaussianDensities",
    "kernel-nb": "hpcml.model.densities.KernelDensities",
    "tree": "hpcml.model.decision_tree.DecisionTree",
}

# Options with which our own tree trains on dense rows in place of scikit-learn's.
_TREE_OPTIONS: dict[str, Callable[[Any], bool]] = {
    "criterion": lambda value: bool(value == "entropy"),
    "max_depth": lambda value: value is None or (type(value) is int and value > 0),
    "min_samples_leaf": lambda value: type(value) is int and value > 0,
}

# Learners that can score rows on a GPU.
ON_GPU = {KERNEL_NB: "hpcml.model.gpu_bayes.KernelDensitiesOnGpu", GAUSSIAN_NB: "hpcml.model.gpu_bayes.GaussianDensitiesOnGpu"}


def on_cpu(classifier: Any) -> Any:
    """Return the CPU version of a classifier that scores on a GPU, or the classifier itself."""
    kind = getattr(classifier, "kind", None)
    if kind not in ("kernel-nb", "gaussian-nb"):
        return classifier
    twin = own_class(kind)()
    vars(twin).update(vars(classifier))
    return twin


def own_class(kind: str) -> type:
    """Return the class of OWN with that kind. Raises KeyError."""
    found: type = _import(OWN[kind])
    return found


@dataclass(frozen=True)
class Learner:
    """A maker of classifiers: a class and its options."""

    name: str  # as the user gave it
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
        """A new classifier to fit; `seed` is its random_state unless the user gave one."""
        classifier = self._class(**dict(self.options))
        if "random_state" in classifier.get_params(deep=False) and "random_state" not in dict(self.options):
            classifier.set_params(random_state=int(seed) % _SEEDS)
        return classifier

    @property
    def own_kind(self) -> str | None:
        """The kind of our own class that trains for this learner, a tree only on dense rows; None for scikit-learn's."""
        if self.name in ("tree", "stump"):
            known = all(name in _TREE_OPTIONS and _TREE_OPTIONS[name](value) for name, value in self.options)
            return "tree" if known else None
        return None if self.options else {KERNEL_NB: "kernel-nb", GAUSSIAN_NB: "gaussian-nb"}.get(self.path)

    def unfitted(self, seed: int, dense: bool = True) -> Any:
        """A classifier to train, on dense rows or on sparse ones: ours, or that of `make`."""
        kind = self.own_kind
        if self.on_gpu:
            return _import(ON_GPU[self.path])()
        if kind is None or (kind == "tree" and not dense):
            return self.make(seed)
        return own_class(kind)(**{name: value for name, value in self.options if name != "criterion"})

    def moved_to_gpu(self) -> Learner:
        """The learner whose classifiers score on a GPU. Raises ConfigError if none."""
        if self.path not in ON_GPU:
            able = " and ".join(sorted(name for name, known in LEARNERS.items() if known.path in ON_GPU))
            raise OptionError("device", "gpu", f"{self.name} has nothing for a GPU, only {able} have; remove it")
        return replace(self, on_gpu=True)

    @property
    def accepts_sparse(self) -> bool:
        """Whether it can be fitted to CSR rows."""
        if self.own_kind is not None:
            return True
        from sklearn.utils import get_tags

        return bool(get_tags(self.make(0)).input_tags.sparse)

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        """Whether all rows of such a data set (not a rank's) should be dense float32."""
        density = nnz / max(1, n_rows * n_features)
        return density >= (OFTEN_DENSE if self.prefers_dense else ALWAYS_DENSE) or not self.accepts_sparse


# Decision trees that split by information gain, as C4.5 does; LIBLINEAR's L2 loss; naive Bayes as Weka's, with -K and without.
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
    """The classifier of rows of one class: that class, always."""

    kind = "constant"  # in files

    def __init__(self, label: int) -> None:
        self.classes_ = np.array([label], dtype=np.int64)

    def predict(self, X: Any) -> np.ndarray:
        """The class, for every row."""
        return np.full(X.shape[0], self.classes_[0])


def parse_learner(tokens: Sequence[str]) -> Learner:
    """The learner of `tokens`: of LEARNERS, or a scikit-learn class's path; then key=value.

    Values are Python literals, otherwise the text itself. Raises ConfigError.
    """
    if not tokens:
        raise OptionError("base", None, f"name a learner: {', '.join(sorted(LEARNERS))}, or the path of a scikit-learn classifier")
    name, *rest = tokens
    if name not in LEARNERS and "." not in name:
        near = nearest(name, LEARNERS)
        raise OptionError("base", name, f"no such learner; {near} (or the dotted path of a scikit-learn classifier)")
    known = LEARNERS.get(name, Learner(name, name))
    given: dict[str, Any] = {}
    for token in rest:
        key, equals, text = token.partition("=")
        if not equals or not key:
            raise OptionError("base", name, f"{token!r} is not an option; expected KEY=VALUE")
        if key in given:
            raise OptionError("base", name, f"{key} is given twice")
        try:
            given[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            given[key] = text
    learner = replace(known, options=tuple((dict(known.options) | given).items()))
    if learner.own_kind is None:
        _check(learner)
    return learner


def _import(path: str) -> Any:
    """The object of a dotted path. Raises ConfigError."""
    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError, TypeError, SyntaxError) as error:
        raise OptionError("base", path, f"cannot import {module_name or path}: {one_line(error)}") from None
    if not hasattr(module, name):
        near = nearest(name, [known for known in dir(module) if known[:1].isupper()])
        raise OptionError("base", path, f"{module_name} has no {name}" + (f"; {near}" if near else ""))
    return getattr(module, name)


def _check(learner: Learner) -> None:
    """Raise ConfigError unless it is a classifier that says how sure it is, with sound options."""
    from sklearn.base import BaseEstimator, is_classifier

    kind, given = learner._class, dict(learner.options)
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise OptionError("base", learner.name, f"{learner.path} is not a scikit-learn classifier")
    known = learner._class._get_param_names()
    for key in given:
        if key not in known:
            near = nearest(key, known) or f"see scikit-learn's documentation of {kind.__name__}"
            raise OptionError("base", learner.name, f"it has no option {key!r}; {near}")
    try:
        classifier = learner.make(0)
        if not is_classifier(classifier):
            raise OptionError("base", learner.name, f"{learner.path} is not a scikit-learn classifier")
        if hasattr(classifier, "_parameter_constraints"):
            classifier._validate_params()
        tells = hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")
    except _REFUSALS as error:
        raise OptionError("base", learner.name, one_line(error)) from None
    if not tells:
        raise OptionError("base", learner.name, "with these options it has neither predict_proba nor decision_function")
    if given.get("decision_function_shape") == "ovo":
        raise OptionError("base", learner.name, "decision_function_shape=ovo has no value for each class; remove it")


def one_line(error: Exception) -> str:
    """The message of an error without its line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


def fit(learner: Learner, X: Any, y: np.ndarray, seed: int) -> Any:
    """A classifier of X (n_rows × n_features, dense or CSR float32) and y; maybe a `Constant`.

    Its warnings are not shown: a learner that stops at its own limit has stopped. Raises ConfigError if it refuses the rows.
    """
    classes = np.flatnonzero(np.bincount(y))
    if classes.size == 1:
        return Constant(int(classes[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            classifier = learner.unfitted(seed, isinstance(X, np.ndarray))
            with one_thread():
                return classifier.fit(_as_taken(classifier, X), y)
        except _REFUSALS as error:
            raise OptionError("base", learner.name, f"it cannot be trained on these rows: {one_line(error)}") from None


def confidence(classifier: Any, X: Any) -> np.ndarray:
    """How far each row of X is from the decision boundary, right or wrong alike (n_rows float64).

    The gap between the two largest class probabilities; without probabilities the gap between the two largest values of the
    decision function, or its size for two classes. +inf from a `Constant`, which has no opinion. Raises NonFiniteError.
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
    """Scores of X (n_rows × n_labels float64): one label for two classes (is it 1), else each.

    A class that the classifier has seen has a value: the decision function ((0, d) for two classes), the logarithm
    of the joint probability of row and class, or else the probability (those near 0 and 1 are as good as equal, their
    logarithms are not). Two classes: the difference of the values, or 2 p₁ − 1. More: the class's value minus the
    largest value of another class; LOWEST for a class that the classifier has not seen. A score is positive exactly
    for the class with the largest value, the first of several. Raises NonFiniteError.
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
                raise ConfigError(f"{name}: its decision function has no value for each class; choose other options")
            values = _numbers(classifier, "predict_proba", X)
    if classes.size == 1:
        labels = np.array([1]) if n_classes == 2 else np.arange(n_classes)
        return np.tile(np.where(labels == classes, 1.0, -1.0), (n_rows, 1))
    predicted = values.argmax(axis=1)
    if n_classes == 2:
        out = (values[:, 1] - values[:, 0] if decides or joint else 2.0 * values[:, 1] - 1.0)[:, None]
        has = predicted[:, None] == 1
    else:
        out, has = np.full((n_rows, n_classes), LOWEST), classes[predicted][:, None] == np.arange(n_classes)
        order = np.sort(values, axis=1)
        largest_other = np.where(np.arange(classes.size) == predicted[:, None], order[:, -2:-1], order[:, -1:])
        out[:, classes] = values - largest_other
    out[has] = np.maximum(out[has], _ABOVE_0)  # rounding and ties can take the sign of a score
    out[~has] = np.minimum(out[~has], 0.0)
    return out


def _as_taken(classifier: Any, X: Any) -> Any:
    """Rows in double precision, but for trees (float32) and our own learners (either)."""
    kind = type(getattr(classifier, "estimator", None) or classifier)
    return X if kind.__module__.startswith(("sklearn.tree.", "hpcml.")) else X.astype(np.float64)


def _numbers(classifier: Any, method: str, X: Any) -> np.ndarray:
    """A classifier's method for X, as float64. Raises NonFiniteError, DataError if it refuses X."""
    function = getattr(classifier, method)
    linear = sys.modules.get("sklearn.linear_model._base")  # whoever has a linear classifier has imported it
    if linear is not None and getattr(function, "__func__", None) is linear.LinearClassifierMixin.decision_function:
        from scipy import sparse

        if not sparse.issparse(X):
            X = sparse.csr_matrix(X)  # the bits of a dense product depend on the rows around
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with one_thread():
                values = np.asarray(function(_as_taken(classifier, X)), dtype=np.float64)
        except _REFUSALS as error:
            raise DataError(
                f"{type(classifier).__name__}: it refuses the rows: {one_line(error)}; give it rows like its own"
            ) from None
    if method == "predict_joint_log_proba":
        values = np.where(values == -np.inf, _LOG_0, values)
    if not np.isfinite(values).all():
        raise NonFiniteError(f"{type(classifier).__name__}: {method} is not a finite number for some row; choose other options")
    return values

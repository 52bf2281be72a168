"""The methods that can be cross-validated: classifiers of one label, each made anew from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hpcml.errors import ConfigError, DataError, nearest
from hpcml.methods.registry import METHODS, Method
from hpcml.model.learner import LEARNERS, Learner, parse_learner

UNKNOWN_COST = 50.0  # of a learner that is not ours to know


@dataclass(frozen=True)
class CvMethod:
    """A classifier by the name that the user calls it, and what is known before it is trained."""

    learner: Learner
    about: str
    cost: float = UNKNOWN_COST  # of training, roughly, beside one pass over the rows
    intercept: bool = False  # has it one that it can do without?
    scalable: bool = True  # does it depend on the scale of the features, and take any?

    @property
    def name(self) -> str:
        """As the user calls it."""
        return self.learner.name

    @cached_property
    def non_negative(self) -> bool:
        """Whether it refuses rows with negative values. Local; imports the classifier's module."""
        from sklearn.utils import get_tags

        return bool(get_tags(self.learner.make(0)).input_tags.positive_only)

    @property
    def is_ours(self) -> bool:
        """Whether it is a classifier of this package, with kernels to compile."""
        return self.learner.path.startswith("hpcml.")

    def without_intercept(self) -> CvMethod:
        """The method without its intercept, if it can do without."""
        options = (*self.learner.options, ("fit_intercept", False))
        return replace(self, learner=replace(self.learner, options=options)) if self.intercept else self

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        """Whether to give it dense rows; those with a name of their own take sparse ones."""
        return self.name not in methods() and self.learner.wants_dense(n_rows, n_features, nnz)


def _ours(method: Method, prefix: str, parameters: Mapping[str, Any]) -> CvMethod:
    """A method of `hpcml train`, or a variant of it, as its estimator."""
    learner = Learner(f"{prefix}{method.name}", method.estimator.replace(":", "."), tuple(parameters.items()))
    names, about = method.option_names, method.about + (f", {', '.join(parameters)}" if prefix else "")
    return CvMethod(
        learner, about, cost=method.cost * (2.0 if prefix else 1.0), intercept="bias" in names, scalable="scale" in names
    )


# LIBLINEAR minimises what LIBSVM does with a linear kernel and its default C, but for the intercept, which it regularises: F1
# within 0.6 points of SVC(kernel="linear") on the paper's small sets, in a hundredth of the time.
_SVM = Learner("svm", "sklearn.svm.LinearSVC", (("loss", "hinge"), ("C", 1.0), ("max_iter", 10_000)))

_FOREIGN: dict[str, CvMethod] = {
    method.name: method
    for method in (
        CvMethod(_SVM, "linear SVM with hinge loss and C = 1, by LIBLINEAR", cost=100.0, intercept=True),
        CvMethod(
            Learner("multinomial-nb", "sklearn.naive_bayes.MultinomialNB", ()), "multinomial naive Bayes", cost=3.0, scalable=False
        ),
    )
}


def methods() -> dict[str, CvMethod]:
    """All with a name of their own: estimators of `hpcml train`, their variants, and others'."""
    ours = [method for method in METHODS.values() if method.estimator]
    found = [_ours(method, "", method.parameters) for method in ours]
    for method in ours:
        found += [_ours(method, prefix, {**method.parameters, **more}) for prefix, more in method.variants.items()]
    return {method.name: method for method in found} | _FOREIGN


def method_of(name: str) -> CvMethod:
    """The method, base learner, or scikit-learn classifier (by dotted path) of that name.

    Local; imports the classifier's module. Raises ConfigError.
    """
    if name in methods():
        return methods()[name]
    if name not in LEARNERS and not _is_dotted(name):
        raise ConfigError(f"no method {name!r}; {_nearest(name)}")
    try:
        learner = parse_learner([name])
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("--base ")) from None
    if name in LEARNERS:
        return CvMethod(learner, LEARNERS[name].about, scalable=name == "linear-svm")
    return CvMethod(learner, learner.path)


def divide_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of the names on a command line are methods and which are data, in their order.

    A method's name is a method even if there is a file of that name (./NAME is the file). Local;
    raises ConfigError or DataError for a name that is neither.
    """
    known, chosen, data = methods(), [], []
    for name in names:
        if name in known or name in LEARNERS:
            chosen.append(name)
        elif divide_path(name) is not None:
            data.append(name)
        elif _is_dotted(name):
            chosen.append(name)
        elif "/" in name or ".h5" in name:
            raise DataError(f"{name}: there is no such file")
        else:
            raise ConfigError(f"{name!r} is neither a file nor a method; {_nearest(name)}")
    return chosen, data


def divide_path(name: str) -> tuple[Path, str | None] | None:
    """File and label of "FILE" or "FILE:LABEL": the longest file that exists; None: none. Local."""
    for end in sorted({len(name), *(place for place, letter in enumerate(name) if letter == ":")}, reverse=True):
        if Path(name[:end]).exists() and name[:end]:
            return Path(name[:end]), name[end + 1 :] if end < len(name) else None
    return None


def _is_dotted(name: str) -> bool:
    """Whether a name can be the path of a class, and is not that of a file which is missing."""
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[-1] not in ("h5", "hdf5")


def _nearest(name: str) -> str:
    return nearest(name, [*methods(), *LEARNERS], "hpcml cv --help")

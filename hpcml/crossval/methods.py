"""The methods that can be cross-validated: classifiers of one label, created from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.methods.registry import METHODS
from hpcml.model.learner import LEARNERS, Learner, parse_learner


@dataclass(frozen=True)
class CvMethod:
    learner: Learner
    cost: float = 50.0  # of training, relative to one pass over the rows; default: unknown
    intercept: bool = False  # has an optional intercept
    scalable: bool = True  # depends on the scale of the features, and --scale applies to it

    @property
    def name(self) -> str:
        return self.learner.name

    @cached_property
    def non_negative(self) -> bool:
        """Return whether the classifier rejects negative values. Imports the classifier's module."""
        from sklearn.utils import get_tags

        return bool(get_tags(self.learner.make(0)).input_tags.positive_only)

    def without_intercept(self) -> Self:
        options = (*self.learner.options, ("fit_intercept", False))
        return replace(self, learner=replace(self.learner, options=options)) if self.intercept else self

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        return self.name not in methods() and self.learner.wants_dense(n_rows, n_features, nnz)


# LIBLINEAR minimises the objective of LIBSVM with a linear kernel and its default C, except that it regularises the intercept: F1
# within 0.6 points of SVC(kernel="linear") on the paper's small sets, in a hundredth of the time.
_SVM = Learner("svm", "sklearn.svm.LinearSVC", (("loss", "hinge"), ("C", 1.0), ("max_iter", 10_000)))

_NAIVE_BAYES = Learner("multinomial-nb", "sklearn.naive_bayes.MultinomialNB", ())
_FOREIGN = {"svm": CvMethod(_SVM, cost=100.0, intercept=True), "multinomial-nb": CvMethod(_NAIVE_BAYES, cost=3.0, scalable=False)}


def methods() -> dict[str, CvMethod]:
    """Return all methods with a short name: the estimators of `hpcml train`, their variants, and two of scikit-learn."""
    ours = [method for method in METHODS.values() if method.estimator]
    plain = [("", method, method.parameters) for method in ours]
    variants = [(prefix, method, {**method.parameters, **more}) for method in ours for prefix, more in method.variants.items()]
    named = {}
    for prefix, method, parameters in plain + variants:
        name, options = f"{prefix}{method.name}", method.option_names
        named[name] = CvMethod(
            Learner(name, method.estimator.replace(":", "."), tuple(parameters.items())),
            cost=method.cost * (2.0 if prefix else 1.0),
            intercept="bias" in options,
            scalable="scale" in options,
        )
    return named | _FOREIGN


def find_method(name: str) -> CvMethod:
    if name in methods():
        return methods()[name]
    try:
        return CvMethod(parse_learner([name]), scalable=name not in LEARNERS or name == "linear-svm")
    except OptionError as error:
        raise ConfigError(f"{error.value}: {error.why}") from None


def divide_names(names: Sequence[str]) -> tuple[list[str], list[tuple[Path, str | None]]]:
    """Return the methods, and the files ("FILE" or "FILE:LABEL", the longest path that exists) with their labels.

    A method takes precedence over a file of that name. Raises ConfigError or DataError for a name that is neither.
    """
    known, chosen, data = [*methods(), *LEARNERS], list[str](), list[tuple[Path, str | None]]()
    for name in names:
        ends = sorted({len(name), *(index for index, letter in enumerate(name) if letter == ":")}, reverse=True)
        end = next((end for end in ends if name[:end] and Path(name[:end]).exists()), 0)
        parts = name.split(".")
        if name in known:
            chosen.append(name)
        elif end:
            data.append((Path(name[:end]), name[end + 1 :] if end < len(name) else None))
        elif len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[-1] not in ("h5", "hdf5"):
            chosen.append(name)  # the path of a class
        elif "/" in name or ".h5" in name:
            raise DataError(f"{name}: no such file")
        else:
            raise ConfigError(f"{name!r} is neither a file nor a method; {nearest(name, known, 'hpcml cv --help')}")
    return chosen, data

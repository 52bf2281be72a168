"""The methods that can be cross-validated: classifiers of one label, each made anew from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hpcml.errors import ConfigError, DataError, OptionError, nearest
from hpcml.methods.registry import METHODS
from hpcml.model.learner import LEARNERS, Learner, parse_learner

UNKNOWN_COST = 50.0  # of a learner that is not ours to know


@dataclass(frozen=True)
class CvMethod:
    """A classifier by the name that the user calls it, with what is known before it is trained."""

    learner: Learner
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

    def without_intercept(self) -> CvMethod:
        """The method without its intercept, if it can do without."""
        options = (*self.learner.options, ("fit_intercept", False))
        return replace(self, learner=replace(self.learner, options=options)) if self.intercept else self

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        """Whether to give it dense rows; those with a name of their own take sparse ones."""
        return self.name not in methods() and self.learner.wants_dense(n_rows, n_features, nnz)


# LIBLINEAR minimises what LIBSVM does with a linear kernel and its default C, but for the intercept, which it regularises: F1
# within 0.6 points of SVC(kernel="linear") on the paper's small sets, in a hundredth of the time.
_SVM = Learner("svm", "sklearn.svm.LinearSVC", (("loss", "hinge"), ("C", 1.0), ("max_iter", 10_000)))

_FOREIGN: dict[str, CvMethod] = {
    method.name: method
    for method in (
        CvMethod(_SVM, cost=100.0, intercept=True),
        CvMethod(Learner("multinomial-nb", "sklearn.naive_bayes.MultinomialNB", ()), cost=3.0, scalable=False),
    )
}


def methods() -> dict[str, CvMethod]:
    """Return all methods with a name of their own: estimators of `hpcml train`, their variants, and others'."""
    ours = [method for method in METHODS.values() if method.estimator]
    plain = [("", method, method.parameters) for method in ours]
    variants = [(prefix, method, {**method.parameters, **more}) for method in ours for prefix, more in method.variants.items()]
    found = {}
    for prefix, method, parameters in plain + variants:
        name, options = f"{prefix}{method.name}", method.option_names
        found[name] = CvMethod(
            Learner(name, method.estimator.replace(":", "."), tuple(parameters.items())),
            cost=method.cost * (2.0 if prefix else 1.0),
            intercept="bias" in options,
            scalable="scale" in options,
        )
    return found | _FOREIGN


def method_of(name: str) -> CvMethod:
    """Return the method, base learner, or scikit-learn classifier (by dotted path) of that name.

    Local; imports the classifier's module. Raises ConfigError.
    """
    if name in methods():
        return methods()[name]
    try:
        return CvMethod(parse_learner([name]), scalable=name not in LEARNERS or name == "linear-svm")
    except OptionError as error:
        raise ConfigError(f"{error.value}: {error.why}") from None


def divide_names(names: Sequence[str]) -> tuple[list[str], list[tuple[Path, str | None]]]:
    """Return the methods, and the files and labels, among the names on a command line, in their order.

    "FILE" or "FILE:LABEL" is the longest file that exists. A method's name is a method even if there is a
    file of that name (./NAME is the file). Local; raises ConfigError or DataError for a name that is neither.
    """
    known, chosen, data = [*methods(), *LEARNERS], list[str](), list[tuple[Path, str | None]]()
    for name in names:
        ends = sorted({len(name), *(place for place, letter in enumerate(name) if letter == ":")}, reverse=True)
        end = next((end for end in ends if name[:end] and Path(name[:end]).exists()), 0)
        parts = name.split(".")
        if name in known:
            chosen.append(name)
        elif end:
            data.append((Path(name[:end]), name[end + 1 :] if end < len(name) else None))
        elif len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[-1] not in ("h5", "hdf5"):
            chosen.append(name)  # the path of a class
        elif "/" in name or ".h5" in name:
            raise DataError(f"{name}: there is no such file")
        else:
            raise ConfigError(f"{name!r} is neither a file nor a method; {nearest(name, known, 'hpcml cv --help')}")
    return chosen, data

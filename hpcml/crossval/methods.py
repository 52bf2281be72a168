"""The methods that can be cross-validated: classifiers of one label, each made anew from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcml.errors import ConfigError, DataError, nearest
from hpcml.methods.online.learners import METHODS as ONLINE
from hpcml.model.learner import LEARNERS, Learner, parse_learner

UNKNOWN_COST = 50.0  # of a learner that is not ours to know


@dataclass(frozen=True)
class Method:
    """A classifier by the name that the user calls it, and what is known of it before it is trained."""

    learner: Learner
    about: str
    non_negative: bool = False  # it refuses rows with negative values
    cost: float = UNKNOWN_COST  # of training, roughly, beside one pass over the rows
    intercept: bool = False  # has it one that it can do without?

    @property
    def name(self) -> str:
        """As the user calls it."""
        return self.learner.name

    @property
    def is_ours(self) -> bool:
        """Whether it is a classifier of this package, with kernels to compile."""
        return self.learner.path.startswith("hpcml.")

    def without_intercept(self) -> Method:
        """The method without its intercept, if it can do without."""
        options = (*self.learner.options, ("fit_intercept", False))
        return replace(self, learner=replace(self.learner, options=options)) if self.intercept else self

    def wants_dense(self, n_rows: int, n_features: int, nnz: int) -> bool:
        """Whether it should be given dense rows of such data; those of METHODS take sparse ones."""
        return self.name not in METHODS and self.learner.wants_dense(n_rows, n_features, nnz)


def _online(name: str, voted: bool) -> Method:
    """A single-pass learner, or its voted form, with the parameters of the paper."""
    options = (("method", name), ("voted", voted))
    learner = Learner(f"v-{name}" if voted else name, "hpcml.methods.online.estimator.OnlineClassifier", options)
    about = ONLINE[name].about + (", voted" if voted else "") + ", one pass"
    winnow = ONLINE[name].winnow
    return Method(learner, about, winnow, 2.0 if voted else 1.0, not winnow)


# LIBLINEAR minimises what LIBSVM does with a linear kernel and its default C, but for the intercept, which it regularises: F1
# within 0.6 points of SVC(kernel="linear") on the paper's small sets, in a hundredth of the time.
_SVM = Learner("svm", "sklearn.svm.LinearSVC", (("loss", "hinge"), ("C", 1.0), ("max_iter", 10_000)))

_PROBE = Learner("probe", "hpcml.methods.probe.estimator.ProbeClassifier", ())

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *(_online(name, voted) for voted in (False, True) for name in ONLINE),
        Method(_SVM, "linear SVM with hinge loss and C = 1, by LIBLINEAR", cost=100.0, intercept=True),
        Method(Learner("nb", "sklearn.naive_bayes.MultinomialNB", ()), "multinomial naive Bayes", True, 3.0),
        Method(_PROBE, "PROBE with hinge loss and λ = X/m", cost=100.0, intercept=True),
    )
}


def method_of(name: str) -> Method:
    """The method of that name: one of METHODS, a base learner, or the dotted path of a scikit-learn classifier.

    Local; imports the classifier's module. Raises ConfigError.
    """
    if name in METHODS:
        return METHODS[name]
    if name not in LEARNERS and not _is_dotted(name):
        raise ConfigError(f"no method {name!r}; {_nearest(name)}")
    try:
        learner = parse_learner([name])
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("--base ")) from None
    return Method(learner, LEARNERS[name].about if name in LEARNERS else learner.path)


def divide_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of the names on a command line are methods and which are data, in their order.

    A method's name is a method even if there is a file of that name (./NAME is the file). Local; raises ConfigError or DataError
    for a name that is neither.
    """
    methods, data = [], []
    for name in names:
        if name in METHODS or name in LEARNERS:
            methods.append(name)
        elif divide_path(name) is not None:
            data.append(name)
        elif _is_dotted(name):
            methods.append(name)
        elif "/" in name or ".h5" in name:
            raise DataError(f"{name}: there is no such file")
        else:
            raise ConfigError(f"{name!r} is neither a file nor a method; {_nearest(name)}")
    return methods, data


def divide_path(name: str) -> tuple[Path, str | None] | None:
    """The file and the label of "FILE" or "FILE:LABEL": the file is the longest part that exists; None if there is none. Local."""
    for end in sorted({len(name), *(place for place, letter in enumerate(name) if letter == ":")}, reverse=True):
        if Path(name[:end]).exists() and name[:end]:
            return Path(name[:end]), name[end + 1 :] if end < len(name) else None
    return None


def _is_dotted(name: str) -> bool:
    """Whether a name can be the path of a class, and is not that of a file which is missing."""
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts) and parts[-1] not in ("h5", "hdf5")


def _nearest(name: str) -> str:
    return nearest(name, [*METHODS, *LEARNERS])

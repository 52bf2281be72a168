"""The parameters of scikit-learn classifiers: a class names those that it offers, and its options say the rest.

    @classifier_of(DualOptions)
    class DualClassifier(LinearClassifier):
        \"\"\"Linear classifiers trained by dual coordinate descent. …\"\"\"

        loss: str = OPTION
        lam: str | float = OPTION
        comm: mpi.Comm | None = None

The parameter `comm` (COMM) and the attributes that its class names in `_learnt` (ATTRIBUTES) are described
here; a docstring describes only those that are its own.

`OPTION` is the default of the option of that name (`OPTION_OF` has the names that scikit-learn uses), the annotation says what is
allowed, and the text of the option is the parameter's documentation, unless one stands behind it. The constructor is that of a
dataclass, so that scikit-learn, type checkers and `help` see its signature.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple, TypeVar, dataclass_transform, get_args

import numpy as np

from hpcml.errors import ConfigError, HpcmlError, OptionError
from hpcml.options import default_of, flag_of, help_of, texts_behind

OPTION: Any = object()  # the default of a parameter: that of its option
Kind = TypeVar("Kind", bound=type)

# Parameters that are called as scikit-learn calls them, and the options that they are.
OPTION_OF = {"fit_intercept": "bias", "random_state": "seed", "max_iter": "max_steps", "tol": "dual_tol"}
PARAMETER_OF = {option: parameter for parameter, option in OPTION_OF.items()}
Seed = int | np.random.RandomState | None

# The attributes that several classifiers have after `fit`: type, and text.
LABELS = "ndarray (n_labels,)"
ATTRIBUTES = {
    "classes_": ("ndarray (n_classes,)", "The classes of all ranks, sorted; the numbers of the labels for a multilabel indicator."),
    "coef_": (
        "ndarray (n_labels, n_features), float64",
        "The weights; `n_labels` is 1 for one or two classes, and positive scores mean the last one.",
    ),
    "intercept_": (f"{LABELS}, float64", "The intercepts; +1 or −1 for a label that all rows have, or none, whose weights are 0."),
    "n_iter_": (f"{LABELS}, int", "Passes over the rows, steps or rounds; 0 for a label that all rows have, or none."),
    "f_min_": (LABELS, "The objective over all rows."),
    "gap_": (LABELS, "The certified duality gap, divided by the objective: min f is at least f_min_ · (1 − gap_)."),
    "visited_": (LABELS, "The mean share of the rows that a pass visited."),
    "n_features_in_": ("int", "Number of features."),
    "feature_names_in_": ("ndarray (n_features,)", "Their names, if X is a data frame with string names."),
}
COMM = (
    "The ranks that give the rows and share the work; None: this process alone. With `comm`, `fit` is collective: each rank gives "
    "its own rows as X and y (possibly none), which follow one another in rank order. All ranks end with the same model, whose "
    "bits depend neither on the number of ranks nor on how the rows are spread over them. Only `fit` communicates: `predict`, "
    "`score` and the others use the rows that they are given. Copies and pickles have `comm=None`, clones keep it. Choose "
    "parameters with GridSearchCV on one rank (`comm=None`): ranks that score different rows would choose differently."
)


class Parameter(NamedTuple):
    """The types that a parameter may have, and the option of training that it becomes."""

    types: tuple[type, ...]
    expected: str
    as_option: Callable[[Any], Any]


# What a parameter of some type may be; others say it themselves: Annotated[type, Parameter(…)].
ALLOWED: dict[Any, Parameter] = {
    str: Parameter((str,), "a string", str),
    float: Parameter((Real,), "a number", float),
    int: Parameter((Integral,), "a whole number", int),
    bool: Parameter((object,), "True or False", bool),
    str | float: Parameter(
        (str, Real), "a string or a number", lambda value: value if isinstance(value, str) else repr(float(value))
    ),
    str | None: Parameter((str, NoneType), "a string or None", lambda value: value),
    int | None: Parameter((Integral, NoneType), "a whole number or None", lambda value: None if value is None else int(value)),
    float | None: Parameter((Real, NoneType), "a number or None", lambda value: None if value is None else float(value)),
}


def about_parameters(text: str, kinds: Iterable[type]) -> str:
    """Return the help of an option with the flags of options of these kinds as parameters: `--no-bias` as `fit_intercept=False`."""
    for option in sorted({field.name for kind in kinds for field in fields(kind)}, key=len, reverse=True):
        flag, name = flag_of(option), PARAMETER_OF.get(option, option)
        text = text.replace(f"--no-{flag}", f"{name}=False").replace(f"--{flag}", name)
    return text


def error_text(error: HpcmlError) -> str:
    """Return the sentence of an error about an option as one about the parameter."""
    if isinstance(error, OptionError):
        return error.with_name(PARAMETER_OF.get(error.name, error.name), in_python=True)
    return str(error)


@dataclass_transform()
def classifier_of(*kinds: type) -> Callable[[Kind], Kind]:
    """Make a classifier's constructor, checks and documentation from the options of those kinds."""

    def complete(cls: Kind) -> Kind:
        found: dict[str, Parameter] = {}
        for name, hint in inspect.get_annotations(cls, eval_str=True).items():
            kind = _kind_with(name, kinds)
            if kind is not None and name != "random_state":
                found[name] = next((each for each in get_args(hint) if isinstance(each, Parameter)), None) or ALLOWED[hint]
            if vars(cls)[name] is OPTION:
                option = OPTION_OF.get(name, name)
                default = next(default_of(field) for field in fields(kind) if field.name == option)
                if default is None and NoneType not in get_args(hint):  # what None means for the option
                    default = {"bias": True, "max_steps": getattr(kind, "steps", None)}[option]
                setattr(cls, name, default)
        made: Any = cls
        documented = cls.__doc__ is not None  # as it is not with python -OO
        made._options_kind, made._parameters = kinds[0], found
        dataclass(eq=False, repr=False, match_args=False)(cls)
        if documented:
            made.described = list(_described(cls, kinds))
            cls.__doc__ = _documented(cls)
        return cls

    return complete


def option_values(estimator: Any) -> dict[str, Any]:
    """A classifier's parameters as options by their names, but for the seed. Raises ConfigError."""
    values = {}
    for name, parameter in estimator._parameters.items():
        value = getattr(estimator, name)
        if not isinstance(value, parameter.types):
            raise ConfigError(f"{name}={value!r}: expected {parameter.expected}")
        values[OPTION_OF.get(name, name)] = parameter.as_option(value)
    return values


def _kind_with(name: str, kinds: tuple[type, ...]) -> Any:
    """The first of the options with one that is the parameter; None if there is none."""
    return next((kind for kind in kinds if OPTION_OF.get(name, name) in {field.name for field in fields(kind)}), None)


def _described(cls: type, kinds: tuple[type, ...]) -> Iterator[tuple[str, str, str]]:
    own = {"comm": COMM} | texts_behind(cls)
    for name, parameter in inspect.signature(cls).parameters.items():
        text = own[name] if name in own else about_parameters(help_of(_kind_with(name, kinds))[OPTION_OF.get(name, name)], kinds)
        if name == "random_state" and hasattr(cls, "comm"):
            text += " Rank 0's counts."
        hint = parameter.annotation if isinstance(parameter.annotation, str) else inspect.formatannotation(parameter.annotation)
        hint = re.sub(r"Annotated\[(.*), \w+\]$", r"\1", hint)
        hint = hint.replace(" | ", " or ").replace("Seed", "int, RandomState or None")
        yield name, f"{hint}, default {parameter.default!r}", text


def _documented(cls: Any) -> str:
    """The documentation of a classifier, with sections of its parameters and attributes."""

    def section(title: str, entries: Iterable[tuple[str, str, str]]) -> list[str]:
        lines = [f"{name} : {kind}\n{textwrap.indent(textwrap.fill(text, 116), '    ')}" for name, kind, text in entries]
        return [title, "-" * len(title), *lines]

    text = inspect.cleandoc(cls.__doc__)
    head, title, tail = re.split(r"^(Attributes|Notes|References)\n-+\n", text, maxsplit=1, flags=re.MULTILINE)
    own, _, rest = tail.partition("\n\n") if title == "Attributes" else ("", "", f"{title}\n{'-' * len(title)}\n{tail}")
    shared = [(name, *ATTRIBUTES[name]) for name in cls._learnt if not re.search(rf"^{name} : ", own, re.MULTILINE)]
    lines = [*section("Parameters", cls.described), "", *section("Attributes", shared), *own.splitlines(), "", rest]
    return head + "\n".join(lines)

"""Parameters of the scikit-learn classifiers: a class declares their names, its training options give defaults and documentation.

    @classifier_of(DualOptions)
    class DualClassifier(LinearClassifier):
        \"\"\"Linear classifiers trained by dual coordinate descent. …\"\"\"

        loss: str = OPTION
        lam: str | float = OPTION
        comm: mpi.Comm | None = None

`OPTION` stands for the default of the option with this name (`OPTION_OF` maps scikit-learn's names). The annotation defines the
allowed types. The help of the option documents the parameter, unless the class has a text after it. `comm` and the attributes in
`_learnt` are documented here; a class docstring adds its own. The constructor is that of a dataclass, so scikit-learn, type
checkers and `help` see its signature.
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
from hpcml.options import default_value, option_flag, option_help, texts_behind

OPTION: Any = object()  # marks a parameter with the default of its option
Kind = TypeVar("Kind", bound=type)

# Parameters with scikit-learn's names, and the corresponding options.
OPTION_OF = {"fit_intercept": "bias", "random_state": "seed", "max_iter": "max_steps", "tol": "dual_tol"}
PARAMETER_OF = {option: parameter for parameter, option in OPTION_OF.items()}
Seed = int | np.random.RandomState | None

# Fitted attributes of several classifiers: type and text.
LABELS = "ndarray (n_labels,)"
ATTRIBUTES = {
    "classes_": ("ndarray (n_classes,)", "Sorted classes of all ranks; label numbers for an indicator matrix."),
    "coef_": (
        "ndarray (n_labels, n_features), float64",
        "Weights; `n_labels` is 1 for one or two classes, and positive scores predict the last one.",
    ),
    "intercept_": (f"{LABELS}, float64", "Intercepts; +1 or −1 (with weights 0) for a label of all rows, or of none."),
    "n_iter_": (f"{LABELS}, int", "Passes over the rows, steps or rounds; 0 for a label of all rows, or of none."),
    "f_min_": (LABELS, "Objective over all rows."),
    "gap_": (LABELS, "Certified relative duality gap: the minimum is at least f_min_ · (1 − gap_)."),
    "visited_": (LABELS, "Mean share of the rows visited per pass."),
    "n_features_in_": ("int", "Number of features."),
    "feature_names_in_": ("ndarray (n_features,)", "Names of the features, if X is a data frame with string names."),
}
COMM = (
    "Communicator of the ranks that provide the rows and share the work; None: this process only. With `comm`, `fit` is "
    "collective: each rank passes its own rows as X and y (possibly none), in rank order. All ranks get the same model, with the "
    "same bits for any number of ranks and any distribution of the rows. Only `fit` communicates; `predict`, `score` and other "
    "methods use local rows. Copies and pickles have `comm=None`; clones keep it. Use GridSearchCV on one rank (`comm=None`): "
    "ranks that score different rows would choose different parameters."
)


class Parameter(NamedTuple):
    types: tuple[type, ...]
    expected: str
    as_option: Callable[[Any], Any]


# Parameters by annotation; other annotations define theirs: Annotated[type, Parameter(…)].
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
    """Replace flags of options in a help text by parameters: `--no-bias` by `fit_intercept=False`."""
    for option in sorted({field.name for kind in kinds for field in fields(kind)}, key=len, reverse=True):
        flag, name = option_flag(option), PARAMETER_OF.get(option, option)
        text = text.replace(f"--no-{flag}", f"{name}=False").replace(f"--{flag}", name)
    return text


def error_text(error: HpcmlError) -> str:
    if isinstance(error, OptionError):
        return error.with_name(PARAMETER_OF.get(error.name, error.name), in_python=True)
    return str(error)


@dataclass_transform()
def classifier_of(*kinds: type) -> Callable[[Kind], Kind]:
    """Return a class decorator that adds constructor, checks and documentation from option classes."""

    def complete(cls: Kind) -> Kind:
        parameters: dict[str, Parameter] = {}
        for name, hint in inspect.get_annotations(cls, eval_str=True).items():
            kind = _kind_with(name, kinds)
            if kind is not None and name != "random_state":
                parameters[name] = next((each for each in get_args(hint) if isinstance(each, Parameter)), None) or ALLOWED[hint]
            if vars(cls)[name] is OPTION:
                option = OPTION_OF.get(name, name)
                default = next(default_value(field) for field in fields(kind) if field.name == option)
                if default is None and NoneType not in get_args(hint):  # the value that None stands for
                    default = {"bias": True, "max_steps": getattr(kind, "steps", None)}[option]
                setattr(cls, name, default)
        untyped: Any = cls
        has_docstring = cls.__doc__ is not None  # False with python -OO
        untyped._options_kind, untyped._parameters = kinds[0], parameters
        dataclass(eq=False, repr=False, match_args=False)(cls)
        if has_docstring:
            untyped.described = list(_describe_parameters(cls, kinds))
            cls.__doc__ = _complete_docstring(cls)
        return cls

    return complete


def option_values(estimator: Any) -> dict[str, Any]:
    """Return a classifier's parameters, without the seed, as options by name. Raises ConfigError."""
    values = {}
    for name, parameter in estimator._parameters.items():
        value = getattr(estimator, name)
        if not isinstance(value, parameter.types):
            raise ConfigError(f"{name}={value!r}: expected {parameter.expected}")
        values[OPTION_OF.get(name, name)] = parameter.as_option(value)
    return values


def _kind_with(name: str, kinds: tuple[type, ...]) -> Any:
    return next((kind for kind in kinds if OPTION_OF.get(name, name) in {field.name for field in fields(kind)}), None)


def _describe_parameters(cls: type, kinds: tuple[type, ...]) -> Iterator[tuple[str, str, str]]:
    own = {"comm": COMM} | texts_behind(cls)
    for name, parameter in inspect.signature(cls).parameters.items():
        text = (
            own[name] if name in own else about_parameters(option_help(_kind_with(name, kinds))[OPTION_OF.get(name, name)], kinds)
        )
        if name == "random_state" and hasattr(cls, "comm"):
            text += " All ranks use that of rank 0."
        hint = parameter.annotation if isinstance(parameter.annotation, str) else inspect.formatannotation(parameter.annotation)
        hint = re.sub(r"Annotated\[(.*), \w+\]$", r"\1", hint)
        hint = hint.replace(" | ", " or ").replace("Seed", "int, RandomState or None")
        yield name, f"{hint}, default {parameter.default!r}", text


def _complete_docstring(cls: Any) -> str:
    def section(title: str, entries: Iterable[tuple[str, str, str]]) -> list[str]:
        lines = [f"{name} : {kind}\n{textwrap.indent(textwrap.fill(text, 116), '    ')}" for name, kind, text in entries]
        return [title, "-" * len(title), *lines]

    text = inspect.cleandoc(cls.__doc__)
    head, title, tail = re.split(r"^(Attributes|Notes|References)\n-+\n", text, maxsplit=1, flags=re.MULTILINE)
    own, _, rest = tail.partition("\n\n") if title == "Attributes" else ("", "", f"{title}\n{'-' * len(title)}\n{tail}")
    shared = [(name, *ATTRIBUTES[name]) for name in cls._learnt if not re.search(rf"^{name} : ", own, re.MULTILINE)]
    lines = [*section("Parameters", cls.described), "", *section("Attributes", shared), *own.splitlines(), "", rest]
    return head + "\n".join(lines).rstrip() + "\n"  # numpydoc expects the closing quotes on their own line

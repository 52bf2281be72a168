"""What the functions for Python share: sessions, options by their names, opened files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from hpcml.errors import ConfigError, HpcmlError, in_python, nearest

if TYPE_CHECKING:
    from hpcml.log import Log
    from hpcml.model.classifier import ClassifierModel
    from hpcml.model.linear import Model
    from hpcml.mpi import Comm
    from hpcml.options import Value
    from hpcml.run.session import Session
    from hpcml.signals import StopSignals


@contextmanager
def errors_in_python() -> Iterator[None]:
    """Errors about flags become errors about parameters."""
    try:
        yield
    except HpcmlError as error:
        error.args = (in_python(str(error)),)
        raise


@contextmanager
def python_session(comm: Comm | None, log: Log | None, signals: StopSignals | None = None) -> Iterator[Session]:
    """A session whose errors speak of parameters."""
    from hpcml.run.session import session_of

    with errors_in_python(), session_of(comm, log, signals) as session:
        yield session


def options_of(kind: type[Any], given: Mapping[str, Value], what: str, listed_by: str) -> Any:
    """The options of that kind by their names; one may stand for several, and a number for the
    text that a flag takes. Raises ConfigError.
    """
    from hpcml.options import default_of

    known, hints = {option.name: option for option in fields(kind)}, get_type_hints(kind)
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"{what} has no option {name!r}; {nearest(str(name), known, listed_by)}")
        several = isinstance(default_of(known[name]), tuple)
        values = (value,) if several and isinstance(value, (str, int, float)) else value
        kinds = {hints[name], *get_args(hints[name])}
        if isinstance(values, (list, tuple)):
            found[name] = tuple(_as_option(name, each, kinds) for each in values)
        else:
            found[name] = _as_option(name, values, kinds)
    return kind(**found)


def _as_option(name: str, value: Any, kinds: set[Any]) -> Any:
    """A value for an option of those kinds. Raises ConfigError for one of another kind."""
    if str in kinds:
        expected, wrong = "a text or a number", isinstance(value, bool)
    else:
        expected = "True or False" if bool in kinds else "a number"
        wrong = isinstance(value, str if bool in kinds else (str, bool)) and bool(kinds & {bool, int, float})
    if wrong:
        raise ConfigError(f"{name}={value!r}: expected {expected}")
    return f"{value}" if str in kinds and isinstance(value, Real) else value


def refuse_mapping(mapping: tuple[object, ...], options: Mapping[str, object]) -> None:
    """Raise ConfigError for options that are not given as keywords."""
    for given in (*mapping, *(options[name] for name in options if name == "options")):
        pairs = given.items() if isinstance(given, Mapping) else (("seed", 1),)
        shown = ", ".join(f"{name}={value!r}" for name, value in pairs)
        raise ConfigError(f"options are given as keywords: {shown or 'seed=1'} (of a mapping: **options)")


def opened_model(comm: Comm, model: Path | str | Model | ClassifierModel) -> Model | ClassifierModel:
    """The model itself. Collective over `comm` if it is the path of one."""
    from hpcml.model.open import share_model

    return share_model(comm, model) if isinstance(model, (str, Path)) else model


def path_of(path: Path | str | None) -> Path | None:
    """A path that may be left out."""
    return None if path is None else Path(path)

"""The options of several methods at once: what each of them has, under one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter

from hpcml.errors import ConfigError, nearest
from hpcml.methods.registry import METHODS, Method, users_of
from hpcml.options import check_used, default_of, flag_of, help_of


def minimisers() -> dict[str, Method]:
    """The methods that minimise a convex loss and the squared norm: those that can be compared by the objective."""
    return {name: method for name, method in METHODS.items() if method.losses and method.penalty == "l2"}


def shared_options() -> type:
    """A dataclass with the options of all `minimisers`, the loss by default one that every method minimises."""
    methods = minimisers().values()
    losses = list(dict.fromkeys(loss for method in methods for loss in method.losses))
    losses.sort(key=lambda loss: sum(loss not in method.losses for method in methods))  # the common ones first
    steps = ", ".join(f"{method.name} {method.options.steps}" for method in methods)
    told = {
        "loss": f"Convex loss ℓ: one of {', '.join(losses)}. Default: {losses[0]}, which every method minimises.",
        "max_steps": f"Give a label up after so many steps and say so. Default: {steps}.",
    }
    found: dict[str, tuple[str, Any, Field]] = {}
    for method in methods:
        for option, text in zip(fields(method.options), help_of(method.options).values(), strict=True):
            users = _users(option.name)
            of = "" if set(minimisers()) <= set(users) else f"{', '.join(users)}: "
            kind: Any = option.type
            hint: Any = Annotated[kind, Parameter(help=told.get(option.name, f"{of}{text}"))]
            found.setdefault(option.name, (option.name, hint, _copied(option)))
    space = {
        "losses": tuple(losses),
        "validate": _validate,
        "__doc__": "Options of methods that are compared.",
        "__module__": __name__,
    }
    return Parameter(name="*")(make_dataclass("SharedOptions", found.values(), namespace=space, frozen=True))


def _users(option: str) -> list[str]:
    """The minimisers that have an option."""
    return [name for name in users_of(option) if name in minimisers()]


def _copied(option: Field) -> Field:
    return field(default_factory=option.default_factory) if option.default is MISSING else field(default=option.default)


def _validate(shared: Any) -> None:
    """Raise ConfigError for a loss that no method minimises; the rest is for the methods to say."""
    if shared.loss is not None and shared.loss not in shared.losses:
        raise ConfigError(f"--loss {shared.loss}: expected {' or '.join(sorted(shared.losses))}")


def options_for(method: str, shared: Any) -> Any:
    """Those of the shared options that a method has, as it takes them."""
    kind = METHODS[method]
    return kind.options(**{name: getattr(shared, name) for name in kind.option_names})


def choose_methods(wanted: Sequence[str], shared: Any) -> list[str]:
    """The methods to compare, each once; all that minimise the loss if none is wanted.

    Raises ConfigError for one that does not exist or cannot be trained with these options, and for an option that none has.
    """
    known = minimisers()
    for method in wanted:
        if method not in known:
            raise ConfigError(f"--method {method}: no such method; {nearest(method, known)}")
        losses = sorted(known[method].losses)
        if shared.loss not in losses:
            raise ConfigError(f"--loss {shared.loss}: {method} minimises {', '.join(losses)} only; leave it out with --method")
    every = [name for name, method in known.items() if shared.loss in method.losses]
    chosen = list(dict.fromkeys(wanted)) or every
    for method in chosen:
        options_for(method, shared).validate()
    undivided = [method for method in chosen if "shards" not in known[method].option_names]
    if (shared.shards or 1) > 1 and undivided:
        raise ConfigError(
            f"--shards {shared.shards}: {undivided[0]} needs all rows on every rank; leave it out, or choose other methods"
        )
    check_used(replace(shared, bias=None), chosen, _users)  # the table says who has an intercept all the same
    for option in fields(shared):
        for method in chosen if getattr(shared, option.name) != default_of(option) else ():
            if option.name in known[method].options.of_objective and option.name not in known[method].option_names:
                raise ConfigError(f"--{flag_of(option.name)} is for the method {', '.join(_users(option.name))}, not for {method}")
    return chosen

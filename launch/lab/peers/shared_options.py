"""The options of several methods at once: what each of them has, under one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass, replace
from typing import Annotated, Any

from cyclopts import Parameter

from hpcml.errors import ConfigError, nearest
from hpcml.methods.linear.options import with_defaults
from hpcml.methods.registry import METHODS, Method, users_of
from hpcml.options import check_used, default_of, flag_of, help_of


def comparable() -> dict[str, Method]:
    """The methods that minimise a convex loss and a penalty."""
    return {name: method for name, method in METHODS.items() if method.losses}


def minimisers(penalty: str = "l2") -> dict[str, Method]:
    """Those with that penalty: with the same loss they minimise the same objective."""
    return {name: method for name, method in comparable().items() if method.penalty == penalty}


def losses_of(penalty: str) -> list[str]:
    """The losses of the methods with that penalty, those of most methods first."""
    methods = minimisers(penalty).values()
    losses = list(dict.fromkeys(loss for method in methods for loss in method.losses))
    return sorted(losses, key=lambda loss: sum(loss not in method.losses for method in methods))


def loss_of(method: Method, shared: Any) -> str:
    """The given loss if it goes with the method's penalty, else the penalty's default."""
    losses = losses_of(method.penalty)
    return shared.loss if shared.loss in losses else losses[0]


def shared_options() -> type:
    """The options of all `comparable` methods as a dataclass; None where defaults differ."""
    methods = comparable()
    defaults = _defaults(methods)
    found: dict[str, tuple[str, Any, Field]] = {}
    for method in methods.values():
        for option, text in zip(fields(method.options), help_of(method.options).values(), strict=True):
            users = _users(option.name)
            of = "" if set(methods) <= set(users) else f"{', '.join(users)}: "
            one = len(set(defaults[option.name].values())) == 1
            kind: Any = option.type if one else _or_none(option.type)
            told = _told(option.name, text, defaults[option.name])
            hint: Any = Annotated[kind, Parameter(help=told or f"{of}{text}")]
            found.setdefault(option.name, (option.name, hint, _copied(option) if one else field(default=None)))
    space = {
        "losses": tuple(loss for penalty in _penalties() for loss in losses_of(penalty)),
        "earlier": {name: value for method in methods.values() for name, value in method.options.earlier.items()},
        "validate": _validate,
        "__doc__": "Options of methods that are compared.",
        "__module__": __name__,
    }
    return Parameter(name="*")(make_dataclass("SharedOptions", found.values(), namespace=space, frozen=True))


def _penalties() -> list[str]:
    return list(dict.fromkeys(method.penalty for method in comparable().values()))


def _defaults(methods: Mapping[str, Method]) -> dict[str, dict[str, object]]:
    """The default of each option for each method that has it."""
    found: dict[str, dict[str, object]] = {}
    for name, method in methods.items():
        for option in fields(method.options):
            found.setdefault(option.name, {})[name] = default_of(option)
    return found


def _told(option: str, text: str, defaults: Mapping[str, object]) -> str:
    """The help of an option whose meaning or default is not one for all methods; else ""."""
    if option == "loss":
        usual, *others = _penalties()
        losses = losses_of(usual)
        told = [f"Convex loss ℓ: one of {', '.join(losses)}. Default: {losses[0]}, which most methods minimise."]
        for penalty in others:
            told.append(f"{', '.join(minimisers(penalty))}: {', '.join(losses_of(penalty))}. Default: {losses_of(penalty)[0]}.")
        return " ".join(told)
    if option == "max_steps":
        steps = ", ".join(f"{name} {method.options.steps}" for name, method in comparable().items())
        return f"Give a label up after so many steps and say so. Default: {steps}."
    if option == "lam":
        usual_value = next(iter(defaults.values()))
        rest = [f"; {name} {value}" for name, value in defaults.items() if value != usual_value]
        return f"{text} Default: {usual_value}{''.join(rest)}."
    return ""


def _or_none(kind: Any) -> Any:
    """The same type or None, with the same name on the command line."""
    metadata = getattr(kind, "__metadata__", ())
    return Annotated[kind.__origin__ | None, *metadata] if metadata else kind | None


def _users(option: str) -> list[str]:
    """The methods to compare that have an option."""
    return [name for name in users_of(option) if name in comparable()]


def _copied(option: Field) -> Field:
    return field(default_factory=option.default_factory) if option.default is MISSING else field(default=option.default)


def _validate(shared: Any) -> None:
    """Raise ConfigError for a loss that no method minimises; the rest is for the methods to say."""
    if shared.loss is not None and shared.loss not in shared.losses:
        raise ConfigError(f"--loss {shared.loss}: expected {' or '.join(sorted(shared.losses))}")


def with_shared_defaults(shared: Any, before: Mapping[str, object]) -> Any:
    """The options with an intercept or none, and what `with_defaults` takes from the run `before`.

    A loss that nobody gave stays None: `loss_of` tells each method's.
    """
    found = with_defaults(shared, dict(before))
    given = shared.loss is not None or before.get("loss") in shared.losses
    return found if given else replace(found, loss=None)


def options_for(method: str, shared: Any) -> Any:
    """A method's own of the shared options; its own default where nobody gave a value."""
    kind = METHODS[method]
    given = {name: value for name in kind.option_names if (value := getattr(shared, name)) is not None}
    return kind.options(**given | {"loss": loss_of(kind, shared)})


def choose_methods(wanted: Sequence[str], shared: Any) -> list[str]:
    """The methods to compare, each once; all that minimise the loss if none is wanted.

    Raises ConfigError for one that does not exist, that cannot be trained so, an unused option.
    """
    known = comparable()
    for method in wanted:
        if method not in known:
            raise ConfigError(f"--method {method}: no such method; {nearest(method, known)}")
    loss = losses_of("l2")[0] if shared.loss is None else shared.loss
    every = [name for name, method in known.items() if loss in method.losses]
    chosen = list(dict.fromkeys(wanted)) or every
    _check_losses(chosen, shared)
    for method in chosen:
        options_for(method, shared).validate()
    undivided = [method for method in chosen if "ranks_per_group" not in known[method].option_names]
    if (shared.ranks_per_group or 1) > 1 and undivided:
        raise ConfigError(
            f"--ranks-per-group {shared.ranks_per_group}: {undivided[0]} needs all rows on every rank; leave it out, or "
            "choose other methods"
        )
    unused = shared.bias is False and set(_users("bias")).isdisjoint(chosen)  # else the table says who has one all the same
    check_used(replace(shared, bias=False if unused else None), chosen, _users)
    for option in fields(shared):
        for method in chosen if getattr(shared, option.name) != default_of(option) else ():
            if option.name in known[method].options.of_objective and option.name not in known[method].option_names:
                raise ConfigError(f"--{flag_of(option.name)} is for the method {', '.join(_users(option.name))}, not for {method}")
    return chosen


def _check_losses(chosen: Sequence[str], shared: Any) -> None:
    """Raise ConfigError unless all can minimise their losses, and some the one that is given."""
    of = {method: METHODS[method] for method in chosen}
    used = shared.loss is None or any(loss_of(method, shared) == shared.loss for method in of.values())
    for name, method in of.items():
        loss = loss_of(method, shared) if used else shared.loss
        if loss not in method.losses:
            minimised = ", ".join(sorted(method.losses))
            raise ConfigError(f"--loss {loss}: {name} minimises {minimised} only; leave it out with --method")

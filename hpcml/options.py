"""How options are declared and checked: a frozen dataclass gives the flags, their help, and the keys of a TOML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Protocol

from cyclopts import Parameter

from hpcml.errors import ConfigError

Flag = Annotated[bool, Parameter(negative="")]


class Timed(Protocol):
    """Options of training that can be interrupted."""

    checkpoint_every: float
    time_limit: float | None


def check_used(options: object, methods: Sequence[str], uses: Mapping[str, Iterable[str]]) -> None:
    """Raise ConfigError for an option that has another value than its default although none of `methods` uses it.

    `uses` has for each method the options that it uses and some others do not; those that it has for no method are for all.
    """
    for option in fields(options):
        users, value = [method for method, names in uses.items() if option.name in names], getattr(options, option.name)
        default = option.default if option.default is not MISSING else option.default_factory()
        if users and not set(users) & set(methods) and value != default:
            flag = f"--no-{flag_of(option.name)}" if value is False else f"--{flag_of(option.name)}"
            shown = flag if isinstance(value, bool) else f"{flag} {value}"
            raise ConfigError(f"{shown} has no effect on {', '.join(methods)}, it is for {', '.join(users)}; leave it out")


def check_range(options: object, name: str, low: int, high: int) -> None:
    """Raise ConfigError unless an option is None or a number from `low` to `high`."""
    value = getattr(options, name)
    if value is not None and not low <= value <= high:
        expected = f"at least {low}" if value < low else f"at most {high}"
        raise ConfigError(f"--{flag_of(name)} {value}: expected {expected}")


def check_magnitude(flag: str, value: float) -> None:
    """Raise ConfigError unless a number is finite and not negative."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"--{flag} {value}: expected a finite number of at least 0")


def check_times(options: Timed) -> None:
    """Raise ConfigError unless the times are above 0."""
    if not options.checkpoint_every > 0:
        raise ConfigError(f"--checkpoint-every {options.checkpoint_every}: expected seconds above 0")
    if options.time_limit is not None and not options.time_limit > 0:
        raise ConfigError(f"--time-limit {options.time_limit}: expected seconds above 0")


def flag_of(field_name: str) -> str:
    """The flag (without dashes) and TOML key of an option."""
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")

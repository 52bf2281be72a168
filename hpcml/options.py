"""How options are declared and checked: a frozen dataclass gives flags, help and TOML keys."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Protocol

from cyclopts import Parameter

from hpcml.errors import ConfigError

Several = Parameter(consume_multiple=True, negative="")  # an option with several values: --name A B, or --name A --name B
Flag = Annotated[bool, Parameter(negative="")]
Value = str | float | Path | Sequence[str] | Sequence[float] | None  # of an option, as a function for Python is given it

# Options that may differ between a run and its continuation, because they never change the result.
FREE = frozenset({"checkpoint_every", "time_limit", "profile"})


class Timed(Protocol):
    """Options of training that can be interrupted."""

    @property
    def checkpoint_every(self) -> float | None:
        """Seconds, or None for as often as is worth it."""

    @property
    def time_limit(self) -> float | None:
        """Seconds, or None for no limit."""


def texts_behind(kind: type) -> dict[str, str]:
    """The texts behind the fields of a class, each in one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    found = {}
    for line, text in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(line.target)] = " ".join(str(text.value.value).split())
    return found


def help_of(kind: type) -> dict[str, str]:
    """The help of each option of a dataclass, in one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= texts_behind(each) if "__dataclass_fields__" in vars(each) else {}
    return {option.name: found[option.name] for option in fields(kind)}


def default_of(option: Field) -> object:
    """The value of an option that nobody gives."""
    make: Any = option.default_factory
    return option.default if option.default is not MISSING else make()


def check_range(options: object, name: str, low: int, high: int) -> None:
    """Raise ConfigError unless an option is None or a number from `low` to `high`."""
    value = getattr(options, name)
    if value is not None and not low <= value <= high:
        expected = f"at least {low}" if value < low else f"at most {high}"
        raise ConfigError(f"--{flag_of(name)} {value}: expected {expected}")


def check_above_0(options: object, name: str) -> None:
    """Raise ConfigError unless an option is None or a finite number above 0."""
    value = getattr(options, name)
    if value is not None and not 0 < value < math.inf:
        raise ConfigError(f"--{flag_of(name)} {value}: expected a number above 0")


def check_magnitude(flag: str, value: float) -> None:
    """Raise ConfigError unless a number is finite and not negative."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"--{flag} {value}: expected a finite number of at least 0")


def check_scale(scale: str | None) -> None:
    """Raise ConfigError for a scale that does not exist. Local."""
    if scale not in (None, "standard", "max-abs", "none"):
        raise ConfigError(f"--scale {scale}: expected standard, max-abs or none")


def check_times(options: Timed) -> None:
    """Raise ConfigError unless the times are above 0."""
    for flag, seconds in (("checkpoint-every", options.checkpoint_every), ("time-limit", options.time_limit)):
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"--{flag} {seconds}: expected seconds above 0")


def flag_of(field_name: str) -> str:
    """The flag (without dashes) and TOML key of an option."""
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")


def parse_part(text: str) -> tuple[int, int]:
    """K and N of "K/N", the K-th of N parts. Raises ConfigError unless 1 ≤ K ≤ N."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ConfigError(f"--label-part {text}: expected K/N, the K-th of N parts, as in 1/8")
    return int(part), int(parts)

"""How options are declared and checked: a frozen dataclass gives flags, help and TOML keys."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Parameter, Token

from hpcml.errors import OptionError
from hpcml.errors import flag_of as flag_of

Several = Parameter(consume_multiple=True, negative="")  # an option with several values: --name A B, or --name A --name B
Flag = Annotated[bool, Parameter(negative="")]
PIECE = re.compile(r'\s*"((?:[^"]|"")*)"\s*,|([^,]*),')  # of a record of CSV: a name in quotes, or another
Value = str | float | Path | Sequence[str] | Sequence[float] | None  # of an option, as a function for Python is given it

LARGEST = 2**63  # whole numbers are below it

# Options that may differ between a run and its continuation, because they never change the result.
FREE = frozenset({"checkpoint_every", "time_limit", "profile"})


def split_record(text: str, strip: bool = False) -> list[str]:
    """Return the names in a record of CSV, such as `a,"b, c"`.

    Names without quotes keep their blanks, and empty ones are left out. With `strip` it is the other way round.
    """
    names = []
    for found in PIECE.finditer(f"{text},"):
        if found[1] is not None:
            names.append(found[1].replace('""', '"'))
        elif strip or found[2].strip():
            names.append(found[2].strip() if strip else found[2])
    return names


def quoted_name(name: str) -> str:
    """Return a name as `split_record` reads it."""
    is_bare = name and "," not in name and name[0] != '"' and name == name.strip()
    return name if is_bare else '"' + name.replace('"', '""') + '"'


def one_name(text: str) -> str:
    """Return a name that may stand in quotes."""
    names = split_record(text)
    return names[0] if len(names) == 1 and text.lstrip().startswith('"') else text


def _names(strip: bool) -> Parameter:
    def read(_kind: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
        return tuple(name for token in tokens for name in split_record(token.value, strip))

    return Parameter(consume_multiple=True, negative="", converter=read)


# Names of columns and of fields are given by records of CSV: a name in quotes may hold commas, and blanks around it.
Name, Names, FieldNames = Parameter(converter=lambda _kind, tokens: one_name(tokens[0].value)), _names(False), _names(True)


@cache
def _classes_in(file: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a source file by their names."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def texts_behind(kind: type) -> dict[str, str]:
    """The texts behind the fields of a class, each in one line."""
    found = {}
    for line, text in pairwise(_classes_in(inspect.getfile(kind))[kind.__name__].body):
        if isinstance(line, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(line.target)] = " ".join(str(text.value.value).split())
    return found


@cache
def help_of(kind: type) -> dict[str, str]:
    """The help of each option of a dataclass, in one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= texts_behind(each) if "__dataclass_fields__" in vars(each) else {}
    return {option.name: found[option.name] for option in fields(kind)}


def default_of(option: Field) -> object:
    """The value of an option that nobody gives; MISSING if it must be given."""
    return option.default if option.default_factory is MISSING else option.default_factory()


class Range:
    """Rule of an option: its least and its largest value, unless it is None."""

    def __init__(self, low: float, high: float = math.inf) -> None:
        self.low, self.high = low, high


class Only:
    """Rule of an option: it has no effect unless one of these options is given, or on inputs of other kinds."""

    def __init__(self, *names: str) -> None:
        self.names = names


class NotWith(Only):
    """Rule of an option: it has no effect if one of these options is given."""


def check_rules(options: Any, *inputs: str) -> None:
    """Raise OptionError for an option that breaks a rule of its annotation; `inputs`: kinds of the inputs, if known."""
    check_sizes(options)
    values = {option.name: getattr(options, option.name) for option in fields(options)}
    hints = get_type_hints(type(options), include_extras=True)
    defaults = {option.name: default_of(option) for option in fields(options)}
    given = {name for name, value in values.items() if defaults[name] is not MISSING and value != defaults[name]}
    for name, value in values.items():
        for rule in getattr(hints[name], "__metadata__", ()):
            if isinstance(rule, Range) and value is not None and not rule.low <= value <= rule.high:
                bound = f"least {rule.low:g}" if not value >= rule.low else f"most {rule.high:g}"
                raise OptionError(name, value, f"expected at {bound}")
            if not isinstance(rule, Only) or name not in given:
                continue
            there = [other for other in rule.names if other in given or other in inputs]
            if isinstance(rule, NotWith) and there:
                raise OptionError(name, value, "has no effect with", *there)
            if isinstance(rule, NotWith) or there:
                continue
            if values.keys() & set(rule.names):
                raise OptionError(name, value, "has no effect without", *rule.names)
            if inputs:
                raise OptionError(name, value, f"applies only to {' and '.join(rule.names)}; remove it")


def check_sizes(options: Any) -> None:
    """Raise OptionError for a whole number that is larger than any option takes, also in options that are a dataclass."""
    for option in fields(options):
        value = getattr(options, option.name)
        if is_dataclass(value):
            check_sizes(value)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, int) and abs(each) >= LARGEST:
                raise OptionError(option.name, f"({each.bit_length()} bits)", "expected a whole number below 2**63")


def check_range(options: object, name: str, low: int, high: int) -> None:
    """Raise ConfigError unless an option is None or a number from `low` to `high`."""
    value = getattr(options, name)
    if value is not None and not low <= value <= high:
        expected = f"at least {low}" if value < low else f"at most {high}"
        raise OptionError(name, value, f"expected {expected}")


def check_above_0(options: object, name: str) -> None:
    """Raise ConfigError unless an option is None or a finite number above 0."""
    value = getattr(options, name)
    if value is not None and not 0 < value < math.inf:
        raise OptionError(name, value, "expected a number above 0")


def check_magnitude(name: str, value: float) -> None:
    """Raise ConfigError unless a number is finite and not negative."""
    if not 0 <= value < math.inf:
        raise OptionError(name, value, "expected a finite number of at least 0")


def check_scale(scale: str | None) -> None:
    """Raise ConfigError for a scale that does not exist. Local."""
    if scale not in (None, "standard", "max-abs", "none"):
        raise OptionError("scale", scale, "expected standard, max-abs or none")


def check_times(options: Any) -> None:
    """Raise ConfigError unless the times are above 0."""
    for name, seconds in (("checkpoint_every", options.checkpoint_every), ("time_limit", options.time_limit)):
        if seconds is not None and not seconds > 0:
            raise OptionError(name, seconds, "expected seconds above 0")


def parse_part(text: str) -> tuple[int, int]:
    """K and N of "K/N", the K-th of N parts. Raises ConfigError unless 1 ≤ K ≤ N."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise OptionError("label_part", text, "expected K/N, the K-th of N parts, as in 1/8")
    return int(part), int(parts)
